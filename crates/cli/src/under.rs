//! A command under its locks, from the wait to the exit code: what `run` and `elect` have in common.

use std::time::{Duration, Instant};

use lockhouse::{Locks, Loss};
use rustix::process::Signal;
use serde_json::json;

use crate::above::{Above, HELD};
use crate::address::Address;
use crate::args::OnLost;
use crate::child::{self, Ran};
use crate::complaint::{Complaint, Outcome};
use crate::eviction;
use crate::exit::Exit;
use crate::here::Here;
use crate::holding::{Holding, Lost, Wanted};
use crate::lifeline::{Held, Lifeline};
use crate::plan::Orders;
use crate::signals::Signals;
use crate::waiting::{Standing, show_wait};

/// A command, its locks, and what it takes to run it under them.
pub(crate) struct Under<'a> {
    pub(crate) here: &'a Here,
    pub(crate) address: Address,
    pub(crate) wanted: Wanted,
    pub(crate) orders: Orders,
    pub(crate) signals: Signals,
}

/// What came of it.
pub(crate) enum After {
    /// The command ended by itself.
    Ended(Exit),
    /// Somebody else has the lock.
    Busy(Complaint),
    /// The lock was lost, and the command was stopped. `told_to_end` when we had been told to end before.
    Lost { complaint: Complaint, told_to_end: bool },
    /// We were told to end before there was a command.
    Interrupted(Signal),
}

/// Whom a `lockhouse` inside the command is to ask for what is held: us, and those further up.
fn held(holding: &Holding, lifeline: Option<&str>) -> String {
    let claims = holding.claims();
    // What the environment says of a name we hold is either what we say of it or out of date.
    let known = |above: &Above| claims.iter().any(|claim| claim.name == above.name);
    let further = Above::all().into_iter().filter(|above| !known(above));
    let ours = holding.ours().into_iter().filter_map(|held| {
        let address = lifeline?.to_owned();
        Some(Above { address, name: held.name })
    });
    let all = further.chain(holding.above().cloned()).chain(ours);
    all.map(|above| above.line()).collect::<Vec<_>>().join("\n")
}

