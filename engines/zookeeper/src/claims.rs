//! Getting in line, and where a claim stands.
//!
//! An uncontended claim is one round trip: the request to create its node and the request for the line go out together.
//! Whoever is asked about later has its own node checked by a write, which only a majority can answer: a server that
//! was cut off from the others would not know that our session has ended.

use lockhouse_core::{Claim, Error, Kind, Patience, Result, Standing};
use zookeeper_client::{CreateMode, Error as Said};

use crate::ensemble::{Ensemble, check, patience_for};
use crate::error::Fault;
use crate::leases::{Known, Placed};
use crate::node::{Node, claims};
use crate::reaper::{delete, up_to_date};
use crate::record::Record;
use crate::session::Open;
use crate::weighing::{Answer, weigh};

/// How often a claim is made anew because its line's node, or its own, was deleted meanwhile.
const ATTEMPTS: u32 = 4;

impl Ensemble {
    pub(crate) async fn claim(&self, claim: &Claim) -> Result<Standing> {
        check(claim)?;
        let standing = self.ask(patience_for(claim.ttl), async |open| self.claim_at(open, claim).await).await?;
        if let Ok(Standing::Granted { token }) = &standing
            && *token < claim.floor
        {
            return Err(Error::new(Kind::Unsupported, "ZooKeeper's tokens cannot be raised")
                .help("do not make a quorum of ZooKeepers: one ensemble is a quorum already")
                .unknown());
        }
        standing
    }

    async fn claim_at(&self, open: &Open, claim: &Claim) -> Result<Result<Standing>, Fault> {
        let line = self.paths.line(&claim.name);
        for _ in 0..ATTEMPTS {
            let is_new = self.session.leases().get(&claim.id).is_none_or(|lease| lease.session != open.id());
            if is_new
                && claim.patience == Patience::None
                && let Some(refused) = self.look_first(open, claim, &line).await?
            {
                return Ok(refused);
            }
            let answered = match self.session.leases().enter(claim, &line, open.id()) {
                Known::Placed(placed) => self.stand(open, claim, &line, placed).await?,
                Known::Sent => match self.find(open, claim, &line).await? {
                    Some(placed) => self.stand(open, claim, &line, placed).await?,
                    None => self.join(open, claim, &line).await?,
                },
                Known::Nothing => self.join(open, claim, &line).await?,
            };
            if let Some(standing) = answered {
                return Ok(standing);
            }
        }
        Err(Said::NoNode.into())
    }

    /// A claim without patience looks before it gets in line: one that is refused changes nothing. `Some` when it is.
    async fn look_first(&self, open: &Open, claim: &Claim, line: &str) -> Result<Option<Result<Standing>>, Fault> {
        let children = up_to_date(&open.client, line).await?;
        Ok(match weigh(&open.client, line, children, None, claim.capacity, claim.weight).await? {
            Answer::Queued(..) => Some(Ok(Standing::Refused)),
            Answer::Conflict(capacity) => Some(Err(conflict(claim, capacity))),
            Answer::Granted | Answer::Missing => None,
        })
    }

    /// Gets in line. `None` when it has to be done once more.
    async fn join(&self, open: &Open, claim: &Claim, line: &str) -> Result<Option<Result<Standing>>, Fault> {
        let prefix = format!("{line}/{}", Node::prefix(claim, open.id()));
        let (data, options) = (Record::of(claim).write(), self.claims());
        let create = open.client.create(&prefix, &data, &options);
        let list = open.client.list_children(line);
        // Answered in their order, so that both are there when the second is: who waits is woken once.
        let listed = list.await;
        let (stat, sequence) = match create.await {
            Ok(created) => created,
            Err(Said::NoNode) => {
                self.session.leases().unmade(&claim.id);
                self.make(open, line, CreateMode::Container).await?;
                return Ok(None);
            }
            Err(said) => {
                let fault = Fault::from(said);
                if self.explain(fault.clone()).may_have_happened() == lockhouse_core::Happened::No {
                    self.session.leases().unmade(&claim.id);
                }
                return Err(fault);
            }
        };
        self.session.clock().learn(stat.ctime);
        let path = format!("{prefix}{sequence}");
        let node = path.rsplit('/').next().and_then(Node::parse).ok_or_else(|| Fault::Foreign(path.clone()))?;
        let token = u64::try_from(stat.czxid).map_err(|_| Fault::Foreign(path.clone()))?;
        let placed = Placed { node, path, token, version: stat.version, weight: claim.weight };
        if !self.session.leases().place(&claim.id, open.id(), placed.clone()) {
            // Withdrawn while it was on its way, by somebody who may have looked before it was there. It is known again
            // until it is gone.
            if self.session.leases().get(&claim.id).is_none() {
                self.session.leases().enter(claim, line, open.id());
                self.session.leases().place(&claim.id, open.id(), placed.clone());
            }
            self.remove(open, claim, &placed).await?;
            return Ok(Some(Ok(Standing::Displaced)));
        }
        let children = claims(&listed?);
        self.answer(open, claim, line, placed, children).await
    }

    /// Finds the claim's own node after a reply was lost.
    async fn find(&self, open: &Open, claim: &Claim, line: &str) -> Result<Option<Placed>, Fault> {
        let children = up_to_date(&open.client, line).await?;
        let Some(node) = children.into_iter().find(|node| node.is(claim, open.id())) else { return Ok(None) };
        let path = format!("{line}/{}", node.name);
        let (data, stat) = match open.client.get_data(&path).await {
            Ok(found) => found,
            Err(Said::NoNode) => return Ok(None),
            Err(said) => return Err(said.into()),
        };
        let record = Record::read(&data).ok_or_else(|| Fault::Foreign(path.clone()))?;
        let token = u64::try_from(stat.czxid).map_err(|_| Fault::Foreign(path.clone()))?;
        // Version 0 is how it was made: a mark that was set since is found when it is checked.
        let placed = Placed { node, path, token, version: 0, weight: record.weight };
        Ok(self.session.leases().place(&claim.id, open.id(), placed.clone()).then_some(placed))
    }

