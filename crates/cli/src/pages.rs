//! `lockhouse completions` and `lockhouse man`: made from the command line itself, so that they cannot drift.

use clap::CommandFactory;
use clap_mangen::Man;

use crate::args::{Cli, Completions, Man as ManArgs};
use crate::complaint::{Complaint, Outcome};
use crate::exit::Exit;
use crate::table::print;

/// The completions for a shell.
pub(crate) fn completions(args: &Completions) -> Outcome<Exit> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "lockhouse", &mut text);
    print(text)?;
    Ok(Exit::Done)
}

/// The manual page, of all or of one command.
pub(crate) fn man(args: &ManArgs) -> Outcome<Exit> {
    let mut all = Cli::command();
    all.build();
    let command = match &args.command {
        None => all,
        Some(name) => all.find_subcommand(name).cloned().ok_or_else(|| {
            Complaint::usage(format!("there is no command {name:?}"))
                .help("lockhouse --help, for the commands there are")
        })?,
    };
    print(page(command).map_err(|error| Complaint::usage(format!("the page cannot be made: {error}")))?)?;
    Ok(Exit::Done)
}

fn page(command: clap::Command) -> std::io::Result<Vec<u8>> {
    // The exit codes have a section of their own here, where readers of manual pages look for them.
    let man = Man::new(command.after_help("").version(env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    man.render_subcommands_section(&mut text)?;
    text.extend(b".SH \"EXIT STATUS\"\n");
    for (code, meaning) in Exit::meanings() {
        text.extend(format!(".TP\n\\fB{code}\\fR\n{}\n", meaning.replace('-', "\\-")).bytes());
    }
    text.extend(b".SH ENVIRONMENT\n");
    for (variable, meaning) in VARIABLES {
        text.extend(format!(".TP\n\\fB{variable}\\fR\n{}\n", meaning.replace('-', "\\-")).bytes());
    }
    man.render_version_section(&mut text)?;
    Ok(text)
}

/// The variables that are read, and those that a command finds.
const VARIABLES: &[(&str, &str)] = &[
    ("LOCKHOUSE_ENGINE", "the engine when --engine is not given; set for the command"),
    ("LOCKHOUSE_CONFIG", "the config file when --config is not given; set for the command"),
    ("LOCKHOUSE_NAME", "set for the command: the names it holds, one a line"),
    ("LOCKHOUSE_TOKEN", "set for the command: the fencing tokens of these names, one a line"),
    ("LOCKHOUSE_HELD", "set for the command: whom a lockhouse inside it asks for what is held"),
    ("NO_COLOR", "no colour, also on a terminal"),
];
