//! What the engine says of its file when it is asked.

mod clients;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use clients::client;
use lockhouse_core::{Checkup, Severity};

fn fact<'a>(checkup: &'a Checkup, what: &str) -> &'a str {
    checkup.facts.iter().find(|fact| fact.what == what).map_or("", |fact| &fact.value)
}

fn dangers(checkup: &Checkup) -> Vec<&str> {
    let dangers = checkup.findings.iter().filter(|finding| finding.severity == Severity::Danger);
    dangers.map(|finding| finding.what.as_str()).collect()
}

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn it_tells_the_settings_that_matter_and_who_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let one = client(&path).await;
    let _other = client(&path).await;
    let checkup = one.front.checkup().await.unwrap();
    assert_eq!(fact(&checkup, "SQLite"), rusqlite::version());
    assert_eq!(fact(&checkup, "journal mode"), "wal");
    assert_eq!(fact(&checkup, "synchronous"), "normal");
    assert_eq!(fact(&checkup, "clients alive"), "2");
    assert!(fact(&checkup, "file").ends_with("mode 600"), "{checkup:?}");
    assert_eq!(checkup.server_time, None);
}

#[tokio::test]
async fn it_warns_of_a_file_or_folder_that_others_may_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let client = client(&path).await;
    for (file, around, dangers_told, advice) in
        [(0o600, 0o700, 0, 0), (0o660, 0o770, 0, 1), (0o666, 0o1777, 1, 0), (0o666, 0o777, 2, 0)]
    {
        allow(&path, file);
        allow(folder.path(), around);
        let checkup = client.front.checkup().await.unwrap();
        let told = dangers(&checkup).into_iter().filter(|what| what.contains("can be written by everybody")).count();
        assert_eq!(told, dangers_told, "{file:o} {around:o} {checkup:?}");
        let group = checkup.findings.iter().filter(|one| one.what.contains("can be written by the group")).count();
        assert_eq!(group, advice, "{file:o} {around:o} {checkup:?}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn it_warns_of_a_file_that_does_not_survive_the_machine() {
    // Every Linux has this folder in memory.
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let client = client(&folder.path().join("locks.db")).await;
    let checkup = client.front.checkup().await.unwrap();
    assert!(fact(&checkup, "file system").starts_with("tmpfs, "), "{checkup:?}");
    assert!(dangers(&checkup).iter().any(|what| what.contains("tokens begin anew")), "{checkup:?}");
}
