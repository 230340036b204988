//! What is counted and measured, through the `metrics` facade.
//!
//! | metric | kind | meaning |
//! | --- | --- | --- |
//! | `lockhouse_acquired_total` | counter | locks granted |
//! | `lockhouse_busy_total` | counter | requests refused or out of patience |
//! | `lockhouse_errors_total` | counter | requests that failed |
//! | `lockhouse_wait_seconds` | histogram | from the request to the grant |
//! | `lockhouse_hold_seconds` | histogram | from the grant to the release |
//! | `lockhouse_renewals_total` | counter | leases renewed |
//! | `lockhouse_renewal_margin_seconds` | histogram | validity that was left when a renewal came back |
//! | `lockhouse_renewal_failures_total` | counter | renewals without an answer |
//! | `lockhouse_losses_total` | counter | locks lost while they were held |
//!
//! Each carries the label `engine`. The handles are made when a client connects: install the recorder before.

use std::time::Duration;

use metrics::{Counter, Histogram, counter, histogram};

use crate::clock::Moment;
use crate::engine::Renewal;
use crate::hold::Hold;
use crate::ledger::Sent;

#[derive(Clone)]
pub(crate) struct Meters {
    pub(crate) acquired: Counter,
    pub(crate) busy: Counter,
    pub(crate) errors: Counter,
    pub(crate) wait: Histogram,
    hold: Histogram,
    renewals: Counter,
    renewal_margin: Histogram,
    renewal_failures: Counter,
    losses: Counter,
}

impl Meters {
    pub(crate) fn new(engine: &'static str) -> Self {
        Self {
            acquired: counter!("lockhouse_acquired_total", "engine" => engine),
            busy: counter!("lockhouse_busy_total", "engine" => engine),
            errors: counter!("lockhouse_errors_total", "engine" => engine),
            wait: histogram!("lockhouse_wait_seconds", "engine" => engine),
            hold: histogram!("lockhouse_hold_seconds", "engine" => engine),
            renewals: counter!("lockhouse_renewals_total", "engine" => engine),
            renewal_margin: histogram!("lockhouse_renewal_margin_seconds", "engine" => engine),
            renewal_failures: counter!("lockhouse_renewal_failures_total", "engine" => engine),
            losses: counter!("lockhouse_losses_total", "engine" => engine),
        }
    }

    pub(crate) fn held(&self, duration: Duration) {
        self.hold.record(duration);
    }

    pub(crate) fn lost(&self, hold: &Hold) {
        self.losses.increment(1);
        tracing::warn!(name = %hold.claim.name, id = ?hold.claim.id, loss = ?hold.lost(), "a lock was lost");
    }

    pub(crate) fn renewals(&self, sent: &[Sent], answers: Option<&[Renewal]>, now: Moment) {
        match answers {
            Some(answers) => {
                let renewed = answers.iter().filter(|answer| **answer == Renewal::Renewed).count();
                self.renewals.increment(renewed as u64);
                // One figure a batch, the worst: its claims were sent together.
                if let Some(margin) = sent.iter().map(|sent| sent.hold.valid_until().since(now)).min() {
                    self.renewal_margin.record(margin);
                }
            }
            None => self.renewal_failures.increment(sent.len() as u64),
        }
    }
}
