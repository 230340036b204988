//! The steps of a test run, as data.

/// What a step does.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Action {
    /// Cargo with these arguments, and these variables set.
    Cargo(&'static [&'static str], &'static [(&'static str, &'static str)]),
    /// The test programs that cargo builds with these arguments, with these variables set.
    Programs(&'static [&'static str], &'static [(&'static str, &'static str)]),
    /// The style rules, in this process.
    Tidy,
}

/// One step.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) action: Action,
    /// The part of the toolchain it needs, which a bare one lacks.
    pub(crate) component: Option<&'static str>,
    /// Whether it runs tests: then it understands filters, and the engines' servers must be there.
    pub(crate) runs_tests: bool,
}

/// All of them, in the order in which they run: the quick ones first.
pub(crate) const STEPS: &[Step] = &[
    Step {
        name: "fmt",
        action: Action::Cargo(&["fmt", "--all", "--check"], &[]),
        component: Some("rustfmt"),
        runs_tests: false,
    },
    Step { name: "tidy", action: Action::Tidy, component: None, runs_tests: false },
    Step {
        name: "clippy",
        action: Action::Cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[]),
        component: Some("clippy"),
        runs_tests: false,
    },
    Step {
        name: "tests",
        // Not `--all-targets`: that would run the benches, too. What they are made of has no tests.
        action: Action::Programs(
            &["test", "--workspace", "--exclude=lockhouse-bench", "--no-fail-fast", "--lib", "--bins", "--tests"],
            // The suites mostly wait: for leases to end, for servers to come back.
            &[("RUST_TEST_THREADS", "3")],
        ),
        component: None,
        runs_tests: true,
    },
    Step {
        name: "doctests",
        action: Action::Cargo(&["test", "--workspace", "--exclude=lockhouse-bench", "--no-fail-fast", "--doc"], &[]),
        component: None,
        runs_tests: true,
    },
    Step {
        name: "docs",
        action: Action::Cargo(&["doc", "--workspace", "--no-deps"], &[("RUSTDOCFLAGS", "-D warnings")]),
        component: None,
        runs_tests: false,
    },
];

impl Step {
    /// The command line, as a person would type it.
    pub(crate) fn typed(&self, filters: &[String]) -> String {
        match self.action {
            Action::Tidy => "cargo xtask tidy".to_owned(),
            Action::Cargo(_, variables) | Action::Programs(_, variables) => {
                let mut words: Vec<String> =
                    variables.iter().map(|(name, value)| format!("{name}='{value}'")).collect();
                words.push("cargo".to_owned());
                words.extend(self.arguments(filters));
                words.join(" ")
            }
        }
    }

    /// Cargo's arguments.
    pub(crate) fn arguments(&self, filters: &[String]) -> Vec<String> {
        let (Action::Cargo(arguments, _) | Action::Programs(arguments, _)) = self.action else { return Vec::new() };
        let mut words: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
        if self.runs_tests && !filters.is_empty() {
            words.push("--".to_owned());
            words.extend_from_slice(filters);
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &str) -> &'static Step {
        STEPS.iter().find(|step| step.name == name).unwrap()
    }

    #[test]
    fn filters_reach_the_steps_that_run_tests_and_no_other() {
        let filters = ["queue".to_owned(), "lease".to_owned()];
        assert!(step("tests").typed(&filters).ends_with("--tests -- queue lease"));
        assert_eq!(step("fmt").typed(&filters), "cargo fmt --all --check");
    }

    #[test]
    fn the_variables_are_part_of_what_is_typed() {
        assert_eq!(step("docs").typed(&[]), "RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps");
    }

    #[test]
    fn no_step_runs_benches() {
        assert!(STEPS.iter().filter(|step| step.runs_tests).all(|step| !step.typed(&[]).contains("--all-targets")));
    }
}
