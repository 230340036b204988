//! What is opened, what is created, and what is refused and left as it is.

mod clients;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use clients::{child, claim, client, files, part, token, try_client};
use lockhouse_core::Kind;
use rusqlite::Connection;

async fn refusal(path: &Path) -> (Kind, String) {
    let error = try_client(path).await.unwrap_err();
    (error.kind(), error.to_string())
}

/// Refused as corrupt, and not a byte or a file is different afterwards.
async fn is_left_alone(path: &Path) -> String {
    let (before, around) = (fs::read(path).unwrap(), files(path.parent().unwrap()));
    let (kind, text) = refusal(path).await;
    assert_eq!(kind, Kind::Corrupt, "{text}");
    assert!(text.contains(path.to_str().unwrap()), "{text}");
    assert_eq!(fs::read(path).unwrap(), before);
    assert_eq!(files(path.parent().unwrap()), around);
    text
}

#[tokio::test]
async fn a_missing_folder_is_made_and_only_its_owner_may_look_in() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state/lockhouse/locks.db");
    let client = client(&path).await;
    token(client.front.claim(&claim("a")).await.unwrap());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder.path().join("state")), 0o700);
    for file in files(path.parent().unwrap()) {
        assert_eq!(mode(&path.with_file_name(&file)), 0o600, "{file}");
    }
}

#[tokio::test]
async fn the_files_beside_follow_the_permissions_of_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    drop(client(&path).await);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o660)).unwrap();
    let _client = client(&path).await;
    let beside = files(folder.path()).into_iter().find(|file| file.contains("-client-")).unwrap();
    assert_eq!(fs::metadata(folder.path().join(beside)).unwrap().permissions().mode() & 0o777, 0o660);
}

#[tokio::test]
async fn a_client_that_ends_leaves_no_file_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let one = client(&path).await;
    let held = claim("a");
    token(one.front.claim(&held).await.unwrap());
    one.front.withdraw(&held).await.unwrap();
    drop(one);
    assert!(!files(folder.path()).iter().any(|file| file.contains("-client-")), "{:?}", files(folder.path()));
}

#[tokio::test]
async fn an_empty_file_and_an_empty_database_become_ours() {
    let folder = tempfile::tempdir().unwrap();
    let (empty, vacuum) = (folder.path().join("empty.db"), folder.path().join("vacuum.db"));
    fs::write(&empty, b"").unwrap();
    Connection::open(&vacuum).unwrap().execute_batch("VACUUM").unwrap();
    for path in [&empty, &vacuum] {
        token(client(path).await.front.claim(&claim("a")).await.unwrap());
    }
}

#[tokio::test]
async fn what_is_no_database_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    for content in ["x", "hello, world\n", &"a longer text that is no database either\n".repeat(100)] {
        fs::write(&path, content).unwrap();
        is_left_alone(&path).await;
    }
}

#[tokio::test]
async fn the_database_of_another_program_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    for (file, sql) in [
        ("plain.db", "CREATE TABLE t (x)"),
        ("named.db", "PRAGMA application_id = 42; CREATE TABLE t (x)"),
        ("wal.db", "PRAGMA journal_mode = WAL; CREATE TABLE t (x)"),
        ("claims.db", "CREATE TABLE claims (x)"),
    ] {
        let path = folder.path().join(file);
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let text = is_left_alone(&path).await;
        assert!(text.contains("another program"), "{text}");
    }
    // In use by the other program at this moment, so that its log lies beside it.
    let path = folder.path().join("used.db");
    let used = Connection::open(&path).unwrap();
    used.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (x)").unwrap();
    is_left_alone(&path).await;
}

#[tokio::test]
async fn a_newer_format_is_left_alone_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    drop(client(&path).await);
    Connection::open(&path)
        .unwrap()
        .execute_batch("PRAGMA user_version = 99; PRAGMA wal_checkpoint(TRUNCATE)")
        .unwrap();
    let text = is_left_alone(&path).await;
    assert!(text.contains("newer version") && text.contains("update Lockhouse"), "{text}");
}

#[tokio::test]
async fn a_damaged_database_is_corrupt_and_not_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    drop(client(&path).await);
    Connection::open(&path).unwrap().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[100..].fill(0xa5);
    fs::write(&path, &bytes).unwrap();
    let (kind, text) = refusal(&path).await;
    assert_eq!(kind, Kind::Corrupt, "{text}");
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[tokio::test]
async fn a_folder_is_not_a_file() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(refusal(folder.path()).await.0, Kind::Invalid);
    let file = folder.path().join("file");
    fs::write(&file, b"").unwrap();
    assert_eq!(refusal(&file.join("locks.db")).await.0, Kind::Invalid);
}

