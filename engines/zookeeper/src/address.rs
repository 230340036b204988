//! Where the servers are, from a URL, and how to sign in.

use std::fmt;
use std::time::Duration;

use lockhouse_core::{Error, Kind, Result};

use crate::error::ENGINE;
use crate::tls::Trust;

/// The port of ZooKeeper's clients.
const DEFAULT_PORT: u16 = 2181;
/// The session's time-out when none is given: the lease that locks have when none is given, and within the limits of a
/// server with the default tick of two seconds.
pub(crate) const DEFAULT_SESSION: Duration = lockhouse_core::DEFAULT_TTL;

/// Where the servers are.
#[derive(Clone)]
pub(crate) struct Address {
    /// Each with its port.
    pub(crate) hosts: Vec<String>,
    /// `user:password`, for ZooKeeper's digest scheme.
    pub(crate) credentials: Option<String>,
    /// Empty, or with a slash at its start.
    pub(crate) root: String,
    /// What is asked for; the servers have their limits.
    pub(crate) session: Duration,
    /// With TLS: whose certificates are believed.
    pub(crate) trust: Option<Trust>,
}

impl Address {
    /// `//user:password@host:port,host:port/root`, where everything but one host can be left out.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let rest = text.strip_prefix("//").unwrap_or(text);
        // A password may have any character, a host or a root has no `@`.
        let (credentials, place) = match rest.rsplit_once('@') {
            Some((credentials, place)) => (Some(credentials), place),
            None => (None, rest),
        };
        if credentials.is_some_and(|credentials| !credentials.contains(':')) {
            return Err(invalid("the password is missing", "write zookeeper://user:password@host:2181"));
        }
        let (hosts, root) = place.find('/').map_or((place, ""), |at| place.split_at(at));
        Ok(Self {
            hosts: hosts.split(',').map(host).collect::<Result<_>>()?,
            credentials: credentials.map(str::to_owned),
            root: root.to_owned(),
            session: DEFAULT_SESSION,
            trust: None,
        })
    }

    /// The hosts as the driver wants them.
    pub(crate) fn cluster(&self) -> String {
        self.hosts.join(",")
    }
}

fn host(text: &str) -> Result<String> {
    // An IPv6 address has colons of its own, and stands in brackets.
    let (host, port) = match text.rfind(']') {
        Some(end) => (&text[..=end], text[end + 1..].strip_prefix(':')),
        None => text.rsplit_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Err(invalid("the address of a server is missing", "write zookeeper://host1:2181,host2:2181/locks"));
    }
    let port = port.map_or(Ok(DEFAULT_PORT), |port| port.parse().map_err(|_| port));
    let port = port.map_err(|port| invalid(&format!("{port:?} is not a port"), "write zookeeper://host:2181"))?;
    Ok(format!("{host}:{port}"))
}

pub(crate) fn invalid(what: &str, help: &str) -> Error {
    Error::new(Kind::Invalid, what).help(help).engine(ENGINE)
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cluster())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the credentials.
        write!(f, "{self}{}", self.root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_apart() {
        let address = Address::parse("//alice:p@ss/w@a,b:2182,[::1]:2183/locks/here").unwrap();
        assert_eq!(address.hosts, ["a:2181", "b:2182", "[::1]:2183"]);
        assert_eq!((address.root.as_str(), address.credentials.as_deref()), ("/locks/here", Some("alice:p@ss/w")));
        assert!(!format!("{address:?} {address}").contains("p@ss"));
        assert_eq!(Address::parse("//a").unwrap().root, "");
    }

    #[test]
    fn mistakes_are_told_with_what_to_write() {
        for (text, what) in [("//", "missing"), ("//a:b", "not a port"), ("//a,,b", "missing"), ("//u@a", "password")] {
            let error = Address::parse(text).unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid);
            assert!(error.to_string().contains(what), "{error}");
        }
    }
}
