//! Where the repository is, and which engines it has.

use std::path::{Path, PathBuf};

use crate::problem::Problem;

/// The repository.
#[derive(Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// The workspace around the current folder.
    pub(crate) fn find() -> Result<Self, Problem> {
        let here = std::env::current_dir()
            .map_err(|error| Problem::new("cannot tell the current folder").because(error.to_string()))?;
        here.ancestors().find(|folder| is_root(folder)).map(Self::at).ok_or_else(|| {
            Problem::new(format!("{} is in no workspace", here.display()))
                .because("neither this folder nor one above it has a Cargo.toml with a [workspace]")
                .advise("run it inside the repository")
        })
    }

    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.to_path_buf() }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Whether the crate `engines/<name>` exists.
    pub(crate) fn has_engine(&self, name: &str) -> bool {
        self.root.join("engines").join(name).join("Cargo.toml").is_file()
    }
}

fn is_root(folder: &Path) -> bool {
    std::fs::read_to_string(folder.join("Cargo.toml")).is_ok_and(|text| text.lines().any(|line| line == "[workspace]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_root_from_a_crate_inside() {
        let workspace = Workspace::find().unwrap();
        assert!(workspace.root().join("xtask/Cargo.toml").is_file());
    }

    #[test]
    fn an_engine_is_a_folder_with_a_manifest() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::at(folder.path());
        std::fs::create_dir_all(folder.path().join("engines/redis")).unwrap();
        assert!(!workspace.has_engine("redis"));
        std::fs::write(folder.path().join("engines/redis/Cargo.toml"), "").unwrap();
        assert!(workspace.has_engine("redis"));
        assert!(!workspace.has_engine("etcd"));
    }
}
