//! The same files in every engine.

use std::collections::BTreeSet;

use super::Finding;
use super::tree::Tree;

const FILES: &[&str] = &["Cargo.toml", "README.md", "src/lib.rs", "tests/conformance.rs"];

pub(super) fn engines(tree: &Tree) -> Vec<Finding> {
    let inside = tree.paths().filter_map(|path| path.strip_prefix("engines/"));
    let engines: BTreeSet<&str> = inside.filter_map(|path| Some(path.split_once('/')?.0)).collect();
    let mut findings = Vec::new();
    for engine in engines {
        let folder = format!("engines/{engine}");
        // A crate without any code is a place kept free, not an engine.
        if tree.text(&format!("{folder}/src/lib.rs")).is_some_and(|text| text.masked.code.trim().is_empty()) {
            continue;
        }
        let missing = FILES.iter().filter(|file| !tree.has(&format!("{folder}/{file}")));
        findings.extend(missing.map(|file| Finding::new(&format!("{folder}/{file}"), 1, "the file is missing")));
    }
    findings
}
