//! The files that the rules look at, read once.

use std::collections::BTreeSet;
use std::path::Path;

use super::masking::{Masked, mask};
use crate::problem::Problem;

/// Folders without anything written by a person of this project.
const FOREIGN: &[&str] = &[".git", "target", "node_modules"];
/// The endings of the files whose text is read.
const TEXTS: &[&str] = &["rs", "toml", "md", "sql", "lua", "sh", "html", "css", "js", "yml", "yaml"];

/// The files of the repository.
#[derive(Debug, Default)]
pub(super) struct Tree {
    texts: Vec<Text>,
    /// Every file and folder, whatever is in it.
    paths: BTreeSet<String>,
}

/// One file. Its path starts at the root and has no leading slash.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) path: String,
    pub(super) text: String,
    /// The code and the comments apart, for Rust.
    pub(super) masked: Masked,
}

impl Tree {
    pub(super) fn read(root: &Path) -> Result<Self, Problem> {
        let mut tree = Self::default();
        tree.walk(root, "")?;
        Ok(tree)
    }

    fn walk(&mut self, root: &Path, inside: &str) -> Result<(), Problem> {
        let folder = root.join(inside);
        let trouble = |error: std::io::Error| Problem::file("read", &folder, &error);
        for entry in std::fs::read_dir(&folder).map_err(trouble)? {
            let entry = entry.map_err(trouble)?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path = if inside.is_empty() { name.clone() } else { format!("{inside}/{name}") };
            if entry.file_type().map_err(trouble)?.is_dir() {
                if !FOREIGN.contains(&name.as_str()) {
                    self.walk(root, &path)?;
                    self.paths.insert(path);
                }
            } else if TEXTS.contains(&ending(&name)) {
                let text = std::fs::read_to_string(entry.path())
                    .map_err(|error| Problem::file("read", &entry.path(), &error))?;
                self.add(&path, text);
            } else {
                self.paths.insert(path);
            }
        }
        Ok(())
    }

    fn add(&mut self, path: &str, text: String) {
        let masked = if ending(path) == "rs" { mask(&text) } else { Masked::default() };
        self.texts.push(Text { path: path.to_owned(), text, masked });
        self.paths.insert(path.to_owned());
    }

    /// A tree for tests.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for (path, text) in files {
            tree.add(path, (*text).to_owned());
            let folders = path.match_indices('/').map(|(at, _)| path[..at].to_owned());
            tree.paths.extend(folders);
        }
        tree
    }

    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }

    /// The files with this ending.
    pub(super) fn texts<'a>(&'a self, ending: &'a str) -> impl Iterator<Item = &'a Text> {
        self.texts.iter().filter(move |text| self::ending(&text.path) == ending)
    }

    pub(super) fn all_texts(&self) -> impl Iterator<Item = &Text> {
        self.texts.iter()
    }

    pub(super) fn text(&self, path: &str) -> Option<&Text> {
        self.texts.iter().find(|text| text.path == path)
    }

    /// Every path; folders, too.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(String::as_str)
    }

    pub(super) fn has(&self, path: &str) -> bool {
        path.is_empty() || self.paths.contains(path)
    }
}

pub(super) fn ending(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(_, ending)| ending)
}
