//! What becomes of a session's keys when it ends.

use std::str::FromStr;

use lockhouse_core::{Error, Kind};
use serde::{Serialize, Serializer};

use crate::error::ENGINE;

/// What becomes of the keys that a client has acquired when its session ends without it: Consul's `Behavior`.
///
/// Either way the locks are free for the next, and every key that nobody has acquired counts for nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Behavior {
    /// They are deleted: nothing is left of a client that crashed.
    #[default]
    Delete,
    /// They stay, acquired by nobody, so that it can be seen who had the lock last. The next client that meets a claim
    /// which was left behind clears it away, and the lock's own key goes with the next release. Those of a name that
    /// nobody uses again stay for ever.
    Release,
}

impl Behavior {
    /// As Consul calls it.
    fn name(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Release => "release",
        }
    }
}

impl FromStr for Behavior {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        [Self::Delete, Self::Release].into_iter().find(|behavior| behavior.name() == name).ok_or_else(|| {
            let what = format!("a session's behavior is not {name:?}");
            Error::new(Kind::Invalid, what).help("write behavior=delete or behavior=release").engine(ENGINE)
        })
    }
}

impl Serialize for Behavior {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
