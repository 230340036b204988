//! What the servers say of each other, for `lockhouse doctor`.

use std::collections::BTreeSet;

use lockhouse_core::Checkup;
use serde::Deserialize;

use crate::bugs::BUGS;
use crate::error::Fault;

/// What the leader thinks of the servers.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Health {
    /// `None` from a leader that has not looked at them yet.
    servers: Option<Vec<Server>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Server {
    name: String,
    #[serde(default)]
    address: String,
    /// What the other servers hear of it: `alive`, or `failed`.
    #[serde(default)]
    serf_status: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    leader: bool,
    healthy: bool,
    #[serde(default)]
    voter: bool,
}

impl Health {
    /// Where it is asked for.
    pub(crate) const PATH: &str = "/v1/operator/autopilot/health";

    /// What was answered: with a server that fails the status is that of an error, and the answer is given all the
    /// same.
    pub(crate) fn of(answer: Result<Self, Fault>) -> Result<Self, Fault> {
        match answer {
            Err(Fault::Said(429, text)) => {
                serde_json::from_str(&text).map_err(|error| Fault::Answer(error.to_string()))
            }
            answer => answer,
        }
    }

    /// Each server with its version and its part, those that fail, and the bugs of their versions.
    pub(crate) fn told(&self, mut checkup: Checkup, acls: bool) -> Checkup {
        let mut servers: Vec<&Server> = self.servers.iter().flatten().collect();
        servers.sort_by_key(|server| &server.name);
        for server in &servers {
            checkup = checkup.fact(format!("server {}", server.name), server.part());
            if !server.healthy {
                checkup = checkup.advice(
                    format!("the server {} fails: Consul hears that it is {}", server.name, server.serf_status),
                    "see whether it runs and keeps up: consul operator raft list-peers",
                );
            }
        }
        let versions: BTreeSet<&str> = servers.iter().map(|server| server.version.as_str()).collect();
        versions.into_iter().fold(checkup, |checkup, version| checkup.bugs("Consul", version, &BUGS, acls))
    }
}

impl Server {
    fn part(&self) -> String {
        let part = match self {
            Self { leader: true, .. } => "leads",
            Self { voter: true, .. } => "follows",
            _ => "follows without a vote",
        };
        let failing = if self.healthy { "" } else { ", fails" };
        format!("Consul {} at {}, {part}{failing}", self.version, self.address)
    }
}

/// Whether there are as many as there should be.
pub(crate) fn about_their_number(checkup: Checkup, servers: usize) -> Checkup {
    match servers {
        0 | 1 => checkup.advice(
            "there is one server: when it is down, no lock can be had",
            "run three or five servers in the datacenter",
        ),
        even if even.is_multiple_of(2) => checkup.advice(
            format!("there are {even} servers, which survive no more losses than {}", even - 1),
            "run an odd number of servers",
        ),
        _ => checkup,
    }
}

#[cfg(test)]
mod tests {
    use lockhouse_core::Severity;

    use super::*;

    #[test]
    fn a_number_of_servers_that_is_odd_for_no_use_is_told() {
        for (servers, told) in [(1, true), (2, true), (3, false), (4, true), (5, false)] {
            let findings = about_their_number(Checkup::default(), servers).findings;
            assert_eq!(!findings.is_empty(), told, "{servers}");
        }
    }

    #[test]
    fn a_server_that_fails_and_a_version_with_a_bug_are_named() {
        let text = r#"{"Healthy":false,"FailureTolerance":0,"Servers":[
            {"Name":"b","Address":"10.0.0.2:8300","SerfStatus":"failed","Version":"1.12.1","Leader":false,
             "LastContact":"-1ns","Healthy":false,"Voter":true},
            {"Name":"a","Address":"10.0.0.1:8300","SerfStatus":"alive","Version":"1.12.2","Leader":true,
             "LastContact":"0s","Healthy":true,"Voter":true}]}"#;
        let health = Health::of(Err(Fault::Said(429, text.into()))).unwrap();
        let checkup = health.told(Checkup::default(), false);
        let facts: Vec<&str> = checkup.facts.iter().map(|fact| fact.value.as_str()).collect();
        let expected = ["Consul 1.12.2 at 10.0.0.1:8300, leads", "Consul 1.12.1 at 10.0.0.2:8300, follows, fails"];
        assert_eq!(facts, expected);
        let findings: Vec<_> = checkup.findings.iter().map(|finding| (finding.severity, &finding.what[..14])).collect();
        assert_eq!(findings, [(Severity::Advice, "the server b f"), (Severity::Danger, "Consul 1.12.1:")]);
        assert!(Health::of(Err(Fault::Said(403, "no".into()))).unwrap_err().is_denied());
        let early: Health = serde_json::from_str(r#"{"Healthy":false,"Servers":null}"#).unwrap();
        assert_eq!(early.told(Checkup::default(), false), Checkup::default());
    }
}
