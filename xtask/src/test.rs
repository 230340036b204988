//! `cargo xtask test`: everything a change must pass.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::apt;
use crate::children::{self, Process};
use crate::engines::need::{self, Need};
use crate::engines::{finding, install};
use crate::environment;
use crate::prepare;
use crate::problem::Problem;
use crate::steps::{Action, STEPS, Step};
use crate::suites;
use crate::tidy;
use crate::workspace::Workspace;

pub(crate) const HELP: &str = "\
Everything a change must pass.

usage: cargo xtask test [--only STEP]… [FILTER…]

First it says what it will do. Then it installs what is missing, the servers of the engines in
engines/ among it, and runs these steps, up to the first that fails. Each engine's suite starts
servers of its own on loopback ports, and stops them:

  fmt       the format of the code
  tidy      the style rules
  clippy    the lints, none of them tolerated
  tests     unit and integration tests
  doctests  the examples in the documentation
  docs      the documentation, without a warning

  --only STEP   this step alone; can be given more than once
  FILTER        only tests whose name contains it: runs the steps tests and doctests

environment:
  LOCKHOUSE_TEST_<ENGINE>   the URL of a server to use instead of starting one
  LOCKHOUSE_SKIP            engines to leave out, comma separated; they are listed at the end
";

/// What was asked for.
#[derive(Debug)]
struct Plan {
    steps: Vec<&'static Step>,
    filters: Vec<String>,
}

impl Plan {
    fn parse(arguments: &[String]) -> Result<Self, Problem> {
        let (mut only, mut filters) = (Vec::new(), Vec::new());
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--only" => only.push(words.next().map_or("", String::as_str)),
                option if option.starts_with('-') => match option.strip_prefix("--only=") {
                    Some(name) => only.push(name),
                    None => return Err(Problem::usage(format!("there is no option `{option}`")).advise(USAGE)),
                },
                _ => filters.push(word.clone()),
            }
        }
        if let Some(unknown) = only.iter().find(|name| STEPS.iter().all(|step| step.name != **name)) {
            let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
            return Err(Problem::usage(format!("there is no step `{unknown}`"))
                .because(format!("the steps are: {}", names.join(", ")))
                .advise(USAGE));
        }
        let wanted = |step: &&Step| {
            if only.is_empty() { filters.is_empty() || step.runs_tests } else { only.contains(&step.name) }
        };
        let steps: Vec<&Step> = STEPS.iter().filter(wanted).collect();
        if !filters.is_empty() && !steps.iter().any(|step| step.runs_tests) {
            return Err(Problem::usage("a filter without a step that runs tests")
                .because(format!("`{}` chooses tests, and {} runs none", filters.join(" "), only.join(", ")))
                .advise(USAGE));
        }
        Ok(Self { steps, filters })
    }

    fn runs_tests(&self) -> bool {
        self.steps.iter().any(|step| step.runs_tests)
    }
}

const USAGE: &str = "cargo xtask help test";

pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Problem> {
    let plan = Plan::parse(arguments)?;
    let needs = if plan.runs_tests() { need::of(workspace) } else { Vec::new() };
    let components = prepare::missing_components(&plan.steps);
    announce(workspace, &plan, &needs, &components);
    prepare::add_components(&components)?;
    install::all(workspace, &need::to_start(&needs))?;

    let mut report = Report { took: Vec::new() };
    let mut outcome = Ok(());
    for step in &plan.steps {
        println!("\n==> {}: {}", step.name, step.typed(&plan.filters));
        let begun = Instant::now();
        outcome = perform(workspace, step, &plan.filters);
        report.took.push((step.name, begun.elapsed(), outcome.is_ok()));
        println!("<== {}: {}", step.name, seconds(begun.elapsed()));
        if outcome.is_err() {
            break;
        }
    }
    report.print(&plan, &needs);
    outcome
}

