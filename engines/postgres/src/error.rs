//! What PostgreSQL and the network say, told as Lockhouse's errors.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::{Error, Kind};
use tokio_postgres::error::{Severity, SqlState};

/// The engine's name in errors and guarantees.
pub(crate) const ENGINE: &str = "postgres";

/// Why a request got no answer that can be used.
#[derive(Debug)]
pub(crate) enum Fault {
    /// There was no connection to send it on.
    Connecting(Unconnected),
    /// There was none within this time.
    NoConnection(Duration),
    /// It was sent; the server or the driver said so.
    Asking(tokio_postgres::Error),
    /// It was sent, and no answer came within this time.
    Silence(Duration),
    /// A claim had its turn, and no connection could be had within this time to hold its lock by; why, if it is known.
    Unheld(Duration, Option<String>),
    /// A pooler lends the server's connections for single transactions.
    Pooled,
    /// The server takes no writes.
    ReadOnly,
    /// The answer is none that our statements give.
    Answer(String),
    /// Told in full where it was found.
    Told(Box<Error>),
}

/// Why there is no connection. Everybody who waits for one is told.
#[derive(Debug, Clone)]
pub(crate) enum Unconnected {
    /// The server or the network refused.
    Refused(Arc<tokio_postgres::Error>),
    /// Connecting took too long.
    Slow,
}

impl From<tokio_postgres::Error> for Unconnected {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Refused(Arc::new(error))
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Told(Box::new(error))
    }
}

/// The one translation: which kind of error it is, whether the request may have been carried out, and what to do.
pub(crate) fn explain(fault: Fault, server: &str) -> Error {
    let told = match fault {
        Fault::Connecting(Unconnected::Refused(error)) if error.code().is_some() => {
            by_code(&error, server).because(message(&error))
        }
        Fault::Connecting(Unconnected::Refused(error)) => out_of_reach(server).because(message(&error)),
        Fault::Connecting(Unconnected::Slow) => out_of_reach(server).because("connecting took too long"),
        Fault::NoConnection(limit) => Error::new(Kind::TimedOut, format!("no connection to {server} within {limit:?}"))
            .help("see whether the server is overloaded or the network is slow"),
        Fault::Asking(error) => match error.code() {
            Some(_) => by_code(&error, server).because(message(&error)),
            None => unreachable(&format!("the connection to {server} broke")).unknown().because(message(&error)),
        },
        Fault::Silence(limit) => Error::new(Kind::TimedOut, format!("{server} did not answer within {limit:?}"))
            .unknown()
            .help("see whether the server is overloaded or the network is slow"),
        Fault::Unheld(limit, reason) => {
            let what = format!("no connection to {server} could hold the lock within {limit:?}");
            Error::new(Kind::TimedOut, what)
                .unknown()
                .because(reason.unwrap_or_else(|| "it does not answer".into()))
                .help("see whether the server takes more connections, and whether the account may do what locks need")
        }
        Fault::Pooled => {
            Error::new(Kind::Unsupported, format!("{server} is a pooler that lends a connection for one transaction"))
                .help("give the address of the server itself, or of a pool in session mode")
        }
        Fault::ReadOnly => {
            Error::new(Kind::Unsupported, format!("{server} is a replica, or read-only: it takes no writes"))
                .help("give the address of the primary")
        }
        Fault::Answer(what) => {
            Error::new(Kind::Corrupt, format!("{server} gave an answer that is none of ours: {what}"))
                .unknown()
                .help("see whether somebody changed the functions, or give ?table= another name")
        }
        Fault::Told(error) => *error,
    };
    told.engine(ENGINE)
}

