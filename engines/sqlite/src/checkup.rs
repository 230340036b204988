//! What the engine says of its file, for people.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use lockhouse_core::Checkup;
use rusqlite::Connection;

use crate::client::{clients, lock_of_the_dead};
use crate::error::Fault;
use crate::ground::beside;

/// Less room than this on the disk is worth a word: the log may take some of these megabytes before it is cut back.
const LITTLE_ROOM_BYTES: u64 = 64 << 20;
/// Write permission for everybody, and the bit of a folder in which everybody may remove only what is theirs.
const OTHERS_WRITE: u32 = 0o002;
const GROUP_WRITES: u32 = 0o020;
const STICKY: u32 = 0o1000;

/// Looks at the file and at what it stands on. Nothing is opened: see `ground::inspect` for what that would do.
pub(crate) fn checkup(connection: &Connection, path: &Path) -> Result<Checkup, Fault> {
    let fault = |error| Fault::File("looking at the file", error);
    let file = fs::metadata(path).map_err(fault)?;
    let folder = fs::metadata(path.parent().unwrap_or(Path::new("/"))).map_err(fault)?;
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0));
    let journal = match pragma("journal_mode")? {
        rusqlite::types::Value::Text(mode) => mode,
        other => format!("{other:?}"),
    };
    // https://www.sqlite.org/pragma.html#pragma_synchronous
    let synchronous = match pragma("synchronous")? {
        rusqlite::types::Value::Integer(0) => "off",
        rusqlite::types::Value::Integer(1) => "normal",
        rusqlite::types::Value::Integer(2) => "full",
        _ => "extra",
    };
    let log = fs::metadata(beside(path, "-wal")).map_or(0, |log| log.len());
    let told = Checkup::default()
        .fact("SQLite", rusqlite::version())
        .fact("journal mode", journal)
        .fact("synchronous", synchronous)
        .fact(
            "file",
            format!("{}, owner {}, group {}, mode {:03o}", size(file.len()), file.uid(), file.gid(), mode(&file)),
        )
        .fact("log", size(log))
        .fact("clients alive", alive(path).map_err(fault)?.to_string());
    Ok(on_what(permissions(told, path, &file, &folder), path))
}

/// Who else could change the file.
fn permissions(told: Checkup, path: &Path, file: &Metadata, folder: &Metadata) -> Checkup {
    let shown = path.display();
    let told = if mode(file) & OTHERS_WRITE != 0 {
        let what = format!("{shown} can be written by everybody: they can take, free and forge locks");
        told.danger(what, format!("chmod o-w {shown}"))
    } else if mode(file) & GROUP_WRITES != 0 {
        let what = format!("{shown} can be written by the group {}: its members share the locks", file.gid());
        told.advice(what, format!("chmod g-w {shown}, unless they are meant to"))
    } else {
        told
    };
    if mode(folder) & (OTHERS_WRITE | STICKY) == OTHERS_WRITE {
        let folder = path.parent().unwrap_or(Path::new("/")).display();
        let what = format!("{folder} can be written by everybody: they can put another file in the place of this one");
        return told.danger(what, format!("chmod o-w {folder}, or a folder of its own for the file"));
    }
    told
}

/// What the file stands on.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn on_what(told: Checkup, path: &Path) -> Checkup {
    let (Ok(kind), Ok(space)) = (rustix::fs::statfs(path), rustix::fs::statvfs(path)) else { return told };
    // The type of this field differs between architectures; the numbers are 32 bits wide.
    let name = file_system(kind.f_type as u32);
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let told = told.fact("file system", format!("{name}, {} free", size(free)));
    let told = if name == "tmpfs" || name == "ramfs" {
        let what = "the file is in memory alone: after a start of the machine the fencing tokens begin anew";
        told.danger(what, "a path on a disk")
    } else {
        told
    };
    if free < LITTLE_ROOM_BYTES {
        return told
            .advice(format!("only {} are free: without room no lock can be had", size(free)), "free some space");
    }
    told
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn on_what(told: Checkup, _path: &Path) -> Checkup {
    told
}

/// The numbers of statfs(2) for the usual local file systems. Those between machines are refused before.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn file_system(magic: u32) -> String {
    let name = match magic {
        0x0000_ef53 => "ext4",
        0x5846_5342 => "XFS",
        0x9123_683e => "Btrfs",
        0x2fc1_2fc1 => "ZFS",
        0xf2f5_2010 => "F2FS",
        0x794c_7630 => "overlayfs",
        0x0102_1994 => "tmpfs",
        0x8584_58f6 => "ramfs",
        other => return format!("of type {other:#x}"),
    };
    name.to_owned()
}

/// How many clients the file has at this moment, this one included.
fn alive(path: &Path) -> io::Result<usize> {
    Ok(clients(path)?.into_iter().filter(|&client| lock_of_the_dead(path, client).is_none()).count())
}

fn mode(found: &Metadata) -> u32 {
    found.mode() & 0o7777
}

fn size(bytes: u64) -> String {
    match bytes {
        0..0x400 => format!("{bytes} bytes"),
        0x400..0x10_0000 => format!("{} KiB", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}
