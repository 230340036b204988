//! Finding the programs of a server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::server::{Origin, Program, Server};
use super::table::SERVERS;
use crate::environment;
use crate::workspace::Workspace;

/// The programs of a server by their names, or the name of the first that is missing.
pub(crate) fn programs(
    workspace: &Workspace,
    server: &Server,
) -> Result<BTreeMap<&'static str, PathBuf>, &'static str> {
    let found =
        |program: &Program| find(workspace.root(), program).map(|file| (program.name, file)).ok_or(program.name);
    server.programs.iter().map(found).collect()
}

pub(crate) fn is_missing(workspace: &Workspace, server: &Server) -> bool {
    programs(workspace, server).is_err()
}

/// The packages that would have to be installed for these servers.
pub(crate) fn missing_packages(workspace: &Workspace, servers: &[&Server]) -> Vec<&'static str> {
    let missing = servers.iter().filter(|server| is_missing(workspace, server));
    missing.flat_map(|server| packages(server)).collect()
}

/// The packages that a server is in.
pub(crate) fn packages(server: &Server) -> Vec<&'static str> {
    match server.origin {
        Origin::Packages(names) => names.to_vec(),
        Origin::Unpacked { package, .. } => vec![package],
    }
}

/// The folder with the programs that were unpacked into the workspace.
pub(crate) fn unpacked_programs(workspace: &Workspace) -> PathBuf {
    let into = SERVERS.iter().find_map(|server| match server.origin {
        Origin::Unpacked { into, .. } => Some(into),
        Origin::Packages(_) => None,
    });
    workspace.root().join(into.unwrap_or("target")).join("usr/bin")
}

fn find(root: &Path, program: &Program) -> Option<PathBuf> {
    program.places.iter().find_map(|place| {
        if !place.contains('/') {
            return environment::program(place);
        }
        // An absolute place stays what it is.
        let place = root.join(place);
        match place.to_str()?.split_once("/*/") {
            Some((folder, rest)) => newest(Path::new(folder), rest),
            None => place.is_file().then_some(place),
        }
    })
}

/// The file in the subfolder with the highest number: the newest of several versions.
fn newest(folder: &Path, rest: &str) -> Option<PathBuf> {
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<f64>().ok();
    let versions = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let mut files: Vec<(f64, PathBuf)> = versions
        .filter_map(|path| Some((number(&path)?, path.join(rest))))
        .filter(|(_, file)| file.is_file())
        .collect();
    files.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    files.pop().map(|(_, file)| file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_taken_by_number_and_not_by_text() {
        let root = tempfile::tempdir().unwrap();
        for version in ["9.6", "15", "17", "notes"] {
            let folder = root.path().join("versions").join(version).join("bin");
            std::fs::create_dir_all(&folder).unwrap();
            if version != "17" {
                std::fs::write(folder.join("initdb"), "").unwrap();
            }
        }
        let program = Program { name: "initdb", places: &["versions/*/bin/initdb"] };
        assert_eq!(find(root.path(), &program), Some(root.path().join("versions/15/bin/initdb")));
    }

    #[test]
    fn a_program_in_the_path_comes_before_the_unpacked_one_and_a_missing_one_is_none() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("unpacked"), "").unwrap();
        const PLACE: &str = "./unpacked";
        assert!(find(root.path(), &Program { name: "sh", places: &["sh", PLACE] }).unwrap().ends_with("sh"));
        assert!(find(root.path(), &Program { name: "x", places: &["no-such-program", PLACE] }).is_some());
        assert_eq!(find(root.path(), &Program { name: "x", places: &["no-such-program", "./neither"] }), None);
    }
}
