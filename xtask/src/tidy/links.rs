//! Links in Markdown that lead to a file of this repository.

use super::Finding;
use super::tree::Tree;
use super::unfinished::unquoted;

pub(super) fn markdown(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for text in tree.texts("md") {
        let folder = text.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut in_code = false;
        for (number, line) in text.text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                in_code = !in_code;
            }
            if in_code {
                continue;
            }
            let line = unquoted(line);
            for target in targets(&line).filter(|target| !target.is_empty()) {
                if resolve(folder, target).is_none_or(|path| !tree.has(&path)) {
                    findings.push(Finding::new(&text.path, number + 1, format!("no such file: `{target}`")));
                }
            }
        }
    }
    findings
}

/// The files that a line links to: `[text](target "title")`, `![picture](target)`, `[name]: target`.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
    let defined = line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")).map(|(_, target)| target);
    inline.chain(defined).filter(|target| !is_elsewhere(target)).map(|target| {
        let target = target.trim().split(' ').next().unwrap_or_default().trim_matches(['<', '>']);
        target.split('#').next().unwrap_or_default()
    })
}

/// An address with a scheme, or an item of the documentation.
fn is_elsewhere(target: &str) -> bool {
    target.contains("://") || target.contains("::") || target.starts_with("mailto:") || target.starts_with('#')
}

/// The path from the root; `None` when it leaves the repository.
fn resolve(folder: &str, target: &str) -> Option<String> {
    let (mut parts, target) = match target.strip_prefix('/') {
        Some(absolute) => (Vec::new(), absolute),
        None => (folder.split('/').filter(|part| !part.is_empty()).collect(), target),
    };
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_and_addresses_are_not() {
        let found = |line| targets(line).collect::<Vec<_>>();
        assert_eq!(found("a [b](c.md) ![d](e/f.png \"g\") [h](https://i.example/j)"), ["c.md", "e/f.png"]);
        assert_eq!(found("[a]: ../b.md#c"), ["../b.md"]);
        assert_eq!(found("[a](#b) [c](core::Mutex)"), Vec::<&str>::new());
    }

    #[test]
    fn paths_are_relative_to_the_file_and_stay_inside() {
        assert_eq!(resolve("docs/a", "../b.md").as_deref(), Some("docs/b.md"));
        assert_eq!(resolve("docs", "./").as_deref(), Some("docs"));
        assert_eq!(resolve("docs", "/README.md").as_deref(), Some("README.md"));
        assert_eq!(resolve("docs", "../../b.md"), None);
    }
}
