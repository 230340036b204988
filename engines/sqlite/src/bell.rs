//! Hearing that another client has moved one's waiters: a named pipe beside the database, into which others write a
//! byte.
//!
//! A pipe and not a watch on the file: systems allow a user only so many of those, and not all of them have any.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use tokio::net::unix::pipe::Receiver;

use crate::client::{follow, open};

/// The pipe of one client. Without it nothing is ever heard, and the poll behind it does the work.
#[derive(Debug)]
pub(crate) struct Bell(Option<Pipe>);

#[derive(Debug)]
struct Pipe {
    heard: Receiver,
    /// A pipe that nobody has open for writing would always be ready: to tell that it has ended.
    _open: File,
}

impl Bell {
    /// Hangs up a bell beside the database. Must be called on a runtime with its I/O driver enabled.
    pub(crate) fn at(path: &Path, database: &Path) -> Self {
        let pipe = make(path, database);
        if let Err(error) = &pipe {
            tracing::debug!(%error, "no pipe beside the lock file: waiters of this client poll");
        }
        Self(pipe.ok())
    }

    /// Whether anything can be heard at all.
    pub(crate) fn hears(&self) -> bool {
        self.0.is_some()
    }

    /// Resolves when somebody has rung. Dropping the future loses nothing.
    pub(crate) async fn rung(&self) {
        let Some(Pipe { heard, .. }) = &self.0 else {
            return std::future::pending().await;
        };
        // An error of the driver means that the runtime is shutting down.
        if heard.readable().await.is_err() {
            return std::future::pending().await;
        }
        // Many rings are one.
        let mut bytes = [0; 256];
        while heard.try_read(&mut bytes).is_ok_and(|read| read > 0) {}
    }
}

fn make(path: &Path, database: &Path) -> io::Result<Pipe> {
    make_pipe(path)?;
    let pipe = open(path, false)?;
    follow(&pipe, &fs::metadata(database)?)?;
    Ok(Pipe { heard: Receiver::from_file(pipe)?, _open: open(path, true)? })
}

#[cfg(not(target_vendor = "apple"))]
fn make_pipe(path: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, Mode, mkfifoat};
    Ok(mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR)?)
}

/// The system call is not offered by our library there: waiters poll.
#[cfg(target_vendor = "apple")]
fn make_pipe(_path: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Rings somebody's bell.
///
/// Failing is no harm: the other one also looks from time to time. Nor is a full pipe: it has been rung often enough.
pub(crate) fn ring(path: &Path) {
    let rung = open(path, true).and_then(|mut pipe| {
        // Never into anything else that stands in its place.
        if pipe.metadata()?.file_type().is_fifo() {
            pipe.write_all(b"!")
        } else {
            Err(io::ErrorKind::InvalidInput.into())
        }
    });
    if let Err(error) = rung {
        tracing::trace!(%error, "cannot wake another client of the lock file");
    }
}
