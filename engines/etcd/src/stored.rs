//! What a claim's key holds, and what is made of a stranger's.

use lockhouse_core::{Claim, ClaimId};

use crate::keys;
use crate::proto::KeyValue;

const MARK: &str = "lockhouse/1";

/// One claim in a line, as etcd keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) key: Vec<u8>,
    /// `None` for another program's claim.
    pub(crate) id: Option<ClaimId>,
    pub(crate) weight: u32,
    pub(crate) capacity: u32,
    /// An operator has ended it.
    pub(crate) evicted: bool,
    /// Nobody renews it, and it has a lease of its own.
    pub(crate) lingers: bool,
    pub(crate) owner: String,
    pub(crate) note: Option<String>,
    pub(crate) lease: i64,
    /// When it was made: its place in line, and its token.
    pub(crate) made: i64,
    /// When it was last written.
    pub(crate) written: i64,
}

impl Stored {
    /// The claim that a key of this line stands for; `None` for a key that belongs to a longer name.
    ///
    /// A key that we did not write counts as a mutex's claim: that is what `etcdctl lock` makes.
    pub(crate) fn read(line: &[u8], kv: KeyValue) -> Option<Self> {
        let segment = keys::segment(line, &kv.key)?;
        let ours = keys::id(segment).and_then(|_| parse(&kv.value));
        let stranger = || About { weight: 1, capacity: 1, owner: "another program".into(), ..About::default() };
        let About { id, weight, capacity, evicted, lingers, owner, note } = ours.unwrap_or_else(stranger);
        let KeyValue { key, create_revision: made, mod_revision: written, lease, .. } = kv;
        Some(Self { key, id, weight, capacity, evicted, lingers, owner, note, lease, made, written })
    }

    /// What is written for it.
    pub(crate) fn value(&self) -> Vec<u8> {
        let marks = marks(self.evicted, self.lingers);
        text(self.id, self.weight, self.capacity, marks, &self.owner, self.note.as_deref())
    }
}

/// What is written for a new claim.
pub(crate) fn value(claim: &Claim) -> Vec<u8> {
    let marks = marks(false, claim.lingers);
    text(Some(claim.id), claim.weight, claim.capacity, marks, claim.owner.label(), claim.note.as_deref())
}

#[derive(Default)]
struct About {
    id: Option<ClaimId>,
    weight: u32,
    capacity: u32,
    evicted: bool,
    lingers: bool,
    owner: String,
    note: Option<String>,
}

fn marks(evicted: bool, lingers: bool) -> &'static str {
    match (evicted, lingers) {
        (false, false) => "-",
        (true, false) => "evicted",
        (false, true) => "lingers",
        (true, true) => "evicted,lingers",
    }
}

fn text(id: Option<ClaimId>, weight: u32, capacity: u32, marks: &str, owner: &str, note: Option<&str>) -> Vec<u8> {
    let id = id.as_ref().map(keys::hex).unwrap_or_default();
    let owner = owner.replace('\n', " ");
    let note = note.map(|note| format!("\n{note}")).unwrap_or_default();
    format!("{MARK} {weight} {capacity} {marks} {id}\n{owner}{note}").into_bytes()
}

fn parse(value: &[u8]) -> Option<About> {
    let (head, rest) = std::str::from_utf8(value).ok()?.split_once('\n')?;
    let mut words = head.split(' ');
    if words.next()? != MARK {
        return None;
    }
    let (weight, capacity) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let marks = words.next()?;
    let id = Some(keys::id(words.next()?.as_bytes())?);
    let (owner, note) = rest.split_once('\n').map_or((rest, None), |(owner, note)| (owner, Some(note.to_owned())));
    let (evicted, lingers) = (marks.contains("evicted"), marks.contains("lingers"));
    Some(About { id, weight, capacity, evicted, lingers, owner: owner.to_owned(), note })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(segment: &str, value: &[u8]) -> KeyValue {
        let (key, value) = (format!("a/{segment}").into_bytes(), value.to_vec());
        KeyValue { key, value, create_revision: 7, mod_revision: 8, lease: 9 }
    }

    #[test]
    fn what_is_written_reads_back() {
        let segment = "0123456789abcdef0123456789abcdef";
        let id = Some(ClaimId::random());
        let value = text(id, 3, u32::MAX, "evicted", "alice\n@web", Some("two\nlines"));
        let stored = Stored::read(b"a/", key(segment, &value)).unwrap();
        assert_eq!((stored.weight, stored.capacity, stored.made, stored.written), (3, u32::MAX, 7, 8));
        assert_eq!((stored.owner.as_str(), stored.note.as_deref()), ("alice @web", Some("two\nlines")));
        assert!(stored.evicted && !stored.lingers && stored.id == id);
        assert_eq!(Stored::read(b"a/", key(segment, &stored.value())).unwrap(), stored);
    }

    #[test]
    fn what_we_did_not_write_is_a_mutex_and_what_is_deeper_is_nothing() {
        let stranger = Stored::read(b"a/", key("694d7b5d3a2b5c0a", b"")).unwrap();
        assert_eq!((stranger.id, stranger.weight, stranger.capacity), (None, 1, 1));
        assert_eq!(Stored::read(b"a/", key("b/694d7b5d3a2b5c0a", b"")), None);
    }
}
