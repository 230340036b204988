//! A good and a bad tree for every rule.

use super::tree::Tree;
use super::{Finding, RULES};

type Files<'a> = &'a [(&'a str, &'a str)];

/// The rule, a tree that keeps it, and a tree in which every file breaks it.
const SAMPLES: &[(&str, Files, Files)] = &[
    ("file-length", &[("a.rs", "// one line\n")], &[]),
    ("function-length", &[("a.rs", "fn a() {\n}\n")], &[]),
    (
        "line-length",
        &[(
            "a.rs",
            "let a = \"a string that is very much longer than a line may be, and that nobody would want to see broken in two halves\";\n",
        )],
        &[(
            "a.rs",
            "// a comment that is very much longer than a line may be, and that anybody could have broken in two halves, since a comment can be broken at any word.\n",
        )],
    ),
    (
        "unfinished",
        &[("a.rs", "fn todo() { a(\"TODO\") }\nfn b() { mytodo!(); } // XXXX\n"), ("a.md", "No `TODO` here.\n")],
        &[
            ("a.rs", "fn a() { todo!() }\n"),
            ("b.rs", "fn a() { unimplemented!(\"b\") }\n"),
            ("c.rs", "// FIXME: a\n"),
            ("d.rs", "/* a XXX */\n"),
            ("e.rs", "/// TODO\n"),
            ("f.sql", "-- TODO a\n"),
            ("g.md", "TODO `a`\n"),
        ],
    ),
    (
        "ignored-test",
        &[("a.rs", "// #[ignore]\n#[a] fn b() { ignore(\"#[ignore]\") }\n#[derive(A)]\n#[serde(ignore)]\n")],
        &[
            ("a.rs", "#[test]\n#[ignore]\nfn a() {}\n"),
            ("b.rs", "#[test]\n#[ignore = \"slow\"]\nfn a() {}\n"),
            ("c.rs", "#[test]\n#[cfg_attr(not(feature = \"a\"), ignore)]\nfn b() {}\n"),
        ],
    ),
    (
        "ignored-example",
        &[("a.rs", "/// ```no_run\n/// ignore();\n/// ```\n// ```ignore\n"), ("a.md", "```text\n```\nignore\n")],
        &[
            ("a.rs", "/// ```ignore\n/// ```\n"),
            ("b.rs", "//! ```rust,ignore\n//! ```\n"),
            ("c.rs", "/// ``` ignore-windows\n/// ```\n"),
            ("d.md", "```rust,ignore\n```\n"),
        ],
    ),
    (
        "file-name",
        &[("a/line.rs", ""), ("unlock.rs", ""), ("lock.md", ""), ("engines/common/Cargo.toml", "")],
        &[
            ("a/lock.rs", ""),
            ("utils.rs", ""),
            ("common.rs", ""),
            ("helpers.rs", ""),
            ("managers.rs", ""),
            ("lease_manager.rs", ""),
            ("api_v2.rs", ""),
            ("apiv2.md", ""),
            ("v2.sql", ""),
        ],
    ),
    (
        "lints",
        &[
            ("a/Cargo.toml", "[package]\n[lints]\nworkspace = true\n"),
            ("b/Cargo.toml", "lints.workspace = true\n[package]\n"),
            ("Cargo.toml", "[workspace]\n"),
        ],
        &[
            ("a/Cargo.toml", "[package]\nname = \"a\"\n"),
            ("b/Cargo.toml", "[package]\n[lints.rust]\nunsafe_code = \"allow\"\n"),
            ("c/Cargo.toml", "[package]\nedition.workspace = true\n[lints]\n"),
        ],
    ),
    (
        "versions",
        &[
            (
                "a/Cargo.toml",
                "[package]\nversion = \"1\"\n[dependencies]\na.workspace = true\nb = { workspace = true, features = [\n  \"c\",\n] }\n\
                 [target.'cfg(unix)'.dependencies]\nd = { optional = true, workspace = true }\n[dependencies.e]\nworkspace = true\n",
            ),
            ("Cargo.toml", "[workspace.dependencies]\na = \"1\"\n"),
        ],
        &[
            ("a/Cargo.toml", "[package]\n[dependencies]\na = \"1\"\n"),
            ("b/Cargo.toml", "[package]\n[dev-dependencies]\na = { version = \"1\" }\n"),
            ("c/Cargo.toml", "[package]\n[dependencies]\na = { path = \"../a\" } # workspace = true\n"),
            ("d/Cargo.toml", "[package]\n[target.'cfg(unix)'.build-dependencies]\na = \"1\"\n"),
            ("e/Cargo.toml", "[package]\n[dependencies.a]\nversion = \"1\"\n"),
        ],
    ),
    (
        "engine-layout",
        &[
            ("engines/a/Cargo.toml", ""),
            ("engines/a/README.md", ""),
            ("engines/a/src/lib.rs", "fn a() {}"),
            ("engines/a/tests/conformance.rs", ""),
            ("engines/empty/src/lib.rs", "//! Nothing yet.\n"),
        ],
        &[("engines/a/src/lib.rs", "fn a() {}")],
    ),
    (
        "links",
        &[
            ("README.md", "[a](docs/a.md#b) [c](docs) `[d](e)` [f](https://g.example/h)\n```\n[i](j)\n```\n"),
            ("docs/a.md", "[a](../README.md) [b](#c)\n[d]: a.md\n"),
        ],
        &[("README.md", "see [a](docs/a.md)\n"), ("docs/b.md", "[b](README.md)\n"), ("docs/c.md", "[c]: d.md\n")],
    ),
    (
        "cancellation",
        &[
            (
                "crates/core/src/a.rs",
                "/// A.\n///\n/// # Cancellation safety\n/// B.\n#[must_use]\npub async fn a() {}\n",
            ),
            ("crates/core/src/b.rs", "pub(crate) async fn a() {}\ntrait T { async fn b(); }\n// pub async fn c() {}\n"),
            ("crates/cli/src/a.rs", "pub async fn a() {}\n"),
        ],
        &[
            ("crates/core/src/a.rs", "/// A.\npub async fn a() {}\n"),
            ("crates/core/src/b.rs", "/// # Cancellation safety\nfn a() {}\n\npub async fn b() {}\n"),
            ("crates/core/src/c.rs", "impl A {\n    pub async fn c(&self) {}\n}\n"),
        ],
    ),
];

