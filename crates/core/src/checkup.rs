//! A look at the engine itself, for people: what `lockhouse doctor` shows.

use std::time::Duration;

use crate::error::Result;

/// What an engine says of its server when it is asked: facts, its clock, and what an operator should change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checkup {
    /// What was found out, in the order in which people should read it: the version, the members, the settings that
    /// matter for locks.
    pub facts: Vec<Fact>,
    /// The server's own clock when it answered, since the Unix epoch; `None` when it has no clock of its own.
    pub server_time: Option<Duration>,
    /// What to know and what to change.
    pub findings: Vec<Finding>,
}

/// One thing that was found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// What it is, such as `version`.
    pub what: String,
    /// What it says.
    pub value: String,
}

/// Something an operator should know, with what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, and why it matters for locks.
    pub what: String,
    /// The command, setting or URL to try.
    pub change: String,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing: the promises hold.
    Advice,
    /// A promise may be broken until it is changed.
    Danger,
}

impl Checkup {
    /// Adds a fact.
    #[must_use]
    pub fn fact(mut self, what: impl Into<String>, value: impl Into<String>) -> Self {
        self.facts.push(Fact { what: what.into(), value: value.into() });
        self
    }

    /// Adds something worth knowing.
    #[must_use]
    pub fn advice(self, what: impl Into<String>, change: impl Into<String>) -> Self {
        self.finding(Severity::Advice, what.into(), change.into())
    }

    /// Adds something that may break a promise.
    #[must_use]
    pub fn danger(self, what: impl Into<String>, change: impl Into<String>) -> Self {
        self.finding(Severity::Danger, what.into(), change.into())
    }

    fn finding(mut self, severity: Severity, what: String, change: String) -> Self {
        self.findings.push(Finding { severity, what, change });
        self
    }

    /// The members' checkups as one: each thing with the number of its member, and who is out of reach.
    pub(crate) fn of_members(members: Vec<(usize, Result<Self>)>, majority: usize) -> Self {
        let answering = members.iter().filter(|(_, checkup)| checkup.is_ok()).count();
        let mut whole = Self::default().fact("members", format!("{answering} of {} answer", members.len()));
        if answering <= majority {
            let what = format!("{answering} of {} members answer, and {majority} must", members.len());
            whole = match answering == majority {
                true => whole.advice(what, "bring the others back: with one less, no lock can be had"),
                false => whole.danger(what, "bring the others back: no lock can be had"),
            };
        }
        for (member, checkup) in members {
            let name = |what: String| format!("member {member}: {what}");
            match checkup {
                Ok(checkup) => {
                    whole.server_time = whole.server_time.or(checkup.server_time);
                    whole.facts.extend(checkup.facts.into_iter().map(|fact| Fact { what: name(fact.what), ..fact }));
                    let findings = checkup.findings.into_iter();
                    whole.findings.extend(findings.map(|one| Finding { what: name(one.what), ..one }));
                }
                Err(error) => whole = whole.advice(name(error.to_string()), "see whether it is running and reachable"),
            }
        }
        whole
    }
}