    /// Where a claim stands that has its place.
    async fn stand(
        &self,
        open: &Open,
        claim: &Claim,
        line: &str,
        placed: Placed,
    ) -> Result<Option<Result<Standing>>, Fault> {
        if claim.weight > placed.weight {
            let what = format!("the claim weighs {}, and cannot be raised to {}", placed.weight, claim.weight);
            let error = Error::new(Kind::Invalid, what).help("there is no upgrade: release, then lock anew");
            return Ok(Some(Err(error)));
        }
        let mut write = open.client.new_multi_writer();
        if claim.weight < placed.weight {
            write.add_set_data(&placed.path, &Record::of(claim).write(), Some(placed.version))?;
        } else {
            write.add_check_version(&placed.path, placed.version)?;
        }
        let (written, list) = (write.commit(), open.client.list_children(line));
        match written.await.map_err(Said::from) {
            Ok(_) if claim.weight < placed.weight => {
                let placed = Placed { weight: claim.weight, version: placed.version + 1, ..placed };
                self.session.leases().place(&claim.id, open.id(), placed.clone());
                let children = claims(&list.await?);
                self.answer(open, claim, line, placed, children).await
            }
            Ok(_) => {
                let children = claims(&list.await?);
                self.answer(open, claim, line, placed, children).await
            }
            Err(Said::NoNode) => {
                self.session.leases().gone(&claim.id, &placed);
                Ok(None)
            }
            Err(Said::BadVersion) => self.changed(open, claim, line, placed).await,
            Err(said) => Err(said.into()),
        }
    }

    /// Somebody changed the claim's own node: an operator, or we ourselves by a request whose reply was lost.
    async fn changed(
        &self,
        open: &Open,
        claim: &Claim,
        line: &str,
        placed: Placed,
    ) -> Result<Option<Result<Standing>>, Fault> {
        let (data, stat) = match open.client.get_data(&placed.path).await {
            Ok(found) => found,
            Err(Said::NoNode) => {
                self.session.leases().gone(&claim.id, &placed);
                return Ok(None);
            }
            Err(said) => return Err(said.into()),
        };
        let record = Record::read(&data).ok_or_else(|| Fault::Foreign(placed.path.clone()))?;
        if !record.evicted {
            let placed = Placed { version: stat.version, weight: record.weight, ..placed };
            self.session.leases().place(&claim.id, open.id(), placed);
            return Ok(None);
        }
        self.session.leases().evict(&claim.id);
        let children = claims(&open.client.list_children(line).await?);
        let own = Some(&placed.node);
        // A holder's place stays taken until it lets go or its lease is over; a waiter is out of the line at once.
        if matches!(
            weigh(&open.client, line, children, own, claim.capacity, placed.weight).await?,
            Answer::Queued(..) | Answer::Conflict(_)
        ) {
            self.remove(open, claim, &placed).await?;
        }
        Ok(Some(Ok(Standing::Refused)))
    }

    /// What the line means for the claim.
    async fn answer(
        &self,
        open: &Open,
        claim: &Claim,
        line: &str,
        placed: Placed,
        children: Vec<Node>,
    ) -> Result<Option<Result<Standing>>, Fault> {
        self.session.leases().heard(&claim.id, claim.ttl);
        // A request that was given up for lost was carried out after all: nobody waits for a claim of its own. The
        // first one keeps its place, since that may have been answered.
        let own: Vec<&Node> = children.iter().filter(|node| node.is(claim, open.id())).collect();
        if let [first, twins @ ..] = &own[..]
            && !twins.is_empty()
        {
            for twin in twins {
                delete(&open.client, &format!("{line}/{}", twin.name)).await?;
            }
            if first.name != placed.node.name {
                self.find(open, claim, line).await?;
            }
            return Ok(None);
        }
        let own = Some(&placed.node);
        let answer = weigh(&open.client, line, children, own, claim.capacity, placed.weight).await?;
        Ok(match answer {
            Answer::Granted => Some(Ok(Standing::Granted { token: placed.token })),
            Answer::Queued(..) if claim.patience == Patience::None => {
                self.remove(open, claim, &placed).await?;
                Some(Ok(Standing::Refused))
            }
            Answer::Queued(ahead, _) => Some(Ok(Standing::Queued { ahead })),
            Answer::Conflict(capacity) => {
                self.remove(open, claim, &placed).await?;
                Some(Err(conflict(claim, capacity)))
            }
            Answer::Missing => {
                self.session.leases().gone(&claim.id, &placed);
                None
            }
        })
    }

    /// Takes a claim out of the line. Whether it was there.
    pub(crate) async fn remove(&self, open: &Open, claim: &Claim, placed: &Placed) -> Result<bool, Fault> {
        let there = delete(&open.client, &placed.path).await?;
        self.session.leases().gone(&claim.id, placed);
        Ok(there)
    }
}

fn conflict(claim: &Claim, capacity: u32) -> Error {
    let what = format!("the name is in use with capacity {capacity}, not {}", claim.capacity);
    Error::new(Kind::Conflict, what).help("use one kind of lock, and one number of permits, for a name")
}
