//! The keeper: renews the leases of a client's claims, tells of losses, and takes out what was dropped.
//!
//! It is one OS thread with a runtime and a connection of its own, where no user code ever runs: a blocked or busy
//! runtime of the caller's cannot stop it. Nothing blocks it either: every request is one of many in flight and has a
//! time limit, and the end of a hold is a timer that does not depend on any answer.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{SetOnce, oneshot};

use crate::claim::Claim;
use crate::clock::{Clock, Moment};
use crate::engine::{Connector, Engine, Renewal, Side};
use crate::error::{Error, Kind, Result};
use crate::ledger::{Ledger, Parting, Sent};
use crate::meters::Meters;

/// How many leases are renewed in one request: enough to make the request's cost small beside theirs, few enough for
/// engines that work through a request in one go.
const RENEWALS_A_REQUEST: usize = 1_000;
/// How many withdrawals are in flight at once.
const WITHDRAWALS_AT_ONCE: usize = 64;
/// The longest that one request of the keeper's may take.
const LONGEST_REQUEST: Duration = Duration::from_secs(5);
/// The time between two attempts to take a claim out: it doubles from the first to the last of these. One that arrives
/// late is not in the way of others for longer than that.
const PART_AGAIN: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(250));

/// What is in flight, when it has come back.
#[derive(Debug)]
enum Done {
    Renewed { sent: Vec<Sent>, t0: Moment, answers: Option<Vec<Renewal>> },
    Parted { parting: Parting, gone: bool },
}

/// Starts the keeper on a thread of its own, and connects it there.
pub(crate) async fn start(
    connector: Arc<dyn Connector>,
    ledger: Arc<Ledger>,
    drained: Arc<SetOnce<()>>,
) -> Result<Arc<dyn Engine>> {
    let (connected, answer) = oneshot::channel();
    let front = Arc::clone(&connector);
    let thread = std::thread::Builder::new().name("lockhouse-keeper".into()).spawn(move || {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return drop(connected.send(Err(cannot_start(error)))),
        };
        runtime.block_on(async move {
            match connector.connect(Side::Keeper).await {
                Ok(engine) => {
                    let meters = Meters::new(engine.guarantees().engine);
                    if connected.send(Ok(())).is_ok() {
                        keep(ledger, engine, Clock::Boot, meters, drained).await;
                    }
                }
                Err(error) => drop(connected.send(Err(error))),
            }
        });
    });
    thread.map_err(cannot_start)?;
    answer.await.map_err(|_| Error::new(Kind::Closed, "the keeper's thread ended while it connected"))??;
    front.connect(Side::Front).await
}

fn cannot_start(error: std::io::Error) -> Error {
    Error::new(Kind::Engine, "the keeper's thread cannot be started").because(error)
}

/// Keeps the claims of the ledger until it is closed and everything in it is taken out.
pub(crate) async fn keep(
    ledger: Arc<Ledger>,
    engine: Arc<dyn Engine>,
    clock: Clock,
    meters: Meters,
    drained: Arc<SetOnce<()>>,
) {
    // However this ends, by its own end, by a panic or by its runtime's: nobody believes in a hold that is not kept.
    let _end = End { ledger: Arc::clone(&ledger), drained };
    // Dropped before `_end`: who waits for the end may end the process, and the engine's side must be cleaned up by
    // then.
    let engine = engine;
    let mut in_flight: FuturesUnordered<BoxFuture<'static, Done>> = FuturesUnordered::new();
    let mut partings: Vec<Parting> = Vec::new();
    let mut withdrawing = 0;
    loop {
        let due = ledger.take_due(clock.now());
        due.lost.iter().for_each(|hold| meters.lost(hold));
        let mut renewals = due.renewals.into_iter().peekable();
        while renewals.peek().is_some() {
            let batch = renewals.by_ref().take(RENEWALS_A_REQUEST).collect();
            in_flight.push(Box::pin(renew(Arc::clone(&engine), clock, batch)));
        }
        partings.extend(due.partings);
        let starting = partings.len().min(WITHDRAWALS_AT_ONCE - withdrawing);
        for parting in partings.drain(..starting) {
            withdrawing += 1;
            in_flight.push(Box::pin(part(Arc::clone(&engine), clock, parting)));
        }
        if due.finished && partings.is_empty() && withdrawing == 0 {
            return;
        }
        tokio::select! {
            biased;
            () = ledger.wake.notified() => {}
            () = clock.sleep_until(due.next.unwrap_or(Moment::NEVER)), if due.next.is_some() => {}
            Some(done) = in_flight.next() => match done {
                Done::Renewed { sent, t0, answers } => {
                    meters.renewals(&sent, answers.as_deref(), clock.now());
                    ledger.renewed(sent, t0, answers).iter().for_each(|hold| meters.lost(hold));
                }
                Done::Parted { parting, gone } => {
                    withdrawing -= 1;
                    settle(&ledger, clock, parting, gone);
                }
            },
        }
    }
}