impl Under<'_> {
    /// Connects. `Err` with the signal when one came first.
    pub(crate) async fn connect(&mut self) -> Outcome<Result<Locks, Signal>> {
        tokio::select! {
            biased;
            signal = self.signals.end() => Ok(Err(signal)),
            locks = self.here.connect_to(&self.address) => locks.map(Ok),
        }
    }

    /// Waits for the locks and runs the command under them.
    pub(crate) async fn go(&mut self, locks: &Locks) -> Outcome<After> {
        let voice = &self.here.voice;
        let taken = tokio::select! {
            biased;
            signal = self.signals.end() => Err(signal),
            taken = self.wanted.take(locks) => Ok(taken),
            never = show_wait(locks, &self.wanted, voice) => match never {},
        };
        voice.clear();
        let holding = match taken {
            Err(signal) => return Ok(After::Interrupted(signal)),
            Ok(taken) => match taken? {
                Some(holding) => holding,
                None => return Ok(After::Busy(self.busy(locks).await)),
            },
        };
        let taken_at = Instant::now();
        self.orders.fit(holding.ttl());
        let lifeline = Lifeline::new(&holding.ours());
        let environment = self.environment(&holding, lifeline.address());
        let ran = child::run(&self.orders, &environment, &holding, lifeline, &mut self.signals).await;
        self.finish(locks, holding, ran, taken_at).await
    }

    /// Gives the locks back, and finds out whether they were held to the end.
    async fn finish(&self, locks: &Locks, holding: Holding, ran: Outcome<Ran>, taken_at: Instant) -> Outcome<After> {
        let lost_by_now = holding.lost_by_now().await;
        let names: Vec<String> = holding.claims().iter().map(|claim| claim.name.clone()).collect();
        let names = names.join(", ");
        let not_held = holding.release().await.unwrap_or_else(|error| {
            let text = format!("the lock {names} may still be taken until its lease is over: {error}");
            self.here.voice.say(&text, &json!({ "event": "not_released", "name": names, "error": error.to_string() }));
            None
        });
        let ran = ran?;
        let not_held = not_held.map(|claim| Lost { claim, why: Loss::Gone });
        let lost = ran.lost.or(lost_by_now).or(not_held);
        if lost.is_none() && !ran.stopped {
            return Ok(After::Ended(ran.exit));
        }
        let why = self.why(locks, lost.as_ref(), taken_at).await;
        let name = lost.map_or(names, |lost| lost.claim.name);
        if self.orders.on_lost == OnLost::Ignore {
            let text = format!("the lock {name} was lost while the command ran: {why}");
            self.here.voice.say(&text, &json!({ "event": "lost", "name": name, "why": why }));
            return Ok(After::Ended(ran.exit));
        }
        let end = if ran.stopped { "the command was stopped" } else { "the command had ended by then" };
        let complaint = Complaint::new(Exit::Lost, format!("the lock {name} was lost: {why}; {end}"));
        let complaint = complaint.help(format!("lockhouse show {name:?}, to see who has it now"));
        Ok(After::Lost { complaint, told_to_end: ran.told_to_end })
    }

    async fn busy(&self, locks: &Locks) -> Complaint {
        let name = self.wanted.waiting_for.take();
        let line = match &name {
            Some(name) => locks.line(name.as_str()).await.ok().flatten(),
            None => None,
        };
        let held_by = name.as_ref().and_then(|name| Standing::new(name, line.as_ref(), "").held_by());
        let name = name.map(|name| name.to_string()).unwrap_or_default();
        let what = match held_by {
            Some(held_by) => format!("{name} is busy: {held_by}"),
            None => format!("{name} was busy"),
        };
        Complaint::new(Exit::Busy, what).help(match self.wanted.wait {
            Some(Duration::ZERO) => format!("--wait 30s to wait for it, or lockhouse show {name:?}"),
            _ => format!("a longer --wait, or lockhouse show {name:?}"),
        })
    }

    /// What the command finds in its environment. Names cannot contain line breaks, so several are told one a line.
    fn environment(&self, holding: &Holding, lifeline: Option<&str>) -> Vec<(&'static str, String)> {
        let claims = holding.claims();
        let each =
            |part: &dyn Fn(&Held) -> String| claims.iter().map(|claim| part(claim)).collect::<Vec<_>>().join("\n");
        let mut environment = vec![
            ("LOCKHOUSE_NAME", each(&|claim| claim.name.clone())),
            ("LOCKHOUSE_TOKEN", each(&|claim| claim.token.to_string())),
            (HELD, held(holding, lifeline)),
        ];
        if !self.address.handed_on.is_empty() {
            environment.push(("LOCKHOUSE_ENGINE", self.address.handed_on.clone()));
        }
        if let Some(config) = self.here.config.path.to_str().filter(|path| !path.is_empty()) {
            environment.push(("LOCKHOUSE_CONFIG", config.to_owned()));
        }
        environment
    }

    /// Why a lock was lost, for people. A command that was stopped in time leaves a lock that is not lost yet.
    async fn why(&self, locks: &Locks, lost: Option<&Lost>, taken_at: Instant) -> String {
        let held = taken_at.elapsed() + self.orders.grace + self.orders.margin;
        let too_long = self.wanted.at_most.is_some_and(|at_most| held >= at_most);
        match lost {
            Some(Lost { claim, why: Loss::Gone }) => {
                eviction::told(locks, claim).await.unwrap_or_else(|| Loss::Gone.to_string())
            }
            Some(lost) if lost.why != Loss::HeldTooLong => lost.why.to_string(),
            None if !too_long => Loss::Expired.to_string(),
            _ => "it was held for as long as --at-most permits".to_owned(),
        }
    }
}
