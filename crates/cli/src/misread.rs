//! A command line that makes no sense, told in two lines. Clap's own report is a small page.

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::args::Cli;
use crate::complaint::{Complaint, one_line};

/// What is wrong with a command line, and what to write instead.
pub(crate) fn complaint(error: &clap::Error, words: &[String]) -> Complaint {
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let what = one_line(first.strip_prefix("error: ").unwrap_or(first)).replace(":;", ":");
    let usage = text.lines().find_map(|line| line.strip_prefix("Usage: ")).map(|line| line.replace(" [OPTIONS]", ""));
    let page = page(words);
    match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let help = if words.is_empty() { "lockhouse run NAME -- COMMAND, or lockhouse --help" } else { &page };
            Complaint::usage("there is nothing to do").help(help)
        }
        ErrorKind::InvalidSubcommand => {
            no_such_command(error, words).unwrap_or_else(|| Complaint::usage(what).help(page))
        }
        // The command is what most people forget, or the two dashes before it.
        ErrorKind::MissingRequiredArgument if what.ends_with(": <COMMAND>...") => {
            let help = match usage {
                Some(usage) if usage.contains(" update ") => usage,
                Some(usage) => format!("{usage}, or -c 'LINE OF SHELL'"),
                None => page,
            };
            Complaint::usage("there is no command to run: it comes after --").help(help)
        }
        ErrorKind::ArgumentConflict => Complaint::usage(what).help("one of both alone"),
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => {
            let (what, how) = bad_value(&what).unwrap_or((what, page));
            Complaint::usage(what).help(how)
        }
        _ => {
            let flag = suggested(error, ContextKind::SuggestedArg);
            Complaint::usage(what).help(flag.or(usage).unwrap_or(page))
        }
    }
}

fn no_such_command(error: &clap::Error, words: &[String]) -> Option<Complaint> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let help = match suggested(error, ContextKind::SuggestedSubcommand) {
        _ if words.iter().any(|word| word == "--") => format!("lockhouse run {word} -- COMMAND"),
        Some(command) => format!("lockhouse {command}, or lockhouse --help for all commands"),
        None => page(words),
    };
    Some(Complaint::usage(format!("there is no command {word:?}")).help(help))
}

/// What comes after the flag says how to write it, and is what to try.
fn bad_value(text: &str) -> Option<(String, String)> {
    let (what, how) = text.split_once(">': ").or(text.split_once(">'; "))?;
    let how = match how.strip_prefix("[possible values: ") {
        Some(values) => format!("one of {}", values.trim_end_matches(']')),
        None => how.strip_prefix("write ").map(|_| how.to_owned())?,
    };
    Some((format!("{what}>'"), how))
}

fn suggested(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(word) => Some(word.clone()),
        ContextValue::Strings(words) => words.first().cloned(),
        _ => None,
    }
}

/// The command that shows the page on what was meant.
fn page(words: &[String]) -> String {
    let command = Cli::command();
    let meant = words.iter().find(|word| command.find_subcommand(word).is_some());
    meant.map_or_else(|| "lockhouse --help".to_owned(), |meant| format!("lockhouse {meant} --help"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[track_caller]
    fn told(line: &str) -> String {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let error = Cli::try_parse_from(["lockhouse".to_owned()].iter().chain(&words)).unwrap_err();
        complaint(&error, &words).text()
    }

    #[test]
    fn what_to_try_is_what_was_meant() {
        for (line, help) in [
            ("", "lockhouse run NAME -- COMMAND, or lockhouse --help"),
            ("cell", "lockhouse cell --help"),
            ("hello -- echo hi", "lockhouse run hello -- COMMAND"),
            ("list", "lockhouse ls, or lockhouse --help for all commands"),
            ("run x echo hi", "lockhouse run NAME... -- COMMAND..., or -c 'LINE OF SHELL'"),
            ("run x --wait 30 -- true", "write it like 500ms, 30s, 5m or 1h30m"),
            ("run x -c", "lockhouse run --help"),
            ("run x --busy-code 300 -- true", "lockhouse run --help"),
            ("run x --shared --permits 1/2 -- true", "one of both alone"),
            ("cell foo", "lockhouse cell --help"),
            ("completions tcsh", "one of bash, elvish, fish, powershell, zsh"),
        ] {
            let told = told(line);
            assert_eq!(told.lines().nth(1), Some(format!("  try: {help}").as_str()), "{line}: {told}");
        }
    }
}
