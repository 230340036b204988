//! What is shown while a lock is waited for: who holds it, since when, how many are ahead, how long we have waited.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use lockhouse::{Line, Locks, Name, Place};
use serde_json::json;

use crate::duration::show;
use crate::holding::Wanted;
use crate::voice::Voice;

/// A lock that is had sooner than this is not worth a word, nor a question to the engine.
const PATIENCE: Duration = Duration::from_millis(200);
/// How often the live line is written anew.
const LIVE_EVERY: Duration = Duration::from_secs(1);
/// How often the engine is asked where there is no live line, and how often a line is written when nothing changes.
const LOG_EVERY: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60));

/// Shows how the wait goes on, until it is dropped.
pub(crate) async fn show_wait(locks: &Locks, wanted: &Wanted, voice: &Voice) -> Infallible {
    let started = Instant::now();
    tokio::time::sleep(PATIENCE).await;
    let mut told: Option<(Instant, Option<String>)> = None;
    loop {
        let name = wanted.waiting_for.borrow().clone();
        if let Some(name) = name.filter(|_| !voice.is_quiet()) {
            // An engine that does not answer is told of when the wait is over, not by its display.
            if let Ok(line) = locks.line(name.as_str()).await {
                let waited = started.elapsed();
                let standing = Standing::new(&name, line.as_ref(), wanted.owner.label());
                if voice.is_live() {
                    voice.show(&standing.text(waited));
                } else if standing.is_news(told.as_ref()) {
                    voice.say(&standing.text(waited), &standing.object(waited));
                    told = Some((Instant::now(), standing.holder()));
                }
            }
        }
        tokio::time::sleep(if voice.is_live() { LIVE_EVERY } else { LOG_EVERY.0 }).await;
    }
}

/// Where a waiter stands.
pub(crate) struct Standing<'a> {
    name: &'a Name,
    holders: Vec<&'a Place>,
    ahead: usize,
}

impl<'a> Standing<'a> {
    pub(crate) fn new(name: &'a Name, line: Option<&'a Line>, owner: &str) -> Self {
        let places = line.map_or(&[][..], |line| line.places.as_slice());
        let ours = places.iter().position(|place| place.owner == owner && place.token.is_none());
        let holders = places.iter().filter(|place| place.token.is_some()).collect();
        Self { name, holders, ahead: ours.unwrap_or(places.len()) }
    }

    /// Whether a line is to be written: another one holds it than was told, or that was long ago. That nobody does is
    /// no news: it is about to change.
    fn is_news(&self, told: Option<&(Instant, Option<String>)>) -> bool {
        let told = told.is_some_and(|(at, holder)| at.elapsed() < LOG_EVERY.1 && *holder == self.holder());
        !self.holders.is_empty() && !told
    }

    fn holder(&self) -> Option<String> {
        self.holders.first().map(|place| place.id.to_string())
    }

    /// Who holds it and since when.
    pub(crate) fn held_by(&self) -> Option<String> {
        let first = self.holders.first()?;
        let note = first.note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
        let others = match self.holders.len() {
            1 => String::new(),
            more => format!(" and {} more", more - 1),
        };
        Some(format!("held by {}{note}{others} for {}", first.owner, show(first.since)))
    }

    fn text(&self, waited: Duration) -> String {
        let held_by = self.held_by().unwrap_or_else(|| "nobody holds it".to_owned());
        // What matters most comes first: a narrow terminal cuts the rest off.
        format!("waiting for {} for {}, {} ahead, {held_by}", self.name, show(waited), self.ahead)
    }

    fn object(&self, waited: Duration) -> serde_json::Value {
        let first = self.holders.first();
        json!({
            "event": "waiting",
            "name": self.name.as_str(),
            "holder": first.map(|place| &place.owner),
            "holder_claim": first.map(|place| place.id.to_string()),
            "held_ms": first.map(|place| millis(place.since)),
            "ahead": self.ahead,
            "waited_ms": millis(waited),
        })
    }
}

/// Milliseconds, as all times in JSON.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