struct End {
    ledger: Arc<Ledger>,
    drained: Arc<SetOnce<()>>,
}

impl Drop for End {
    fn drop(&mut self) {
        self.ledger.abandon_all();
        // Set before only if the keeper was started twice, which `Locks` never does.
        let _ = self.drained.set(());
    }
}

async fn renew(engine: Arc<dyn Engine>, clock: Clock, sent: Vec<Sent>) -> Done {
    let claims: Vec<Claim> = sent.iter().map(|sent| sent.hold.claim.clone()).collect();
    let shortest = claims.iter().map(|claim| claim.ttl).min().unwrap_or(LONGEST_REQUEST);
    let t0 = clock.now();
    let answers = match tokio::time::timeout((shortest / 3).min(LONGEST_REQUEST), engine.renew(&claims)).await {
        Ok(Ok(answers)) => {
            debug_assert_eq!(answers.len(), claims.len(), "one answer per claim");
            Some(answers)
        }
        Ok(Err(error)) => {
            tracing::warn!(%error, claims = claims.len(), "leases could not be renewed; trying again");
            None
        }
        Err(_) => {
            tracing::warn!(claims = claims.len(), "no answer to a renewal in time; trying again");
            None
        }
    };
    Done::Renewed { sent, t0, answers }
}

/// Takes a claim out of the engine, or gives it the last lease it is to have.
async fn part(engine: Arc<dyn Engine>, clock: Clock, parting: Parting) -> Done {
    let limit = parting.hold.claim.ttl.min(LONGEST_REQUEST);
    let gone = tokio::time::timeout(limit, async {
        match parting.linger_until.map(|until| until.since(clock.now())).filter(|left| !left.is_zero()) {
            Some(left) => linger(&*engine, &parting.hold.claim, left).await.map(|_| true),
            // A claim that may still be on its way is withdrawn again, until none can be.
            None => engine.withdraw(&parting.hold.claim).await.map(|withdrawal| parting.hold.is_out(withdrawal)),
        }
    });
    let gone = matches!(gone.await, Ok(Ok(true)));
    Done::Parted { parting, gone }
}

/// Gives a claim its last lease: nobody will renew it again.
pub(crate) async fn linger(engine: &dyn Engine, claim: &Claim, left: Duration) -> Result<Renewal> {
    let last = Claim { ttl: left, lingers: true, ..claim.clone() };
    match engine.renew(&[last]).await?.first() {
        Some(answer @ (Renewal::Renewed | Renewal::Gone)) => Ok(*answer),
        _ => Err(Error::new(Kind::Unreachable, "the engine could not tell whether the claim lingers").unknown()),
    }
}

fn settle(ledger: &Ledger, clock: Clock, parting: Parting, gone: bool) {
    if gone {
        return;
    }
    if clock.now() >= parting.give_up {
        tracing::debug!(name = %parting.hold.claim.name, "a claim was left to its lease: it could not be withdrawn");
        return;
    }
    let (first, last) = PART_AGAIN;
    let after = first.saturating_mul(1 << parting.attempts.min(10)).min(last);
    ledger.part_again(parting, after);
}
