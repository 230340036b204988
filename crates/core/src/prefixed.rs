//! A namespace: an engine around an engine.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::checkup::Checkup;
use crate::claim::{Claim, PublicId};
use crate::engine::{Cell, Engine, Renewal, Standing, Withdrawal, Write, Written};
use crate::error::{Error, Kind, Result};
use crate::guarantees::Guarantees;
use crate::name::{MAX_NAME_BYTES, Name};
use crate::survey::Line;

/// Puts every name behind a prefix, and shows only what is behind it.
#[derive(Debug)]
pub struct Prefixed {
    inner: Arc<dyn Engine>,
    prefix: String,
}

impl Prefixed {
    /// A namespace in an engine.
    ///
    /// # Errors
    /// [`Kind::Invalid`] when the prefix could not begin a name.
    pub fn new(inner: Arc<dyn Engine>, prefix: &str) -> Result<Self> {
        Name::new(prefix).map_err(|error| {
            Error::new(Kind::Invalid, format!("the prefix {prefix:?} cannot begin a name")).because(error)
        })?;
        Ok(Self { inner, prefix: prefix.to_owned() })
    }

    fn name(&self, name: &Name) -> Result<Name> {
        Name::new(format!("{}{name}", self.prefix)).map_err(|_| {
            let left = MAX_NAME_BYTES - self.prefix.len();
            Error::new(Kind::Invalid, format!("the name is longer than the {left} bytes that the prefix leaves"))
                .help("shorten the name or the prefix")
        })
    }

    fn claim_in(&self, claim: &Claim) -> Result<Claim> {
        Ok(Claim { name: self.name(&claim.name)?, ..claim.clone() })
    }
}

// A method with a default that is forgotten here would silently not be passed on.
#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Engine for Prefixed {
    fn guarantees(&self) -> Guarantees {
        self.inner.guarantees()
    }

    fn longest_lease(&self) -> Duration {
        self.inner.longest_lease()
    }

    async fn claim(&self, claim: &Claim) -> Result<Standing> {
        self.inner.claim(&self.claim_in(claim)?).await
    }

    async fn moved(&self, claim: &Claim) -> Result<Option<Standing>> {
        self.inner.moved(&self.claim_in(claim)?).await
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Renewal>> {
        let claims: Vec<Claim> = claims.iter().map(|claim| self.claim_in(claim)).collect::<Result<_>>()?;
        self.inner.renew(&claims).await
    }

    async fn withdraw(&self, claim: &Claim) -> Result<Withdrawal> {
        self.inner.withdraw(&self.claim_in(claim)?).await
    }

    async fn survey(&self, prefix: &str) -> Result<Vec<Line>> {
        let lines = self.inner.survey(&format!("{}{prefix}", self.prefix)).await?;
        let inside = |mut line: Line| {
            // A name that is nothing but the prefix belongs to somebody outside the namespace.
            line.name = Name::new(line.name.as_str().strip_prefix(&self.prefix)?).ok()?;
            Some(line)
        };
        Ok(lines.into_iter().filter_map(inside).collect())
    }

    async fn evict(&self, name: &Name, claim: &PublicId) -> Result<bool> {
        self.inner.evict(&self.name(name)?, claim).await
    }

    async fn checkup(&self) -> Result<Checkup> {
        self.inner.checkup().await
    }

    async fn read(&self, name: &Name) -> Result<Cell> {
        self.inner.read(&self.name(name)?).await
    }

    async fn write(&self, name: &Name, write: &Write) -> Result<Written> {
        self.inner.write(&self.name(name)?, write).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Locks, Memory};

    #[tokio::test]
    async fn namespaces_do_not_see_each_other() {
        let memory: Arc<dyn Engine> = Arc::new(Memory::new());
        let inside =
            |prefix: &str| -> Arc<dyn Engine> { Arc::new(Prefixed::new(Arc::clone(&memory), prefix).unwrap()) };
        let (a, b) = (Locks::new(inside("a/")).await.unwrap(), Locks::new(inside("b/")).await.unwrap());
        let _a = a.mutex("x").lock().await.unwrap();
        let _b = b.mutex("x").try_lock().await.unwrap().expect("another namespace");
        assert_eq!(a.survey("").await.unwrap()[0].name.as_str(), "x");
        assert_eq!(memory.survey("").await.unwrap().len(), 2);
    }

    #[tokio::test]
    async fn a_prefix_leaves_less_room_for_names() {
        let prefixed = Prefixed::new(Arc::new(Memory::new()), "ns/").unwrap();
        let error = prefixed.read(&Name::new("x".repeat(253)).unwrap()).await.unwrap_err();
        assert!(error.to_string().contains("252 bytes"), "{error}");
        assert!(Prefixed::new(Arc::new(Memory::new()), "a\n").is_err());
    }
}
