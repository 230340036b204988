//! A process of its own for a case that counts what the whole process has: descriptors, threads, time.

use std::process::Stdio;

use tokio::process::Command;

/// Set for a process that runs one case and nothing else.
const ALONE_VARIABLE: &str = "LOCKHOUSE_TEST_ALONE";

/// Whether the test of that name is alone in its process. If not, it is run in a process of its own, and has passed
/// there: a test that counts what the whole process has returns when this is `false`.
///
/// # Panics
/// When it fails there.
pub async fn alone(test: &str) -> bool {
    #[expect(clippy::disallowed_methods, reason = "the only word that the suite can give to a process of the harness")]
    if std::env::var_os(ALONE_VARIABLE).is_some() {
        return true;
    }
    let program = std::env::current_exe().expect("a program knows where it is");
    let mut command = Command::new(program);
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(ALONE_VARIABLE, "yes");
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await.expect("it can be started again");
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "alone in a process: {said}{complained}");
    assert!(said.contains("1 passed"), "the case did not run in the process of its own: {said}");
    false
}

/// How many descriptors this process has open.
pub(crate) fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("Linux").count()
}

/// How many threads this process has.
pub(crate) fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("Linux").count()
}
