//! What ZooKeeper and the network say, told as Lockhouse's errors.

use std::time::Duration;

use lockhouse_core::{Error, Kind};
use zookeeper_client::Error as Said;

/// The engine's name in errors and guarantees.
pub(crate) const ENGINE: &str = "zookeeper";

/// Why a request got no answer that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No session could be opened.
    Connecting(Said),
    /// There is no connection at present: nothing was sent.
    Away(Duration),
    /// It was sent; the server or the driver said so.
    Asking(Said),
    /// It was sent, and no answer came within this time.
    Silence(Duration),
    /// A node of ours has something in it that we do not write.
    Foreign(String),
}

impl From<Said> for Fault {
    fn from(said: Said) -> Self {
        Self::Asking(said)
    }
}

/// The one translation: which kind of error it is, whether the request may have been carried out, and what to do.
pub(crate) fn explain(fault: Fault, servers: &str) -> Error {
    let told = match fault {
        Fault::Connecting(said) => connecting(&said, servers).because(said),
        Fault::Away(limit) => {
            Error::new(Kind::Unreachable, format!("there was no connection to {servers} for {limit:?}"))
                .help("see whether a majority of the servers runs: echo srvr | nc host 2181")
        }
        Fault::Asking(said) => asking(&said, servers).because(said),
        Fault::Silence(limit) => Error::new(Kind::TimedOut, format!("{servers} did not answer within {limit:?}"))
            .unknown()
            .help("see whether the servers are overloaded or the network is slow"),
        Fault::Foreign(path) => Error::new(Kind::Corrupt, format!("the node {path} is not one that Lockhouse wrote"))
            .help("give another root, such as zookeeper://host:2181/locks"),
    };
    told.engine(ENGINE)
}

/// No session was opened, so nothing was carried out.
fn connecting(said: &Said, servers: &str) -> Error {
    match said {
        Said::AuthFailed | Said::NoAuth => denied(servers),
        Said::BadArguments(_) => Error::new(Kind::Invalid, format!("{servers} cannot be the address of servers"))
            .help("write zookeeper://host1:2181,host2:2181/locks"),
        _ => Error::new(Kind::Unreachable, format!("{servers} cannot be reached"))
            .help("see whether a majority of the servers runs, and whether addresses and ports are right"),
    }
}

/// The request was sent: only an answer of the server's proves that it was not carried out.
fn asking(said: &Said, servers: &str) -> Error {
    match said {
        Said::NoAuth | Said::InvalidAcl => {
            Error::new(Kind::Denied, format!("{servers} does not permit this to our account"))
                .help("write zookeeper://user:password@host, or see getAcl of the root's node")
        }
        Said::AuthFailed => denied(servers),
        Said::QuotaExceeded => {
            Error::new(Kind::Full, "the quota of the root's node is used up").help("see listquota in zkCli.sh")
        }
        Said::NotReadOnly => Error::new(Kind::Unreachable, format!("{servers} has no majority, and takes no writes")),
        Said::Throttled => {
            Error::new(Kind::Unreachable, format!("{servers} has too many requests to do")).help("try again later")
        }
        Said::Unimplemented => {
            Error::new(Kind::Unsupported, format!("{servers} is too old")).help("ZooKeeper 3.5.3 or newer is needed")
        }
        Said::NoNode | Said::NodeExists | Said::BadVersion | Said::NotEmpty | Said::NoChildrenForEphemerals => {
            Error::new(Kind::Engine, "others changed the nodes of this lock again and again").help("try again")
        }
        Said::MarshallingError | Said::UnexpectedErrorCode(_) | Said::BadArguments(_) | Said::ReconfigDisabled => {
            Error::new(Kind::Engine, format!("{servers} refuses the request"))
        }
        Said::SessionExpired | Said::SessionMoved | Said::ClientClosed => {
            Error::new(Kind::Unreachable, format!("the session with {servers} ended")).unknown()
        }
        _ => Error::new(Kind::Unreachable, format!("the connection to {servers} broke")).unknown(),
    }
}

fn denied(servers: &str) -> Error {
    Error::new(Kind::Denied, format!("{servers} refuses our credentials"))
        .help("write zookeeper://user:password@host, as for addauth digest in zkCli.sh")
}

#[cfg(test)]
mod tests {
    use lockhouse_core::Happened;

    use super::*;

    #[test]
    fn only_an_answer_of_the_servers_is_a_no() {
        for (fault, kind, happened) in [
            (Fault::Connecting(Said::NoHosts), Kind::Unreachable, Happened::No),
            (Fault::Away(Duration::from_secs(1)), Kind::Unreachable, Happened::No),
            (Fault::Silence(Duration::from_secs(1)), Kind::TimedOut, Happened::Unknown),
            (Fault::Asking(Said::ConnectionLoss), Kind::Unreachable, Happened::Unknown),
            (Fault::Asking(Said::SessionExpired), Kind::Unreachable, Happened::Unknown),
            (Fault::Asking(Said::UnexpectedError("x".into())), Kind::Unreachable, Happened::Unknown),
            (Fault::Asking(Said::NoAuth), Kind::Denied, Happened::No),
        ] {
            let error = explain(fault, "a:2181");
            assert_eq!((error.kind(), error.may_have_happened()), (kind, happened), "{error}");
            assert!(!error.to_string().contains('\n'));
        }
    }
}
