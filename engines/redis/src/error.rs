//! What Redis and the network say, told as Lockhouse's errors.

use std::time::Duration;

use lockhouse_core::{Error, Kind};
use redis::{ErrorKind, RedisError, ServerErrorKind};

/// The engine's name in errors and guarantees.
pub(crate) const ENGINE: &str = "redis";

/// Why a request got no answer that can be used.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// There was no connection to send it on.
    Connecting(RedisError),
    /// There was nobody to connect to, for this reason.
    Away(String),
    /// The sentinels know no master of this name.
    NoSuchMaster(String),
    /// It was sent; the server or the driver said so.
    Asking(RedisError),
    /// It was sent, and no answer came within this time.
    Silence(Duration),
    /// The answer is none that our scripts give.
    Answer(String),
}

/// The one translation: which kind of error it is, whether the request may have been carried out, and what to do.
pub(crate) fn explain(fault: Fault, server: &str) -> Error {
    let told = match fault {
        Fault::Connecting(error) => connecting(&error, server).because(error),
        Fault::Away(why) => Error::new(Kind::Unreachable, format!("{server} cannot be reached: {why}"))
            .help("see whether the servers run, and what redis-cli info replication says on each"),
        Fault::NoSuchMaster(name) => Error::new(Kind::Invalid, format!("the sentinels know no master {name:?}"))
            .help("redis-cli -p 26379 sentinel masters shows those they know"),
        Fault::Asking(error) => asking(&error, server).because(error),
        Fault::Silence(limit) => Error::new(Kind::TimedOut, format!("{server} did not answer within {limit:?}"))
            .unknown()
            .help("see whether the server is overloaded or the network is slow"),
        Fault::Answer(what) => {
            Error::new(Kind::Corrupt, format!("{server} gave an answer that is none of ours: {what}"))
                .unknown()
                .help("look for another program that uses the same keys, or give another prefix")
        }
    };
    told.engine(ENGINE)
}

/// Nothing was sent, whatever went wrong.
fn connecting(error: &RedisError, server: &str) -> Error {
    match error.kind() {
        ErrorKind::AuthenticationFailed => denied(server),
        ErrorKind::Server(_) | ErrorKind::Extension => by_code(error, server),
        ErrorKind::RESP3NotSupported => Error::new(Kind::Unsupported, format!("{server} is too old"))
            .help("Redis 6.2 or newer is needed, or Valkey"),
        ErrorKind::InvalidClientConfig => Error::new(Kind::Invalid, format!("{server} cannot be an address")),
        _ => {
            let help = "see whether the server runs, and whether its address and port are right";
            Error::new(Kind::Unreachable, format!("{server} cannot be reached")).help(help)
        }
    }
}

/// The request was sent: only an answer of the server's proves that it was not carried out.
fn asking(error: &RedisError, server: &str) -> Error {
    match error.kind() {
        ErrorKind::Server(_) | ErrorKind::Extension => by_code(error, server),
        ErrorKind::Parse | ErrorKind::UnexpectedReturnType => {
            Error::new(Kind::Engine, format!("the answer of {server} cannot be read")).unknown()
        }
        _ if error.is_timeout() => Error::new(Kind::TimedOut, format!("{server} did not answer in time")).unknown(),
        _ => Error::new(Kind::Unreachable, format!("the connection to {server} broke")).unknown(),
    }
}

/// The errors of the server, by the word they begin with.
///
/// A script is not undone when it fails on its way. Those below that are raised by a command inside a script are raised
/// by its first write, so nothing was done; those of which that is not certain are unknown.
fn by_code(error: &RedisError, server: &str) -> Error {
    let detail = error.detail().unwrap_or_default();
    let in_script = detail.contains("script");
    let unreachable = |what: &str| Error::new(Kind::Unreachable, format!("{server} {what}"));
    match error.code().unwrap_or_default() {
        "READONLY" => unreachable("is a replica, or was made one: it takes no writes")
            .help("give the address of the master, or use redis+sentinel://"),
        "MOVED" | "CROSSSLOT" => Error::new(Kind::Unsupported, format!("{server} is part of a cluster"))
            .help("write redis+cluster:// instead of redis://"),
        "LOADING" => unreachable("is still loading its data").help("it will answer by itself"),
        // A script of many keys is served by neither server while they are on their way from one to the other.
        "ASK" | "TRYAGAIN" => unreachable("is handing this lock over to another server of the cluster")
            .help("it will be served there by itself"),
        "CLUSTERDOWN" | "MASTERDOWN" => {
            unreachable("cannot serve this lock at present").help("see redis-cli cluster info, and info replication")
        }
        "BUSY" => unreachable("is busy with a long script").help("see redis-cli slowlog get"),
        "NOREPLICAS" => unreachable("has too few replicas to take writes").help("see min-replicas-to-write"),
        "OOM" => Error::new(Kind::Full, format!("{server} is out of memory")).help("raise its maxmemory"),
        "MISCONF" => Error::new(Kind::Full, format!("{server} cannot write its data to disk, and takes no writes"))
            .help("see whether its disk is full"),
        "NOAUTH" | "WRONGPASS" => denied(server),
        "NOPERM" if !in_script => rights(server),
        "NOPERM" => rights(server).unknown(),
        "NOSCRIPT" => Error::new(Kind::Engine, format!("{server} forgot a script while it was being sent")),
        "WRONGTYPE" => Error::new(Kind::Corrupt, format!("a key of this lock on {server} belongs to something else"))
            .unknown()
            .help("give the lock another name, or all locks another prefix"),
        // The words of Redis 7.2, and of 7.0.
        "ERR" if detail.contains("ACL failure") || detail.contains("user executing the script") => {
            rights(server).unknown()
        }
        "ERR" if detail.contains("WRONGTYPE") => {
            Error::new(Kind::Corrupt, format!("a key of this lock on {server} belongs to something else"))
                .unknown()
                .help("give the lock another name, or all locks another prefix")
        }
        "ERR" if detail.contains("cluster support disabled") => {
            Error::new(Kind::Unsupported, format!("{server} is no part of a cluster")).help("write redis:// instead")
        }
        "ERR" if detail.contains("max number of clients") => {
            unreachable("has as many clients as it takes").help("raise its maxclients")
        }
        _ => Error::new(Kind::Engine, format!("{server} failed")).unknown(),
    }
}

