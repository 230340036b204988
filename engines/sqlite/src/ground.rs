//! What the database file stands on: its folder, its file system, and what is in the file already.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use lockhouse_core::{Error, Kind, Result as Told};

use crate::error::{Fault, foreign, newer};

/// `application_id` of our files: "Lkhs".
pub(crate) const APPLICATION_ID: i64 = 0x4c6b_6873;
/// `user_version` of our files: grows when the schema changes.
pub(crate) const FORMAT: i64 = 1;

/// Readable and writable by its owner alone: the file contains the secrets of claims. Who wants to share it between
/// users sets wider permissions once; the files beside it follow.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// A file beside the database: its name with something at the end.
pub(crate) fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// Makes sure that there is a file, possibly an empty one, on a local file system, and that it is not somebody else's.
pub(crate) fn prepare(path: &Path) -> Result<(), Fault> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => {
            let what = format!("{} is a folder", path.display());
            Err(Error::new(Kind::Invalid, what).help("give the path of a file in it").into())
        }
        Ok(_) => {
            refuse_networks(path)?;
            inspect(path)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().unwrap_or(Path::new("/"));
            DirBuilder::new()
                .recursive(true)
                .mode(FOLDER_MODE)
                .create(folder)
                .map_err(|error| Fault::File("creating the folder", error))?;
            refuse_networks(folder)?;
            match OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    Err(Fault::File("creating the file", error))
                }
                _ => Ok(()),
            }
        }
        Err(error) => Err(Fault::File("looking at the file", error)),
    }
}

/// Looks at the first bytes, so that a file which is not ours is refused before SQLite has touched it: SQLite would
/// make files beside it, and might carry over what another program's crash left there.
fn inspect(path: &Path) -> Result<(), Fault> {
    // POSIX file locks are dropped when *any* descriptor of the file is closed by the process. While a connection of
    // this process is open there is a `-shm` file, and SQLite itself tells whose file it is: see `open.rs`.
    if beside(path, "-shm").exists() {
        return Ok(());
    }
    let mut header = Vec::with_capacity(100);
    File::open(path)
        .and_then(|file| file.take(100).read_to_end(&mut header))
        .map_err(|error| Fault::File("reading the file", error))?;
    Ok(judge(&header, path)?)
}

/// <https://www.sqlite.org/fileformat.html#the_database_header>
fn judge(header: &[u8], path: &Path) -> Told<()> {
    if header.is_empty() {
        return Ok(());
    }
    if header.len() < 100 || !header.starts_with(b"SQLite format 3\0") {
        return Err(foreign(path));
    }
    let number = |at: usize| header[at..at + 4].iter().fold(0, |sum, &byte| sum << 8 | i64::from(byte));
    let (version, application, wal) = (number(60), number(68), header[18] == 2);
    match application {
        APPLICATION_ID if version > FORMAT => Err(newer(path, version)),
        APPLICATION_ID => Ok(()),
        // An empty database is fine, and SQLite will say whether it is empty. Ours carry the id before they become WAL.
        0 if !wal => Ok(()),
        _ => Err(foreign(path)),
    }
}

/// File locks and shared memory do not reach across machines there, so two holders could be in at once.
fn refuse_networks(path: &Path) -> Result<(), Fault> {
    let Some(kind) = network(path).map_err(|error| Fault::File("looking at the file system", error))? else {
        return Ok(());
    };
    let what =
        format!("{} is on a network file system ({kind}), which does not keep locks between machines", path.display());
    Err(Error::new(Kind::Unsupported, what).help("use a local disk, or an engine that serves several machines").into())
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn network(path: &Path) -> io::Result<Option<&'static str>> {
    let magic = rustix::fs::statfs(path)?.f_type;
    // The type of this field differs between architectures; the numbers are 32 bits wide.
    Ok(network_name(magic as u32))
}

/// No portable way to ask: the README says that the disk must be local.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn network(_path: &Path) -> io::Result<Option<&'static str>> {
    Ok(None)
}

/// The numbers of statfs(2) for file systems that are shared between machines.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn network_name(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0x0000_6969 => "NFS",
        0x0000_517b | 0xff53_4d42 | 0xfe53_4d42 => "SMB",
        0x0102_1997 => "9P",
        0x00c3_6400 => "Ceph",
        0x0bd0_0bd0 => "Lustre",
        0x4750_4653 => "GPFS",
        0x1983_0326 => "BeeGFS",
        0x0116_1970 => "GFS2",
        0x7461_636f => "OCFS2",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x7375_7245 => "Coda",
        0x0000_564c => "NCP",
        0x786f_4256 => "VirtualBox shared folder",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn network_file_systems_are_told_from_local_ones() {
        assert_eq!(network_name(0x6969), Some("NFS"));
        assert_eq!(network_name(0xff53_4d42), Some("SMB"));
        for local in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x2fc1_2fc1, 0x794c_7630] {
            assert_eq!(network_name(local), None);
        }
        assert_eq!(network(Path::new("/")).unwrap(), None);
    }

    #[test]
    fn short_and_strange_headers_are_foreign() {
        assert!(judge(b"", Path::new("x")).is_ok());
        for header in [&b"S"[..], b"SQLite format 3\0", &[0; 100], &[b'x'; 100]] {
            assert_eq!(judge(header, Path::new("x")).unwrap_err().kind(), Kind::Corrupt);
        }
    }
}
