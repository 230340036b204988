//! Watching those whom a claim waits for: all watches of a side share one stream.
//!
//! When the stream breaks, everybody who waits on it is told to ask again, and the next one opens another stream at the
//! member that answers then. A watch begins at the revision at which the line was read, so nothing is missed in
//! between; when that revision has been compacted away etcd ends the watch, and its waiter asks again too.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tonic::Streaming;

use crate::error::Fault;
use crate::kept::Behind;
use crate::keys::end_of;
use crate::link::{Link, WATCH};
use crate::proto::{WatchCancel, WatchCreate, WatchRequest, WatchResponse, WatchVerb};

/// What opening the stream may take.
const OPENING: Duration = Duration::from_secs(3);

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
    watching: Arc<Mutex<Option<HashMap<i64, Watching>>>>,
}

#[derive(Debug)]
struct Watching {
    /// The keys that matter; the watch may see others.
    keys: Vec<Vec<u8>>,
    tell: oneshot::Sender<()>,
}

/// One watch, ended when dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    id: i64,
    open: Open,
    told: oneshot::Receiver<()>,
}

impl Watches {
    /// Begins to watch the keys that a claim of this line waits for.
    pub(crate) fn watch(&self, link: &Arc<Link>, line: Vec<u8>, behind: Behind) -> Watch {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (key, range_end) = match behind.keys.as_slice() {
            [key] => (key.clone(), Vec::new()),
            _ => (line.clone(), end_of(&line)),
        };
        let create = WatchCreate { key, range_end, start_revision: behind.revision + 1, watch_id: id };
        let (tell, told) = oneshot::channel();
        let mut watching = Watching { keys: behind.keys, tell };
        loop {
            let open = self.open(link);
            match open.enter(id, watching, &create) {
                Ok(()) => return Watch { id, open, told },
                // It broke in this moment.
                Err(back) => {
                    *lock(&self.open) = None;
                    watching = back;
                }
            }
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
    fn enter(&self, id: i64, watching: Watching, create: &WatchCreate) -> Result<(), Watching> {
        match lock(&self.watching).as_mut() {
            Some(all) => all.insert(id, watching),
            None => return Err(watching),
        };
        // When the other end is gone the stream has broken, and everybody on it is about to be told.
        let _ = self.requests.send(WatchRequest { verb: Some(WatchVerb::Create(create.clone())) });
        Ok(())
    }
}

impl Watch {
    /// Resolves when one of the keys has changed. `false` when the stream broke.
    pub(crate) async fn told(&mut self) -> bool {
        (&mut self.told).await.is_ok()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(all) = lock(&self.open.watching).as_mut() {
            all.remove(&self.id);
        }
        let cancel = WatchCancel { watch_id: self.id };
        let _ = self.open.requests.send(WatchRequest { verb: Some(WatchVerb::Cancel(cancel)) });
    }
}

type All = Mutex<Option<HashMap<i64, Watching>>>;

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
    let Some(all) = all.as_mut() else { return };
    let concerns = |watch: &Watching| {
        let mut changed = answer.events.iter().filter_map(|event| event.kv.as_ref());
        answer.canceled || changed.any(|kv| watch.keys.contains(&kv.key))
    };
    if all.get(&answer.watch_id).is_some_and(concerns)
        && let Some(watch) = all.remove(&answer.watch_id)
    {
        // It may have gone away in the meantime.
        let _ = watch.tell.send(());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