/// The errors of the server. A statement that fails is rolled back as a whole, so nothing was done, except where the
/// server was stopped: that may have come after the commit and before its answer.
fn by_code(error: &tokio_postgres::Error, server: &str) -> Error {
    let code = error.code().cloned().unwrap_or(SqlState::INTERNAL_ERROR);
    let class = &code.code()[..2];
    match &code {
        &SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            Error::new(Kind::Denied, format!("{server} refuses our credentials"))
                .help("write postgres://user:password@host/database, and see pg_hba.conf")
        }
        &SqlState::INVALID_CATALOG_NAME => Error::new(Kind::Invalid, format!("there is no such database: {server}"))
            .help("create it with createdb, or name another one"),
        &SqlState::READ_ONLY_SQL_TRANSACTION => {
            unreachable(&format!("{server} is a replica, or was made one: it takes no writes"))
                .help("give the address of the primary")
        }
        &SqlState::INSUFFICIENT_PRIVILEGE => rights(server),
        &SqlState::UNDEFINED_TABLE | &SqlState::UNDEFINED_FUNCTION | &SqlState::INVALID_SCHEMA_NAME => {
            Error::new(Kind::Corrupt, format!("the tables on {server} are not there, or not all of them"))
                .help("connect once with ?create=yes, or run the statements that Postgres::ddl() gives")
        }
        &SqlState::TOO_MANY_CONNECTIONS => {
            unreachable(&format!("{server} has as many clients as it takes")).help("raise its max_connections")
        }
        &SqlState::ADMIN_SHUTDOWN | &SqlState::CRASH_SHUTDOWN | &SqlState::DATABASE_DROPPED => {
            unreachable(&format!("{server} was stopped, or ended our connection")).unknown()
        }
        &SqlState::CANNOT_CONNECT_NOW => {
            unreachable(&format!("{server} is starting up, or shutting down")).help("it will answer by itself")
        }
        &SqlState::QUERY_CANCELED | &SqlState::LOCK_NOT_AVAILABLE => {
            Error::new(Kind::TimedOut, format!("{server} gave up on the statement"))
                .help("see in pg_stat_activity who has had a transaction open for long")
        }
        &SqlState::T_R_DEADLOCK_DETECTED | &SqlState::T_R_SERIALIZATION_FAILURE => {
            unreachable(&format!("{server} took the statement back because of another one"))
        }
        &SqlState::DISK_FULL | &SqlState::OUT_OF_MEMORY => {
            Error::new(Kind::Full, format!("{server} is full")).help("free some space")
        }
        _ if class == "08" => unreachable(&format!("the connection to {server} broke")).unknown(),
        _ if class == "53" => unreachable(&format!("{server} has too little of something")),
        _ => Error::new(Kind::Engine, format!("{server} failed")).unknown(),
    }
}

fn out_of_reach(server: &str) -> Error {
    unreachable(&format!("{server} cannot be reached"))
        .help("see whether the server runs, and whether its address and port are right")
}

fn unreachable(what: &str) -> Error {
    Error::new(Kind::Unreachable, what)
}

fn rights(server: &str) -> Error {
    Error::new(Kind::Denied, format!("{server} does not permit what locks need"))
        .help("grant the rights that engines/postgres/README.md lists, or give ?table=schema.name of your own")
}

/// Why a request got no answer, in a few words.
pub(crate) fn reason(fault: &Fault) -> String {
    match fault {
        Fault::Connecting(Unconnected::Refused(error)) => message(error),
        Fault::Asking(error) => message(error),
        Fault::Connecting(Unconnected::Slow) => "connecting took too long".into(),
        Fault::NoConnection(limit) | Fault::Silence(limit) => format!("no answer within {limit:?}"),
        Fault::Unheld(_, reason) => reason.clone().unwrap_or_default(),
        Fault::Pooled => "a pooler lends connections for single transactions".into(),
        Fault::ReadOnly => "it takes no writes".into(),
        Fault::Answer(what) => what.clone(),
        Fault::Told(error) => error.to_string(),
    }
}

/// What the server says in its own words, without the driver's around it.
fn message(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(said), _) => format!("{} ({})", said.message(), said.code().code()),
        (None, Some(source)) => source.to_string(),
        (None, None) => error.to_string(),
    }
}

/// Whether the connection is of no use any more.
pub(crate) fn breaks_connection(error: &tokio_postgres::Error) -> bool {
    let ends = [Some(Severity::Fatal), Some(Severity::Panic)];
    error.as_db_error().is_none_or(|said| ends.contains(&said.parsed_severity()))
}

/// Whether a statement was taken back because of somebody else's: nothing has happened, and it is worth another try.
pub(crate) fn is_taken_back(fault: &Fault) -> bool {
    is_one_of(fault, &[SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE])
}

/// Whether a statement that waited for a lock was taken back without having got it: its time was over, or it was in the
/// way of another one. It is worth another try.
pub(crate) fn gave_up_waiting(fault: &Fault) -> bool {
    is_taken_back(fault) || is_one_of(fault, &[SqlState::LOCK_NOT_AVAILABLE, SqlState::QUERY_CANCELED])
}

fn is_one_of(fault: &Fault, codes: &[SqlState]) -> bool {
    matches!(fault, Fault::Asking(error) if error.code().is_some_and(|code| codes.contains(code)))
}