#[tokio::test]
async fn a_name_that_sqlite_takes_for_something_else_is_a_file() {
    let folder = tempfile::tempdir().unwrap();
    for name in [":memory:", "file:x?mode=memory", "ü ñ.db"] {
        token(client(&folder.path().join(name)).await.front.claim(&claim("a")).await.unwrap());
        assert!(folder.path().join(name).exists());
    }
}

#[tokio::test]
async fn many_open_a_new_file_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let mut children: Vec<_> = (0..6).map(|_| child("plays_a_part", "open", &path, &[]).spawn().unwrap()).collect();
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
}

/// Permission bits do not bind the administrator, so the child is somebody else.
fn as_nobody() -> Vec<&'static str> {
    if rustix::process::geteuid().is_root() {
        vec!["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    } else {
        Vec::new()
    }
}

#[tokio::test]
async fn a_file_or_folder_that_may_not_be_written_is_denied() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let path = folder.path().join("locks.db");
    let denied = || assert!(child("plays_a_part", "denied", &path, &as_nobody()).status().unwrap().success());
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    // Nothing there, and nothing can be made.
    mode(folder.path(), 0o555);
    denied();
    // The file may be written, the folder not.
    mode(folder.path(), 0o755);
    drop(client(&path).await);
    Connection::open(&path).unwrap().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    mode(&path, 0o666);
    mode(folder.path(), 0o555);
    denied();
    // The folder may be written, the file only read, or not even that.
    mode(folder.path(), 0o777);
    mode(&path, 0o444);
    denied();
    mode(&path, 0o000);
    denied();
    assert_eq!(files(folder.path()).iter().filter(|file| file.contains("-client-")).count(), 0);
}

#[test]
fn a_read_only_file_system_is_denied() {
    let folder = tempfile::tempdir().unwrap();
    let mount = format!("mount -t tmpfs -o ro none '{}' && exec \"$0\" \"$@\"", folder.path().display());
    let under = ["unshare", "--mount", "--map-root-user", "sh", "-c", &mount];
    assert!(child("plays_a_part", "denied", &folder.path().join("locks.db"), &under).status().unwrap().success());
}

#[test]
fn a_full_disk_is_told_and_what_was_held_stays_held() {
    let folder = tempfile::tempdir().unwrap();
    let mount = format!("mount -t tmpfs -o size=256k none '{}' && exec \"$0\" \"$@\"", folder.path().display());
    let under = ["unshare", "--mount", "--map-root-user", "sh", "-c", &mount];
    assert!(child("plays_a_part", "full", &folder.path().join("locks.db"), &under).status().unwrap().success());
}

/// Not a test of its own: what the children of the tests above do.
#[tokio::test]
async fn plays_a_part() {
    let Some((part, path)) = part() else { return };
    match part.as_str() {
        "open" => {
            token(client(&path).await.front.claim(&claim("a").with_own_name()).await.unwrap());
        }
        "denied" => {
            let (kind, text) = refusal(&path).await;
            assert_eq!(kind, Kind::Denied, "{text}");
            assert!(text.contains(path.to_str().unwrap()), "{text}");
        }
        "full" => fill(&path).await,
        other => panic!("no part {other}"),
    }
}

trait OwnName {
    fn with_own_name(self) -> Self;
}

impl OwnName for lockhouse_core::Claim {
    fn with_own_name(mut self) -> Self {
        self.name = lockhouse_core::Name::new(std::process::id().to_string()).unwrap();
        self
    }
}

/// Claims until there is no space left, makes space by nothing but withdrawing, and goes on.
async fn fill(path: &Path) {
    let client = client(path).await;
    let first = claim("first");
    let kept = token(client.front.claim(&first).await.unwrap());
    let mut error = None;
    for number in 0..10_000 {
        let mut next = claim(&number.to_string());
        next.note = Some("x".repeat(500).into());
        if let Err(full) = client.front.claim(&next).await {
            error = Some((full, next));
            break;
        }
    }
    let (error, refused) = error.expect("the disk was never full");
    assert_eq!(error.kind(), Kind::Full, "{error}");
    assert_eq!(error.may_have_happened(), lockhouse_core::Happened::No);
    assert!(client.front.survey(refused.name.as_str()).await.unwrap().is_empty());
    let line = &client.front.survey("first").await.unwrap()[0];
    assert_eq!(line.places[0].token, Some(kept));
}
