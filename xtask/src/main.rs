//! What this repository does to itself: its tests, the servers they need, and its style.

#![expect(clippy::print_stdout, reason = "a command for people at a terminal: printing is its work")]

mod apt;
mod children;
mod engines;
mod environment;
mod interrupt;
mod prepare;
mod problem;
mod steps;
mod suites;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

use crate::problem::Problem;
use crate::workspace::Workspace;

/// One command: what people type, read, and get.
struct Command {
    name: &'static str,
    summary: &'static str,
    help: &'static str,
    run: fn(&Workspace, &[String]) -> Result<(), Problem>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "test",
        summary: "everything a change must pass: format, style, lints, tests, documentation",
        help: test::HELP,
        run: test::run,
    },
    Command {
        name: "tidy",
        summary: "the style rules alone, in well under a second",
        help: tidy::HELP,
        run: tidy::run,
    },
    Command {
        name: "engines",
        summary: "install, start or list the servers that the tests of the engines need",
        help: engines::HELP,
        run: engines::run,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(problem.code())
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<(), Problem> {
    let asks_for_help = |word: &String| matches!(word.as_str(), "help" | "--help" | "-h");
    let Some((first, rest)) = arguments.split_first() else {
        print!("{}", overview());
        return Ok(());
    };
    if asks_for_help(first) {
        match rest.first() {
            Some(name) => print!("{}", command(name)?.help),
            None => print!("{}", overview()),
        }
        return Ok(());
    }
    let command = command(first)?;
    if rest.iter().any(asks_for_help) {
        print!("{}", command.help);
        return Ok(());
    }
    interrupt::listen()?;
    (command.run)(&Workspace::find()?, rest)
}

fn command(name: &str) -> Result<&'static Command, Problem> {
    COMMANDS.iter().find(|command| command.name == name).ok_or_else(|| {
        let names: Vec<&str> = COMMANDS.iter().map(|command| command.name).collect();
        Problem::usage(format!("there is no command `{name}`"))
            .because(format!("the commands are: {}", names.join(", ")))
            .advise("`cargo xtask` explains them")
    })
}

fn overview() -> String {
    let mut text = String::from("The tasks of this repository.\n\nusage: cargo xtask COMMAND [OPTIONS]\n\n");
    for command in COMMANDS {
        text.push_str(&format!("  {:<9} {}\n", command.name, command.summary));
    }
    text.push_str("\n`cargo xtask help COMMAND` explains one of them.\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overview_names_every_command_and_each_help_shows_how_to_type_it() {
        for command in COMMANDS {
            assert!(overview().contains(command.summary));
            assert!(command.help.contains(&format!("cargo xtask {}", command.name)), "{}", command.name);
            assert!(command.help.ends_with('\n'));
        }
    }

    #[test]
    fn an_unknown_command_is_told_the_known_ones() {
        let text = dispatch(&["tests".to_owned()]).unwrap_err().to_string();
        assert!(text.contains("`tests`") && text.contains("test, tidy, engines"), "{text}");
    }
}
