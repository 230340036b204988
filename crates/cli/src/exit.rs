//! How `lockhouse` ends: every exit code, in one place.

use std::fmt::Write;
use std::process::ExitCode;

/// How `lockhouse` ends. The numbers are those of `sysexits.h` and of shells, which scripts know already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// What was asked for is done.
    Done,
    /// The command's own exit code.
    Command(u8),
    /// A signal ended the command, or us while we waited.
    Signal(i32),
    /// The command line makes no sense.
    Usage,
    /// The engine cannot be reached or cannot do its work.
    Unreachable,
    /// The lock was lost while the command ran.
    Lost,
    /// Somebody else has the lock.
    Busy,
    /// Somebody else has the lock, and `--busy-code` says what to answer then.
    BusyAs(u8),
    /// The configuration is wrong.
    Config,
    /// The command is there and cannot be run.
    CannotRun,
    /// There is no such command.
    NotFound,
}

/// What people are told of the codes, in the order of the codes.
const MEANINGS: &[(&str, &str)] = &[
    ("0", "done; run and elect: the command's own code, whatever it is"),
    ("64", "usage: a flag or name that makes no sense, or that this engine cannot serve"),
    ("69", "the engine cannot be reached, refuses us or cannot do its work"),
    ("74", "the lock was lost while the command ran, and the command was stopped"),
    ("75", "busy: somebody else has the lock, or the wait was over (--busy-code N changes it)"),
    ("78", "configuration: the config file or a LOCKHOUSE_ variable is wrong"),
    ("126", "the command is there and cannot be run"),
    ("127", "there is no such command"),
    ("128+n", "signal n ended the command, or lockhouse while it waited"),
];

impl Exit {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Command(code) | Self::BusyAs(code) => code,
            Self::Signal(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
            Self::Usage => 64,
            Self::Unreachable => 69,
            Self::Lost => 74,
            Self::Busy => 75,
            Self::Config => 78,
            Self::CannotRun => 126,
            Self::NotFound => 127,
        }
    }

    /// The codes as lines of text, for `--help` and the man page.
    pub(crate) fn table() -> String {
        MEANINGS.iter().fold(String::from("Exit codes:"), |mut text, (code, meaning)| {
            let _ = write!(text, "\n  {code:<6} {meaning}");
            text
        })
    }

    /// The codes one by one.
    pub(crate) fn meanings() -> &'static [(&'static str, &'static str)] {
        MEANINGS
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_explained() {
        let exits = [Exit::Done, Exit::Usage, Exit::Unreachable, Exit::Lost, Exit::Busy, Exit::Config, Exit::CannotRun];
        for exit in exits.into_iter().chain([Exit::NotFound]) {
            let code = exit.code().to_string();
            assert!(MEANINGS.iter().any(|(known, _)| *known == code), "{code}");
        }
        assert_eq!(Exit::Signal(11).code(), 139);
    }
}