fn denied(server: &str) -> Error {
    Error::new(Kind::Denied, format!("{server} refuses our credentials"))
        .help("write redis://user:password@host, with what ACL GETUSER shows")
}

fn rights(server: &str) -> Error {
    Error::new(Kind::Denied, format!("{server} does not permit a command that locks need")).help(
        "permit @scripting, @string, @hash, @sortedset, @keyspace and @pubsub on the keys and channels of the prefix",
    )
}

/// Whether the script is to be sent whole.
pub(crate) fn is_missing_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// Whether the connection is of no use any more: it broke, or what it leads to is no master any more.
pub(crate) fn breaks_connection(error: &RedisError) -> bool {
    !matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension) || error.code() == Some("READONLY")
}

#[cfg(test)]
mod tests {
    use std::io;

    use lockhouse_core::Happened;
    use redis::{Value, parse_redis_value};

    use super::*;

    /// What the driver makes of a line that a server sends.
    fn said(line: &str) -> RedisError {
        let value: Value = parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
        value.extract_error().unwrap_err()
    }

    #[test]
    fn every_word_of_the_server_has_its_kind() {
        for (line, kind, happened) in [
            ("READONLY You can't write against a read only replica.", Kind::Unreachable, Happened::No),
            ("MOVED 3999 127.0.0.1:6381", Kind::Unsupported, Happened::No),
            ("ASK 3999 127.0.0.1:6381", Kind::Unreachable, Happened::No),
            ("LOADING Redis is loading the dataset in memory", Kind::Unreachable, Happened::No),
            ("CLUSTERDOWN Hash slot not served", Kind::Unreachable, Happened::No),
            ("OOM command not allowed when used memory > 'maxmemory'.", Kind::Full, Happened::No),
            ("MISCONF Redis is configured to save RDB snapshots", Kind::Full, Happened::No),
            ("NOAUTH Authentication required.", Kind::Denied, Happened::No),
            ("WRONGPASS invalid username-password pair", Kind::Denied, Happened::No),
            ("NOPERM this user has no permissions to run the 'evalsha' command", Kind::Denied, Happened::No),
            ("NOPERM The user executing the script can't run this command", Kind::Denied, Happened::Unknown),
            ("NOSCRIPT No matching script. Please use EVAL.", Kind::Engine, Happened::No),
            ("WRONGTYPE Operation against a key", Kind::Corrupt, Happened::Unknown),
            ("NOREPLICAS Not enough good replicas to write.", Kind::Unreachable, Happened::No),
            ("ERR something new", Kind::Engine, Happened::Unknown),
        ] {
            let error = explain(Fault::Asking(said(line)), "redis://x");
            assert_eq!((error.kind(), error.may_have_happened()), (kind, happened), "{line}: {error}");
            assert!(error.to_string().contains("redis://x"), "{error}");
        }
    }

    #[test]
    fn a_refused_connection_is_a_certain_no_and_a_broken_one_is_not() {
        let refused = || RedisError::from(io::Error::from(io::ErrorKind::ConnectionRefused));
        let error = explain(Fault::Connecting(refused()), "x");
        assert_eq!((error.kind(), error.may_have_happened()), (Kind::Unreachable, Happened::No));
        let reset = RedisError::from(io::Error::from(io::ErrorKind::ConnectionReset));
        let error = explain(Fault::Asking(reset), "x");
        assert_eq!((error.kind(), error.may_have_happened()), (Kind::Unreachable, Happened::Unknown));
        let error = explain(Fault::Silence(Duration::from_secs(1)), "x");
        assert_eq!((error.kind(), error.may_have_happened()), (Kind::TimedOut, Happened::Unknown));
    }
}
