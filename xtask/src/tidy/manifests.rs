//! What every crate's Cargo.toml takes from the workspace.

use super::Finding;
use super::tree::{Text, Tree};

pub(super) fn lints(tree: &Tree) -> Vec<Finding> {
    let without = crates(tree).filter(|text| {
        !entries(&text.text).any(|(_, section, entry)| match section {
            "lints" => squeezed(entry) == "workspace=true",
            _ => squeezed(entry) == "lints.workspace=true",
        })
    });
    without.map(|text| Finding::new(&text.path, 1, "no `[lints]` with `workspace = true`")).collect()
}

pub(super) fn versions(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for text in crates(tree) {
        for (line, section, entry) in entries(&text.text) {
            let name = entry.split(['.', '=', ' ']).next().unwrap_or(entry);
            if is_dependencies(section) && !comes_from_workspace(entry) {
                findings.push(Finding::new(&text.path, line, format!("`{name}` does not come from the workspace")));
            }
            // `[dependencies.name]`, with the fields on lines of their own.
            if is_dependencies(section.rsplit_once('.').map_or("", |(before, _)| before))
                && matches!(name, "version" | "path" | "git")
            {
                findings.push(Finding::new(&text.path, line, format!("`[{section}]` has a `{name}` of its own")));
            }
        }
    }
    findings
}

fn crates(tree: &Tree) -> impl Iterator<Item = &Text> {
    let manifests = tree.texts("toml").filter(|text| text.path.rsplit('/').next() == Some("Cargo.toml"));
    manifests.filter(|text| text.text.lines().any(|line| line.trim() == "[package]"))
}

/// `dependencies`, `dev-dependencies`, `target.'cfg(unix)'.build-dependencies`; not `workspace.dependencies`.
fn is_dependencies(section: &str) -> bool {
    let last = section.rsplit('.').next().unwrap_or(section);
    matches!(last, "dependencies" | "dev-dependencies" | "build-dependencies") && !section.starts_with("workspace")
}

fn comes_from_workspace(entry: &str) -> bool {
    let entry = squeezed(entry);
    entry.split_once('=').is_some_and(|(name, value)| {
        (name.ends_with(".workspace") && value == "true") || value.trim_start_matches('{').split(',').any(is_true)
    })
}

fn is_true(field: &str) -> bool {
    field.trim_end_matches('}') == "workspace=true"
}

fn squeezed(entry: &str) -> String {
    entry.split('#').next().unwrap_or(entry).split_whitespace().collect()
}

/// Every entry of a manifest with its line and its section. A value that goes on for several lines is one entry.
fn entries(text: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    let (mut section, mut open) = ("", 0_isize);
    text.lines().enumerate().filter_map(move |(number, line)| {
        let line = line.trim();
        let goes_on = open > 0;
        if !goes_on && line.starts_with('[') {
            section = line.split('#').next().unwrap_or(line).trim().trim_matches(['[', ']']);
            return None;
        }
        let depth = |letter: char| match letter {
            '[' | '{' => 1,
            ']' | '}' => -1,
            _ => 0,
        };
        open += line.chars().map(depth).sum::<isize>();
        (!goes_on && !line.is_empty() && !line.starts_with('#')).then_some((number + 1, section, line))
    })
}
