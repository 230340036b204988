//! Where the agents are, and who we are there.

use std::fmt;

use lockhouse_core::{Error, Kind, Result};

use crate::error::ENGINE;

const DEFAULT_PORT: u16 = 8500;
const DEFAULT_TLS_PORT: u16 = 8501;

/// The agents that are asked, and what is shown to them.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) hosts: Vec<Host>,
    /// The ACL token.
    pub(crate) token: Option<String>,
    /// The datacenter; the agents' own where none is given.
    pub(crate) datacenter: Option<String>,
    /// Whether the agents are spoken to through TLS.
    pub(crate) tls: bool,
    /// The certificates in PEM form that agents' certificates must come from; the system's where none are given.
    pub(crate) authority: Option<Vec<u8>>,
}

/// One agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    /// As it stands in a URL: an IPv6 address is in brackets.
    pub(crate) name: String,
    port: Option<u16>,
}

impl Address {
    /// Reads `//:token@host:port,host:port`: what a URL says between its scheme and its options. Everything but one
    /// host can be left out.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let rest = text.strip_prefix("//").unwrap_or(text);
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        // A token may have any character, a host may not.
        let (account, hosts) = rest.rsplit_once('@').map_or((None, rest), |(account, hosts)| (Some(account), hosts));
        // Consul has no user names, so what stands there is of no use: `consul://:token@host` and `consul://token@host`.
        let token = account.map(|account| account.split_once(':').map_or(account, |(_, token)| token).to_owned());
        let hosts = hosts.split(',').map(host).collect::<Result<_>>()?;
        let token = token.filter(|token| !token.is_empty());
        Ok(Self { hosts, token, datacenter: None, tls: false, authority: None })
    }

    /// The host and the port to connect to.
    pub(crate) fn endpoint(&self, host: &Host) -> String {
        let port = host.port.unwrap_or(if self.tls { DEFAULT_TLS_PORT } else { DEFAULT_PORT });
        format!("{}:{port}", host.name)
    }
}

fn host(text: &str) -> Result<Host> {
    let invalid = |what: String| Error::new(Kind::Invalid, what).help("write consul://host:8500").engine(ENGINE);
    // An IPv6 address has colons of its own, and stands in brackets.
    let (name, port) = match text.rfind(']') {
        Some(end) => (&text[..=end], text[end + 1..].strip_prefix(':')),
        None => text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port))),
    };
    if name.is_empty() || name.contains(['/', ' ']) {
        return Err(invalid(format!("{text:?} is not the address of an agent")));
    }
    let port = port.map(|port| port.parse().map_err(|_| invalid(format!("{port:?} is not a port")))).transpose()?;
    Ok(Host { name: name.to_owned(), port })
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<String> = self.hosts.iter().map(|host| self.endpoint(host)).collect();
        f.write_str(&hosts.join(","))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the token.
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_apart() {
        let address = Address::parse("//:s3:cr@t@db-1,db-2:7000,[::1]:3").unwrap();
        assert_eq!(address.to_string(), "db-1:8500,db-2:7000,[::1]:3");
        assert_eq!(address.token.as_deref(), Some("s3:cr@t"));
        assert!(!format!("{address:?}").contains("cr@t"));
        assert_eq!(Address::parse("//token@h").unwrap().token.as_deref(), Some("token"));
        assert_eq!(Address { tls: true, ..Address::parse("//[::1]/").unwrap() }.to_string(), "[::1]:8501");
    }

    #[test]
    fn mistakes_are_told_with_what_to_write() {
        for (text, what) in [("//", "not the address"), ("//a,", "not the address"), ("//a:b", "not a port")] {
            let error = Address::parse(text).unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid);
            assert!(error.to_string().contains(what), "{error}");
        }
    }
}
