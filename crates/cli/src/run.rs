//! `lockhouse run`: a command under a lock.

use std::cell::RefCell;
use std::time::Duration;

use lockhouse::line::kind;
use lockhouse::{Name, Owner};

use crate::address::Address;
use crate::args::{KindFlags, Run};
use crate::complaint::Outcome;
use crate::exit::Exit;
use crate::here::{Here, who};
use crate::holding::Wanted;
use crate::plan::{self, Orders};
use crate::signals::Signals;
use crate::under::{After, Under};

/// Takes the locks, runs the command, gives the locks back.
pub(crate) async fn run(here: &Here, args: Run) -> Outcome<Exit> {
    let orders = Orders::new(&args.task, &args.lease, &here.config.run)?;
    let address = here.address(None)?;
    let wanted = wanted(here, &args, &address)?;
    let mut under = Under { here, address, wanted, orders, signals: Signals::catch()? };
    let locks = match under.connect().await? {
        Ok(locks) => locks,
        Err(signal) => return Ok(Exit::Signal(signal.as_raw())),
    };
    match under.go(&locks).await? {
        After::Ended(exit) => Ok(exit),
        After::Interrupted(signal) => Ok(Exit::Signal(signal.as_raw())),
        After::Lost { complaint, .. } => Err(complaint),
        After::Busy(complaint) => Err(complaint.exit(args.busy_code.map_or(Exit::Busy, Exit::BusyAs))),
    }
}

fn wanted(here: &Here, args: &Run, address: &Address) -> Outcome<Wanted> {
    let defaults = &here.config.run;
    let (capacity, weight) = match args.kind {
        KindFlags { shared: true, .. } => (kind::WHOLE, kind::READER),
        KindFlags { exclusive: true, .. } => (kind::WHOLE, kind::WHOLE),
        KindFlags { permits: Some((permits, of)), .. } => (of, permits),
        _ => (kind::MUTEX, kind::MUTEX),
    };
    Ok(Wanted {
        engine: address.shown(),
        names: args.names.iter().map(Name::new).collect::<Result<_, _>>()?,
        capacity,
        weight,
        wait: if args.no_wait { Some(Duration::ZERO) } else { args.wait.or(defaults.wait) },
        ttl: plan::ttl(&args.lease, defaults),
        at_least: args.at_least,
        at_most: args.lease.at_most,
        priority: args.lease.priority,
        owner: Owner::new(who(args.lease.owner.as_deref())),
        note: args.lease.note.clone(),
        waiting_for: RefCell::default(),
    })
}
