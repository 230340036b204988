//! What the server, the driver and the network say, told as Lockhouse's errors.

use std::time::Duration;

use lockhouse_core::{Error, Kind};
use mysql_async::{Error as DriverError, ServerError};

/// The engine's name in errors and guarantees.
pub(crate) const ENGINE: &str = "mysql";

/// Why a request got no answer that can be used.
#[derive(Debug)]
pub(crate) enum Fault {
    /// There was no connection to send it on.
    Connecting(DriverError),
    /// It was sent; the server or the driver said so.
    Asking {
        /// What was said.
        error: DriverError,
        /// Something was sent that is carried out without hearing from us again.
        final_word: bool,
    },
    /// No answer came within this time.
    Silence {
        /// How long it was waited for.
        limit: Duration,
        /// Something was sent that is carried out without hearing from us again.
        final_word: bool,
    },
    /// The answer is none that our statements give.
    Answer(String),
    /// The engine itself refuses: nothing is carried out.
    Refusal(Error),
}

impl Fault {
    /// The server ended our transaction in favour of another one: nothing was carried out, and it can be tried again.
    pub(crate) fn is_deadlock(&self) -> bool {
        matches!(self, Self::Asking { error: DriverError::Server(error), .. } if error.code == 1213)
    }

    /// Somebody else has the row: at once, after a wait, or because we would have waited for each other.
    pub(crate) fn is_busy(&self) -> bool {
        let busy = |code| matches!(code, 1205 | 1213 | 3572);
        matches!(self, Self::Asking { error: DriverError::Server(error), .. } if busy(error.code))
    }

    /// Whether the server said so itself, and had not begun with what it was told.
    pub(crate) fn is_the_servers(&self) -> bool {
        matches!(self, Self::Asking { error: DriverError::Server(error), .. } if !interrupted(error.code))
    }

    /// Whether the server says that there is no such table.
    pub(crate) fn is_missing_table(&self) -> bool {
        matches!(self, Self::Asking { error: DriverError::Server(error), .. } if error.code == 1146)
    }

    /// Whether the server says that the account may not do that.
    pub(crate) fn is_denied(&self) -> bool {
        let denied = |code| matches!(code, 1044 | 1142 | 1143);
        matches!(self, Self::Asking { error: DriverError::Server(error), .. } if denied(error.code))
    }

    /// Other connections that were made before this happened are as good as this one.
    pub(crate) fn breaks_connections(&self) -> bool {
        match self {
            Self::Asking { error, .. } => error.is_fatal(),
            Self::Connecting(_) | Self::Silence { .. } => true,
            Self::Answer(_) | Self::Refusal(_) => false,
        }
    }
}

/// The one translation: which kind of error it is, whether the request may have been carried out, and what to do.
pub(crate) fn explain(fault: Fault, server: &str) -> Error {
    let unknown_if = |unknown: bool, error: Error| if unknown { error.unknown() } else { error };
    let told = match fault {
        Fault::Connecting(DriverError::Server(error)) => by_code(&error, server).because(error),
        Fault::Connecting(error) => Error::new(Kind::Unreachable, format!("{server} cannot be reached"))
            .help("see whether the server runs, and whether its address and port are right")
            .because(error),
        Fault::Asking { error: DriverError::Server(error), final_word } => {
            unknown_if(final_word && interrupted(error.code), by_code(&error, server)).because(error)
        }
        Fault::Asking { error, final_word } => {
            let told = Error::new(Kind::Unreachable, format!("the connection to {server} broke"));
            unknown_if(final_word, told).because(error)
        }
        Fault::Silence { limit, final_word } => {
            let told = Error::new(Kind::TimedOut, format!("{server} did not answer within {limit:?}"))
                .help("see whether the server is overloaded or the network is slow");
            unknown_if(final_word, told)
        }
        Fault::Answer(what) => {
            Error::new(Kind::Corrupt, format!("{server} gave an answer that is none of ours: {what}"))
                .unknown()
                .help("look for another program that uses the same tables, or give others with ?table=")
        }
        Fault::Refusal(error) => error,
    };
    told.engine(ENGINE)
}

/// The server was told to stop while it was at work: it may have been done with it.
fn interrupted(code: u16) -> bool {
    matches!(
        code,
        1053 | 1077 | 1078 | 1079 | 1080 | 1152 | 1159 | 1160 | 1161 | 1180 | 1184 | 1317 | 1927 | 1969 | 3024
    )
}