fn announce(workspace: &Workspace, plan: &Plan, needs: &[Need], components: &[&str]) {
    let names: Vec<&str> = plan.steps.iter().map(|step| step.name).collect();
    println!("This run: {}.", names.join(", "));
    if plan.runs_tests() && needs.is_empty() {
        println!("Servers: none; no engine in engines/ needs one.");
    }
    for need in needs {
        println!("Server: {need}.");
    }
    if !components.is_empty() {
        println!("To be added to the toolchain: {}.", components.join(" "));
    }
    let missing = finding::missing_packages(workspace, &need::to_start(needs));
    if !missing.is_empty() {
        let how = if apt::is_debian() { "" } else { ", which is left to you on this system" };
        println!("To be installed: {}{how}.", missing.join(" "));
    }
}

fn perform(workspace: &Workspace, step: &Step, filters: &[String]) -> Result<(), Problem> {
    let again = || {
        let filters = if step.runs_tests { filters } else { &[] };
        let words = [&["cargo xtask test --only".to_owned(), step.name.to_owned()], filters].concat();
        format!("{}   (runs this step again)", words.join(" "))
    };
    // The suites start servers of their own, since they also stop them, and find the unpacked ones there.
    let path = environment::path_starting_with(&finding::unpacked_programs(workspace));
    match step.action {
        Action::Tidy => tidy::check(workspace, tidy::RULES),
        Action::Programs(arguments, variables) => {
            let mut variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.into())).collect();
            variables.push(("PATH", path));
            suites::run(workspace, arguments, filters, &variables).map_err(|problem| problem.advise(again()))
        }
        Action::Cargo(_, variables) => {
            let mut command = children::tied("cargo", None, "KILL")?;
            command.args(step.arguments(filters)).current_dir(workspace.root()).envs(variables.iter().copied());
            if step.runs_tests {
                command.env("PATH", path);
            }
            let status = Process::start(step.name, command, Signal::TERM)?.finish()?;
            if status.success() {
                return Ok(());
            }
            Err(Problem::new(format!("the step `{}` failed", step.name))
                .because(format!("`{}` ended with {status}; its own words are above", step.typed(filters)))
                .advise(again())
                .with_code(status.code().unwrap_or(1)))
        }
    }
}

/// How long each step took, and how it went.
#[derive(Debug)]
struct Report {
    took: Vec<(&'static str, Duration, bool)>,
}

impl Report {
    fn print(&self, plan: &Plan, needs: &[Need]) {
        println!("\n  step          time  result");
        for step in &plan.steps {
            match self.took.iter().find(|(name, _, _)| *name == step.name) {
                Some((name, took, well)) => {
                    println!("  {name:<9} {:>8}  {}", seconds(*took), if *well { "passed" } else { "FAILED" });
                }
                None => println!("  {:<9} {:>8}  not run", step.name, "-"),
            }
        }
        println!("  {:<9} {:>8}", "together", seconds(self.took.iter().map(|(_, took, _)| *took).sum()));
        for need in needs.iter().filter(|need| need.is_left_out()) {
            println!("  {need}");
        }
        println!();
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(words: &[&str]) -> Result<Plan, Problem> {
        Plan::parse(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())
    }

    fn names(words: &[&str]) -> Vec<&'static str> {
        plan(words).unwrap().steps.iter().map(|step| step.name).collect()
    }

    #[test]
    fn every_step_runs_unless_told_otherwise_and_the_help_names_it() {
        assert_eq!(names(&[]), ["fmt", "tidy", "clippy", "tests", "doctests", "docs"]);
        assert!(names(&[]).iter().all(|name| HELP.contains(&format!("\n  {name} "))));
    }

    #[test]
    fn only_chooses_steps_and_keeps_their_order() {
        assert_eq!(names(&["--only", "docs", "--only=fmt"]), ["fmt", "docs"]);
    }

    #[test]
    fn a_filter_chooses_the_steps_that_run_tests() {
        assert_eq!(names(&["queue"]), ["tests", "doctests"]);
        assert_eq!(names(&["--only", "tests", "queue"]), ["tests"]);
    }

    #[test]
    fn nonsense_is_refused_with_the_known_words() {
        assert!(plan(&["--only", "lint"]).unwrap_err().to_string().contains("clippy"));
        assert!(plan(&["--only"]).is_err());
        assert!(plan(&["--fast"]).is_err());
        assert!(plan(&["--only", "fmt", "queue"]).is_err());
    }
}
