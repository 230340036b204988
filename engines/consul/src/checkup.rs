//! What Consul says of itself, for `lockhouse doctor`.

use std::time::Duration;

use hyper::Method;
use lockhouse_core::{Checkup, Result};
use serde::Deserialize;

use crate::api::read;
use crate::error::Fault;
use crate::link::Repeat;
use crate::servers::{Health, about_their_number};
use crate::session::Terms;
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
    /// Whether that is the agent's own datacenter.
    pub(crate) fn is_in(&self, datacenter: &str) -> bool {
        self.config.datacenter.eq_ignore_ascii_case(datacenter)
    }

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
        let terms = self.session.terms();
        let (mut checkup, mut acls) = (Checkup::default(), true);
        match self.get::<Myself>("/v1/agent/self").await {
            Ok(myself) => {
                acls = myself.debug_config.acls_enabled;
                checkup = about_the_agent(checkup, &myself, terms, self.store.link.datacenter());
            }
            Err(fault) if fault.is_denied() => {
                checkup = checkup.advice(
                    "the token may not look at the agent, so its settings are not known",
                    "give it agent read, or run the checkup with another token",
                );
            }
            Err(fault) => return Err(self.explain(fault)),
        }
        checkup = checkup
            .fact("servers", peers.join(", "))
            .fact("leader", if leader.is_empty() { "none" } else { &leader })
            .fact("session", format!("{:?}, so the longest lease is {:?}", terms.ttl, terms.longest_lease()));
        if leader.is_empty() {
            checkup =
                checkup.danger("the servers have no leader: no lock can be had", "consul operator raft list-peers");
            // Who else is there is for the leader to say.
            return Ok(about_their_number(checkup, peers.len()));
        }
        checkup = match Health::of(self.get(Health::PATH).await) {
            Ok(health) => health.told(checkup, acls),
            Err(fault) if fault.is_denied() => checkup.advice(
                "the token may not look at the servers, so their versions and their health are not known",
                "give it operator read, or run the checkup with another token",
            ),
            Err(fault) => return Err(self.explain(fault)),
        };
        Ok(about_their_number(checkup, peers.len()))
    }

    async fn get<T: for<'a> Deserialize<'a>>(&self, path: &str) -> Result<T, Fault> {
        read(&self.store.link.ask(Method::GET, path, Vec::new(), Repeat::Freely, PATIENCE).await?)
    }
}

fn about_the_agent(checkup: Checkup, myself: &Myself, terms: &Terms, elsewhere: Option<&str>) -> Checkup {
    let Myself { config, debug_config: debug } = myself;
    let datacenter = match elsewhere.filter(|datacenter| !myself.is_in(datacenter)) {
        Some(datacenter) => format!("{datacenter}, through an agent of {}", config.datacenter),
        None => config.datacenter.clone(),
    };
    let mut checkup = checkup
        .fact("version", &config.version)
        .fact("datacenter", datacenter)
        .fact("agent", if config.server { "a server" } else { "a client of the servers" });
    if !debug.session_ttl_min.is_empty() {
        checkup = checkup.fact("shortest session", &debug.session_ttl_min);
    }
    if config.server && duration(&debug.session_ttl_min).is_some_and(|least| terms.ttl < least) {
        checkup = checkup.danger(
            format!("the session of {:?} is shorter than what this server takes when it leads", terms.ttl),
            format!("ask for session={}, or set session_ttl_min to the same on all servers", debug.session_ttl_min),
        );
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

/// A time as Go writes it: `1m0s`, `500ms`.
fn duration(text: &str) -> Option<Duration> {
    let (mut rest, mut all) = (text, Duration::ZERO);
    while !rest.is_empty() {
        let number = rest.find(|digit: char| !matches!(digit, '0'..='9' | '.'))?;
        let unit = rest[number..].find(|letter: char| letter.is_ascii_digit()).map_or(rest.len(), |end| number + end);
        let seconds = match &rest[number..unit] {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            _ => return None,
        };
        all += Duration::try_from_secs_f64(rest[..number].parse::<f64>().ok()? * seconds).ok()?;
        rest = &rest[unit..];
    }
    (!text.is_empty()).then_some(all)
}

#[cfg(test)]
mod tests {
    use lockhouse_core::Severity;

    use super::*;
    use crate::behavior::Behavior;

    fn terms(ttl: Duration) -> Terms {
        Terms { ttl, lock_delay: Duration::ZERO, behavior: Behavior::Delete, node: None }
    }

    #[test]
    fn an_agent_for_development_is_a_danger() {
        let myself: Myself = serde_json::from_str(
            r#"{"Config":{"Version":"1.8.7","Datacenter":"dc1","Server":true,"Other":1},
            "DebugConfig":{"DevMode":true,"ACLsEnabled":false,"SessionTTLMin":"10s","KVMaxValueSize":524288}}"#,
        )
        .unwrap();
        let dangers = |seconds| {
            let checkup = about_the_agent(Checkup::default(), &myself, &terms(Duration::from_secs(seconds)), None);
            assert!(checkup.facts.iter().any(|fact| fact.what == "shortest session" && fact.value == "10s"));
            checkup.findings.iter().filter(|finding| finding.severity == Severity::Danger).count()
        };
        assert_eq!((dangers(10), dangers(9)), (1, 2), "a session that is too short is another");
        let elsewhere = about_the_agent(Checkup::default(), &myself, &terms(Duration::from_secs(10)), Some("dc2"));
        assert!(elsewhere.facts.iter().any(|fact| fact.value == "dc2, through an agent of dc1"));
    }

    #[test]
    fn times_are_read_as_go_writes_them() {
        for (text, millis) in [("10s", Some(10_000)), ("1m0s", Some(60_000)), ("1h0m1.5s", Some(3_601_500))] {
            assert_eq!(duration(text), millis.map(Duration::from_millis), "{text}");
        }
        for text in ["", "s", "10", "10y"] {
            assert_eq!(duration(text), None, "{text}");
        }
        assert_eq!(duration("500ms"), Some(Duration::from_millis(500)));
    }
}
