//! Names of files that say nothing.

use super::Finding;
use super::tree::Tree;

/// What a Rust file or its folder must not be called.
const WHOLE: &[&str] = &["lock", "util", "utils", "common", "misc"];
/// What must not be a part of its name.
const PARTS: &[&str] = &["helper", "manager"];

pub(super) fn files(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for path in tree.paths() {
        // The folder counts where it is a module; each is looked at when its own turn comes.
        let name = path.rsplit('/').next().unwrap_or(path).to_lowercase();
        let stem = name.strip_suffix(".rs").unwrap_or(&name);
        let is_rust = name.ends_with(".rs") || tree.has(&format!("{path}/mod.rs"));
        let is_empty_word = is_rust && (WHOLE.contains(&stem) || PARTS.iter().any(|part| stem.contains(part)));
        if is_empty_word || stem.contains("v2") {
            findings.push(Finding::new(path, 1, format!("a file named `{name}`")));
        }
    }
    findings
}
