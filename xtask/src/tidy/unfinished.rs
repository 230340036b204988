//! What was left for later: markers, tests that do not run, examples that are not compiled.

use super::Finding;
use super::masking::{line_of, words};
use super::tree::{Text, Tree, ending};

const MACROS: &[&str] = &["todo", "unimplemented"];
const MARKERS: &[&str] = &["TODO", "FIXME", "XXX"];

pub(super) fn markers(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for text in tree.all_texts() {
        let code = &text.masked.code;
        for name in MACROS {
            let calls = words(code, name).filter(|at| code[at + name.len()..].starts_with('!'));
            findings.extend(calls.map(|at| Finding::new(&text.path, line_of(code, at), format!("`{name}!`"))));
        }
        let prose = prose(text);
        for marker in MARKERS {
            let found = words(&prose, marker);
            findings.extend(found.map(|at| Finding::new(&text.path, line_of(&prose, at), format!("`{marker}`"))));
        }
    }
    findings
}

/// What people say to one another in this file: in Rust the comments, in Markdown all but what is quoted as code.
fn prose(text: &Text) -> String {
    match ending(&text.path) {
        "rs" => text.masked.comments.clone(),
        "md" => text.text.lines().map(|line| unquoted(line) + "\n").collect(),
        _ => text.text.clone(),
    }
}

/// A line of Markdown without its code.
pub(super) fn unquoted(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("``")
}

pub(super) fn ignored_tests(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for text in tree.texts("rs") {
        let code = &text.masked.code;
        for at in words(code, "ignore") {
            let attribute = code[..at].rfind("#[").filter(|&start| !code[start..at].contains(']'));
            let is_test = attribute.is_some_and(|start| {
                let before = code[start..at].trim_end();
                before == "#[" || (before.starts_with("#[cfg_attr(") && before.ends_with(','))
            });
            if is_test {
                findings.push(Finding::new(&text.path, line_of(code, at), "a test that is ignored"));
            }
        }
    }
    findings
}

pub(super) fn ignored_examples(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for text in tree.texts("rs").chain(tree.texts("md")) {
        let is_rust = ending(&text.path) == "rs";
        let lines = if is_rust { &text.masked.comments } else { &text.text };
        let mut inside = false;
        for (number, line) in lines.lines().enumerate() {
            let line = if is_rust { documentation(line) } else { Some(line.trim_start()) };
            let Some(line) = line else {
                inside = false;
                continue;
            };
            if let Some(words) = line.strip_prefix("```") {
                if !inside
                    && words.split([',', ' ', '{', '}']).any(|word| word == "ignore" || word.starts_with("ignore-"))
                {
                    findings.push(Finding::new(&text.path, number + 1, "an example that is not compiled"));
                }
                inside = !inside;
            }
        }
    }
    findings
}

/// The text of a documentation comment on this line.
fn documentation(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim_start)
}
