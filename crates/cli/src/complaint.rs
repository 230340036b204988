//! What is said when something is wrong: one or two lines, with what, why, and the command or flag to try.

use std::io::Write as _;

use lockhouse::{Error, Kind};

use crate::exit::Exit;
use crate::table::clean;

/// What is wrong, what to try, and how to end.
#[derive(Debug)]
pub(crate) struct Complaint {
    pub(crate) exit: Exit,
    what: String,
    help: Option<String>,
    /// What the library calls it, if it comes from there.
    kind: Option<Kind>,
}

/// The result of everything that can end in a complaint.
pub(crate) type Outcome<T> = Result<T, Complaint>;

impl Complaint {
    pub(crate) fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self { exit, what: what.into(), help: None, kind: None }
    }

    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::new(Exit::Usage, what)
    }

    pub(crate) fn config(what: impl Into<String>) -> Self {
        Self::new(Exit::Config, what)
    }

    /// What is wrong.
    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    /// Whether the engine refuses us: credentials, rights, something that somebody else has to create.
    pub(crate) fn is_refusal(&self) -> bool {
        self.kind == Some(Kind::Denied)
    }

    /// What to try.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The same complaint with another end.
    pub(crate) fn exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// Tells it on standard error.
    pub(crate) fn tell(&self, json: bool) {
        let text = if json {
            let object = serde_json::json!({ "error": self.what, "try": self.help, "exit": self.exit.code() });
            format!("{object}\n")
        } else {
            self.text()
        };
        // Nobody is left to tell when standard error is gone.
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
    }

    pub(crate) fn text(&self) -> String {
        let what = one_line(&self.what);
        match &self.help {
            Some(help) => format!("lockhouse: {what}\n  try: {}\n", one_line(help)),
            None => format!("lockhouse: {what}\n"),
        }
    }
}

/// A panic: our mistake, told like any other.
pub(crate) fn bug(panic: &std::panic::PanicHookInfo<'_>) {
    let at = panic.location().map(ToString::to_string).unwrap_or_default();
    let what = panic.payload_as_str().unwrap_or("no reason is given");
    Complaint::usage(format!("this is a bug of lockhouse: {what} ({at})"))
        .help("the same command with --verbose, and report what it says")
        .tell(false);
}

/// Causes come from elsewhere and may have lines of their own.
pub(crate) fn one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    clean(&lines.collect::<Vec<_>>().join("; "))
}

impl From<Error> for Complaint {
    fn from(error: Error) -> Self {
        let (exit, otherwise) = match error.kind() {
            Kind::Invalid | Kind::Unsupported => (Exit::Usage, "lockhouse --help"),
            Kind::Conflict => (
                Exit::Usage,
                "one kind for one name: --exclusive beside --shared, the same n in --permits k/n everywhere, \
                 or neither; lockhouse show NAME tells who is in",
            ),
            Kind::Busy => (Exit::Busy, "--wait with a longer time"),
            Kind::Evicted => (Exit::Busy, "the same command again, to get in line anew"),
            Kind::Lost => (Exit::Lost, "the same command again"),
            _ => (Exit::Unreachable, "lockhouse doctor, to see what the engine says"),
        };
        let advice = match error.kind() {
            Kind::Conflict => None,
            _ => error.advice(),
        };
        let complaint = Self::new(exit, format!("{error:#}")).help(advice.unwrap_or(otherwise));
        Self { kind: Some(error.kind()), ..complaint }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_has_one_or_two_lines() {
        let complaint = Complaint::usage("a\nb").help("c\n\n  d");
        assert_eq!(complaint.text(), "lockhouse: a; b\n  try: c; d\n");
        assert_eq!(Complaint::config("a").text(), "lockhouse: a\n");
    }

    #[test]
    fn the_advice_of_an_error_is_what_to_try() {
        let complaint = Complaint::from(Error::new(Kind::Full, "the disk is full").help("free some space"));
        assert_eq!(complaint.exit, Exit::Unreachable);
        assert_eq!(complaint.text(), "lockhouse: the disk is full\n  try: free some space\n");
    }
}
