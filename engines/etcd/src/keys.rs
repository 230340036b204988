//! The keys of locks and cells.
//!
//! A claim's key is the prefix, the name, a slash and one segment without a slash: for ours the number of its seat,
//! for those of `etcdctl lock` and Go's `concurrency.Mutex` the id of a lease. What stands deeper belongs to a longer
//! name, so `a` and `a/b` are different locks although the keys of one begin like those of the other. Everything else
//! stands behind a tab, which no name has.

use lockhouse_core::{ClaimId, Error, Kind, MAX_NAME_BYTES, Name, Result};

/// The prefix where none is given.
pub(crate) const DEFAULT_PREFIX: &str = "lockhouse/";

/// Makes keys of names.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    prefix: String,
}

impl Keys {
    /// Keys under a prefix, which may be empty.
    pub(crate) fn new(prefix: &str) -> Result<Self> {
        if prefix.len() > MAX_NAME_BYTES || prefix.contains(char::is_control) {
            let what = format!("the prefix {prefix:?} is too long or has a control character");
            return Err(Error::new(Kind::Invalid, what).help("write something like ?prefix=myapp/"));
        }
        Ok(Self { prefix: prefix.to_owned() })
    }

    /// What the keys of all claims on a name begin with, and some of those on longer names.
    pub(crate) fn line(&self, name: &Name) -> Vec<u8> {
        format!("{}{name}/", self.prefix).into_bytes()
    }

    /// The key of a seat in the line of a name.
    pub(crate) fn seat(&self, name: &Name, seat: &ClaimId) -> Vec<u8> {
        let mut key = self.line(name);
        key.extend(hex(seat).into_bytes());
        key
    }

    /// Where a waiter that an operator took out finds out about it.
    pub(crate) fn evicted(&self, id: &ClaimId) -> Vec<u8> {
        format!("{}\tevicted/{}", self.prefix, hex(id)).into_bytes()
    }

    /// The key of a cell.
    pub(crate) fn cell(&self, name: &Name) -> Vec<u8> {
        format!("{}\tcells/{name}", self.prefix).into_bytes()
    }

    /// What the keys of all claims on names that begin like this begin with.
    pub(crate) fn beginning(&self, name: &str) -> Vec<u8> {
        format!("{}{name}", self.prefix).into_bytes()
    }

    /// The name and the segment of a claim's key; `None` for every other key.
    pub(crate) fn parse<'a>(&self, key: &'a [u8]) -> Option<(Name, &'a str)> {
        let (name, segment) = std::str::from_utf8(key).ok()?.strip_prefix(&self.prefix)?.rsplit_once('/')?;
        Some((Name::new(name).ok()?, segment))
    }
}

/// The segment of a claim's key in this line; `None` for a key that belongs to a longer name.
pub(crate) fn segment<'a>(line: &[u8], key: &'a [u8]) -> Option<&'a [u8]> {
    key.strip_prefix(line).filter(|segment| !segment.contains(&b'/'))
}

/// The number of a seat, or the id of a claim; `None` for a stranger's segment.
pub(crate) fn id(segment: &[u8]) -> Option<ClaimId> {
    let digits = std::str::from_utf8(segment).ok().filter(|text| text.len() == 32)?;
    let lower = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let number = u128::from_str_radix(digits, 16).ok().filter(|_| lower)?;
    Some(ClaimId::from_bytes(number.to_be_bytes()))
}

/// The first key that does not begin like this.
pub(crate) fn end_of(beginning: &[u8]) -> Vec<u8> {
    let mut end = beginning.to_vec();
    while let Some(last) = end.pop() {
        if let Some(next) = last.checked_add(1) {
            end.push(next);
            return end;
        }
    }
    // Everything: etcd's word for "to the end of all keys".
    vec![0]
}

/// It as it is written.
pub(crate) fn hex(id: &ClaimId) -> String {
    format!("{:032x}", u128::from_be_bytes(*id.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lock_has_keys_of_its_own() {
        let keys = Keys::new(DEFAULT_PREFIX).unwrap();
        let claim = ClaimId::random();
        for text in ["a", "a/b", "ab", "a/", "/", "//", "a//b", "a b", "cells", "{a}"] {
            let name = Name::new(text).unwrap();
            let key = keys.seat(&name, &claim);
            let (parsed, segment) = keys.parse(&key).unwrap();
            assert_eq!((parsed, id(segment.as_bytes())), (name.clone(), Some(claim)));
            for other in ["a", "a/b", "ab", "a/", "/", "//", "a//b", "a b", "cells", "{a}"] {
                let line = keys.line(&Name::new(other).unwrap());
                assert_eq!(super::segment(&line, &key).is_some(), other == text, "{text} in the line of {other}");
            }
            for other in [keys.cell(&name), keys.evicted(&claim)] {
                assert_eq!(keys.parse(&other), None);
            }
        }
    }

    #[test]
    fn a_lock_is_where_others_look() {
        let name = Name::new("orders/42").unwrap();
        assert_eq!(Keys::new("").unwrap().line(&name), b"orders/42/");
        assert_eq!(Keys::new(DEFAULT_PREFIX).unwrap().line(&name), b"lockhouse/orders/42/");
        assert_eq!(id(b"694d7b5d3a2b5c0a"), None);
        assert!(Keys::new("a\n").is_err());
    }

    #[test]
    fn a_range_ends_behind_everything_that_begins_alike() {
        assert_eq!(end_of(b"a/"), b"a0");
        assert_eq!(end_of(b"a\xff\xff"), b"b");
        assert_eq!(end_of(b"\xff"), b"\0");
        assert_eq!(end_of(b""), b"\0");
    }
}
