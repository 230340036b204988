//! The keys of locks and cells.
//!
//! A lock `orders/42` is the key `orders/42/.lock`, where `consul lock` has it. The claims on it are below
//! `orders/42/.claims/`, one segment each, and its cell is `orders/42/.cell`. What stands deeper belongs to a longer
//! name, so `a` and `a/b` are different locks.
//!
//! Consul's HTTP interface takes no keys with empty segments, `.` or `..` in them. A segment of a name that is one of
//! these is written with a percent sign before it, and so is one that begins with a percent sign.

use std::fmt::Write as _;

use lockhouse_core::{Claim, Error, Kind, MAX_NAME_BYTES, Name, PublicId, Result};

/// The prefix where none is given.
pub(crate) const DEFAULT_PREFIX: &str = "lockhouse/";
const LOCK: &str = ".lock";
const CLAIMS: &str = ".claims";

/// Makes keys of names.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    prefix: String,
}

/// What a key is to its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// What `consul lock` acquires.
    Lock,
    /// A claim.
    Claim,
}

impl Keys {
    /// Keys under a prefix, which may be empty.
    pub(crate) fn new(prefix: &str) -> Result<Self> {
        let unfit = |segment: &str| matches!(segment, "" | "." | "..");
        let (folders, _) = prefix.rsplit_once('/').unwrap_or(("x", ""));
        if prefix.len() > MAX_NAME_BYTES || prefix.contains(char::is_control) || folders.split('/').any(unfit) {
            let what = format!("the prefix {prefix:?} is too long, or no beginning of a key");
            return Err(Error::new(Kind::Invalid, what).help("write something like ?prefix=myapp/"));
        }
        Ok(Self { prefix: prefix.to_owned() })
    }

    /// The key that whoever holds a mutex has acquired.
    pub(crate) fn lock(&self, name: &Name) -> String {
        format!("{}{}/{LOCK}", self.prefix, written(name.as_str()))
    }

    /// What the keys of all claims on a name begin with, and maybe some of longer names.
    pub(crate) fn line(&self, name: &Name) -> String {
        format!("{}{}/{CLAIMS}/", self.prefix, written(name.as_str()))
    }

    /// The key of a claim.
    pub(crate) fn claim(&self, name: &Name, segment: &str) -> String {
        let mut key = self.line(name);
        key.push_str(segment);
        key
    }

    /// The key of a cell.
    pub(crate) fn cell(&self, name: &Name) -> String {
        format!("{}{}/.cell", self.prefix, written(name.as_str()))
    }

    /// What the keys of all names that begin like this begin with, and maybe others.
    pub(crate) fn beginning(&self, name: &str) -> String {
        // Where it matters how the last segment goes on, the others are asked for, too.
        if written(name) == name && !name.split('/').any(|segment| segment.starts_with(['.', '%'])) {
            format!("{}{name}", self.prefix)
        } else {
            self.prefix.clone()
        }
    }

    /// The name that a key belongs to, and what it is to it; `None` for a key that is none of a lock's.
    pub(crate) fn parse(&self, key: &str) -> Option<(Name, Part)> {
        let (folder, last) = key.strip_prefix(&self.prefix)?.rsplit_once('/')?;
        if last == LOCK {
            return Some((read(folder)?, Part::Lock));
        }
        let name = read(folder.strip_suffix(CLAIMS)?.strip_suffix('/')?)?;
        public_id(last).map(|_| (name, Part::Claim))
    }
}

/// What a claim is called in its line: its public id and its session. Its secret is nowhere.
pub(crate) fn segment(claim: &Claim, session: &str) -> String {
    format!("{}-{session}", claim.id.public())
}

/// The public id of a claim that is called so; `None` for what is no claim's.
pub(crate) fn public_id(segment: &str) -> Option<PublicId> {
    let (id, session) = segment.split_once('-')?;
    id.parse().ok().filter(|_| session.len() == 36)
}

/// A text as it stands in the path or the parameters of a URL.
pub(crate) fn escaped(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut escaped, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => escaped.push(byte.into()),
            // It cannot fail.
            _ => drop(write!(escaped, "%{byte:02X}")),
        }
        escaped
    })
}

fn written(name: &str) -> String {
    let special = |segment: &str| matches!(segment, "" | "." | "..") || segment.starts_with('%');
    let segments = name.split('/').map(|segment| if special(segment) { format!("%{segment}") } else { segment.into() });
    segments.collect::<Vec<String>>().join("/")
}

fn read(written: &str) -> Option<Name> {
    let segments: Vec<&str> = written.split('/').map(|segment| segment.strip_prefix('%').unwrap_or(segment)).collect();
    Name::new(segments.join("/")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: &str = "303132333435-7ebb0963-fdee-c380-75ce-c68eb19e87ee";
    const NAMES: &[&str] = &[
        "a",
        "a/b",
        "ab",
        "a/",
        "/",
        "//",
        "a//b",
        "a/%/b",
        "a b",
        "..",
        ".",
        "%..",
        "a/./b",
        "{a}",
        "a/.claims",
        "a/.lock",
        "a/.cell",
        "a%2Fb",
        "é",
        "%",
    ];

    #[test]
    fn every_lock_has_keys_of_its_own() {
        let keys = Keys::new(DEFAULT_PREFIX).unwrap();
        let mut all = std::collections::HashSet::new();
        for text in NAMES {
            let name = Name::new(text).unwrap();
            let (lock, claim) = (keys.lock(&name), keys.claim(&name, SEGMENT));
            assert_eq!(keys.parse(&lock), Some((name.clone(), Part::Lock)));
            assert_eq!(keys.parse(&claim), Some((name.clone(), Part::Claim)));
            assert_eq!(keys.parse(&keys.cell(&name)), None);
            for key in [lock, claim, keys.cell(&name)] {
                assert!(key.split('/').all(|segment| !matches!(segment, "" | "." | "..")), "{key}");
                assert!(
                    (1..=text.len())
                        .filter(|end| text.is_char_boundary(*end))
                        .all(|end| { key.starts_with(&keys.beginning(&text[..end])) })
                );
                assert!(all.insert(key));
            }
        }
    }

    #[test]
    fn a_lock_is_where_others_look() {
        let name = Name::new("orders/42").unwrap();
        assert_eq!(Keys::new("").unwrap().lock(&name), "orders/42/.lock");
        assert_eq!(Keys::new(DEFAULT_PREFIX).unwrap().lock(&name), "lockhouse/orders/42/.lock");
        for prefix in ["a\n", "/a", "a//b/", "../"] {
            assert!(Keys::new(prefix).is_err(), "{prefix}");
        }
        assert!(Keys::new("test-").is_ok());
    }

    #[test]
    fn what_a_url_cannot_have_is_escaped() {
        assert_eq!(escaped("a/.lock?b é%"), "a/.lock%3Fb%20%C3%A9%25");
    }
}
