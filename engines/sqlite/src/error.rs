//! What SQLite and the file system say, told as Lockhouse's errors.

use std::io;
use std::path::Path;

use lockhouse_core::{Error, Kind};
use rusqlite::ffi;

/// The engine's name in errors and guarantees.
pub(crate) const ENGINE: &str = "sqlite";

/// Why a transaction was given up.
#[derive(Debug)]
pub(crate) enum Fault {
    /// SQLite said so.
    Sqlite(rusqlite::Error),
    /// The file system said so, while this was being done.
    File(&'static str, io::Error),
    /// The engine's own rules said so.
    Refused(Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl Fault {
    /// Whether another connection was in the way: nothing was done, and it can be tried again.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(
            self,
            Self::Sqlite(error) if matches!(
                error.sqlite_error_code(),
                Some(ffi::ErrorCode::DatabaseBusy | ffi::ErrorCode::DatabaseLocked)
            )
        )
    }

    /// Whether SQLite undoes the transaction for certain when its commit fails with this.
    pub(crate) fn undone_on_commit(&self) -> bool {
        match self {
            Self::Sqlite(error) => self.is_busy() || error.sqlite_error_code() == Some(ffi::ErrorCode::DiskFull),
            Self::File(..) | Self::Refused(_) => true,
        }
    }
}

/// The one translation: which kind of error it is, and what a person can do about it.
pub(crate) fn explain(fault: Fault, path: &Path) -> Error {
    let shown = path.display();
    let error = match fault {
        Fault::Refused(error) => return error.engine(ENGINE),
        Fault::File(doing, error) => return explain_io(doing, error, path).engine(ENGINE),
        Fault::Sqlite(error) => error,
    };
    let (code, extended) = match &error {
        rusqlite::Error::SqliteFailure(failure, _) => (failure.code, failure.extended_code),
        // A value of another type, out of range, or a row that must be there and is not.
        _ => return damaged(path).because(error).engine(ENGINE),
    };
    let told = match code {
        ffi::ErrorCode::DatabaseBusy | ffi::ErrorCode::DatabaseLocked => {
            Error::new(Kind::TimedOut, format!("others kept {shown} busy all the time"))
                .help("look for a stopped process or a backup that keeps the file locked")
        }
        ffi::ErrorCode::NotADatabase | ffi::ErrorCode::DatabaseCorrupt => damaged(path),
        ffi::ErrorCode::ReadOnly | ffi::ErrorCode::PermissionDenied | ffi::ErrorCode::CannotOpen => denied(path),
        ffi::ErrorCode::DiskFull => full(path),
        // The file that processes share as memory could not grow: SQLite has no better word for a full disk there.
        ffi::ErrorCode::SystemIoFailure if extended == ffi::SQLITE_IOERR_SHMSIZE => full(path),
        ffi::ErrorCode::SystemIoFailure => {
            Error::new(Kind::Engine, format!("the disk failed to read or write {shown}"))
                .help("look into the system's log for errors of the disk or the file system")
        }
        ffi::ErrorCode::Unknown if is_schema(&error) => damaged(path),
        _ => Error::new(Kind::Engine, format!("SQLite failed on {shown}")),
    };
    told.because(error).engine(ENGINE)
}

/// A table or column that every file of ours has is missing: SQLite gives that no code of its own.
fn is_schema(error: &rusqlite::Error) -> bool {
    let text = error.to_string();
    text.contains("no such table") || text.contains("no such column") || text.contains("no such index")
}

fn explain_io(doing: &'static str, error: io::Error, path: &Path) -> Error {
    let told = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => denied(path),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => full(path),
        io::ErrorKind::NotADirectory => {
            Error::new(Kind::Invalid, format!("a part of {} is not a folder", path.display())).help("give another path")
        }
        _ => Error::new(Kind::Engine, format!("{doing} failed for {}", path.display()))
            .help("see whether its folder and its disk are in order, or give another path"),
    };
    told.because(error)
}

fn damaged(path: &Path) -> Error {
    Error::new(Kind::Corrupt, format!("{} is not a file that Lockhouse wrote, or it is damaged", path.display()))
        .help("it was left as it is: give another path, or move the file away")
}

fn denied(path: &Path) -> Error {
    Error::new(Kind::Denied, format!("cannot write {}", path.display()))
        .help("the file and its folder must be writable: check their permissions and owner")
}

fn full(path: &Path) -> Error {
    Error::new(Kind::Full, format!("no space is left for {}", path.display())).help("free some space on its disk")
}

/// A file of another program, or of none.
pub(crate) fn foreign(path: &Path) -> Error {
    Error::new(Kind::Corrupt, format!("{} belongs to another program", path.display()))
        .help("it was left as it is: give another path")
}

/// A file of a Lockhouse that this one does not know yet.
pub(crate) fn newer(path: &Path, version: i64) -> Error {
    let what = format!("{} was written by a newer version of Lockhouse (format {version})", path.display());
    Error::new(Kind::Corrupt, what).help("update Lockhouse, or give another path")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(code: i32) -> Error {
        explain(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None).into(), Path::new("/x/locks.db"))
    }

    #[test]
    fn every_error_has_its_kind_and_names_the_file() {
        for (code, kind) in [
            (ffi::SQLITE_BUSY, Kind::TimedOut),
            (ffi::SQLITE_NOTADB, Kind::Corrupt),
            (ffi::SQLITE_CORRUPT, Kind::Corrupt),
            (ffi::SQLITE_READONLY, Kind::Denied),
            (ffi::SQLITE_CANTOPEN, Kind::Denied),
            (ffi::SQLITE_FULL, Kind::Full),
            (ffi::SQLITE_IOERR_SHMSIZE, Kind::Full),
            (ffi::SQLITE_IOERR_READ, Kind::Engine),
            (ffi::SQLITE_INTERNAL, Kind::Engine),
        ] {
            let error = told(code);
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains("/x/locks.db"), "{error}");
        }
    }

    #[test]
    fn only_a_busy_or_full_commit_is_known_to_be_undone() {
        let fault = |code| Fault::from(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
        assert!(fault(ffi::SQLITE_BUSY).undone_on_commit());
        assert!(fault(ffi::SQLITE_FULL).undone_on_commit());
        assert!(!fault(ffi::SQLITE_IOERR_WRITE).undone_on_commit());
    }
}
