//! What is written for a claim, and what is read of others.

use lockhouse_core::{Claim, PublicId};

use crate::api::Kv;
use crate::keys;

const MARK: &str = "lockhouse/1";

/// What an operator has done to a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Evicted {
    No,
    /// While it held the lock, or may have: its place stays taken until it lets go.
    Holder,
    /// While it waited: it counts no more.
    Waiter,
}

/// One claim in a line, as Consul keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    /// Its own key; the lock's own if it stands there.
    pub(crate) key: String,
    /// It stands in the lock's own key: nobody else was there when it came.
    pub(crate) sole: bool,
    /// What it is called in its line.
    pub(crate) segment: String,
    pub(crate) id: PublicId,
    pub(crate) weight: u32,
    pub(crate) capacity: u32,
    pub(crate) evicted: Evicted,
    pub(crate) owner: String,
    pub(crate) note: Option<String>,
    /// When it was made: its place in line.
    pub(crate) made: u64,
    /// When it was last written.
    pub(crate) written: u64,
}

impl Stored {
    /// The claim that a key of this line stands for; `None` for a key that belongs to a longer name, or whose session
    /// is over.
    pub(crate) fn read(line: &str, kv: &Kv) -> Option<Self> {
        let segment = kv.key.strip_prefix(line)?;
        kv.session.as_ref()?;
        Self::parse(segment, text_of(kv)?, kv, false)
    }

    /// Whether a key of this line is what a claim has left behind: its session is over, and did not delete it.
    pub(crate) fn is_left_behind(line: &str, kv: &Kv) -> bool {
        let parts = kv.key.strip_prefix(line).zip(text_of(kv)).filter(|_| kv.session.is_none());
        parts.is_some_and(|(segment, record)| Self::parse(segment, record, kv, false).is_some())
    }

    /// The claim that stands in the lock's own key, if one does.
    pub(crate) fn in_lock(kv: &Kv) -> Option<Self> {
        let (_, record) = text_of(kv)?.split_once('\n')?;
        Self::parse(&LockKey::read(kv).segment?, record, kv, true)
    }

    fn parse(segment: &str, record: &str, kv: &Kv, sole: bool) -> Option<Self> {
        let id = keys::public_id(segment)?;
        let (head, rest) = record.split_once('\n')?;
        let mut words = head.split(' ');
        if words.next()? != MARK {
            return None;
        }
        let (weight, capacity) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let evicted = match words.next()? {
            "holder-evicted" => Evicted::Holder,
            "waiter-evicted" => Evicted::Waiter,
            _ => Evicted::No,
        };
        let (owner, note) = rest.split_once('\n').map_or((rest, None), |(owner, note)| (owner, Some(note.to_owned())));
        let (key, segment, owner) = (kv.key.clone(), segment.to_owned(), owner.to_owned());
        let (made, written) = (kv.made, kv.written);
        Some(Self { key, sole, segment, id, weight, capacity, evicted, owner, note, made, written })
    }

    /// What is written for it.
    pub(crate) fn value(&self) -> Vec<u8> {
        let record = text(self.weight, self.capacity, self.evicted, &self.owner, self.note.as_deref());
        if self.sole { held_by(&self.segment, &record) } else { record.into_bytes() }
    }

    /// Whether it has a place in line.
    pub(crate) fn counts(&self) -> bool {
        self.evicted != Evicted::Waiter
    }
}

/// What is written for a new claim.
pub(crate) fn value(claim: &Claim) -> Vec<u8> {
    record(claim).into_bytes()
}

/// What is written for a new claim that stands in the lock's own key.
pub(crate) fn sole(segment: &str, claim: &Claim) -> Vec<u8> {
    held_by(segment, &record(claim))
}

fn record(claim: &Claim) -> String {
    text(claim.weight, claim.capacity, Evicted::No, claim.owner.label(), claim.note.as_deref())
}

fn text_of(kv: &Kv) -> Option<&str> {
    std::str::from_utf8(kv.value.as_deref()?).ok()
}

fn text(weight: u32, capacity: u32, evicted: Evicted, owner: &str, note: Option<&str>) -> String {
    let mark = match evicted {
        Evicted::No => "-",
        Evicted::Holder => "holder-evicted",
        Evicted::Waiter => "waiter-evicted",
    };
    let owner = owner.replace('\n', " ");
    let note = note.map(|note| format!("\n{note}")).unwrap_or_default();
    format!("{MARK} {weight} {capacity} {mark}\n{owner}{note}")
}

