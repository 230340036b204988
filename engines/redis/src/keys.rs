//! The keys of a lock.
//!
//! The holder of a mutex is under the prefix and the name, where every other `SET NX PX` lock looks for it. Everything
//! else stands behind a tab: names and prefixes have no control characters, so no name of a lock can be such a key.
//! The braces are a hash tag: in a cluster all keys of a lock are in the slot of its holder ("Hash tags" in the Redis
//! cluster specification).

use lockhouse_core::{Error, Kind, MAX_NAME_BYTES, Name, Result};

/// The prefix where none is given.
pub(crate) const DEFAULT_PREFIX: &str = "lockhouse:";

/// Makes keys of names.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    prefix: String,
    counter: String,
}

/// The keys of one lock, in the order in which scripts take them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LineKeys {
    pub(crate) holder: String,
    pub(crate) claims: String,
    pub(crate) waiters: String,
    pub(crate) leases: String,
}

const CLAIMS: &str = "}\tclaims";

impl Keys {
    /// Keys under a prefix, which may be empty.
    pub(crate) fn new(prefix: &str) -> Result<Self> {
        if prefix.len() > MAX_NAME_BYTES || prefix.contains(char::is_control) {
            let what = format!("the prefix {prefix:?} is too long or has a control character");
            return Err(Error::new(Kind::Invalid, what).help("write something like ?prefix=myapp:"));
        }
        Ok(Self { prefix: prefix.to_owned(), counter: format!("{prefix}\ttokens") })
    }

    /// The key of the newest token. One for all locks: their tokens grow, and nothing stays behind for a name.
    pub(crate) fn counter(&self) -> &str {
        &self.counter
    }

    /// The channel on which a client hears of its grants.
    pub(crate) fn channel(&self, client: u128) -> String {
        format!("{}client:{client:032x}", if self.prefix.is_empty() { DEFAULT_PREFIX } else { &self.prefix })
    }

    /// The keys of a lock.
    pub(crate) fn line(&self, name: &Name) -> LineKeys {
        let holder = format!("{}{name}", self.prefix);
        LineKeys {
            claims: format!("{{{holder}{CLAIMS}"),
            waiters: format!("{{{holder}}}\twaiters"),
            leases: format!("{{{holder}}}\tleases"),
            holder,
        }
    }

    /// The key of a cell.
    pub(crate) fn cell(&self, name: &Name) -> String {
        format!("{{{}{name}}}\tcell", self.prefix)
    }

    /// What `SCAN` matches for every lock whose name begins like this: its holder's key, and its claims'.
    pub(crate) fn patterns(&self, begins: &str) -> [String; 2] {
        let literal = escape(&format!("{}{begins}", self.prefix));
        [format!("{literal}*"), format!("{{{literal}*{CLAIMS}")]
    }

    /// The name of the lock that has this key; `None` for every other key.
    pub(crate) fn name(&self, key: &[u8]) -> Option<Name> {
        let key = std::str::from_utf8(key).ok()?;
        let claims = key.strip_prefix('{').and_then(|rest| rest.strip_suffix(CLAIMS));
        Name::new(claims.unwrap_or(key).strip_prefix(&self.prefix)?).ok()
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
            assert_eq!(keys.name(line.claims.as_bytes()), Some(name.clone()));
            for key in [line.holder, line.claims, line.waiters, line.leases, keys.cell(&name)] {
                assert!(seen.insert(key.clone()), "{key} belongs to two locks");
            }
        }
        assert!(!seen.contains(keys.counter()));
        assert_eq!(keys.name(keys.counter().as_bytes()), None);
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
        assert_eq!(Keys::new("p:").unwrap().patterns("a*[")[0], "p:a\\*\\[*");
    }
}
