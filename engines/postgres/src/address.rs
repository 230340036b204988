//! Where a server is.

use std::fmt;
use std::time::Duration;

use lockhouse_core::{Error, Kind, Result};
use tokio_postgres::Config;

use crate::error::ENGINE;

const DEFAULT_PORT: u16 = 5432;
/// What PostgreSQL itself takes for granted.
const DEFAULT_USER: &str = "postgres";
/// The longest that one attempt to connect may take.
pub(crate) const LONGEST_CONNECT: Duration = Duration::from_secs(2);
/// How long a connection may be silent before the machine asks whether the other end is there, and how long it waits
/// for what it sent to be acknowledged.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(5), Duration::from_secs(2), 3);
const UNACKNOWLEDGED: Duration = Duration::from_secs(10);

/// Where one server is, who we are there, and which database is meant.
#[derive(Clone)]
pub(crate) struct Address {
    host: String,
    port: u16,
    database: String,
    user: String,
    password: Option<String>,
}

impl Address {
    /// Reads `//user:password@host:port/database`: what a URL says between its scheme and its options, with what was
    /// percent-encoded decoded. Everything but the host can be left out.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let rest = text.strip_prefix("//").unwrap_or(text);
        // A password may have any character, a host may not.
        let (credentials, place) = rest.rsplit_once('@').unwrap_or(("", rest));
        let (user, password) = match credentials.split_once(':') {
            Some((user, password)) => (user, Some(password.to_owned())),
            None => (credentials, None),
        };
        let user = if user.is_empty() { DEFAULT_USER } else { user };
        let (host, database) = place.split_once('/').unwrap_or((place, ""));
        let database = if database.is_empty() { user } else { database };
        if host.contains(',') {
            return Err(invalid("several servers are named".into(), "name the one that takes writes"));
        }
        let (host, port) = split_port(host)?;
        Ok(Self { host: host.into(), port, database: database.into(), user: user.into(), password })
    }

    /// What the driver needs to know.
    pub(crate) fn config(&self) -> Config {
        let mut config = Config::new();
        let (idle, interval, retries) = KEEPALIVE;
        config
            .host(&self.host)
            .port(self.port)
            .dbname(&self.database)
            .user(&self.user)
            .application_name("lockhouse")
            .connect_timeout(LONGEST_CONNECT)
            .keepalives(true)
            .keepalives_idle(idle)
            .keepalives_interval(interval)
            .keepalives_retries(retries)
            .tcp_user_timeout(UNACKNOWLEDGED);
        if let Some(password) = &self.password {
            config.password(password);
        }
        config
    }
}

fn split_port(host: &str) -> Result<(&str, u16)> {
    // An IPv6 address has colons of its own, and stands in brackets.
    let (host, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => host.split_once(':').map_or((host, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Err(invalid("the server's address is missing".into(), "write postgres://host:5432/database"));
    }
    let port = port.map_or(Ok(DEFAULT_PORT), |port| {
        port.parse().map_err(|_| invalid(format!("{port:?} is not a port"), "write postgres://host:5432/database"))
    })?;
    Ok((host, port))
}

fn invalid(what: String, help: &str) -> Error {
    Error::new(Kind::Invalid, what).help(help).engine(ENGINE)
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}/{}", self.host, self.port, self.database)
        } else {
            write!(f, "{}:{}/{}", self.host, self.port, self.database)
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the credentials.
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_apart() {
        let address = Address::parse("//alice:p@ss:w/rd@db-1:7000/shop").unwrap();
        assert_eq!(address.to_string(), "db-1:7000/shop");
        assert_eq!((address.user.as_str(), address.password.as_deref()), ("alice", Some("p@ss:w/rd")));
        assert!(!format!("{address:?}").contains("p@ss"));
        let address = Address::parse("//alice@[::1]").unwrap();
        assert_eq!((address.to_string().as_str(), address.password), ("[::1]:5432/alice", None));
        assert_eq!(Address::parse("//db").unwrap().to_string(), "db:5432/postgres");
    }

    #[test]
    fn mistakes_are_told_with_what_to_write() {
        for (text, what) in [("//", "missing"), ("//a:b", "not a port"), ("//a,b/x", "several")] {
            let error = Address::parse(text).unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid);
            assert!(error.to_string().contains(what), "{error}");
        }
    }
}
