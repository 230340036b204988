//! What etcd and the network say, told as Lockhouse's errors.

use std::error::Error as _;
use std::time::Duration;

use lockhouse_core::{Error, Kind};
use tonic::{Code, Status};

/// The engine's name in errors and guarantees.
pub(crate) const ENGINE: &str = "etcd";

/// Why a request got no answer that can be used.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// There was no connection to send it on.
    Connecting(String),
    /// It was sent, and the connection broke.
    Broken(String),
    /// It was sent, and etcd said no.
    Said(Code, String),
    /// It was sent, and no answer came within this time.
    Silence(Duration),
    /// The answer is none that etcd gives.
    Answer(&'static str),
}

impl Fault {
    /// What the driver reports: what it says by itself has a cause, what etcd says has none.
    pub(crate) fn of(status: &Status) -> Self {
        match status.source() {
            Some(source) => Self::Broken(innermost(source)),
            None => Self::Said(status.code(), status.message().to_owned()),
        }
    }

    /// Whether another member may do better.
    pub(crate) fn is_the_members(&self) -> bool {
        match self {
            Self::Connecting(_) | Self::Broken(_) | Self::Silence(_) => true,
            Self::Said(code, _) => *code == Code::Unavailable,
            Self::Answer(_) => false,
        }
    }

    /// Whether the connection is of no use any more.
    pub(crate) fn breaks_connection(&self) -> bool {
        matches!(self, Self::Broken(_) | Self::Silence(_))
    }

    /// Whether the account may not ask that.
    pub(crate) fn is_denied(&self) -> bool {
        matches!(self, Self::Said(Code::PermissionDenied, _))
    }

    /// Whether the members have no leader at present.
    pub(crate) fn is_leaderless(&self) -> bool {
        matches!(self, Self::Said(Code::Unavailable, what) if what.contains("no leader"))
    }

    /// Whether etcd said that there is no such lease, and so did nothing.
    pub(crate) fn is_lease_gone(&self) -> bool {
        matches!(self, Self::Said(Code::NotFound, what) if what.contains("lease not found"))
    }

    /// Whether the token that we show is not, or no longer, good.
    pub(crate) fn is_token_stale(&self) -> bool {
        matches!(self, Self::Said(Code::Unauthenticated, _))
            || matches!(self, Self::Said(Code::InvalidArgument, what) if what.contains("revision of auth store is old"))
    }
}

/// What is at the bottom of an error: the layers above it only say "transport error".
pub(crate) fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

/// The one translation: which kind of error it is, whether the request may have been carried out, and what to do.
pub(crate) fn explain(fault: Fault, servers: &str) -> Error {
    let told = match fault {
        Fault::Connecting(cause) => Error::new(Kind::Unreachable, format!("{servers} cannot be reached"))
            .help("see whether etcd runs, and whether its addresses and ports are right")
            .because(cause),
        Fault::Broken(cause) => {
            Error::new(Kind::Unreachable, format!("the connection to {servers} broke")).unknown().because(cause)
        }
        Fault::Silence(limit) => Error::new(Kind::TimedOut, format!("{servers} did not answer within {limit:?}"))
            .unknown()
            .help("see whether a majority of the members runs: etcdctl endpoint status --cluster"),
        Fault::Answer(what) => {
            Error::new(Kind::Corrupt, format!("{servers} gave an answer that is none of etcd's: {what}"))
                .unknown()
                .help("see whether these are the client ports of etcd 3.4 or newer")
        }
        Fault::Said(code, message) => said(code, &message, servers).because(message),
    };
    told.engine(ENGINE)
}

/// The errors of etcd, by their gRPC code and what they say.
fn said(code: Code, message: &str, servers: &str) -> Error {
    match code {
        Code::ResourceExhausted if message.contains("space exceeded") => {
            Error::new(Kind::Full, format!("the database of {servers} is full, and takes no writes"))
                .help("compact and defragment it, then etcdctl alarm disarm")
        }
        // Refused before it was looked at.
        Code::ResourceExhausted => Error::new(Kind::Unreachable, format!("{servers} has too many requests waiting")),
        Code::Unauthenticated | Code::PermissionDenied => Error::new(Kind::Denied, format!("{servers} refuses us"))
            .help("give the account read and write rights on the prefix: etcdctl role grant-permission"),
        Code::InvalidArgument if message.contains("user name") || message.contains("authentication") => {
            Error::new(Kind::Denied, format!("{servers} refuses our credentials"))
                .help("write etcd://user:password@host, with an account that etcdctl user list shows")
        }
        Code::FailedPrecondition if message.contains("authentication is not enabled") => {
            Error::new(Kind::Denied, format!("{servers} has no accounts, and the address gives one"))
                .help("leave user and password out of the address, or turn authentication on")
        }
        Code::Unavailable => Error::new(Kind::Unreachable, format!("{servers} cannot answer at present"))
            .unknown()
            .help("see whether a majority of the members runs: etcdctl endpoint status --cluster"),
        Code::DeadlineExceeded | Code::Cancelled => {
            Error::new(Kind::TimedOut, format!("{servers} did not answer in time")).unknown()
        }
        Code::Unimplemented => Error::new(Kind::Unsupported, format!("{servers} does not know this request"))
            .help("etcd 3.4 or newer is needed"),
        _ => Error::new(Kind::Engine, format!("{servers} failed")).unknown(),
    }
}

#[cfg(test)]
mod tests {
    use lockhouse_core::Happened;

    use super::*;

    #[test]
    fn every_word_of_etcd_has_its_kind() {
        use Happened::{No, Unknown};
        for (code, message, kind, happened) in [
            (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded", Kind::Full, No),
            (Code::ResourceExhausted, "etcdserver: too many requests", Kind::Unreachable, No),
            (Code::Unauthenticated, "etcdserver: invalid auth token", Kind::Denied, No),
            (Code::PermissionDenied, "etcdserver: permission denied", Kind::Denied, No),
            (Code::InvalidArgument, "etcdserver: user name is empty", Kind::Denied, No),
            (Code::InvalidArgument, "etcdserver: authentication failed, invalid user ID or password", Kind::Denied, No),
            (Code::FailedPrecondition, "etcdserver: authentication is not enabled", Kind::Denied, No),
            (Code::Unavailable, "etcdserver: leader changed", Kind::Unreachable, Unknown),
            (Code::Unavailable, "etcdserver: request timed out", Kind::Unreachable, Unknown),
            (Code::Unimplemented, "unknown service", Kind::Unsupported, No),
            (Code::Unknown, "something new", Kind::Engine, Unknown),
        ] {
            let error = explain(Fault::of(&Status::new(code, message)), "h:2379");
            assert_eq!((error.kind(), error.may_have_happened()), (kind, happened), "{message}: {error}");
            assert!(error.to_string().contains("h:2379"), "{error}");
        }
    }

    #[test]
    fn a_refused_connection_is_a_certain_no_and_a_broken_one_is_not() {
        for (fault, kind, happened) in [
            (Fault::Connecting("refused".into()), Kind::Unreachable, Happened::No),
            (Fault::Broken("reset".into()), Kind::Unreachable, Happened::Unknown),
            (Fault::Silence(Duration::from_secs(1)), Kind::TimedOut, Happened::Unknown),
        ] {
            let error = explain(fault, "h");
            assert_eq!((error.kind(), error.may_have_happened()), (kind, happened), "{error}");
        }
    }
}
