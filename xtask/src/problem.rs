//! What went wrong, why, and what to do about it.

use std::fmt;
use std::io;
use std::path::Path;

/// The exit code for a command line that makes no sense (`EX_USAGE` of sysexits).
const USAGE: u8 = 64;

/// An error for people.
#[derive(Debug)]
pub(crate) struct Problem {
    what: String,
    why: Option<String>,
    advice: Option<String>,
    code: u8,
}

impl Problem {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), why: None, advice: None, code: 1 }
    }

    /// The command line makes no sense.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self { code: USAGE, ..Self::new(what) }
    }

    /// A signal asked us to end. The exit code is the one a shell would give.
    pub(crate) fn interrupted(signal: i32) -> Self {
        Self { code: u8::try_from(128 + signal).unwrap_or(1), ..Self::new("interrupted") }
    }

    /// A file or folder could not be used.
    pub(crate) fn file(doing: &str, path: &Path, error: &io::Error) -> Self {
        Self::new(format!("cannot {doing} {}", path.display())).because(error.to_string())
    }

    pub(crate) fn because(mut self, why: impl Into<String>) -> Self {
        self.why = Some(why.into());
        self
    }

    pub(crate) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    pub(crate) fn with_code(mut self, code: i32) -> Self {
        // A failure must never end as success, whatever the child said.
        self.code = u8::try_from(code).ok().filter(|&code| code != 0).unwrap_or(1);
        self
    }

    pub(crate) fn code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.what)?;
        if let Some(why) = &self.why {
            write!(f, "\n  why: {}", why.trim_end().replace('\n', "\n       "))?;
        }
        if let Some(advice) = &self.advice {
            write!(f, "\n  try: {advice}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_why_and_what_to_do() {
        let problem = Problem::new("no server").because("it is not installed").advise("install it");
        assert_eq!(problem.to_string(), "error: no server\n  why: it is not installed\n  try: install it");
    }

    #[test]
    fn a_problem_never_exits_as_success() {
        assert_eq!(Problem::new("x").with_code(0).code(), 1);
        assert_eq!(Problem::new("x").with_code(-1).code(), 1);
        assert_eq!(Problem::new("x").with_code(101).code(), 101);
        assert_eq!(Problem::interrupted(2).code(), 130);
    }
}
