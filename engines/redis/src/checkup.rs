//! What an operator should know of a server, for `lockhouse doctor`.

use std::time::Duration;

use lockhouse_core::{Checkup, Result};
use redis::{Value, cmd};

use crate::answer::Answer;
use crate::life::value;
use crate::server::{PATIENCE, Server};

/// The oldest version whose scripts and protocol do what ours need.
const OLDEST: (u32, u32) = (6, 2);

impl Server {
    /// Asks the server about itself. What we may not ask is left out.
    pub(crate) async fn checkup(&self) -> Result<Checkup> {
        let info = self.link.ask(|_| cmd("INFO"), PATIENCE).await.map_err(|fault| self.explain(fault))?;
        let info: String = redis::from_redis_value(info.value).unwrap_or_default();
        let say = |key| value(&info, key).unwrap_or("unknown").to_owned();
        let checkup = Checkup { server_time: self.time().await, ..Checkup::default() }
            .fact("version", say("redis_version"))
            .fact("role", say("role"))
            .fact("replicas", say("connected_slaves"))
            .fact("eviction", say("maxmemory_policy"));
        let checkup =
            [about_version, about_memory, about_role].into_iter().fold(checkup, |so_far, ask| ask(so_far, &info));
        let checkup = self.about_replicas(checkup, &info);
        let checkup = self.about_disk(checkup, &info).await;
        Ok(self.about_scripts(checkup).await)
    }

    async fn time(&self) -> Option<Duration> {
        let heard = self.link.ask(|_| cmd("TIME"), PATIENCE).await.ok()?;
        let mut time = Answer::new(heard.value).ok()?;
        Some(Duration::from_secs(time.count().ok()?) + Duration::from_micros(time.count().ok()?))
    }

    /// A setting, if we may ask for it.
    async fn setting(&self, name: &str) -> Option<String> {
        let mut command = cmd("CONFIG");
        command.arg("GET").arg(name);
        let heard = self.link.ask(|_| command, PATIENCE).await.ok()?;
        redis::from_redis_value::<Vec<(String, String)>>(heard.value).ok()?.pop().map(|(_, value)| value)
    }

    async fn about_disk(&self, checkup: Checkup, info: &str) -> Checkup {
        let on = value(info, "aof_enabled") == Some("1");
        let fsync = self.setting("appendfsync").await;
        let checkup = checkup.fact("append-only file", if on { "on" } else { "off" });
        match fsync.as_deref() {
            _ if !on => checkup.advice(
                "it writes no append-only file: a restart forgets every lock, their holders lose them, and nothing is \
                 given away for a lease",
                "redis-cli config set appendonly yes, and appendfsync always",
            ),
            Some("always") | None => checkup,
            Some(other) => checkup.advice(
                format!("appendfsync is {other}: a crash of the machine can forget the latest grants"),
                "redis-cli config set appendfsync always",
            ),
        }
    }

    fn about_replicas(&self, checkup: Checkup, info: &str) -> Checkup {
        let connected: u32 = value(info, "connected_slaves").and_then(|count| count.parse().ok()).unwrap_or(0);
        match self.replicas {
            0 if connected == 0 => checkup,
            0 => checkup.advice(
                format!("it has {connected} replicas, and grants do not wait for them: a fail-over may lose one"),
                format!("?replicas={connected} in the URL"),
            ),
            asked if asked > connected => checkup.danger(
                format!("grants wait for {asked} replicas, and {connected} are connected: no lock can be had"),
                "bring the replicas back, or lower ?replicas= in the URL",
            ),
            asked if asked < connected => checkup.advice(
                format!("grants wait for {asked} of {connected} replicas: one that has not heard may be made master"),
                format!("?replicas={connected} in the URL"),
            ),
            _ => checkup,
        }
    }

    async fn about_scripts(&self, checkup: Checkup) -> Checkup {
        let mut command = cmd("EVAL");
        command.arg("return 1").arg(0);
        match self.link.ask(|_| command, PATIENCE).await.map(|heard| heard.value) {
            Ok(Value::Int(1)) => checkup,
            Ok(_) => checkup.danger("scripts do not answer as they should", "see whether a proxy stands before it"),
            Err(fault) => checkup.danger(
                format!("it runs no scripts for us, and every lock is one: {}", self.explain(fault)),
                "redis-cli acl setuser NAME +@scripting",
            ),
        }
    }
}

fn about_version(checkup: Checkup, info: &str) -> Checkup {
    // Valkey says 7.2 here, and its own version elsewhere.
    let version = value(info, "redis_version").unwrap_or_default();
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    let number = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if number >= OLDEST || version.is_empty() {
        return checkup;
    }
    let (major, minor) = OLDEST;
    checkup.danger(format!("{version} is older than {major}.{minor}, which locks need"), "update the server")
}

/// Every key of ours has a time to live or is written often: any policy but one may choose it.
fn about_memory(checkup: Checkup, info: &str) -> Checkup {
    let policy = value(info, "maxmemory_policy").unwrap_or("noeviction");
    let limited = value(info, "maxmemory").is_some_and(|limit| limit != "0");
    let change = "redis-cli config set maxmemory-policy noeviction, or a server of its own for locks";
    match (policy, limited) {
        ("noeviction", _) => checkup,
        (policy, true) => checkup
            .danger(format!("maxmemory-policy is {policy}: when memory is short, it can evict a held lock"), change),
        (policy, false) => checkup.advice(
            format!("maxmemory-policy is {policy}: as soon as maxmemory is set, it can evict a held lock"),
            change,
        ),
    }
}

fn about_role(checkup: Checkup, info: &str) -> Checkup {
    let checkup = match value(info, "role") {
        Some("slave") => {
            checkup.danger("it is a replica, and takes no writes", "name the master, or use redis+sentinel://")
        }
        _ => checkup,
    };
    match value(info, "loading") {
        Some("1") => checkup.advice("it is still loading its data", "wait: it will answer by itself"),
        _ => checkup,
    }
}
