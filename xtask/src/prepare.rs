//! What a step needs before it can run: parts of the toolchain.

use std::process::{Command, Stdio};

use crate::children::Process;
use crate::environment;
use crate::problem::Problem;
use crate::steps::Step;

/// The parts of the toolchain that these steps need and that are not there.
pub(crate) fn missing_components(steps: &[&Step]) -> Vec<&'static str> {
    let needed = steps.iter().filter_map(|step| step.component);
    needed.filter(|component| !answers(component)).collect()
}

/// Asked through cargo, as the step will: rustup puts a stand-in on `PATH` also for what is not installed.
fn answers(component: &str) -> bool {
    let word = if component == "rustfmt" { "fmt" } else { component };
    let mut command = Command::new("cargo");
    command.args([word, "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Adds parts to the toolchain, with rustup.
pub(crate) fn add_components(components: &[&str]) -> Result<(), Problem> {
    if components.is_empty() {
        return Ok(());
    }
    let list = components.join(" ");
    if environment::program("rustup").is_none() {
        return Err(Problem::new(format!("this Rust toolchain lacks {list}"))
            .because("there is no rustup to add it with")
            .advise("install it the way the toolchain was installed, or use a toolchain of rustup"));
    }
    println!("Adding {list} to the toolchain with rustup.");
    let mut command = Command::new("rustup");
    command.args(["component", "add"]).args(components);
    let status = Process::start_at_terminal("rustup", command)?.finish()?;
    if status.success() {
        return Ok(());
    }
    Err(Problem::new(format!("rustup could not add {list}"))
        .because(format!("{status}; its own words are above"))
        .advise(format!("rustup component add {list}")))
}
