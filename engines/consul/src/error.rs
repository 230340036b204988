//! What Consul and the network say, told as Lockhouse's errors.

use std::time::Duration;

use lockhouse_core::{Error, Kind};

/// The engine's name in errors and guarantees.
pub(crate) const ENGINE: &str = "consul";

/// Why a request got no answer that can be used.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// It was not sent: there was no connection to send it on.
    Connecting(String),
    /// It was sent, and the connection broke.
    Broken(String),
    /// It was sent, and Consul answered with this status and these words.
    Said(u16, String),
    /// It was sent, and no answer came within this time.
    Silence(Duration),
    /// The answer is none that Consul gives.
    Answer(String),
    /// The catalog of another datacenter shows no node that a session could belong to.
    NoNode,
}

impl Fault {
    /// Whether another agent may do better.
    pub(crate) fn is_the_agents(&self) -> bool {
        match self {
            Self::Connecting(_) | Self::Broken(_) | Self::Silence(_) => true,
            Self::Said(status, what) => *status >= 500 && !is_about_the_request(what),
            Self::Answer(_) | Self::NoNode => false,
        }
    }

    /// Whether the servers have no leader at present. Said before anything is done.
    pub(crate) fn is_leaderless(&self) -> bool {
        matches!(self, Self::Said(500, what) if what.contains("No cluster leader"))
    }

    /// Whether the token may not ask that.
    pub(crate) fn is_denied(&self) -> bool {
        matches!(self, Self::Said(403, _))
    }
}

/// What is the same whichever agent is asked.
fn is_about_the_request(what: &str) -> bool {
    what.contains("Invalid Session") || what.contains("No path to datacenter")
}

/// What is at the bottom of an error: the layers above it only say that something failed.
pub(crate) fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

/// The one translation: which kind of error it is, whether the request may have been carried out, and what to do.
pub(crate) fn explain(fault: Fault, agents: &str) -> Error {
    let told = match fault {
        Fault::Connecting(cause) => Error::new(Kind::Unreachable, format!("{agents} cannot be reached"))
            .help("see whether Consul runs there, and whether its HTTP address and port are right")
            .because(cause),
        Fault::Broken(cause) => {
            Error::new(Kind::Unreachable, format!("the connection to {agents} broke")).unknown().because(cause)
        }
        Fault::Silence(limit) => Error::new(Kind::TimedOut, format!("{agents} did not answer within {limit:?}"))
            .unknown()
            .help("see whether a majority of the servers runs: consul operator raft list-peers"),
        Fault::Answer(what) => {
            Error::new(Kind::Corrupt, format!("{agents} gave an answer that is none of Consul's: {what}"))
                .unknown()
                .help("see whether this is the HTTP port of a Consul agent")
        }
        Fault::NoNode => {
            Error::new(Kind::Unreachable, "no node of the datacenter can be seen for the session to belong to")
                .help("give one with ?dc=…&node=…, or give the token node and service read: see consul catalog nodes")
        }
        Fault::Said(status, what) => said(status, &what, agents).because(what),
    };
    told.engine(ENGINE)
}

/// The errors of Consul, by their status and what they say.
fn said(status: u16, what: &str, agents: &str) -> Error {
    match status {
        401 | 403 => Error::new(Kind::Denied, format!("{agents} refuses us"))
            .help("give a token with key_prefix write on the prefix and session write: consul://:TOKEN@host"),
        413 => Error::new(Kind::Invalid, format!("{agents} takes no request of this size"))
            .help("keep values small, or raise limits.kv_max_value_size and limits.txn_max_req_len"),
        429 => Error::new(Kind::Unreachable, format!("{agents} has too many requests"))
            .help("raise limits.http_max_conns_per_client, or wait for fewer names at once"),
        400 if what.contains("HTTPS") => {
            Error::new(Kind::Invalid, format!("{agents} is spoken to through TLS")).help("write consuls://…")
        }
        500 if what.contains("Invalid Session TTL") => {
            Error::new(Kind::Invalid, format!("{agents} keeps no session of this length"))
                .help("ask for another one, such as session=15s, or change the servers' session_ttl_min")
        }
        // Said before anything is done.
        500 if what.contains("No cluster leader") => {
            Error::new(Kind::Unreachable, "the servers have no leader at present")
                .help("see whether a majority of them runs: consul operator raft list-peers")
        }
        500 if what.contains("Missing node registration") => {
            Error::new(Kind::Unreachable, format!("the node of the session is not in the catalog of {agents}"))
                .help("an agent that just started is there in a moment; with dc give a node of it, too: ?dc=…&node=…")
        }
        500 if what.contains("No path to datacenter") => {
            Error::new(Kind::Invalid, format!("{agents} has no way to such a datacenter"))
                .help("see consul catalog datacenters, and write ?dc=…")
        }
        500.. => Error::new(Kind::Unreachable, format!("{agents} cannot answer at present"))
            .unknown()
            .help("see whether a majority of the servers runs: consul operator raft list-peers"),
        _ => Error::new(Kind::Engine, format!("{agents} failed with status {status}")).unknown(),
    }
}

#[cfg(test)]
mod tests {
    use lockhouse_core::Happened::{self, No, Unknown};

    use super::*;

    #[test]
    fn every_word_of_consul_has_its_kind() {
        for (status, what, kind, happened) in [
            (403, "Permission denied", Kind::Denied, No),
            (413, "Request body too large", Kind::Invalid, No),
            (429, "Your IP is issuing too many concurrent connections", Kind::Unreachable, No),
            (500, "Invalid Session TTL '500000000', must be between [10s=24h0m0s]", Kind::Invalid, No),
            (500, "No cluster leader", Kind::Unreachable, No),
            (500, "Missing node registration", Kind::Unreachable, No),
            (500, "rpc error making call: leadership lost while committing log", Kind::Unreachable, Unknown),
            (418, "", Kind::Engine, Unknown),
        ] {
            let error = explain(Fault::Said(status, what.into()), "h:8500");
            assert_eq!((error.kind(), error.may_have_happened()), (kind, happened), "{what}: {error}");
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
