//! What is to be run, and how it is stopped.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::time::Duration;

use lockhouse::{DEFAULT_TTL, Moment};

use crate::args::{Lease, OnLost, Task};
use crate::complaint::{Complaint, Outcome};
use crate::config::Defaults;
use crate::duration::show;
use crate::processes::Reach;

/// The time between SIGTERM and SIGKILL when none is given: what service managers' users are used to, halved.
const DEFAULT_GRACE: Duration = Duration::from_secs(5);
/// The first argument of a warden.
pub(crate) const WARDEN: &str = "__warden";

/// What a warden is told when it starts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Orders {
    pub(crate) reach: Reach,
    pub(crate) on_lost: OnLost,
    /// The time between SIGTERM and SIGKILL.
    pub(crate) grace: Duration,
    /// What SIGKILL comes earlier than the end of the lock: the time in which killed processes are gone.
    pub(crate) margin: Duration,
    /// The lock is held for certain until then, if nothing else is said.
    pub(crate) until: Moment,
    pub(crate) command: Vec<OsString>,
}

impl Orders {
    /// Makes sense of the flags.
    pub(crate) fn new(task: &Task, lease: &Lease, defaults: &Defaults) -> Outcome<Self> {
        let ttl = ttl(lease, defaults);
        let on_lost = task.on_lost.or(defaults.on_lost).unwrap_or(OnLost::Term);
        let longest = lease.at_most.map_or(ttl, |at_most| ttl.min(at_most));
        let grace = task.grace.or(defaults.grace);
        // The lease is renewed when a third of it is over, and another third is for an engine that is slow to answer.
        if let Some(grace) = grace.filter(|grace| *grace > longest / 3) {
            let what = format!("a grace of {} does not fit into {}", show(grace), show(longest));
            let help = format!("--grace {} or less, or --ttl {} or more", show(longest / 3), show(grace * 3));
            return Err(Complaint::usage(what).help(help));
        }
        let grace = grace.unwrap_or(DEFAULT_GRACE.min(longest / 4));
        let margin = margin(longest);
        let command = match &task.shell {
            Some(line) => ["sh".into(), "-c".into(), line.clone()].into(),
            None => task.command.clone(),
        };
        Ok(Self { reach: reach(), on_lost, grace, margin, until: Moment::NEVER, command })
    }

    /// Under a lock of somebody else's the time is theirs: what is planned has to fit into their lease.
    pub(crate) fn fit(&mut self, ttl: Duration) {
        self.grace = self.grace.min(ttl / 3);
        self.margin = self.margin.min(margin(ttl));
    }

    /// As the arguments of a warden.
    pub(crate) fn arguments(&self, until: Moment) -> impl Iterator<Item = OsString> {
        let reach = if self.reach == Reach::Group { "group" } else { "session" };
        let on_lost = match self.on_lost {
            OnLost::Term => "term",
            OnLost::Kill => "kill",
            OnLost::Ignore => "ignore",
        };
        let times = [self.grace, self.margin].map(|time| time.as_millis().to_string());
        let [grace, margin] = times;
        let until = until.as_nanos().to_string();
        let words = [WARDEN.to_owned(), reach.to_owned(), on_lost.to_owned(), grace, margin, until];
        words.map(OsString::from).into_iter().chain(self.command.iter().cloned())
    }

    /// From the arguments of a warden, without the first. `None` when somebody else wrote them.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        let reach = match arguments.next()?.to_str()? {
            "group" => Reach::Group,
            "session" => Reach::Session,
            _ => return None,
        };
        let on_lost = match arguments.next()?.to_str()? {
            "term" => OnLost::Term,
            "kill" => OnLost::Kill,
            "ignore" => OnLost::Ignore,
            _ => return None,
        };
        let mut time = || Some(Duration::from_millis(arguments.next()?.to_str()?.parse().ok()?));
        let (grace, margin) = (time()?, time()?);
        let until = Moment::from_nanos(arguments.next()?.to_str()?.parse().ok()?);
        let command: Vec<OsString> = arguments.collect();
        (!command.is_empty()).then_some(Self { reach, on_lost, grace, margin, until, command })
    }

    /// The command's name, for people.
    pub(crate) fn program(&self) -> &OsStr {
        self.command.first().map_or(OsStr::new(""), OsString::as_os_str)
    }
}

/// The time in which a warden wakes up and what it kills is gone. A busy machine may need as much as a twentieth of any
/// lease, and none needs more than some seconds; a user who fears more takes a longer lease.
fn margin(lease: Duration) -> Duration {
    (lease / 20).clamp(Duration::from_millis(5), Duration::from_secs(5))
}

/// The lease: a flag, the config file, or the library's default.
pub(crate) fn ttl(lease: &Lease, defaults: &Defaults) -> Duration {
    lease.ttl.or(defaults.ttl).unwrap_or(DEFAULT_TTL)
}

/// On a terminal the command stays in the job that the shell made: it keeps the keyboard, and Ctrl-C and Ctrl-Z reach
/// it from the terminal itself.
fn reach() -> Reach {
    let on_terminal =
        std::io::stdin().is_terminal() || std::io::stdout().is_terminal() || std::io::stderr().is_terminal();
    if on_terminal { Reach::Session } else { Reach::Group }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warden_understands_its_orders() {
        let orders = Orders {
            reach: Reach::Session,
            on_lost: OnLost::Kill,
            grace: Duration::from_millis(1500),
            margin: Duration::from_millis(20),
            until: Moment::from_nanos(7),
            command: vec!["a".into(), "-b".into(), "".into()],
        };
        let arguments: Vec<OsString> = orders.arguments(orders.until).collect();
        assert_eq!(arguments[0], WARDEN);
        assert_eq!(Orders::parse(arguments.into_iter().skip(1)), Some(orders));
        assert_eq!(
            Orders::parse(["group".into(), "term".into(), "1".into(), "1".into(), "1".into()].into_iter()),
            None
        );
    }
}
