//! What Consul says of itself, for `lockhouse doctor`.

use hyper::Method;
use lockhouse_core::{Checkup, Result};
use serde::Deserialize;

use crate::api::read;
use crate::error::Fault;
use crate::link::Repeat;
use crate::side::{PATIENCE, Side};

/// What an agent says of itself: the part that matters for locks.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Myself {
    config: Config,
    #[serde(default)]
    debug_config: Debugging,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Config {
    version: String,
    datacenter: String,
    server: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Debugging {
    dev_mode: bool,
    #[serde(rename = "ACLsEnabled")]
    acls_enabled: bool,
    #[serde(rename = "ACLDefaultPolicy")]
    acl_default_policy: String,
    #[serde(rename = "SessionTTLMin")]
    session_ttl_min: String,
    #[serde(rename = "KVMaxValueSize")]
    kv_max_value_size: u64,
    #[serde(rename = "HTTPMaxConnsPerClient")]
    http_max_conns_per_client: u64,
}

impl Myself {
    /// Whether the agent keeps nothing on disk.
    pub(crate) fn is_for_development(&self) -> bool {
        self.debug_config.dev_mode
    }
}

impl Side {
    pub(crate) async fn checkup(&self) -> Result<Checkup> {
        let (leader, peers) = tokio::join!(self.get::<String>("/v1/status/leader"), self.get("/v1/status/peers"));
        let peers: Vec<String> = peers.map_err(|fault| self.explain(fault))?;
        let leader = leader.map_err(|fault| self.explain(fault))?;
        let mut checkup = Checkup::default();
        match self.get::<Myself>("/v1/agent/self").await {
            Ok(myself) => checkup = about_the_agent(checkup, &myself),
            Err(fault) if fault.is_denied() => {
                checkup = checkup.advice(
                    "the token may not look at the agent, so its settings are not known",
                    "give it agent read, or run the checkup with another token",
                );
            }
            Err(fault) => return Err(self.explain(fault)),
        }
        let terms = self.session.terms();
        checkup = checkup
            .fact("servers", peers.join(", "))
            .fact("leader", if leader.is_empty() { "none" } else { &leader })
            .fact("session", format!("{:?}, so the longest lease is {:?}", terms.ttl, terms.longest_lease()));
        if leader.is_empty() {
            checkup =
                checkup.danger("the servers have no leader: no lock can be had", "consul operator raft list-peers");
        }
        Ok(about_the_servers(checkup, peers.len()))
    }

    async fn get<T: for<'a> Deserialize<'a>>(&self, path: &str) -> Result<T, Fault> {
        let answer = self.store.link.ask(Method::GET, path, Vec::new(), Repeat::Freely, PATIENCE).await?;
        read(&answer)
    }
}

fn about_the_agent(checkup: Checkup, myself: &Myself) -> Checkup {
    let Myself { config, debug_config: debug } = myself;
    let mut checkup = checkup
        .fact("version", &config.version)
        .fact("datacenter", &config.datacenter)
        .fact("agent", if config.server { "a server" } else { "a client of the servers" });
    if !debug.session_ttl_min.is_empty() {
        checkup = checkup.fact("shortest session", &debug.session_ttl_min);
    }
    if debug.kv_max_value_size > 0 {
        checkup = checkup.fact("largest value", format!("{} bytes", debug.kv_max_value_size));
    }
    if debug.http_max_conns_per_client > 0 {
        checkup = checkup.fact("connections for one machine", debug.http_max_conns_per_client.to_string());
    }
    let acls = if debug.acls_enabled { format!("on, default {}", debug.acl_default_policy) } else { "off".into() };
    checkup = checkup.fact("ACLs", acls);
    if !debug.acls_enabled {
        checkup = checkup.advice(
            "ACLs are off: whoever reaches the agent can delete every lock",
            "set acl.enabled, and give each program a token for its prefix",
        );
    }
    if config.server && !debug.dev_mode {
        checkup = checkup.advice(
            "the agent is a server: when it fails for long, autopilot takes its node out of the catalog, and sessions \
             that were made there end",
            "connect to the agent of your own machine, or give the session another node: ?node=…",
        );
    }
    if debug.dev_mode {
        checkup = checkup.danger(
            "the agent runs in development mode: when it ends, locks and tokens begin anew",
            "start it with -server and a -data-dir",
        );
    }
    checkup
}

fn about_the_servers(checkup: Checkup, servers: usize) -> Checkup {
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
    fn an_agent_for_development_is_a_danger() {
        let myself: Myself = serde_json::from_str(
            r#"{"Config":{"Version":"1.8.7","Datacenter":"dc1","Server":true,"Other":1},
            "DebugConfig":{"DevMode":true,"ACLsEnabled":false,"SessionTTLMin":"10s","KVMaxValueSize":524288}}"#,
        )
        .unwrap();
        let checkup = about_the_agent(Checkup::default(), &myself);
        assert!(checkup.facts.iter().any(|fact| fact.what == "shortest session" && fact.value == "10s"));
        let dangers = checkup.findings.iter().filter(|finding| finding.severity == Severity::Danger);
        assert_eq!(dangers.count(), 1);
    }

    #[test]
    fn a_number_of_servers_that_is_odd_for_no_use_is_told() {
        for (servers, told) in [(1, true), (2, true), (3, false), (4, true), (5, false)] {
            let findings = about_the_servers(Checkup::default(), servers).findings;
            assert_eq!(!findings.is_empty(), told, "{servers}");
        }
    }
}
