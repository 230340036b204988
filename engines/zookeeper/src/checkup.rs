//! What the servers say of themselves, for people.

use std::time::Duration;

use futures_util::future::join_all;
use lockhouse_core::{Checkup, Clock, Result};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::address::Address;
use crate::ensemble::{Ensemble, PATIENCE};
use crate::error::Fault;

/// A server that does not answer by then is down, for people.
const ASKING: Duration = Duration::from_millis(1500);

/// What one server says of itself by `srvr` and `conf`. What it does not permit to be asked is missing.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    version: Option<String>,
    mode: Option<String>,
    latency: Option<String>,
    shortest: Option<u64>,
    longest: Option<u64>,
    connections: Option<u64>,
}

impl Ensemble {
    pub(crate) async fn checkup(&self) -> Result<Checkup> {
        let started = Clock::Boot.now();
        self.ask(PATIENCE, async |open| open.client.sync(self.paths.root()).await.map_err(Fault::from)).await?;
        let took = Clock::Boot.now().since(started);
        let session = self.session.timeout;
        let asked = self.address.session;
        let mut checkup = Checkup::default().fact("round trip to the leader", format!("{took:?}"));
        checkup = checkup.fact("session time-out", format!("{session:?}"));
        if session != asked {
            let what = format!("a session of {asked:?} was asked for, and {session:?} is what the servers permit");
            checkup = checkup.advice(what, "write ?session= within minSessionTimeout and maxSessionTimeout");
        }
        let said = join_all(self.address.hosts.iter().map(|host| ask(&self.address, host))).await;
        Ok(of_members(checkup, &self.address.hosts, said))
    }
}

fn of_members(mut checkup: Checkup, hosts: &[String], said: Vec<Option<Said>>) -> Checkup {
    let answering = said.iter().flatten().count();
    checkup = checkup.fact("members that answer", format!("{answering} of {}", hosts.len()));
    let mut leads = false;
    for (host, said) in hosts.iter().zip(said) {
        let Some(said) = said else {
            let change = "see whether it runs, and whether srvr is in its 4lw.commands.whitelist";
            checkup = checkup.advice(format!("{host} does not answer"), change);
            continue;
        };
        leads |= matches!(said.mode.as_deref(), Some("leader" | "standalone"));
        let facts = [
            ("version", said.version.clone()),
            ("mode", said.mode),
            ("latency min/avg/max", said.latency),
            ("shortest session", said.shortest.map(|millis| format!("{:?}", Duration::from_millis(millis)))),
            ("longest session", said.longest.map(|millis| format!("{:?}", Duration::from_millis(millis)))),
            ("connections from one address", said.connections.map(limit)),
        ];
        for (what, value) in facts.into_iter().filter_map(|(what, value)| Some((what, value?))) {
            checkup = checkup.fact(format!("{host}: {what}"), value);
        }
        if let Some(few) = said.connections.filter(|most| (1..10).contains(most)) {
            let what =
                format!("{host} takes {few} connections from one address, and each client of Lockhouse needs one");
            checkup = checkup.advice(what, "raise maxClientCnxns");
        }
    }
    if answering == hosts.len() && !leads {
        let what = "none of the servers in the address leads: some members are missing in it";
        checkup = checkup.advice(what, "name all of them, so that a client finds another when one is down");
    }
    if hosts.len() == 2 {
        let what = "an ensemble of two stops when either is down";
        checkup = checkup.advice(what, "run three, or one");
    }
    checkup
}

fn limit(connections: u64) -> String {
    if connections == 0 { "no limit".to_owned() } else { connections.to_string() }
}

async fn ask(address: &Address, host: &str) -> Option<Said> {
    let server = word(address, host, "srvr").await?;
    let settings = word(address, host, "conf").await.unwrap_or_default();
    let said = read(&server, &settings);
    said.mode.is_some().then_some(said)
}

/// What a server answers to one of its four-letter words.
async fn word(address: &Address, host: &str, word: &str) -> Option<String> {
    let talk = async {
        match &address.trust {
            Some(trust) => say(trust.connect(host).await.ok()?, word).await,
            None => say(TcpStream::connect(host).await.ok()?, word).await,
        }
    };
    tokio::time::timeout(ASKING, talk).await.ok().flatten()
}

async fn say(mut stream: impl AsyncRead + AsyncWrite + Unpin, word: &str) -> Option<String> {
    stream.write_all(word.as_bytes()).await.ok()?;
    stream.flush().await.ok()?;
    let mut answer = Vec::new();
    // A server that hangs up on us without a farewell, as TLS has one, has said what it had to say.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).ok().filter(|answer| !answer.is_empty())
}

fn read(server: &str, settings: &str) -> Said {
    let told = |name: &str| server.lines().find_map(|line| line.strip_prefix(name)).map(|rest| rest.trim().to_owned());
    let set = |name: &str| settings.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')?.parse().ok());
    Said {
        version: told("Zookeeper version:").and_then(|version| version.split([',', '-']).next().map(str::to_owned)),
        mode: told("Mode:"),
        latency: told("Latency min/avg/max:").map(|times| format!("{times} ms")),
        shortest: set("minSessionTimeout"),
        longest: set("maxSessionTimeout"),
        connections: set("maxClientCnxns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: &str = "Zookeeper version: 3.8.0-${mvngit.commit.id}, built on 2022\nLatency min/avg/max: 0/0.5/12\n\
                          Received: 7\nMode: leader\n";

    #[test]
    fn what_a_server_says_is_read() {
        let said = read(SERVER, "tickTime=500\nmaxClientCnxns=0\nminSessionTimeout=1000\nmaxSessionTimeout=10000\n");
        assert_eq!((said.version.as_deref(), said.mode.as_deref()), (Some("3.8.0"), Some("leader")));
        assert_eq!((said.shortest, said.longest, said.connections), (Some(1000), Some(10_000), Some(0)));
        // A server that does not permit the question says so in a sentence.
        let said = read(SERVER, "conf is not executed because it is not in the whitelist.");
        assert_eq!((said.shortest, said.connections), (None, None));
    }

    #[test]
    fn members_that_are_missing_are_told() {
        let hosts = ["a:1".to_owned(), "b:1".to_owned()];
        let follower = Said { mode: Some("follower".into()), connections: Some(2), ..Said::default() };
        let checkup = of_members(Checkup::default(), &hosts, vec![Some(follower), None]);
        let findings: Vec<&str> = checkup.findings.iter().map(|finding| finding.what.as_str()).collect();
        assert_eq!(findings.len(), 3, "{findings:?}");
        assert!(findings[1].contains("b:1 does not answer"));
    }
}