/// What is written into the lock's own key when a claim that waited has it: which, and for people who.
pub(crate) fn handed_to(segment: &str, owner: &str) -> Vec<u8> {
    held_by(segment, &owner.replace('\n', " "))
}

fn held_by(segment: &str, rest: &str) -> Vec<u8> {
    format!("{MARK} {segment}\n{rest}").into_bytes()
}

/// A lock's own key, which `consul lock` and others acquire as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LockKey {
    /// Who has acquired it; nobody when it was released and left there.
    pub(crate) session: Option<String>,
    /// Which claim has it; `None` for another program's.
    pub(crate) segment: Option<String>,
    pub(crate) written: u64,
}

impl LockKey {
    pub(crate) fn read(kv: &Kv) -> Self {
        let segment = text_of(kv).and_then(|text| {
            let segment = text.strip_prefix(MARK)?.trim_start().split('\n').next()?;
            let session = kv.session.as_deref()?;
            // Others may have written nothing, or left ours as it was.
            (keys::public_id(segment).is_some() && segment.ends_with(session)).then(|| segment.to_owned())
        });
        Self { session: kv.session.clone(), segment, written: kv.written }
    }

    /// Whether this claim has it.
    pub(crate) fn is_of(&self, segment: &str) -> bool {
        self.segment.as_deref() == Some(segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &str = "7ebb0963-fdee-c380-75ce-c68eb19e87ee";
    const SEGMENT: &str = "303132333435-7ebb0963-fdee-c380-75ce-c68eb19e87ee";

    fn kv(key: &str, value: Vec<u8>) -> Kv {
        Kv { key: key.into(), value: Some(value), session: Some(SESSION.into()), made: 7, written: 8 }
    }

    #[test]
    fn what_is_written_reads_back() {
        let value = text(3, u32::MAX, Evicted::Holder, "alice\n@web", Some("two\nlines"));
        let stored = Stored::read("a/", &kv(&format!("a/{SEGMENT}"), value.into_bytes())).unwrap();
        assert_eq!((stored.weight, stored.capacity, stored.made, stored.written), (3, u32::MAX, 7, 8));
        assert_eq!((stored.owner.as_str(), stored.note.as_deref()), ("alice @web", Some("two\nlines")));
        assert_eq!((stored.evicted, stored.id.to_string().as_str()), (Evicted::Holder, "303132333435"));
        assert_eq!(Stored::read("a/", &kv(&stored.key, stored.value())).unwrap(), stored);
        let sole = Stored { key: "a/.lock".into(), sole: true, ..stored };
        assert_eq!(Stored::in_lock(&kv("a/.lock", sole.value())).unwrap(), sole);
    }

    #[test]
    fn what_is_no_claim_of_this_line_is_not_taken_for_one() {
        let value = || text(1, 1, Evicted::No, "x", None).into_bytes();
        for key in ["a/b/303132333435-7ebb0963-fdee-c380-75ce-c68eb19e87ee", "a/.lock", "a/x", "b"] {
            assert_eq!(Stored::read("a/", &kv(key, value())), None, "{key}");
        }
        let released = Kv { session: None, ..kv(&format!("a/{SEGMENT}"), value()) };
        assert_eq!(Stored::read("a/", &released), None);
        assert!(Stored::is_left_behind("a/", &released) && !Stored::is_left_behind("b/", &released));
        assert!(!Stored::is_left_behind("a/", &kv(&format!("a/{SEGMENT}"), value())), "it has its session");
    }

    #[test]
    fn a_lock_says_whose_it_is() {
        let lock = kv("a/.lock", handed_to(SEGMENT, "x\ny"));
        assert!(LockKey::read(&lock).is_of(SEGMENT));
        assert_eq!(Stored::in_lock(&lock), None, "its claim has a key of its own");
        assert_eq!(LockKey::read(&kv("a/.lock", Vec::new())).segment, None);
        let released = Kv { session: None, ..kv("a/.lock", held_by(SEGMENT, &text(1, 1, Evicted::No, "x", None))) };
        assert_eq!((LockKey::read(&released).segment, Stored::in_lock(&released)), (None, None), "nobody has it");
        let taken =
            Kv { session: Some("11111111-1111-1111-1111-111111111111".into()), ..kv("a", handed_to(SEGMENT, "x")) };
        assert_eq!(LockKey::read(&taken).segment, None, "another session has it, and the old words are still there");
    }
}