/// The errors of the server, by their numbers. A statement that fails is undone, and its transaction with it, because
/// the connection is not used again.
fn by_code(error: &ServerError, server: &str) -> Error {
    let unreachable = |what: &str| Error::new(Kind::Unreachable, format!("{server} {what}"));
    match error.code {
        1044 | 1045 | 1251 | 1698 | 1862 | 3118 | 3955 | 4151 => {
            Error::new(Kind::Denied, format!("{server} refuses our credentials"))
                .help("write mysql://user:password@host/database, with an account that may use that database")
        }
        1142 | 1143 | 1227 | 1370 => {
            Error::new(Kind::Denied, format!("{server} does not permit a statement that locks need"))
                .help("GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON the database TO the account")
        }
        1049 => Error::new(Kind::Invalid, format!("{server} has no such database")).help("CREATE DATABASE it first"),
        1146 | 1054 => Error::new(Kind::Corrupt, format!("the tables of the locks on {server} are not what they were"))
            .help("see whether somebody dropped or changed them; connecting again creates what is missing"),
        1040 | 1203 | 1226 => {
            unreachable("has as many connections as it takes").help("raise max_connections, or the account's limit")
        }
        1129 | 1130 => unreachable("does not take connections from here").help("see the hosts of the account"),
        1205 | 1213 => Error::new(Kind::TimedOut, format!("{server} was busy with other claims on the same name"))
            .help("look for long transactions on the tables of the locks: nobody else should change them"),
        1290 | 1792 | 1836 | 3100 | 3750 => {
            unreachable("is a replica, or was made one: it takes no writes").help("give the address of the primary")
        }
        1047 => unreachable("is a node of a cluster that cannot serve at present").help("see wsrep_cluster_status"),
        1665 => Error::new(Kind::Unsupported, format!("{server} logs statements, not rows"))
            .help("SET GLOBAL binlog_format = 'ROW', or 'MIXED'"),
        1021 | 1114 | 1041 | 1037 | 1038 => {
            Error::new(Kind::Full, format!("{server} has no space left")).help("free some space on its disk")
        }
        1153 => Error::new(Kind::Invalid, "the value is too large").help("raise max_allowed_packet, or store less"),
        1969 | 3024 => Error::new(Kind::TimedOut, format!("{server} took longer than its own limit for a statement")),
        code if interrupted(code) => unreachable("was stopped, or ended our connection"),
        _ => Error::new(Kind::Engine, format!("{server} failed")),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use lockhouse_core::Happened;

    use super::*;

    fn said(code: u16) -> DriverError {
        DriverError::Server(ServerError { code, message: "said".into(), state: "HY000".into() })
    }

    #[test]
    fn every_number_of_the_server_has_its_kind() {
        for (code, kind, happened) in [
            (1045, Kind::Denied, Happened::No),
            (1142, Kind::Denied, Happened::No),
            (1049, Kind::Invalid, Happened::No),
            (1040, Kind::Unreachable, Happened::No),
            (1205, Kind::TimedOut, Happened::No),
            (1290, Kind::Unreachable, Happened::No),
            (1114, Kind::Full, Happened::No),
            (1146, Kind::Corrupt, Happened::No),
            (1053, Kind::Unreachable, Happened::Unknown),
            (1927, Kind::Unreachable, Happened::Unknown),
            (1064, Kind::Engine, Happened::No),
        ] {
            let error = explain(Fault::Asking { error: said(code), final_word: true }, "db:3306");
            assert_eq!((error.kind(), error.may_have_happened()), (kind, happened), "{code}: {error}");
        }
    }

    #[test]
    fn what_was_not_the_final_word_did_not_happen() {
        let reset = || DriverError::from(io::Error::from(io::ErrorKind::ConnectionReset));
        for (fault, kind, happened) in [
            (Fault::Connecting(reset()), Kind::Unreachable, Happened::No),
            (Fault::Asking { error: reset(), final_word: false }, Kind::Unreachable, Happened::No),
            (Fault::Asking { error: reset(), final_word: true }, Kind::Unreachable, Happened::Unknown),
            (Fault::Silence { limit: Duration::ZERO, final_word: false }, Kind::TimedOut, Happened::No),
            (Fault::Silence { limit: Duration::ZERO, final_word: true }, Kind::TimedOut, Happened::Unknown),
        ] {
            let error = explain(fault, "db:3306");
            assert_eq!((error.kind(), error.may_have_happened()), (kind, happened), "{error}");
        }
    }
}
