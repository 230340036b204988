//! Every line under a prefix, for people.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use futures_util::stream::{StreamExt, TryStreamExt, iter};
use lockhouse_core::{Line, Name, Place, PublicId, Result};
use redis::cmd;

use crate::answer::Answer;
use crate::call::Call;
use crate::error::Fault;
use crate::scripts::SURVEY;
use crate::server::{PATIENCE, Server};

/// So many keys are looked at by one step of the search.
const KEYS_A_STEP: usize = 1000;
/// So many lines are asked for at once.
const LINES_AT_ONCE: usize = 32;

impl Server {
    /// The search goes through all keys of the database: Redis has no order of keys to search in.
    pub(crate) async fn survey(&self, begins: &str) -> Result<Vec<Line>> {
        let mut names = BTreeSet::new();
        self.scan(&self.keys.pattern(begins), &mut names).await.map_err(|fault| self.explain(fault))?;
        let names = names.into_iter().filter(|name| name.as_str().starts_with(begins));
        let lines = iter(names).map(|name| self.line(name)).buffered(LINES_AT_ONCE).try_collect::<Vec<_>>().await?;
        Ok(lines.into_iter().flatten().collect())
    }

    async fn scan(&self, pattern: &str, names: &mut BTreeSet<Name>) -> Result<(), Fault> {
        let mut cursor = 0;
        loop {
            let mut command = cmd("SCAN");
            command.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(KEYS_A_STEP);
            let mut answer = Answer::new(self.link.ask(|_| command, PATIENCE).await?.value)?;
            cursor = answer.count()?;
            let mut found = answer.list()?;
            while found.len() > 0 {
                names.extend(found.bytes()?.and_then(|key| self.keys.name(&key)));
            }
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    async fn line(&self, name: Name) -> Result<Option<Line>> {
        let call = Call::new().line(&self.keys.line(&name)).key(self.keys.counter(&name));
        // The script is not told what time it is asked for: its answer is, first of all.
        let answer = SURVEY.run(&self.link, &call, PATIENCE).await.and_then(|heard| Answer::new(heard.value));
        answer.and_then(|mut answer| read(name, &mut answer)).map_err(|fault| self.explain(fault))
    }
}

fn read(name: Name, answer: &mut Answer) -> Result<Option<Line>, Fault> {
    let now = answer.count()? / 1000;
    let (value, digest, left) = (answer.bytes()?, answer.bytes()?, answer.number()?);
    let (mut claims, mut leases) = (answer.list()?, answer.list()?);
    let mut ends = HashMap::new();
    while leases.len() > 0 {
        let id = leases.bytes()?.unwrap_or_default();
        ends.insert(id, leases.count()?);
    }
    let mut capacity = 1;
    let mut waiters = Vec::new();
    let mut holders = Vec::new();
    while claims.len() > 0 {
        let field = claims.bytes()?.unwrap_or_default();
        let text = claims.bytes()?.unwrap_or_default();
        if field == b"c" && value.is_none() {
            capacity = String::from_utf8_lossy(&text).parse().unwrap_or(1);
        }
        let Some(end) = ends.get(&field).filter(|end| **end > now) else { continue };
        match record(&field, &text, now, *end) {
            Some((b'W', arrival, place)) => waiters.push((Reverse(place.priority), arrival, place)),
            Some((b'H', _, place)) => holders.push(place),
            _ => {}
        }
    }
    let left = u64::try_from(left).ok().map(Duration::from_millis);
    if let Some(value) = value {
        let stranger = (left.is_some() || !waiters.is_empty()).then_some(digest).flatten();
        holders.extend(holder(&value, now, left).or_else(|| stranger.and_then(|digest| another(&digest, left))));
    }
    holders.sort_by_key(|place| place.token);
    waiters.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    let places: Vec<Place> = holders.into_iter().chain(waiters.into_iter().map(|(.., place)| place)).collect();
    Ok((!places.is_empty()).then_some(Line { name, capacity, places }))
}

/// A record of the claims: its state, when it arrived, and what people see of it.
fn record(id: &[u8], text: &[u8], now: u64, end: u64) -> Option<(u8, String, Place)> {
    let text = String::from_utf8_lossy(text);
    let mut words = text.splitn(9, ' ');
    let (state, mark) = state_and_mark(words.next()?)?;
    let (weight, priority, arrival) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?, words.next()?);
    let (token, since) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let (_ttl, _channel, about) = (words.next()?, words.next()?, words.next()?);
    let place = Place {
        weight,
        priority,
        token: (state == b'H').then_some(token),
        lease_left: Duration::from_millis(end.saturating_sub(now)),
        ..place(id, now, since, mark, about)?
    };
    Some((state, arrival.to_owned(), place))
}

fn state_and_mark(word: &str) -> Option<(u8, u8)> {
    match word.as_bytes() {
        [state, mark] => Some((*state, *mark)),
        _ => None,
    }
}

/// Our own holder of a mutex; `None` for a value that is another program's.
fn holder(value: &[u8], now: u64, left: Option<Duration>) -> Option<Place> {
    let text = String::from_utf8_lossy(value);
    let mut words = text.splitn(5, ' ');
    let (id, mark) = words.next()?.as_bytes().split_at_checked(32)?;
    let &[mark] = mark else { return None };
    let (token, since) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let (priority, about) = (words.next()?.parse().ok()?, words.next()?);
    let lease_left = left.unwrap_or_default();
    Some(Place { priority, token: Some(token), lease_left, ..place(id, now, since, mark, about)? })
}

/// The holder when it is another program, which says nothing about itself.
fn another(digest: &[u8], left: Option<Duration>) -> Option<Place> {
    let lease_left = left.unwrap_or_default();
    Some(Place { token: Some(0), lease_left, ..place(digest, 0, 0, b'-', "another program")? })
}

fn place(id: &[u8], now: u64, since: u64, mark: u8, about: &str) -> Option<Place> {
    let (owner, note) = about.split_once('\n').map_or((about, None), |(owner, note)| (owner, Some(note)));
    let id: PublicId = std::str::from_utf8(id.get(..12)?).ok()?.parse().ok()?;
    Some(Place {
        id,
        owner: owner.to_owned(),
        weight: 1,
        priority: 0,
        token: None,
        since: Duration::from_millis(now.saturating_sub(since)),
        lease_left: Duration::ZERO,
        note: note.map(str::to_owned),
        evicted: mark == b'e' || mark == b'b',
    })
}
