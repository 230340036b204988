//! Blocking queries: one for each key that claims of this client wait for, however many of them do.
//!
//! A query takes a connection, and Consul keeps it until the query's time is over, whether anybody still listens or
//! not. So it is not given up when one of its claims has something else to do for a moment: it goes on by itself, and
//! whoever waits for the same key next finds it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use crate::api::{Kv, Seen, read};
use crate::error::Fault;
use crate::http::Answer;
use crate::keys::escaped;
use crate::link::Link;

/// So many keys are waited for at once, with a connection each; those who wait for more ask from time to time. By
/// default an agent gives 200 connections to all programs of one machine.
const WATCHES: usize = 48;
/// A query that nobody listens to any more is given up after this: a claim that has looked at its line, and still has
/// to wait, is back by then.
const GRACE: Duration = Duration::from_secs(1);
/// What an answer that takes long by intention is given on top.
const SLACK: Duration = Duration::from_secs(1);

/// What a query has found out: whether the key has changed. Nothing yet, at first.
type Finding = Option<Result<bool, Fault>>;

/// The queries of one side of a client.
#[derive(Debug)]
pub(crate) struct Watches {
    link: Arc<Link>,
    permits: Arc<Semaphore>,
    /// Those under way. Each is kept by its task, and is gone with it.
    queries: Mutex<HashMap<Seen, Weak<watch::Sender<Finding>>>>,
    tasks: Mutex<JoinSet<()>>,
}

impl Watches {
    pub(crate) fn new(link: Arc<Link>) -> Self {
        let permits = Arc::new(Semaphore::new(WATCHES));
        Self { link, permits, queries: Mutex::default(), tasks: Mutex::default() }
    }

    /// Resolves when a key is not as it was: `true`; or when it is time to look.
    pub(crate) async fn until_changed(&self, seen: &Seen, wait: Duration) -> Result<bool, Fault> {
        let underway = self.underway(seen);
        let mut finding = match underway {
            Some(finding) => finding,
            None => {
                let permit = self.permit().await;
                // Another claim may have begun it meanwhile.
                self.underway(seen).unwrap_or_else(|| self.begin(seen, wait, permit))
            }
        };
        let found = finding.wait_for(Option::is_some).await;
        // A query that ended without a word: whoever looks again begins another.
        found.ok().and_then(|found| found.clone()).unwrap_or(Ok(false))
    }

    /// Resolves when one of these keys below a line is not as it was: `true`; or when it is time to look. One query
    /// for all of them, which is answered whenever anything in the line changes.
    pub(crate) async fn until_line_changed(&self, line: &str, seen: &[Seen], wait: Duration) -> Result<bool, Fault> {
        let _permit = self.permit().await;
        let mut index = 0;
        loop {
            let path = format!("/v1/kv/{}?recurse&index={index}", escaped(line));
            let answer = query(&self.link, &path, wait).await?;
            if has_changed(&answer, seen)? {
                return Ok(true);
            }
            if answer.index == index {
                return Ok(false);
            }
            index = answer.index;
        }
    }

    fn underway(&self, seen: &Seen) -> Option<watch::Receiver<Finding>> {
        lock(&self.queries).get(seen)?.upgrade().map(|query| query.subscribe())
    }

    fn begin(&self, seen: &Seen, wait: Duration, permit: OwnedSemaphorePermit) -> watch::Receiver<Finding> {
        let (sender, receiver) = watch::channel(None);
        let sender = Arc::new(sender);
        let mut queries = lock(&self.queries);
        queries.retain(|_, query| query.strong_count() > 0);
        queries.insert(seen.clone(), Arc::downgrade(&sender));
        drop(queries);
        let (link, seen) = (Arc::clone(&self.link), seen.clone());
        let mut tasks = lock(&self.tasks);
        // Those that have ended.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            let path = format!("/v1/kv/{}?index={}", escaped(&seen.0), seen.1);
            tokio::select! {
                answer = query(&link, &path, wait) => {
                    let changed = answer.and_then(|answer| has_changed(&answer, std::slice::from_ref(&seen)));
                    sender.send_replace(Some(changed));
                }
                () = until_forsaken(&sender) => {}
            }
            drop(permit);
        });
        receiver
    }

    /// Who gets none in time is woken by its own poll.
    async fn permit(&self) -> OwnedSemaphorePermit {
        Arc::clone(&self.permits).acquire_owned().await.expect("it is closed by nobody")
    }
}

async fn query(link: &Link, path: &str, wait: Duration) -> Result<Answer, Fault> {
    // Consul adds up to a sixteenth.
    let limit = wait + wait / 16 + SLACK;
    link.wait(&format!("{path}&wait={}ms", wait.as_millis()), limit).await
}

/// Resolves when nobody has listened for a while.
async fn until_forsaken(query: &watch::Sender<Finding>) {
    loop {
        query.closed().await;
        tokio::time::sleep(GRACE).await;
        if query.receiver_count() == 0 {
            return;
        }
    }
}

/// Whether one of these keys is not there as it was.
fn has_changed(answer: &Answer, seen: &[Seen]) -> Result<bool, Fault> {
    if answer.status == 404 {
        return Ok(true);
    }
    let kvs: Vec<Kv> = read(answer)?;
    let same = |(key, written): &Seen| kvs.iter().any(|kv| kv.key == *key && kv.written == *written);
    Ok(!seen.iter().all(same))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
