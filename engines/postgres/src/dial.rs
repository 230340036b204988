//! How a connection to a server is made.

use std::fmt;
use std::sync::Arc;

use lockhouse_core::Result;
use rustls::ClientConfig;
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::address::Address;
use crate::tls::Tls;

type Encrypted = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

/// Makes connections to one server, encrypted or not.
#[derive(Clone)]
pub(crate) struct Dial {
    config: Config,
    /// Not used by a connection that is not to be encrypted.
    tls: Arc<ClientConfig>,
}

impl Dial {
    /// To a server at this address, encrypted if it says how.
    pub(crate) fn to(address: &Address, tls: Option<&Tls>) -> Result<Self> {
        let mut config = address.config();
        config.ssl_mode(if tls.is_some() { SslMode::Require } else { SslMode::Disable });
        let tls = match tls {
            Some(tls) => tls.config()?,
            // Whom it would believe does not matter, and finding out takes a while.
            None => Tls::unverified().config()?,
        };
        Ok(Self { config, tls: Arc::new(tls) })
    }

    /// The same by another name, which the server shows.
    pub(crate) fn named(&self, name: &str) -> Self {
        let mut named = self.clone();
        named.config.application_name(name);
        named
    }

    /// Connects. Nothing happens on a connection that nobody polls.
    pub(crate) async fn connect(&self) -> Result<(Client, Connection<Socket, Encrypted>), tokio_postgres::Error> {
        self.config.connect(MakeRustlsConnect::new((*self.tls).clone())).await
    }
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The configuration knows the password.
        f.debug_struct("Dial").finish_non_exhaustive()
    }
}
