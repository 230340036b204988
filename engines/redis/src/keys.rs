//! The keys of a lock.
//!
//! The holder of a mutex is under the prefix and the name, where every other `SET NX PX` lock looks for it. Everything
//! else stands behind a tab: names and prefixes have no control characters, so no name of a lock can be such a key.
//! The braces are a hash tag: in a cluster all keys of a lock are in the slot of its holder ("Hash tags" in the Redis
//! cluster specification). A name that has braces itself cannot stand in them: there, a number stands for its slot.

use std::borrow::Cow;
use std::fmt;

use lockhouse_core::{Error, Kind, MAX_NAME_BYTES, Name, Result};

use crate::slot::{slot, tag};

/// What stands before every key where no other prefix is given.
pub const DEFAULT_PREFIX: &str = "lockhouse:";

/// Makes keys of names.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    prefix: String,
    /// The key of the newest token, where there is one for all locks.
    counter: String,
    /// Keys are spread over slots, and a script sees those of one.
    spread: bool,
}

/// The keys of one lock: its holder's, and those beside it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LineKeys {
    pub(crate) holder: String,
}

impl LineKeys {
    pub(crate) fn claims(&self) -> Beside<'_> {
        self.beside("claims")
    }

    pub(crate) fn waiters(&self) -> Beside<'_> {
        self.beside("waiters")
    }

    pub(crate) fn leases(&self) -> Beside<'_> {
        self.beside("leases")
    }

    fn beside(&self, what: &'static str) -> Beside<'_> {
        Beside { holder: &self.holder, what }
    }
}

/// Another key in the slot of the holder's.
#[derive(Debug)]
pub(crate) struct Beside<'a> {
    holder: &'a str,
    what: &'static str,
}

impl fmt::Display for Beside<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { holder, what } = self;
        if holder.contains(['{', '}']) {
            return write!(f, "{{{}}}\t{what}\t{holder}", tag(slot(holder)));
        }
        for part in ["{", holder, "}\t", what] {
            f.write_str(part)?;
        }
        Ok(())
    }
}

impl Keys {
    /// Keys under a prefix, which may be empty.
    pub(crate) fn new(prefix: &str) -> Result<Self> {
        if prefix.len() > MAX_NAME_BYTES || prefix.contains(char::is_control) {
            let what = format!("the prefix {prefix:?} is too long or has a control character");
            return Err(Error::new(Kind::Invalid, what).help("write something like ?prefix=myapp:"));
        }
        Ok(Self { prefix: prefix.to_owned(), counter: format!("{prefix}\ttokens"), spread: false })
    }

    /// The same keys in a cluster.
    pub(crate) fn in_cluster(self) -> Self {
        Self { spread: true, ..self }
    }

    /// The key of the newest token. One for all locks, or for all of a slot: their tokens grow, and nothing stays
    /// behind for a name.
    pub(crate) fn counter(&self, name: &Name) -> Cow<'_, str> {
        match self.spread {
            true => format!("{{{}}}\ttokens\t{}", tag(self.slot(name)), self.prefix).into(),
            false => Cow::Borrowed(&self.counter),
        }
    }

    /// Where a lock is in a cluster.
    pub(crate) fn slot(&self, name: &Name) -> u16 {
        slot(&self.holder(name))
    }

    fn holder(&self, name: &Name) -> String {
        [&self.prefix, name.as_str()].concat()
    }

    /// The channel on which a client hears of its grants.
    pub(crate) fn channel(&self, client: u128) -> String {
        format!("{}client:{client:032x}", if self.prefix.is_empty() { DEFAULT_PREFIX } else { &self.prefix })
    }

    /// The keys of a lock.
    pub(crate) fn line(&self, name: &Name) -> LineKeys {
        LineKeys { holder: self.holder(name) }
    }

    /// The key of a cell.
    pub(crate) fn cell(&self, name: &Name) -> String {
        self.line(name).beside("cell").to_string()
    }

    /// What `SCAN` matches for every lock whose name begins like this, and for some other keys.
    pub(crate) fn pattern(&self, begins: &str) -> String {
        format!("*{}*", escape(&format!("{}{begins}", self.prefix)))
    }

    /// The name of the lock that has this key as its holder's or its claims'; `None` for every other key.
    pub(crate) fn name(&self, key: &[u8]) -> Option<Name> {
        let key = std::str::from_utf8(key).ok()?;
        let holder = match key.split_once('\t') {
            None => key,
            Some((tagged, "claims")) => tagged.strip_prefix('{')?.strip_suffix('}')?,
            Some((_, rest)) => rest.strip_prefix("claims\t")?,
        };
        Name::new(holder.strip_prefix(&self.prefix)?).ok()
    }
}

/// Takes the meaning from the characters that `SCAN`'s patterns give one.
fn escape(literal: &str) -> String {
    let mut escaped = String::with_capacity(literal.len());
    for character in literal.chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '\\' | '^' | '-') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lock_has_keys_of_its_own() {
        let keys = Keys::new("").unwrap();
        let names = ["a", "{a}", "a}", "{a", "a/b", "ab", "{a}\u{2009}claims", "client:1"];
        let mut seen = std::collections::HashSet::new();
        for name in names {
            let name = Name::new(name).unwrap();
            let line = keys.line(&name);
            assert_eq!(keys.name(line.holder.as_bytes()), Some(name.clone()));
            assert_eq!(keys.name(line.claims().to_string().as_bytes()), Some(name.clone()));
            let in_cluster = keys.clone().in_cluster();
            let counter = in_cluster.counter(&name);
            assert_eq!(keys.name(counter.as_bytes()), None);
            assert_eq!(slot(&counter), keys.slot(&name));
            let beside = [line.claims(), line.waiters(), line.leases()].map(|key| key.to_string());
            for key in beside.into_iter().chain([keys.cell(&name), line.holder]) {
                assert_eq!(slot(&key), keys.slot(&name), "{key} is in another slot");
                assert!(seen.insert(key.clone()), "{key} belongs to two locks");
            }
        }
        let counter = keys.counter(&Name::new("a").unwrap());
        assert!(!seen.contains(&*counter));
        assert_eq!(keys.name(counter.as_bytes()), None);
    }

    #[test]
    fn the_holder_is_where_others_look() {
        let name = Name::new("orders/42").unwrap();
        assert_eq!(Keys::new("").unwrap().line(&name).holder, "orders/42");
        assert_eq!(Keys::new(DEFAULT_PREFIX).unwrap().line(&name).holder, "lockhouse:orders/42");
        assert!(Keys::new("a\n").is_err());
    }

    #[test]
    fn patterns_mean_what_they_say() {
        assert_eq!(Keys::new("p:").unwrap().pattern("a*["), "*p:a\\*\\[*");
    }
}
