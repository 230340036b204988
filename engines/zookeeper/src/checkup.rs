//! What the servers say of themselves, for people.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use lockhouse_core::{Checkup, Clock, Result};

use crate::bugs::BUGS;
use crate::ensemble::{Ensemble, PATIENCE};
use crate::error::Fault;
use crate::members;
use crate::words::{Said, ask};

/// A host that takes fewer connections than this from one address is soon full.
const FEW: u64 = 10;

impl Ensemble {
    /// Members, leader, versions with their bugs, the limits of sessions, quotas, and how long an answer takes.
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
        let hosts = &self.address.hosts;
        let said = join_all(hosts.iter().map(async |host| (host.as_str(), ask(&self.address, host).await))).await;
        let members = self.members().await;
        checkup = of_servers(versions(checkup, &said), &said, members.len() <= hosts.len());
        Ok(self.quotas(members::told(checkup, &members, hosts.len())).await)
    }
}

/// The servers in the address, each with what it said.
type Servers<'a> = [(&'a str, Option<Said>)];

/// The bugs of the versions that run, each once. A server alone has none of those that we know of.
fn versions(checkup: Checkup, servers: &Servers<'_>) -> Checkup {
    let of_several = servers.iter().filter_map(|(_, said)| said.as_ref()).filter(|said| !said.is_alone());
    let versions: BTreeSet<&str> = of_several.filter_map(|said| said.version.as_deref()).collect();
    // Whether the servers sign in with one another cannot be seen from here.
    versions.into_iter().fold(checkup, |checkup, version| checkup.bugs("ZooKeeper", version, &BUGS, false))
}

/// What each server says, who leads, and who is silent. Whether the address names `all` of them.
fn of_servers(mut checkup: Checkup, servers: &Servers<'_>, all: bool) -> Checkup {
    let answering = servers.iter().filter(|(_, said)| said.is_some()).count();
    checkup = checkup.fact("members that answer", format!("{answering} of {}", servers.len()));
    let leader = servers.iter().find(|(_, said)| said.as_ref().is_some_and(Said::leads)).map(|(host, _)| *host);
    checkup = checkup.fact("leader", leader.unwrap_or("none of those that answer"));
    for (host, said) in servers {
        checkup = match said {
            Some(said) => of_server(checkup, host, said),
            None => checkup.advice(
                format!("{host} does not answer"),
                "see whether it runs, and whether srvr is in its 4lw.commands.whitelist",
            ),
        };
    }
    if all && answering == servers.len() && leader.is_none() {
        let what = "none of the servers in the address leads: some members are missing in it";
        checkup = checkup.advice(what, "name all of them, so that a client finds another when one is down");
    }
    let limits: BTreeSet<_> = servers
        .iter()
        .filter_map(|(_, said)| said.as_ref())
        .filter_map(|said| said.shortest.zip(said.longest))
        .collect();
    if limits.len() > 1 {
        let what = "the servers have different limits for sessions: a client that has to change to another may get a \
                    shorter one, and takes no locks then";
        checkup = checkup.advice(what, "give all the same tickTime, minSessionTimeout and maxSessionTimeout");
    }
    checkup
}

fn of_server(checkup: Checkup, host: &str, said: &Said) -> Checkup {
    let millis = |millis| format!("{:?}", Duration::from_millis(millis));
    let facts = [
        ("version", said.version.clone()),
        ("mode", said.mode.clone()),
        ("latency min/avg/max", said.latency.clone()),
        ("shortest session", said.shortest.map(millis)),
        ("longest session", said.longest.map(millis)),
        ("connections from one address", said.connections.map(limit)),
    ];
    let facts = facts.into_iter().filter_map(|(what, value)| Some((what, value?)));
    let checkup = facts.fold(checkup, |checkup, (what, value)| checkup.fact(format!("{host}: {what}"), value));
    match said.connections {
        Some(few @ 1..FEW) => checkup.advice(
            format!("{host} takes {few} connections from one address, and each client of Lockhouse needs one"),
            "raise maxClientCnxns",
        ),
        _ => checkup,
    }
}

fn limit(connections: u64) -> String {
    if connections == 0 { "no limit".to_owned() } else { connections.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(mode: &str, longest: u64) -> Option<Said> {
        let version = Some("3.8.4".to_owned());
        Some(Said { version, mode: Some(mode.into()), shortest: Some(1), longest: Some(longest), ..Said::default() })
    }

    fn findings(checkup: &Checkup) -> Vec<&str> {
        checkup.findings.iter().map(|finding| finding.what.as_str()).collect()
    }

    #[test]
    fn servers_that_are_missing_are_told() {
        let follower = server("follower", 1).map(|said| Said { connections: Some(2), ..said });
        let checkup = of_servers(Checkup::default(), &[("a:1", follower), ("b:1", None)], true);
        let findings = findings(&checkup);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].contains("2 connections") && findings[1].contains("b:1 does not answer"), "{findings:?}");
        assert_eq!(checkup.facts[1].value, "none of those that answer");
    }

    #[test]
    fn servers_that_differ_in_their_limits_are_told() {
        let servers = [("a:1", server("leader", 1)), ("b:1", server("follower", 2))];
        let checkup = of_servers(Checkup::default(), &servers, true);
        assert!(findings(&checkup)[0].contains("different limits"), "{checkup:?}");
        assert_eq!(checkup.facts[1].value, "a:1");
    }

    #[test]
    fn bugs_are_those_of_an_ensemble_each_told_once() {
        let ensemble = [("a:1", server("leader", 1)), ("b:1", server("follower", 1))];
        let checkup = versions(Checkup::default(), &ensemble);
        assert_eq!(checkup.findings, Checkup::default().bugs("ZooKeeper", "3.8.4", &BUGS, false).findings);
        assert!(checkup.findings[0].what.starts_with("ZooKeeper 3.8.4: "), "{checkup:?}");
        assert_eq!(versions(Checkup::default(), &[("a:1", server("standalone", 1))]), Checkup::default());
    }
}
