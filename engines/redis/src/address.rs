//! Where a server is.

use std::fmt;

use lockhouse_core::{Error, Kind, Result};
use redis::io::tcp::TcpSettings;
use redis::{Client, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo, RedisResult};

use crate::error::ENGINE;
use crate::tls::Tls;

const DEFAULT_PORT: u16 = 6379;

/// Where one server is, and who we are there.
#[derive(Clone)]
pub(crate) struct Address {
    host: String,
    port: u16,
    database: i64,
    credentials: Option<Credentials>,
    tls: Option<Tls>,
}

/// A user, who may be nobody in particular, and a password.
type Credentials = (String, String);

/// `//user:password@host:port,host:port/path`: what a URL says between its scheme and its options, with what was
/// percent-encoded decoded. Everything but a host can be left out.
pub(crate) struct Places<'a> {
    credentials: Option<Credentials>,
    hosts: Vec<(&'a str, Option<u16>)>,
    pub(crate) path: &'a str,
}

impl<'a> Places<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self> {
        let rest = text.strip_prefix("//").unwrap_or(text);
        // A password may have any character, a host may not.
        let (credentials, place) = match rest.rsplit_once('@') {
            Some((credentials, place)) => (Some(credentials.split_once(':').unwrap_or(("", credentials))), place),
            None => (None, rest),
        };
        let (hosts, path) = place.split_once('/').unwrap_or((place, ""));
        Ok(Self {
            credentials: credentials.map(|(user, password)| (user.to_owned(), password.to_owned())),
            hosts: hosts.split(',').map(split_port).collect::<Result<_>>()?,
            path,
        })
    }

    /// These places with a database, for who has the credentials.
    pub(crate) fn servers(&self, database: &str) -> Result<Vec<Address>> {
        let database: i64 = match database {
            "" => 0,
            digits => digits.parse().ok().filter(|number| *number >= 0).ok_or_else(|| {
                invalid(format!("{digits:?} is not the number of a database"), "write redis://host:6379/0")
            })?,
        };
        let server = |&(host, port): &(&str, Option<u16>)| {
            let port = port.unwrap_or(DEFAULT_PORT);
            Address { host: host.to_owned(), port, database, credentials: self.credentials.clone(), tls: None }
        };
        Ok(self.hosts.iter().map(server).collect())
    }

    /// These places with another default port, for anybody: the credentials are those of others.
    pub(crate) fn strangers(&self, default_port: u16) -> Vec<Address> {
        let stranger = |&(host, port): &(&str, Option<u16>)| Address {
            host: host.to_owned(),
            port: port.unwrap_or(default_port),
            database: 0,
            credentials: None,
            tls: None,
        };
        self.hosts.iter().map(stranger).collect()
    }
}

impl Address {
    /// Every server in `//user:password@host:port,host:port/database`.
    pub(crate) fn parse_many(text: &str) -> Result<Vec<Self>> {
        let places = Places::parse(text)?;
        places.servers(places.path)
    }

    /// The same for exactly one server.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut servers = Self::parse_many(text)?;
        match (servers.pop(), servers.is_empty()) {
            (Some(server), true) => Ok(server),
            _ => Err(invalid("several servers are named, and this is the engine of one".into(), "name one host")),
        }
    }

    /// The same server, spoken to in secret.
    pub(crate) fn encrypted(self, tls: Tls) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// Another server for the same people.
    pub(crate) fn elsewhere(&self, host: &str, port: u16) -> Self {
        Self { host: host.to_owned(), port, ..self.clone() }
    }

    /// The driver's client for this server: RESP3, so that messages come on the connection of the commands.
    pub(crate) fn client(&self) -> RedisResult<Client> {
        let mut settings = RedisConnectionInfo::default()
            .set_protocol(ProtocolVersion::RESP3)
            .set_db(self.database)
            .set_lib_name("lockhouse", env!("CARGO_PKG_VERSION"));
        if let Some((user, password)) = &self.credentials {
            settings = settings.set_password(password);
            if !user.is_empty() {
                settings = settings.set_username(user);
            }
        }
        let (host, port) = (self.host.clone(), self.port);
        let place = match self.tls {
            Some(_) => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
            None => ConnectionAddr::Tcp(host, port),
        };
        // Requests are small and somebody waits for each: they are never held back to be sent together.
        let tcp = TcpSettings::default().set_nodelay(true);
        let info = place.into_connection_info()?.set_redis_settings(settings).set_tcp_settings(tcp);
        match &self.tls {
            Some(tls) => Client::build_with_tls(info, tls.certificates()),
            None => Client::open(info),
        }
    }
}

fn split_port(host: &str) -> Result<(&str, Option<u16>)> {
    // An IPv6 address has colons of its own, and stands in brackets.
    let (host, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => host.split_once(':').map_or((host, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Err(invalid("the server's address is missing".into(), "write redis://host:6379"));
    }
    let number =
        |port: &str| port.parse().map_err(|_| invalid(format!("{port:?} is not a port"), "write redis://host:6379"));
    Ok((host, port.map(number).transpose()?))
}

pub(crate) fn invalid(what: String, help: &str) -> Error {
    Error::new(Kind::Invalid, what).help(help).engine(ENGINE)
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
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
        let address = Address::parse("//alice:p@ss:w/rd@db-1:7000/3").unwrap();
        assert_eq!((address.to_string(), address.database), ("db-1:7000".into(), 3));
        assert_eq!(address.credentials, Some(("alice".into(), "p@ss:w/rd".into())));
        let address = Address::parse("//secret@[::1]").unwrap();
        assert_eq!(address.to_string(), "[::1]:6379");
        assert_eq!(address.credentials, Some((String::new(), "secret".into())));
        assert!(!format!("{address:?}").contains("secret"));
        assert_eq!(Address::parse_many("//a,b:1,[::2]:3/1").unwrap().len(), 3);
    }

    #[test]
    fn mistakes_are_told_with_what_to_write() {
        for (text, what) in [("//", "missing"), ("//a:b", "not a port"), ("//a/x", "database"), ("//a,b", "several")] {
            let error = Address::parse(text).unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid);
            assert!(error.to_string().contains(what), "{error}");
        }
    }
}
