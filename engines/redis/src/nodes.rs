//! One side of a client at a cluster: which server has a name, and the contract kept by each for its own.
//!
//! A map says which master has which slots. It is asked for at the start, and again when a server sends us elsewhere
//! or is out of reach. Each server has a connection of its own, with its own subscription: who grants a claim tells its
//! client on the server that it asked. (A message passes from server to server, so it also arrives when the slot has
//! moved since.)

use std::collections::HashMap;
use std::error::Error as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures_util::future::{join_all, select_ok, try_join_all};
use lockhouse_core::{
    Cell, Checkup, Claim, Engine, Error, Fact, Finding, Guarantees, Kind, Line, Name, PublicId, Renewal, Result,
    Standing, Withdrawal, Write, Written,
};
use redis::{RedisError, cmd};

use crate::address::Address;
use crate::cluster::KeptByAll;
use crate::engine;
use crate::error::Fault;
use crate::keys::Keys;
use crate::route::Route;
use crate::server::{PATIENCE, Server};

/// So often one request is sent elsewhere: slots that move go from one server to another, not in circles.
const REDIRECTIONS: usize = 5;

/// One side of a client at a cluster.
#[derive(Debug)]
pub(crate) struct Nodes {
    /// Any server of the cluster: who we are there.
    like: Address,
    keys: Keys,
    replicas: u32,
    kept: Arc<KeptByAll>,
    map: Mutex<Map>,
}

#[derive(Debug, Default)]
struct Map {
    /// Every server we have had to do with, by its address.
    servers: HashMap<String, Arc<Server>>,
    /// First slot, last slot, master. Empty when it is to be asked for.
    slots: Vec<(u16, u16, String)>,
}

impl Nodes {
    pub(crate) fn new(seeds: &[Address], keys: Keys, replicas: u32, kept: Arc<KeptByAll>) -> Self {
        let nodes = Self { like: seeds[0].clone(), keys, replicas, kept, map: Mutex::default() };
        seeds.iter().for_each(|seed| drop(nodes.server(seed)));
        nodes
    }

    /// Asks for the map: whoever answers first.
    pub(crate) async fn look(&self) -> Result<()> {
        let servers: Vec<Arc<Server>> = self.map().servers.values().cloned().collect();
        let asked = servers.iter().map(|server| Box::pin(slots(server)));
        let (slots, _) = select_ok(asked).await?;
        let place = |(first, last, host, port): (u16, u16, String, u16)| {
            let address = self.like.elsewhere(&host, port);
            drop(self.server(&address));
            (first, last, address.to_string())
        };
        let slots = slots.into_iter().map(place).collect();
        self.map().slots = slots;
        Ok(())
    }

    /// The server at an address.
    fn server(&self, address: &Address) -> Arc<Server> {
        let name = address.to_string();
        let begin = || {
            let server = Server::new(Route::Straight(address.clone()), self.keys.clone(), self.kept.of(&name));
            Arc::new(server.replicas(self.replicas))
        };
        Arc::clone(self.map().servers.entry(name.clone()).or_insert_with(begin))
    }

    /// The server that has a slot, as far as is known.
    async fn master_of(&self, slot: u16) -> Result<Arc<Server>> {
        if self.map().slots.is_empty() {
            self.look().await?;
        }
        let map = self.map();
        let master = map.slots.iter().find(|(first, last, _)| (*first..=*last).contains(&slot));
        master.and_then(|(.., address)| map.servers.get(address).cloned()).ok_or_else(|| {
            Error::new(Kind::Unreachable, format!("no server of the cluster has the slot {slot}"))
                .help("see redis-cli cluster info")
        })
    }

    /// Has the server that has the name do something, whichever it turns out to be.
    async fn at<T, F>(&self, name: &Name, verb: impl Fn(Arc<Server>) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let mut server = self.master_of(self.keys.slot(name)).await?;
        for _ in 0..REDIRECTIONS {
            let error = match verb(Arc::clone(&server)).await {
                Err(error) => error,
                done => return done,
            };
            match elsewhere(&error) {
                Some((host, port)) => {
                    server = self.server(&self.like.elsewhere(host, port));
                    self.forget_slots();
                }
                None => {
                    // Another server may have taken over.
                    if matches!(error.kind(), Kind::Unreachable | Kind::TimedOut) {
                        self.forget_slots();
                    }
                    return Err(error);
                }
            }
        }
        Err(Error::new(Kind::Unreachable, "the servers of the cluster send us in circles")
            .help("see redis-cli cluster nodes on each"))
    }

    fn forget_slots(&self) {
        self.map().slots.clear();
    }

    /// Every master.
    async fn masters(&self) -> Result<Vec<Arc<Server>>> {
        self.look().await?;
        let map = self.map();
        let mut masters: Vec<&String> = map.slots.iter().map(|(.., address)| address).collect();
        masters.sort();
        masters.dedup();
        Ok(masters.into_iter().filter_map(|address| map.servers.get(address).cloned()).collect())
    }

