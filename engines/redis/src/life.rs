//! Which process of a server a connection leads to.

use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisError, RedisResult, cmd};

/// One process of a server, from its start to its end: what it does not remember, another one may have granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Life {
    /// Redis makes a new one at every start.
    pub(crate) run_id: String,
    /// When it was started, in milliseconds of the server's clock; at most a second later than it was.
    pub(crate) started: u64,
}

impl Life {
    /// Asks the server. A connection leads to the same process as long as it lives.
    pub(crate) async fn of(connection: &mut MultiplexedConnection) -> RedisResult<Self> {
        let (seconds, _): (u64, u64) = cmd("TIME").query_async(connection).await?;
        let info: String = cmd("INFO").arg("server").query_async(connection).await?;
        Self::read(&info, seconds)
            .ok_or_else(|| RedisError::from((ErrorKind::Parse, "INFO server has no run_id or no uptime_in_seconds")))
    }

    fn read(info: &str, now: u64) -> Option<Self> {
        let run_id = value(info, "run_id").filter(|id| !id.is_empty() && !id.contains(' '))?.to_owned();
        let uptime: u64 = value(info, "uptime_in_seconds")?.parse().ok()?;
        Some(Self { run_id, started: (now + 1).saturating_sub(uptime) * 1000 })
    }
}

/// Whether the server takes writes. `ROLE` says the same, but needs a right of its own.
pub(crate) async fn is_master(connection: &mut MultiplexedConnection) -> RedisResult<bool> {
    let info: String = cmd("INFO").arg("replication").query_async(connection).await?;
    Ok(value(&info, "role") == Some("master"))
}

/// What `INFO` says about something.
pub(crate) fn value<'a>(info: &'a str, key: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_is_read_from_what_the_server_tells_about_itself() {
        let info = "# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\nuptime_in_seconds:100\r\n";
        assert_eq!(Life::read(info, 1000), Some(Life { run_id: "abc".into(), started: 901_000 }));
        assert_eq!(Life::read("# Server\r\n", 1000), None);
    }
}