fn check(rule: &str, files: Files) -> Vec<Finding> {
    let rule = RULES.iter().find(|known| known.name == rule).unwrap_or_else(|| panic!("no rule {rule}"));
    (rule.check)(&Tree::of(files))
}

#[test]
fn every_rule_has_samples() {
    let (rules, samples): (Vec<_>, Vec<_>) =
        (RULES.iter().map(|rule| rule.name).collect(), SAMPLES.iter().map(|(name, _, _)| *name).collect());
    assert_eq!(rules, samples);
}

#[test]
fn good_trees_pass() {
    for (rule, good, _) in SAMPLES {
        assert_eq!(check(rule, good), [], "{rule}");
    }
}

#[test]
fn every_bad_file_is_found() {
    for (rule, _, bad) in SAMPLES {
        for file in *bad {
            assert!(!check(rule, &[*file]).is_empty(), "{rule} does not see {file:?}");
        }
    }
}

/// Too long to be written down.
#[test]
fn lengths_are_found_at_the_limit_and_not_before() {
    for (rule, most, text) in [
        ("file-length", 400, (|lines| "\n".repeat(lines)) as fn(usize) -> String),
        ("function-length", 70, |lines| format!("fn a() {{\n{}}}\n", "\n".repeat(lines - 2))),
        ("line-length", 120, |letters| format!("//{}\n", "é".repeat(letters - 2))),
    ] {
        assert_eq!(check(rule, &[("a.rs", &text(most))]), [], "{rule}");
        assert_eq!(check(rule, &[("a.rs", &text(most + 1))]).len(), 1, "{rule}");
    }
}

#[test]
fn a_finding_names_the_line() {
    let found = check("unfinished", &[("a.rs", "\n\nfn a() {\n    todo!()\n}\n")]);
    assert_eq!(found, [Finding::new("a.rs", 4, "`todo!`")]);
}