    fn map(&self) -> MutexGuard<'_, Map> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which master has which slots: first, last, host, port.
async fn slots(server: &Server) -> Result<Vec<(u16, u16, String, u16)>> {
    let mut command = cmd("CLUSTER");
    command.arg("SLOTS");
    let heard = server.link.ask(|_| command, PATIENCE).await.map_err(|fault| server.explain(fault))?;
    let read = |value| {
        let parts = redis::from_redis_value::<Vec<Vec<redis::Value>>>(value).ok()?;
        parts.into_iter().map(range).collect::<Option<Vec<_>>>()
    };
    read(heard.value).ok_or_else(|| server.explain(Fault::Answer("the slots of the cluster cannot be read".into())))
}

/// One line of `CLUSTER SLOTS`: first slot, last slot, the master, its replicas.
fn range(parts: Vec<redis::Value>) -> Option<(u16, u16, String, u16)> {
    let mut parts = parts.into_iter();
    let mut number = || redis::from_redis_value(parts.next()?).ok();
    let (first, last) = (number()?, number()?);
    let mut master = redis::from_redis_value::<Vec<redis::Value>>(parts.next()?).ok()?.into_iter();
    let host = redis::from_redis_value(master.next()?).ok()?;
    Some((first, last, host, redis::from_redis_value(master.next()?).ok()?))
}

/// Who has the slot instead, if that is what an error says.
fn elsewhere(error: &Error) -> Option<(&str, u16)> {
    let cause = error.source()?.downcast_ref::<RedisError>().filter(|cause| cause.code() == Some("MOVED"))?;
    let (host, port) = cause.redirect_node()?.0.rsplit_once(':')?;
    Some((host, port.parse().ok()?))
}

#[async_trait]
impl Engine for Nodes {
    fn guarantees(&self) -> Guarantees {
        engine::guarantees()
    }

    async fn claim(&self, claim: &Claim) -> Result<Standing> {
        self.at(&claim.name, |server| async move { Engine::claim(&*server, claim).await }).await
    }

    async fn moved(&self, claim: &Claim) -> Result<Option<Standing>> {
        self.at(&claim.name, |server| async move { Engine::moved(&*server, claim).await }).await
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Renewal>> {
        // A script sees the keys of one slot.
        let mut by_slot: HashMap<u16, Vec<usize>> = HashMap::new();
        for (at, claim) in claims.iter().enumerate() {
            by_slot.entry(self.keys.slot(&claim.name)).or_default().push(at);
        }
        let groups = by_slot.into_values().map(|group| async move {
            let some: &[Claim] = &group.iter().map(|at| claims[*at].clone()).collect::<Vec<_>>();
            let name = &some[0].name;
            let renewed = self.at(name, |server| async move { Engine::renew(&*server, some).await }).await;
            (group, renewed)
        });
        let mut renewals = vec![Renewal::Unknown; claims.len()];
        let mut failure = None;
        for (group, renewed) in join_all(groups).await {
            match renewed {
                Ok(renewed) => group.into_iter().zip(renewed).for_each(|(at, renewal)| renewals[at] = renewal),
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            // What was answered stays answered.
            Some(error) if renewals.iter().all(|renewal| *renewal == Renewal::Unknown) => Err(error),
            _ => Ok(renewals),
        }
    }

    async fn withdraw(&self, claim: &Claim) -> Result<Withdrawal> {
        self.at(&claim.name, |server| async move { Engine::withdraw(&*server, claim).await }).await
    }

    async fn survey(&self, prefix: &str) -> Result<Vec<Line>> {
        let masters = self.masters().await?;
        let surveys = try_join_all(masters.iter().map(|server| Engine::survey(&**server, prefix))).await?;
        let mut lines: Vec<Line> = surveys.into_iter().flatten().collect();
        lines.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(lines)
    }

    async fn evict(&self, name: &Name, claim: &PublicId) -> Result<bool> {
        self.at(name, |server| async move { Engine::evict(&*server, name, claim).await }).await
    }

    async fn checkup(&self) -> Result<Checkup> {
        let masters = self.masters().await?;
        let mut whole = Checkup::default().fact("masters", masters.len().to_string());
        for master in masters {
            let each = Engine::checkup(&*master).await?;
            let name = |what: String| format!("{}: {what}", master.name);
            whole.server_time = whole.server_time.or(each.server_time);
            whole.facts.extend(each.facts.into_iter().map(|fact| Fact { what: name(fact.what), ..fact }));
            whole.findings.extend(each.findings.into_iter().map(|one| Finding { what: name(one.what), ..one }));
        }
        Ok(whole)
    }

    async fn read(&self, name: &Name) -> Result<Cell> {
        self.at(name, |server| async move { Engine::read(&*server, name).await }).await
    }

    async fn write(&self, name: &Name, write: &Write) -> Result<Written> {
        self.at(name, |server| async move { Engine::write(&*server, name, write).await }).await
    }
}
