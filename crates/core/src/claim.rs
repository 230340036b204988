//! One request for a lock.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Kind, Result};
use crate::line::kind;
use crate::name::Name;
use crate::owner::Owner;
use crate::random;

/// The identity of a claim: 128 random bits, made before anything is sent.
///
/// Who knows it can release the lock, so it is a secret: it is never logged, and `Debug` shows only the
/// [`PublicId`], its first 48 bits, which leaves 80 bits to guess.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimId([u8; 16]);

impl ClaimId {
    /// A new identity from the operating system's randomness.
    #[must_use]
    pub fn random() -> Self {
        Self(random::bytes())
    }

    /// The identity an engine has stored.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes an engine stores.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The part that people may see, and that [`evict`](crate::Engine::evict) takes.
    #[must_use]
    pub fn public(&self) -> PublicId {
        let mut public = [0; 6];
        public.copy_from_slice(&self.0[..6]);
        PublicId(public)
    }
}

impl fmt::Debug for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}…", self.public())
    }
}

/// What people call a claim: twelve hexadecimal digits. It names a claim but gives no right over it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicId([u8; 6]);

impl fmt::Display for PublicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PublicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PublicId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let digits = text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = digits.then(|| u64::from_str_radix(text, 16).ok()).flatten().ok_or_else(|| {
            Error::new(Kind::Invalid, format!("{text:?} is not the id of a claim"))
                .help("ids are the twelve hexadecimal digits that a survey shows")
        })?;
        let mut public = [0; 6];
        public.copy_from_slice(&number.to_be_bytes()[2..]);
        Ok(Self(public))
    }
}

/// Whether a claim stands in line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Patience {
    /// Refused when anyone is ahead; leaves nothing behind.
    None,
    /// Takes a place in line.
    Waits,
    /// Takes a place in line, and may take free capacity past sleeping waiters.
    Barges,
}

/// One request for a lock: everything an engine needs to know about it.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Made before anything is sent, so that a lost reply can be asked for again.
    pub id: ClaimId,
    /// What is claimed.
    pub name: Name,
    /// Who claims, for people.
    pub owner: Owner,
    /// How much of the capacity is claimed. Sending the claim again with a smaller weight downgrades it; it is never
    /// raised.
    pub weight: u32,
    /// How much there is. All claims in one line must say the same.
    pub capacity: u32,
    /// Higher goes ahead of waiters, never of holders, where the engine can.
    pub priority: i32,
    /// Whether it stands in line.
    pub patience: Patience,
    /// How long the engine honours the claim without hearing of it again.
    pub ttl: Duration,
    /// A word for people who look at the line.
    pub note: Option<Arc<str>>,
    /// The grant's token must not be smaller than this: [`Quorum`](crate::Quorum) writes its token back with it.
    pub floor: u64,
    /// Nobody will renew this claim again: it keeps the name busy until its lease ends, also when its client is gone.
    pub lingers: bool,
}

impl Claim {
    /// A new claim on a mutex that waits in line: what every other claim differs from in a few fields.
    #[must_use]
    pub fn on(name: Name, owner: Owner, ttl: Duration) -> Self {
        Self {
            id: ClaimId::random(),
            name,
            owner,
            weight: kind::MUTEX,
            capacity: kind::MUTEX,
            priority: 0,
            patience: Patience::Waits,
            ttl,
            note: None,
            floor: 0,
            lingers: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_id_reads_back_and_does_not_show_the_secret() {
        let id = ClaimId::from_bytes(*b"0123456789abcdef");
        assert_eq!(id.public().to_string(), "303132333435");
        assert_eq!("303132333435".parse::<PublicId>().unwrap(), id.public());
        assert_eq!(format!("{id:?}"), "303132333435…");
    }

    #[test]
    fn what_is_not_an_id_is_refused() {
        for text in ["", "30313233343", "3031323334355", "+03132333435", "zzzzzzzzzzzz"] {
            assert_eq!(text.parse::<PublicId>().unwrap_err().kind(), Kind::Invalid);
        }
    }
}
