//! Watching those whom a claim waits for: all watches of a side share one stream.
//!
//! When the stream breaks, everybody who waits on it is told to ask again, and the next one opens another stream at the
//! member that answers then. A watch begins at the revision at which the line was read, so nothing is missed in
//! between; when that revision has been compacted away etcd ends the watch, and its waiter asks again too. It does not
//! begin with the next one: a deletion at which the history was compacted is not told by older versions of etcd, to a
//! watch that begins with it (issue 18089).
//!
//! Each key has a watch of its own, so that etcd tells of nothing that does not concern the claim: a watch of the whole
//! line would tell everybody who waits of everybody who comes and goes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tonic::Streaming;

use crate::error::Fault;
use crate::kept::Behind;
use crate::keys::end_of;
use crate::link::{Link, WATCH};
use crate::proto::{WatchCancel, WatchCreate, WatchRequest, WatchResponse, WatchVerb};

/// What opening the stream may take.
const OPENING: Duration = Duration::from_secs(3);
/// Who waits for more keys than these watches the whole line: a claim on a semaphore of many permits.
const KEYS: usize = 16;

/// The watches of one side.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    open: Mutex<Option<Open>>,
    /// Numbers the watches. etcd takes 0 for "choose a number".
    last: AtomicI64,
    /// The stream's task; ended with the side.
    tasks: Mutex<JoinSet<()>>,
}

/// A stream that is open, or about to be.
#[derive(Debug, Clone)]
struct Open {
    requests: mpsc::UnboundedSender<WatchRequest>,
    /// `None` once the stream is broken.
    watching: Arc<All>,
}

/// Who watches, by the numbers of the watches. Those of one claim have the same `Watching`.
type All = Mutex<Option<HashMap<i64, Arc<Watching>>>>;

#[derive(Debug)]
struct Watching {
    /// The keys that matter, as they were known; the watch may see others.
    behind: Behind,
    tell: mpsc::Sender<()>,
}

/// The watches of one claim, ended when dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    ids: Vec<i64>,
    open: Open,
    told: mpsc::Receiver<()>,
}

impl Watches {
    /// Begins to watch the keys that a claim of this line waits for.
    pub(crate) fn watch(&self, link: &Arc<Link>, line: &[u8], behind: Behind) -> Watch {
        let create = |key: &[u8], range_end| {
            let watch_id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
            WatchCreate { key: key.to_vec(), range_end, start_revision: behind.revision, watch_id }
        };
        let creates: Vec<WatchCreate> = match behind.keys.len() {
            0..=KEYS => behind.keys.iter().map(|key| create(key, Vec::new())).collect(),
            _ => vec![create(line, end_of(line))],
        };
        // One word is enough, whichever watch it comes from.
        let (tell, told) = mpsc::channel(1);
        let watching = Arc::new(Watching { behind, tell });
        loop {
            let open = self.open(link);
            if open.enter(&watching, &creates) {
                return Watch { ids: creates.iter().map(|create| create.watch_id).collect(), open, told };
            }
            // It broke in this moment.
            *lock(&self.open) = None;
        }
    }

    fn open(&self, link: &Arc<Link>) -> Open {
        let mut slot = lock(&self.open);
        if let Some(open) = slot.as_ref().filter(|open| lock(&open.watching).is_some()) {
            return open.clone();
        }
        let (requests, queue) = mpsc::unbounded_channel();
        let open = Open { requests, watching: Arc::new(Mutex::new(Some(HashMap::new()))) };
        let (link, watching) = (Arc::clone(link), Arc::clone(&open.watching));
        let mut tasks = lock(&self.tasks);
        // Those that have ended.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            let ended = serve(&link, queue, &watching).await;
            if let Err(fault) = ended {
                tracing::debug!(?fault, "the stream of watches broke; waiters ask again");
            }
            // Whoever waits hears that nobody will tell them.
            lock(&watching).take();
        });
        *slot = Some(open.clone());
        open
    }
}

impl Open {
    /// `false` when the stream is broken.
    fn enter(&self, watching: &Arc<Watching>, creates: &[WatchCreate]) -> bool {
        match lock(&self.watching).as_mut() {
            Some(all) => all.extend(creates.iter().map(|create| (create.watch_id, Arc::clone(watching)))),
            None => return false,
        }
        for create in creates {
            // When the other end is gone the stream has broken, and everybody on it is about to be told.
            let _ = self.requests.send(WatchRequest { verb: Some(WatchVerb::Create(create.clone())) });
        }
        true
    }
}

impl Watch {
    /// Resolves when one of the keys has changed. `false` when the stream broke.
    pub(crate) async fn told(&mut self) -> bool {
        self.told.recv().await.is_some()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        for &watch_id in &self.ids {
            if let Some(all) = lock(&self.open.watching).as_mut() {
                all.remove(&watch_id);
            }
            let cancel = WatchCancel { watch_id };
            let _ = self.open.requests.send(WatchRequest { verb: Some(WatchVerb::Cancel(cancel)) });
        }
    }
}

/// Reads the stream until it breaks.
async fn serve(link: &Link, queue: mpsc::UnboundedReceiver<WatchRequest>, watching: &All) -> Result<(), Fault> {
    // The first request is in the queue by now or in a moment: etcd answers nothing before it has one.
    let requests = stream::unfold(queue, async |mut queue| queue.recv().await.map(|request| (request, queue)));
    let mut answers: Streaming<WatchResponse> = link.stream(WATCH, requests, OPENING).await?;
    while let Some(answer) = answers.message().await.map_err(|status| Fault::of(&status))? {
        hear(&answer, watching);
    }
    Ok(())
}

fn hear(answer: &WatchResponse, watching: &All) {
    let mut all = lock(watching);
    let Some(watch) = all.as_mut().and_then(|all| all.get(&answer.watch_id)) else { return };
    let Behind { keys, revision } = &watch.behind;
    let mut written = answer.events.iter().filter_map(|event| event.kv.as_ref());
    if answer.canceled || written.any(|kv| kv.mod_revision > *revision && keys.contains(&kv.key)) {
        // It may have been told before, or have gone away in the meantime.
        let _ = watch.tell.try_send(());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
