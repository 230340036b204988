//! Where a server is.

use std::fmt;
use std::time::Duration;

use lockhouse_core::{Error, Kind, Result};
use mysql_async::{Opts, OptsBuilder, SslOpts};

use crate::error::ENGINE;
use crate::tls::Tls;

const DEFAULT_PORT: u16 = 3306;
/// The server is asked whether it lives after so much silence.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// So many statements are prepared on a connection at most.
const STATEMENTS: usize = 6;
/// What every connection is set to, in one round trip.
///
/// READ COMMITTED locks the rows that are found and no gaps between them, and each of its statements sees what was
/// committed before it began. A transaction of ours never waits for long, and a connection whose client has stopped or
/// is gone must not keep its rows for long: MySQL knows no limit for transactions alone.
const SETTINGS: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; \
                        SET SESSION autocommit = 1, SESSION innodb_lock_wait_timeout = 10, \
                        SESSION wait_timeout = 30, SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION' \
                        /*M!100300 , SESSION idle_transaction_timeout = 5 */";
/// What a connection that holds locks is set to as well: the server ends it after so many seconds of silence, also
/// within a transaction.
const HOLDS: &str = "SET SESSION wait_timeout = {seconds}, SESSION innodb_lock_wait_timeout = 1 \
                     /*M!100300 , SESSION idle_transaction_timeout = {seconds}, \
                     SESSION idle_readonly_transaction_timeout = {seconds}, \
                     SESSION idle_write_transaction_timeout = {seconds} */";

/// Where one server is, who we are there, and which database is ours.
#[derive(Clone)]
pub(crate) struct Address {
    host: String,
    port: u16,
    database: String,
    credentials: Option<(String, Option<String>)>,
    encryption: Option<SslOpts>,
}

impl Address {
    /// Reads `//user:password@host:port/database`: what a URL says between its scheme and its options, with what was
    /// percent-encoded decoded. The user, the password and the port can be left out.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let rest = text.strip_prefix("//").unwrap_or(text);
        // A password may have any character, a host may not.
        let (credentials, place) = match rest.rsplit_once('@') {
            Some((credentials, place)) => {
                let (user, password) = match credentials.split_once(':') {
                    Some((user, password)) => (user, Some(password.to_owned())),
                    None => (credentials, None),
                };
                (Some((user.to_owned(), password)), place)
            }
            None => (None, rest),
        };
        let (host, database) = place.split_once('/').unwrap_or((place, ""));
        let (host, port) = split_port(host)?;
        if database.is_empty() {
            return Err(invalid("the name of the database is missing".into()));
        }
        Ok(Self { host: host.to_owned(), port, database: database.to_owned(), credentials, encryption: None })
    }

    /// Encrypts every connection.
    pub(crate) fn encrypt(&mut self, tls: &Tls) {
        self.encryption = Some(tls.options());
    }

    /// The driver's options for connections that hold locks, and that the server ends when it has not heard of us for
    /// so long.
    pub(crate) fn options_that_hold(&self, lasts: Duration) -> Opts {
        let seconds = lasts.as_millis().div_ceil(1000).to_string();
        // One text, one after the other: of several the driver would send the last first.
        let setup = format!("{SETTINGS}; {}", HOLDS.replace("{seconds}", &seconds));
        OptsBuilder::from_opts(self.options()).setup(vec![setup]).into()
    }

    /// The driver's options for this server.
    pub(crate) fn options(&self) -> Opts {
        let (user, password) = self.credentials.clone().map_or((None, None), |(user, password)| (Some(user), password));
        OptsBuilder::default()
            .ip_or_hostname(self.host.clone())
            .tcp_port(self.port)
            .user(user)
            .pass(password)
            .db_name(Some(self.database.clone()))
            // A socket would need the same host, and the driver one more connection to find out.
            .prefer_socket(false)
            .tcp_nodelay(true)
            .tcp_keepalive(Some(KEEPALIVE))
            .stmt_cache_size(STATEMENTS)
            .ssl_opts(self.encryption.clone())
            .setup(vec![SETTINGS])
            .into()
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
        return Err(invalid("the server's address is missing".into()));
    }
    let port =
        port.map_or(Ok(DEFAULT_PORT), |port| port.parse().map_err(|_| invalid(format!("{port:?} is not a port"))))?;
    Ok((host, port))
}

fn invalid(what: String) -> Error {
    Error::new(Kind::Invalid, what).help("write mysql://user:password@host:3306/database").engine(ENGINE)
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
        let address = Address::parse("//alice:p@ss:w/rd@db-1:3307/shop").unwrap();
        assert_eq!(address.to_string(), "db-1:3307/shop");
        assert_eq!(address.credentials, Some(("alice".into(), Some("p@ss:w/rd".into()))));
        let address = Address::parse("//root@[::1]/shop").unwrap();
        assert_eq!(address.to_string(), "[::1]:3306/shop");
        assert_eq!(address.credentials, Some(("root".into(), None)));
    }

    #[test]
    fn what_is_missing_is_told() {
        for (text, what) in [("//host", "database"), ("//host:x/db", "port"), ("///db", "address"), ("//", "address")] {
            let error = Address::parse(text).unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid);
            assert!(error.to_string().contains(what), "{text}: {error}");
        }
    }

    #[test]
    fn the_password_is_not_shown() {
        assert!(!format!("{:?}", Address::parse("//alice:s3cret@host/db").unwrap()).contains("s3cret"));
    }
}
