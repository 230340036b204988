//! `lockhouse elect`: a command that runs while we lead.

use std::cell::RefCell;

use lockhouse::line::kind;
use lockhouse::{Name, Owner};
use serde_json::json;

use crate::args::Elect;
use crate::complaint::Outcome;
use crate::exit::Exit;
use crate::here::{Here, who};
use crate::holding::Wanted;
use crate::plan::{self, Orders};
use crate::signals::Signals;
use crate::under::{After, Under};

/// Campaigns, runs the command while leading, and campaigns again after a loss. When the command ends by itself, so
/// does this.
pub(crate) async fn elect(here: &Here, args: Elect) -> Outcome<Exit> {
    let orders = Orders::new(&args.task, &args.lease, &here.config.run)?;
    let address = here.address(None)?;
    // An election is the mutex of its name.
    let wanted = Wanted {
        engine: address.shown(),
        names: [Name::new(&args.name)?].into(),
        capacity: kind::MUTEX,
        weight: kind::MUTEX,
        wait: None,
        ttl: plan::ttl(&args.lease, &here.config.run),
        at_least: None,
        at_most: args.lease.at_most,
        priority: args.lease.priority,
        owner: Owner::new(who(args.lease.owner.as_deref())),
        note: args.lease.note,
        waiting_for: RefCell::default(),
    };
    let mut under = Under { here, address, wanted, orders, signals: Signals::catch()? };
    let locks = match under.connect().await? {
        Ok(locks) => locks,
        Err(signal) => return Ok(Exit::Signal(signal.as_raw())),
    };
    loop {
        match under.go(&locks).await? {
            After::Ended(exit) => return Ok(exit),
            After::Interrupted(signal) => return Ok(Exit::Signal(signal.as_raw())),
            After::Busy(complaint) => return Err(complaint),
            After::Lost { complaint, told_to_end } if args.once || told_to_end => return Err(complaint),
            After::Lost { complaint, .. } => {
                let object = json!({ "event": "lost", "name": args.name, "why": complaint.what() });
                here.voice.say(&format!("{}; campaigning again", complaint.what()), &object);
            }
        }
    }
}
