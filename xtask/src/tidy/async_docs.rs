//! What the documentation of an async function must say.

use super::Finding;
use super::tree::Tree;

/// Where the rule holds: the crate whose futures users await.
const FOLDER: &str = "crates/core/src/";
const HEADING: &str = "# Cancellation safety";

pub(super) fn cancellation(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for text in tree.texts("rs").filter(|text| text.path.starts_with(FOLDER)) {
        let lines: Vec<&str> = text.text.lines().collect();
        for (number, code) in text.masked.code.lines().enumerate() {
            // Methods of traits have no `pub`; their contract is the trait's.
            let Some(rest) = code.trim_start().strip_prefix("pub async fn ") else { continue };
            if !documentation(&lines[..number]).any(|line| line == HEADING) {
                let name = rest.split(['(', '<']).next().unwrap_or(rest);
                let what = format!("the documentation of `{name}` has no heading `{HEADING}`");
                findings.push(Finding::new(&text.path, number + 1, what));
            }
        }
    }
    findings
}

/// The documentation right above a function, without its slashes. Attributes may stand in between.
fn documentation<'a>(above: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    let lines = above.iter().rev().map(|line| line.trim());
    let is_part = |line: &&str| line.starts_with("///") || !(line.is_empty() || line.ends_with(['{', '}', ';']));
    lines.take_while(is_part).filter_map(|line| line.strip_prefix("///")).map(str::trim)
}
