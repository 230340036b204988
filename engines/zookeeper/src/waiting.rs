//! Waiting in line: each claim watches only those ahead of it who decide when it may be granted.

use futures_util::future::{join_all, select_all};
use lockhouse_core::{Claim, Result, Standing};
use tokio::task::JoinSet;
use zookeeper_client::{Error as Said, OneshotWatcher};

use crate::ensemble::{Ensemble, patience_for};
use crate::error::Fault;
use crate::leases::Placed;
use crate::node::claims;
use crate::record::Record;
use crate::session::Open;
use crate::standing::Weighed;
use crate::weighing::{Answer, weigh};

/// What a look at the line said.
enum Look {
    /// The claim should ask, or is granted.
    Over(Option<Standing>),
    /// Nothing changes until one of these tells of something.
    Watching(Vec<OneshotWatcher>),
}

impl Ensemble {
    /// Resolves when the claim is granted, or when something is to be asked about: its own node was changed or deleted,
    /// or the session is over.
    pub(crate) async fn moved(&self, claim: &Claim) -> Result<Option<Standing>> {
        loop {
            let look = async |open: &Open| Ok((self.look(open, claim).await?, open.clone()));
            let (look, open) = self.ask(patience_for(claim.ttl), look).await?;
            let watchers = match look {
                Look::Over(standing) => return Ok(standing),
                Look::Watching(watchers) => watchers,
            };
            // The driver panics in whoever waits for an event of a session that was given up, so it is waited for where
            // the session lives: what waits there ends with it.
            let mut waiting = JoinSet::new();
            waiting
                .spawn_on(select_all(watchers.into_iter().map(|watcher| Box::pin(watcher.changed()))), &open.runtime);
            drop(open);
            match waiting.join_next().await {
                Some(Ok((event, ..))) if !event.session_state.is_terminated() => {}
                _ => return Ok(None),
            }
        }
    }

    /// Looks at the line, and watches whoever decides.
    async fn look(&self, open: &Open, claim: &Claim) -> Result<Look, Fault> {
        let lease = self.session.leases().get(&claim.id).filter(|lease| lease.session == open.id() && !lease.evicted);
        let Some((line, placed)) = lease.and_then(|lease| Some((lease.line, lease.placed?))) else {
            return Ok(Look::Over(None));
        };
        loop {
            let children = match open.client.list_children(&line).await {
                Ok(children) => claims(&children),
                Err(Said::NoNode) => return Ok(Look::Over(None)),
                Err(said) => return Err(said.into()),
            };
            let own = Some(&placed.node);
            match weigh(&open.client, &line, children, own, claim.capacity, placed.weight).await? {
                // Pushed, as the contract calls it: the claim is as valid as its last renewal made it.
                Answer::Granted => return Ok(Look::Over(Some(Standing::Granted { token: placed.token }))),
                Answer::Queued(_, blockers) => {
                    if let Some(look) = self.watch(open, &line, &placed, &blockers).await? {
                        return Ok(look);
                    }
                }
                Answer::Conflict(_) | Answer::Missing => return Ok(Look::Over(None)),
            }
        }
    }

    /// Watches the claim's own node and its blockers. `None` when one of these has moved by now.
    async fn watch(
        &self,
        open: &Open,
        line: &str,
        placed: &Placed,
        blockers: &[Weighed],
    ) -> Result<Option<Look>, Fault> {
        let paths: Vec<String> = blockers.iter().map(|blocker| format!("{line}/{}", blocker.node.name)).collect();
        let own = open.client.get_and_watch_data(&placed.path);
        let answers = join_all(paths.iter().map(|path| open.client.get_and_watch_data(path)));
        let mut watchers = match own.await {
            Ok((_, stat, _)) if stat.version != placed.version => return Ok(Some(Look::Over(None))),
            Ok((.., watcher)) => vec![watcher],
            Err(Said::NoNode) => return Ok(Some(Look::Over(None))),
            Err(said) => return Err(said.into()),
        };
        for (blocker, answer) in blockers.iter().zip(answers.await) {
            let (data, _, watcher) = match answer {
                Ok(found) => found,
                Err(Said::NoNode) => return Ok(None),
                Err(said) => return Err(said.into()),
            };
            if Record::read(&data).is_some_and(|record| record.weight < blocker.weight) {
                return Ok(None);
            }
            watchers.push(watcher);
        }
        Ok(Some(Look::Watching(watchers)))
    }
}
