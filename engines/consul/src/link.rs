//! Requests to the agents: to another one where one does not answer, and none without a time limit.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::Method;
use hyper::body::Bytes;
use lockhouse_core::{Error, Race, Result};
use tokio::time::Instant;

use crate::address::Address;
use crate::error::{Fault, explain};
use crate::http::{Agent, Answer, Ask, tls};

/// How long servers without a leader are left alone.
const ELECTION: Duration = Duration::from_millis(100);
/// The shortest time that an agent is given before another one is asked as well.
const IMPATIENCE: Duration = Duration::from_millis(150);

/// Whether a request whose outcome is not known may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// It would change nothing more.
    Freely,
    /// A copy that comes late would do harm.
    Never,
}

/// One side's connections to the agents.
#[derive(Debug)]
pub(crate) struct Link {
    address: Address,
    agents: Vec<Agent>,
    /// The agent that answered last.
    current: AtomicUsize,
}

impl Link {
    /// Connects to nobody yet.
    pub(crate) fn new(address: &Address) -> Result<Self> {
        let address = address.clone();
        let told = |fault| explain(fault, &address.to_string());
        let tls = address.tls.then(|| tls(address.authority.as_deref())).transpose().map_err(told)?;
        let agents = address.hosts.iter().map(|host| Agent::new(&address, host, tls.as_ref()));
        let agents = agents.collect::<Result<Vec<_>, Fault>>().map_err(told)?;
        // Clients begin with different agents.
        let current = AtomicUsize::new(rand::random_range(0..agents.len().max(1)));
        Ok(Self { address, agents, current })
    }

    pub(crate) fn explain(&self, fault: Fault) -> Error {
        explain(fault, &self.address.to_string())
    }

    /// Asks the agents until one answers or the time is up. While their servers elect a leader it waits for that.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
        repeat: Repeat,
        limit: Duration,
    ) -> Result<Answer, Fault> {
        let ask = Ask { method, path: self.in_datacenter(path), body: Bytes::from(body) };
        let until = Instant::now() + limit;
        loop {
            match self.ask_agents(&ask, repeat, until).await {
                Err(fault) if Instant::now() + ELECTION < until && is_worth_repeating(&fault, repeat) => {
                    tokio::time::sleep(ELECTION).await;
                }
                answer => return answer,
            }
        }
    }

    /// Asks the agent that answered last, and no other: for requests that take long by intention.
    pub(crate) async fn wait(&self, path: &str, limit: Duration) -> Result<Answer, Fault> {
        let agent = self.current.load(Ordering::Relaxed);
        let ask = Ask { method: Method::GET, path: self.in_datacenter(path), body: Bytes::new() };
        let answer = self.ask_agent(agent, ask, limit).await;
        answer.inspect_err(|fault| {
            if fault.is_the_agents() {
                self.pass(agent);
            }
        })
    }

    /// Asks one agent. When it fails or is slow and asking again changes nothing, the next one too: the first answer
    /// counts.
    async fn ask_agents(&self, ask: &Ask, repeat: Repeat, until: Instant) -> Result<Answer, Fault> {
        let agents = self.agents.len();
        let left = || until.saturating_duration_since(Instant::now());
        let share = (left() / u32::try_from(agents).unwrap_or(1)).max(IMPATIENCE);
        let mut asked = Race::new();
        let (mut attempts, mut agent) = (0, self.current.load(Ordering::Relaxed));
        let mut failed: Option<Fault> = None;
        loop {
            let this = agent;
            let answer = self.ask_agent(this, ask.clone(), left());
            asked.push(async move { (this, answer.await) });
            attempts += 1;
            agent = (agent + 1) % agents;
            let others = attempts < agents;
            tokio::select! {
                Some((from, answer)) = asked.next() => match answer {
                    Err(fault) if fault.is_the_agents() => {
                        self.pass(from);
                        // What was not sent can be sent to another agent, whatever it is.
                        let again = repeat == Repeat::Freely || matches!(fault, Fault::Connecting(_));
                        let worst = worse(failed.take(), fault);
                        if !again || !others || Instant::now() >= until {
                            return last_hope(asked, worst).await;
                        }
                        failed = Some(worst);
                    }
                    answer => return answer,
                },
                () = tokio::time::sleep(share), if repeat == Repeat::Freely && others => self.pass(this),
            }
        }
    }

    async fn ask_agent(&self, agent: usize, ask: Ask, limit: Duration) -> Result<Answer, Fault> {
        let Some(agent) = self.agents.get(agent) else { return Err(Fault::Connecting("there is no agent".into())) };
        let answer = agent.ask(ask, limit).await?;
        match answer.status {
            // Refusals of a transaction, and things that are not there, are for who asked.
            200 | 404 | 409 => Ok(answer),
            status => Err(Fault::Said(status, String::from_utf8_lossy(&answer.body).trim().to_owned())),
        }
    }

    /// Others begin with the next agent, if nobody has seen to that already.
    fn pass(&self, agent: usize) {
        let next = (agent + 1) % self.agents.len().max(1);
        let _ = self.current.compare_exchange(agent, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The datacenter that everything is asked of, if it need not be the agents' own.
    pub(crate) fn datacenter(&self) -> Option<&str> {
        self.address.datacenter.as_deref()
    }

    fn in_datacenter(&self, path: &str) -> String {
        let Some(datacenter) = &self.address.datacenter else { return path.to_owned() };
        let mark = if path.contains('?') { '&' } else { '?' };
        format!("{path}{mark}dc={}", crate::keys::escaped(datacenter))
    }
}

/// One agent has failed, and nobody else is to be asked: what others say who were asked before.
async fn last_hope(
    mut asked: Race<impl Future<Output = (usize, Result<Answer, Fault>)>>,
    mut fault: Fault,
) -> Result<Answer, Fault> {
    while let Some((_, answer)) = asked.next().await {
        match answer {
            Err(other) if other.is_the_agents() => fault = worse(Some(fault), other),
            answer => return answer,
        }
    }
    Err(fault)
}

/// Whether the servers may soon be able to answer. Those who lost their leader a moment ago may say something else than
/// that they have none.
fn is_worth_repeating(fault: &Fault, repeat: Repeat) -> bool {
    let servers = matches!(fault, Fault::Said(500.., _)) && fault.is_the_agents();
    fault.is_leaderless() || (servers && repeat == Repeat::Freely)
}

/// The fault that says more: what could not be sent says least.
fn worse(one: Option<Fault>, other: Fault) -> Fault {
    match one {
        Some(one) if !matches!(one, Fault::Connecting(_)) => one,
        _ => other,
    }
}
