//! `cargo xtask tidy`: style that runs as a test.

mod async_docs;
mod layout;
mod lines;
mod links;
mod manifests;
mod masking;
mod names;
mod sizes;
mod tree;
mod unfinished;

#[cfg(test)]
mod samples;

use std::time::Instant;

use self::tree::Tree;
use crate::problem::Problem;
use crate::workspace::Workspace;

pub(crate) const HELP: &str = "\
The style rules of this repository, as a test.

usage: cargo xtask tidy [RULE…]
       cargo xtask tidy --list

  RULE     these rules alone
  --list   the rules, and why they are there
";

/// One rule.
#[derive(Debug)]
pub(crate) struct Rule {
    name: &'static str,
    why: &'static str,
    check: fn(&Tree) -> Vec<Finding>,
}

/// A place that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    file: String,
    line: usize,
    what: String,
}

impl Finding {
    fn new(file: &str, line: usize, what: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, what: what.into() }
    }
}

/// All rules. `samples.rs` has a good and a bad tree for each: a rule that cannot fail is a defect.
pub(crate) const RULES: &[Rule] = &[
    Rule { name: "file-length", why: "a file is one concept; a long one holds several", check: sizes::files },
    Rule {
        name: "function-length",
        why: "a function that fits on a screen can be checked by reading it",
        check: sizes::functions,
    },
    Rule {
        name: "line-length",
        why: "two files fit side by side; strings and addresses may be longer, since breaking them helps nobody",
        check: lines::length,
    },
    Rule {
        name: "unfinished",
        why: "what is not finished is not there; a note in the code is read by nobody",
        check: unfinished::markers,
    },
    Rule {
        name: "ignored-test",
        why: "a test that does not run says nothing, and looks as if it did",
        check: unfinished::ignored_tests,
    },
    Rule {
        name: "ignored-example",
        why: "an example that is not compiled is wrong sooner or later",
        check: unfinished::ignored_examples,
    },
    Rule {
        name: "file-name",
        why: "a file is named after its concept; these names fit everything, or hide that two things compete",
        check: names::files,
    },
    Rule { name: "lints", why: "lints live once, in the workspace", check: manifests::lints },
    Rule {
        name: "versions",
        why: "all versions are in the root Cargo.toml, so that no two crates disagree",
        check: manifests::versions,
    },
    Rule {
        name: "engine-layout",
        why: "knowing one engine is knowing all: each has the same files, and passes the same suite",
        check: layout::engines,
    },
    Rule { name: "links", why: "a link that leads nowhere stops the reader", check: links::markdown },
    Rule {
        name: "cancellation",
        why: "whoever awaits a lock must know what happens when the future is dropped",
        check: async_docs::cancellation,
    },
];

pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Problem> {
    if arguments.iter().any(|word| word == "--list") {
        for rule in RULES {
            println!("{:<16} {}", rule.name, rule.why);
        }
        return Ok(());
    }
    if arguments.is_empty() {
        return check(workspace, RULES);
    }
    arguments.iter().try_for_each(|name| {
        let rule = RULES
            .iter()
            .find(|rule| rule.name == *name)
            .ok_or_else(|| Problem::usage(format!("there is no rule `{name}`")).advise("cargo xtask tidy --list"))?;
        check(workspace, std::slice::from_ref(rule))
    })
}

/// Checks the workspace against these rules.
pub(crate) fn check(workspace: &Workspace, rules: &[Rule]) -> Result<(), Problem> {
    let begun = Instant::now();
    let tree = Tree::read(workspace.root())?;
    let mut count = 0;
    for rule in rules {
        for Finding { file, line, what } in (rule.check)(&tree) {
            println!("{file}:{line}: {what}\n    {}: {}", rule.name, rule.why);
            count += 1;
        }
    }
    if count == 0 {
        let (rules, files) = (rules.len(), tree.len());
        println!("tidy: {files} files, {rules} rules, {:.2} s", begun.elapsed().as_secs_f64());
        return Ok(());
    }
    Err(Problem::new(format!("the style rules were broken {count} times"))
        .because("the places are above, each with its rule and the reason for it")
        .advise("cargo xtask tidy   (checks them again)"))
}
