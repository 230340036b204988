//! What can go wrong, told so that a person knows what to do and a program knows whether it happened.

use std::error::Error as StdError;
use std::fmt;

use crate::name::Name;

/// A result with Lockhouse's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of thing went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The request makes no sense; asking again will not help.
    Invalid,
    /// The name is in use in another way: as a lock of another capacity.
    Conflict,
    /// This engine, in this topology, cannot do that.
    Unsupported,
    /// Somebody else holds the lock and the time to wait is over.
    Busy,
    /// The lock is no longer held.
    Lost,
    /// An operator took the claim out of the line.
    Evicted,
    /// The engine cannot be reached or is not able to answer at present.
    Unreachable,
    /// No answer came in time.
    TimedOut,
    /// The engine refuses us: credentials, rights, a read-only file.
    Denied,
    /// The engine's storage is full.
    Full,
    /// The engine's data is not what Lockhouse writes: damaged, foreign, or of a newer version.
    Corrupt,
    /// The client was closed.
    Closed,
    /// The engine answered with an error that has no kind of its own.
    Engine,
}

/// Whether a request that failed may have been carried out all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Happened {
    /// It was certainly not carried out.
    No,
    /// It may or may not have been. Never treat this as "no".
    Unknown,
}

/// An error: its kind, where it came from, what to do about it, and whether the request may have been carried out.
///
/// It is shown as one line that ends with what to do: `sqlite: claim "a": the disk is full; free some space`.
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: Kind,
    happened: Happened,
    engine: Option<&'static str>,
    operation: Option<&'static str>,
    name: Option<Name>,
    what: String,
    help: Option<String>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error about a request that was certainly not carried out.
    #[must_use]
    pub fn new(kind: Kind, what: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            happened: Happened::No,
            engine: None,
            operation: None,
            name: None,
            what: what.into(),
            help: None,
            source: None,
        }))
    }

    /// The request may have been carried out all the same.
    #[must_use]
    pub fn unknown(mut self) -> Self {
        self.0.happened = Happened::Unknown;
        self
    }

    /// What to do about it: the command or setting to try.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.0.help = Some(help.into());
        self
    }

    /// Which engine said so.
    #[must_use]
    pub fn engine(mut self, engine: &'static str) -> Self {
        self.0.engine.get_or_insert(engine);
        self
    }

    /// What was being done, and to which name. What an inner layer has said already stays.
    #[must_use]
    pub fn during(mut self, operation: &'static str, name: Option<&Name>) -> Self {
        self.0.operation.get_or_insert(operation);
        if self.0.name.is_none() {
            self.0.name = name.cloned();
        }
        self
    }

    /// The error underneath.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// What kind of thing went wrong.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// Whether the request may have been carried out all the same.
    #[must_use]
    pub fn may_have_happened(&self) -> Happened {
        self.0.happened
    }

    /// Whether asking again may help: the engine was out of reach, slow, or busy with itself.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self.0.kind, Kind::Unreachable | Kind::TimedOut)
    }

    /// The advice, apart from the rest, for programs that lay it out themselves.
    #[must_use]
    pub fn advice(&self) -> Option<&str> {
        self.0.help.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { engine, operation, name, what, help, source, .. } = &*self.0;
        if let Some(engine) = engine {
            write!(f, "{engine}: ")?;
        }
        match (operation, name) {
            (Some(operation), Some(name)) => write!(f, "{operation} {name:?}: ")?,
            (Some(operation), None) => write!(f, "{operation}: ")?,
            (None, Some(name)) => write!(f, "{name:?}: ")?,
            (None, None) => {}
        }
        f.write_str(what)?;
        // The cause is part of the one line: most people never print the chain.
        if let Some(source) = source {
            write!(f, ": {source}")?;
        }
        match help {
            Some(help) if !f.alternate() => write!(f, "; {help}"),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({self}; may have happened: {:?})", self.0.kind, self.0.happened)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_says_where_what_why_and_what_to_do() {
        let name = Name::new("a").unwrap();
        let error = Error::new(Kind::Full, "the disk is full")
            .because("no space left")
            .help("free some space")
            .during("claim", Some(&name))
            .engine("sqlite");
        assert_eq!(error.to_string(), "sqlite: claim \"a\": the disk is full: no space left; free some space");
        assert_eq!(format!("{error:#}"), "sqlite: claim \"a\": the disk is full: no space left");
        assert_eq!(error.may_have_happened(), Happened::No);
        assert_eq!(error.unknown().may_have_happened(), Happened::Unknown);
    }

    #[test]
    fn the_innermost_layer_names_the_operation() {
        let error = Error::new(Kind::Engine, "no").during("renew", None).during("claim", None);
        assert_eq!(error.to_string(), "renew: no");
    }
}
