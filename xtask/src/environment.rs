//! The one place that reads environment variables, and looks for programs in `PATH`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where daemons live that an ordinary user's `PATH` does not name.
const ALSO: &[&str] = &["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// A variable that is set to something.
pub(crate) fn variable(name: &str) -> Option<String> {
    raw(name)?.into_string().ok().filter(|value| !value.is_empty())
}

/// The first executable of this name in `PATH`.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = raw("PATH").unwrap_or_default();
    let also = ALSO.iter().map(PathBuf::from);
    std::env::split_paths(&path).chain(also).map(|folder| folder.join(name)).find(|file| is_executable(file))
}

/// `PATH` with a folder put in front.
pub(crate) fn path_starting_with(folder: &Path) -> OsString {
    let path = raw("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.to_path_buf()).chain(std::env::split_paths(&path));
    std::env::join_paths(folders).unwrap_or(path)
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[expect(clippy::disallowed_methods, reason = "xtask is configured by the environment; it is read here alone")]
fn raw(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_program_and_no_other() {
        assert!(program("sh").is_some_and(|file| file.is_absolute()));
        assert_eq!(program("no-such-program-anywhere"), None);
    }

    #[test]
    fn a_folder_put_in_front_comes_first() {
        let path = path_starting_with(Path::new("/first"));
        assert_eq!(std::env::split_paths(&path).next(), Some(PathBuf::from("/first")));
    }
}
