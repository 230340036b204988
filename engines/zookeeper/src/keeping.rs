//! Keeping claims, and giving them back.

use std::time::Duration;

use futures_util::future::join_all;
use lockhouse_core::{Claim, Renewal, Result, Withdrawal};
use zookeeper_client::{Error as Said, MultiWriteError};

use crate::ensemble::{Ensemble, PATIENCE, patience_for};
use crate::error::Fault;
use crate::leases::{Lease, Placed};
use crate::reaper::take_out;
use crate::record::Record;
use crate::session::Open;

/// So many nodes are checked by one request, and so many bytes of paths: far below the megabyte that a server accepts.
const CHECKS_AT_ONCE: usize = 250;
const BYTES_AT_ONCE: usize = 200_000;
/// How often the rest is checked again when some were found to be gone.
const ROUNDS: u32 = 3;

impl Ensemble {
    /// Renews by one write that checks every node, so that only a majority can answer: the leader that carries it out
    /// has heard of the session, and each claim has its place. The session itself is kept by the driver.
    pub(crate) async fn renew(&self, claims: &[Claim]) -> Result<Vec<Renewal>> {
        let shortest = claims.iter().map(|claim| claim.ttl).min().unwrap_or(PATIENCE);
        // Of the third of a lease after which the next renewal goes out.
        let limit = patience_for(shortest / 3);
        let longest = claims.iter().map(|claim| self.paths.line(&claim.name).len() + 100).max().unwrap_or(1);
        let some = CHECKS_AT_ONCE.min(BYTES_AT_ONCE / longest).max(1);
        let answers = join_all(claims.chunks(some).map(|some| self.renew_some(some, limit))).await;
        let mut renewals = Vec::with_capacity(claims.len());
        let mut failure = None;
        for (answer, some) in answers.into_iter().zip(claims.chunks(some)) {
            match answer {
                Ok(renewed) => renewals.extend(renewed),
                Err(error) => {
                    failure = Some(error);
                    renewals.extend(some.iter().map(|_| Renewal::Unknown));
                }
            }
        }
        match failure {
            // What was answered stays answered.
            Some(error) if renewals.iter().all(|renewal| *renewal == Renewal::Unknown) => Err(error),
            _ => Ok(renewals),
        }
    }

    async fn renew_some(&self, claims: &[Claim], limit: Duration) -> Result<Vec<Renewal>> {
        self.ask(limit, async |open| {
            let mut renewals: Vec<Renewal> = claims.iter().map(|claim| self.first_guess(open, claim)).collect();
            for _ in 0..ROUNDS {
                let (at, leases): (Vec<usize>, Vec<(Claim, Placed)>) = claims
                    .iter()
                    .enumerate()
                    .filter(|(at, _)| renewals[*at] == Renewal::Unknown)
                    .filter_map(|(at, claim)| Some((at, (claim.clone(), self.placed(open, claim)?))))
                    .unzip();
                if at.is_empty() || self.check_all(open, &leases).await? {
                    at.into_iter().for_each(|at| renewals[at] = Renewal::Renewed);
                    break;
                }
                for (at, gone) in at.into_iter().zip(self.look_at_all(open, &leases).await?) {
                    if gone {
                        renewals[at] = Renewal::Gone;
                    }
                }
            }
            Ok(renewals)
        })
        .await
    }

    /// What is known without asking: what is not ours is gone, and so is what is of another session.
    fn first_guess(&self, open: &Open, claim: &Claim) -> Renewal {
        match self.session.leases().get(&claim.id) {
            Some(Lease { evicted: false, session, .. }) if session == open.id() => Renewal::Unknown,
            _ => Renewal::Gone,
        }
    }

    fn placed(&self, open: &Open, claim: &Claim) -> Option<Placed> {
        self.session.leases().get(&claim.id).filter(|lease| lease.session == open.id())?.placed
    }

    /// Whether each node is there, and nobody has changed it.
    async fn check_all(&self, open: &Open, leases: &[(Claim, Placed)]) -> Result<bool, Fault> {
        let mut write = open.client.new_multi_writer();
        for (_, placed) in leases {
            write.add_check_version(&placed.path, placed.version)?;
        }
        match write.commit().await {
            Ok(_) => {
                leases.iter().for_each(|(claim, _)| self.session.leases().heard(&claim.id, claim.ttl));
                Ok(true)
            }
            Err(MultiWriteError::OperationFailed { .. }) => Ok(false),
            Err(MultiWriteError::RequestFailed { source: Said::NoNode | Said::BadVersion }) => Ok(false),
            Err(MultiWriteError::RequestFailed { source }) => Err(source.into()),
        }
    }

    /// Looks at each node: which claims were taken out or ended by somebody.
    async fn look_at_all(&self, open: &Open, leases: &[(Claim, Placed)]) -> Result<Vec<bool>, Fault> {
        let answers = join_all(leases.iter().map(|(_, placed)| open.client.get_data(&placed.path))).await;
        let mut gone = Vec::with_capacity(leases.len());
        for ((claim, placed), answer) in leases.iter().zip(answers) {
            gone.push(match answer {
                Ok((data, stat)) => match Record::read(&data) {
                    Some(record) if !record.evicted => {
                        let placed = Placed { version: stat.version, weight: record.weight, ..placed.clone() };
                        self.session.leases().place(&claim.id, open.id(), placed);
                        false
                    }
                    _ => {
                        self.session.leases().evict(&claim.id);
                        true
                    }
                },
                Err(Said::NoNode) => {
                    self.session.leases().gone(&claim.id, placed);
                    true
                }
                Err(said) => return Err(said.into()),
            });
        }
        Ok(gone)
    }

    pub(crate) async fn withdraw(&self, claim: &Claim) -> Result<Withdrawal> {
        // What both sides of this client do not know of was not made by it, or is out already.
        if self.session.leases().get(&claim.id).is_none() {
            return Ok(Withdrawal::NotThere);
        }
        self.ask(patience_for(claim.ttl), async |open| {
            let lease = self.session.leases().get(&claim.id).filter(|lease| lease.session == open.id());
            let Some(lease) = lease else { return Ok(Withdrawal::NotThere) };
            let there = take_out(&open.client, &lease).await?;
            // A request that got no answer, and whose node is not there, may still be carried out.
            if there || lease.placed.is_some() {
                self.session.leases().forget(&claim.id);
            }
            Ok(if there { Withdrawal::Withdrawn } else { Withdrawal::NotThere })
        })
        .await
    }
}
