//! Where the members are, and who we are there.

use std::fmt;

use lockhouse_core::{Error, Kind, Result};

use crate::error::ENGINE;

const DEFAULT_PORT: u16 = 2379;

/// The members that are asked, and the account.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) hosts: Vec<String>,
    pub(crate) account: Option<(String, String)>,
    /// Whether the members are spoken to through TLS.
    pub(crate) tls: bool,
    /// The certificates in PEM form that members' certificates must come from; the system's where none are given.
    pub(crate) authority: Option<Vec<u8>>,
    /// Our own certificate and its key in PEM form, where the members ask for one.
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Address {
    /// Reads `//user:password@host:port,host:port`: what a URL says between its scheme and its options. Everything but
    /// the hosts can be left out.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let rest = text.strip_prefix("//").unwrap_or(text);
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        // A password may have any character, a host may not.
        let (account, hosts) = match rest.rsplit_once('@') {
            Some((account, hosts)) => (Some(account), hosts),
            None => (None, rest),
        };
        let account = account.map(|account| {
            let (user, password) = account.split_once(':').unwrap_or((account, ""));
            (user.to_owned(), password.to_owned())
        });
        let hosts = hosts.split(',').map(host).collect::<Result<_>>()?;
        Ok(Self { hosts, account, tls: false, authority: None, identity: None })
    }

    /// What a member is called in the protocol.
    pub(crate) fn uri(&self, host: &str) -> String {
        format!("{}://{host}", if self.tls { "https" } else { "http" })
    }
}

/// The host with its port.
fn host(text: &str) -> Result<String> {
    let invalid = |what: String| Error::new(Kind::Invalid, what).help("write etcd://host:2379").engine(ENGINE);
    // An IPv6 address has colons of its own, and stands in brackets.
    let (name, port) = match text.rfind(']') {
        Some(end) => (&text[..=end], text[end + 1..].strip_prefix(':')),
        None => text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port))),
    };
    if name.is_empty() || name.contains(['/', ' ']) {
        return Err(invalid(format!("{text:?} is not the address of a member")));
    }
    let port: u16 = match port {
        None => DEFAULT_PORT,
        Some(port) => port.parse().map_err(|_| invalid(format!("{port:?} is not a port")))?,
    };
    Ok(format!("{name}:{port}"))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hosts.join(","))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the account, and without the key.
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_apart() {
        let address = Address::parse("//alice:p@ss:w/rd@db-1,db-2:7000,[::1]:3").unwrap();
        assert_eq!(address.hosts, ["db-1:2379", "db-2:7000", "[::1]:3"]);
        assert_eq!(address.account, Some(("alice".into(), "p@ss:w/rd".into())));
        assert!(!format!("{address:?}").contains("p@ss"));
        assert_eq!(Address::parse("//[::1]").unwrap().hosts, ["[::1]:2379"]);
        assert_eq!(Address::parse("//h/").unwrap().uri("h:2379"), "http://h:2379");
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
