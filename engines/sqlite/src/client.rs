//! A client of the file, and how others see whether it lives: by the lock on a small file of its own.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockhouse_core::{ClaimId, Clock, Moment};
use rustix::fs::OFlags;
use tokio::sync::Notify;

use crate::bell::{self, Bell};
use crate::error::Fault;
use crate::ground::beside;
use crate::waiters::Waiters;

/// For so long a client seen alive is not looked at again. It is a part of how late a crash is noticed.
const TRUST: Duration = Duration::from_millis(50);
/// More peers than this and the oldest knowledge is thrown away: it can be had again.
const PEERS: usize = 4096;
/// How often a new client tries to lock its file. Others keep it locked only for the moment of a look.
const ATTEMPTS: u32 = 1000;

/// What both sides of a client share.
#[derive(Debug)]
pub(crate) struct Client {
    /// 63 random bits.
    pub(crate) id: i64,
    /// Local claims that wait to be told of their turn.
    pub(crate) waiters: Arc<Waiters>,
    /// Tells upkeep that the log has grown.
    pub(crate) grown: Arc<Notify>,
    /// The database.
    database: PathBuf,
    /// Locked as long as the client lives.
    _file: File,
    /// Clients that were seen alive, and when.
    peers: Mutex<HashMap<i64, Moment>>,
    /// Claims that may be in the file and are bound to this client.
    claims: Mutex<HashSet<ClaimId>>,
}

impl Client {
    /// A new client of an existing database.
    pub(crate) fn new(database: &Path) -> Result<Self, Fault> {
        let fault = |error| Fault::File("creating the client's file", error);
        for _ in 0..ATTEMPTS {
            // 63 bits, so that a file name and a column show the same digits.
            let id = (rand::random::<u64>() >> 1).cast_signed();
            if let Some(file) = settle_down(database, id).map_err(fault)? {
                return Ok(Self {
                    id,
                    waiters: Arc::default(),
                    grown: Arc::default(),
                    database: database.to_owned(),
                    _file: file,
                    peers: Mutex::default(),
                    claims: Mutex::default(),
                });
            }
        }
        Err(fault(io::Error::other("others keep taking it away")))
    }

    /// Hangs up the bell that others ring.
    pub(crate) fn bell(&self) -> Bell {
        Bell::at(&bell_of(&self.database, self.id), &self.database)
    }

    /// Notes that a claim may be in the file from now on. Says whether that is news.
    pub(crate) fn keeps(&self, id: ClaimId) -> bool {
        self.claims().insert(id)
    }

    /// Notes that a claim is not in the file any more, or not bound to this client.
    pub(crate) fn keeps_no_more(&self, id: &ClaimId) {
        self.claims().remove(id);
    }

    /// Whether a client has certainly ended. What is not known is never "dead".
    pub(crate) fn is_dead(&self, client: Option<i64>) -> bool {
        let Some(client) = client.filter(|&client| client != self.id) else {
            return false;
        };
        let now = Clock::Boot.now();
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if peers.get(&client).is_some_and(|&seen| now.since(seen) < TRUST) {
            return false;
        }
        if lock_of_the_dead(&self.database, client).is_some() {
            return true;
        }
        if peers.len() >= PEERS {
            peers.clear();
        }
        peers.insert(client, now);
        false
    }

    /// Tells another client that one of its claims has moved.
    pub(crate) fn ring(&self, client: i64) {
        bell::ring(&bell_of(&self.database, client));
    }

    fn claims(&self) -> MutexGuard<'_, HashSet<ClaimId>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // With claims left behind the file stays too, unlocked: the proof that they can be swept. Upkeep removes both.
        if self.claims().is_empty() {
            remove_files(&self.database, self.id);
        }
    }
}

/// Removes the files of a client that has no claims any more.
pub(crate) fn remove_files(database: &Path, client: i64) {
    // Not every client has a bell. The file that shows whether it lives goes last: by it upkeep finds both.
    let _ = fs::remove_file(bell_of(database, client));
    let _ = fs::remove_file(file_of(database, client));
}

/// All clients of a database that have not been tidied away.
pub(crate) fn clients(database: &Path) -> io::Result<Vec<i64>> {
    let Some(prefix) = beside(database, "-client-").file_name().and_then(|name| name.to_str().map(str::to_owned))
    else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(database.parent().unwrap_or(Path::new("/")))? {
        let entry = entry?;
        let id = entry.file_name().to_str().and_then(|name| i64::from_str_radix(name.strip_prefix(&prefix)?, 16).ok());
        found.extend(id);
    }
    Ok(found)
}

/// The lock of a client's file, if the client is dead. As long as it is kept, no new client can settle down there.
///
/// It is a shared lock: two that look at the same time must not take each other for a living client. That the file is
/// not there proves nothing, since somebody may have cleaned up the folder: then the lease decides.
pub(crate) fn lock_of_the_dead(database: &Path, client: i64) -> Option<File> {
    let file = open(&file_of(database, client), false).ok()?;
    file.try_lock_shared().is_ok().then_some(file)
}

fn file_of(database: &Path, client: i64) -> PathBuf {
    beside(database, &format!("-client-{client:016x}"))
}

fn bell_of(database: &Path, client: i64) -> PathBuf {
    beside(database, &format!("-client-{client:016x}-bell"))
}

/// Follows no links and waits for nobody: in a folder shared between users, the name may have been made by another one.
pub(crate) fn open(path: &Path, write: bool) -> io::Result<File> {
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or(0);
    OpenOptions::new().read(!write).write(write).custom_flags(flags).open(path)
}

/// Creates and locks a client's file. `None` when somebody took the file for one of a dead client before it was locked.
fn settle_down(database: &Path, id: i64) -> io::Result<Option<File>> {
    let path = file_of(database, id);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    follow(&file, &fs::metadata(database)?)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let there =
        fs::symlink_metadata(&path).is_ok_and(|found| file.metadata().is_ok_and(|own| own.ino() == found.ino()));
    Ok(there.then_some(file))
}

/// Gives the file the group and the permissions of the database: who may use one may use the other, and nobody else.
pub(crate) fn follow(file: &File, database: &fs::Metadata) -> io::Result<()> {
    let mut mode = database.mode() & 0o666;
    if file.metadata()?.gid() != database.gid() && fchown(file, None, Some(database.gid())).is_err() {
        // In another group the same bits would let other people in.
        mode &= !0o060;
    }
    file.set_permissions(Permissions::from_mode(mode))
}
