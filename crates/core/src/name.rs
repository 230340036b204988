//! What is locked.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Kind, Result};

/// The name of a lock or a cell: UTF-8, 1 to 255 bytes, no control characters, case-sensitive.
///
/// It is checked once, here; everything behind this type may rely on it. Two names are the same lock exactly when
/// their bytes are the same: nothing is folded, trimmed or normalised.
///
/// ```
/// use lockhouse_core::Name;
///
/// assert_eq!(Name::new("orders/42")?.as_str(), "orders/42");
/// assert!(Name::new("").is_err());
/// # Ok::<(), lockhouse_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<str>);

/// The longest name in bytes: the shortest limit among the engines' own keys (a ZooKeeper node, a SQL index column)
/// with room left for their prefixes.
pub const MAX_NAME_BYTES: usize = 255;

impl Name {
    /// Checks a name.
    ///
    /// # Errors
    /// [`Kind::Invalid`] when it is empty, longer than [`MAX_NAME_BYTES`] or contains a control character.
    pub fn new(name: impl AsRef<str>) -> Result<Self> {
        let name = name.as_ref();
        let invalid = |what: String, help: &str| Err(Error::new(Kind::Invalid, what).help(help));
        if name.is_empty() {
            return invalid("the name is empty".into(), "give the lock a name, such as \"orders/42\"");
        }
        if name.len() > MAX_NAME_BYTES {
            let what = format!("the name is {} bytes long, and {MAX_NAME_BYTES} is the most", name.len());
            return invalid(what, "shorten it, or use a hash of the long part");
        }
        if let Some(at) = name.find(char::is_control) {
            let what = format!("the name {name:?} has a control character at byte {at}");
            return invalid(what, "use letters, digits, spaces and punctuation only");
        }
        Ok(Self(name.into()))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_is_counted_in_bytes() {
        assert!(Name::new("x".repeat(255)).is_ok());
        assert!(Name::new("x".repeat(256)).is_err());
        assert!(Name::new("é".repeat(127)).is_ok());
        assert!(Name::new("é".repeat(128)).is_err());
    }

    #[test]
    fn control_characters_are_refused_wherever_they_stand() {
        for name in ["a\0b", "a\n", "\tb", "a\u{7f}", "a\u{85}b"] {
            let error = Name::new(name).unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid);
            assert!(error.to_string().contains("control character"), "{error}");
        }
    }

    #[test]
    fn composed_and_decomposed_forms_are_different_names() {
        assert_ne!(Name::new("caf\u{e9}").unwrap(), Name::new("cafe\u{301}").unwrap());
    }
}
