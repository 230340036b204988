//! The way to the servers through TLS.
//!
//! The driver connects to a door on this machine for each server, and what it says there goes on through TLS. It could
//! speak TLS itself, but only with a second library of cryptography beside the one that everything else here uses,
//! which takes longer to build than any other part.
//!
//! Whoever else on this machine knocks at a door gets an encrypted connection to a server, as they could make one
//! themselves. That is why no certificate of the client's is shown to the servers: it would be lent to everybody here.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{copy, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::tls::Trust;

/// What a server that does not even shake hands is given.
const SHAKING: Duration = Duration::from_secs(3);
/// The pause when no connection can be accepted: too many files are open.
const AGAIN: Duration = Duration::from_millis(50);

/// A door for each server, closed when dropped.
#[derive(Debug)]
pub(crate) struct Tunnels {
    doors: Vec<SocketAddr>,
    failure: Failure,
    _tasks: JoinSet<()>,
}

/// Why the last connection through TLS could not be had: the driver hears only that it was closed.
type Failure = Arc<Mutex<Option<String>>>;

impl Tunnels {
    /// Opens a door for each of these servers.
    pub(crate) async fn open(hosts: &[String], trust: &Trust) -> io::Result<Self> {
        let (mut doors, failure, mut tasks) = (Vec::new(), Failure::default(), JoinSet::new());
        for host in hosts {
            let door = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            doors.push(door.local_addr()?);
            tasks.spawn(serve(door, host.clone(), trust.clone(), Arc::clone(&failure)));
        }
        Ok(Self { doors, failure, _tasks: tasks })
    }

    /// The doors as the driver wants them.
    pub(crate) fn cluster(&self) -> String {
        self.doors.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(",")
    }

    /// Why the last connection could not be had.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn serve(door: TcpListener, host: String, trust: Trust, failure: Failure) {
    let mut open = JoinSet::new();
    loop {
        // Those that are over.
        while open.try_join_next().is_some() {}
        let Ok((inner, _)) = door.accept().await else {
            sleep(AGAIN).await;
            continue;
        };
        let (host, trust, failure) = (host.clone(), trust.clone(), Arc::clone(&failure));
        open.spawn(async move {
            let outer =
                timeout(SHAKING, trust.connect(&host)).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            *failure.lock().unwrap_or_else(PoisonError::into_inner) = outer.as_ref().err().map(ToString::to_string);
            if let Ok(outer) = outer {
                pass(inner, outer).await;
            }
        });
    }
}

/// Passes on what either says until one of them is silent for good. Then both are cut off: a server that stands still
/// would otherwise keep a connection that the driver has given up.
async fn pass(mut inner: TcpStream, outer: tokio_rustls::client::TlsStream<TcpStream>) {
    // What the driver writes is small and not to be waited for.
    let _ = inner.set_nodelay(true);
    let (mut heard, mut said) = split(outer);
    let (mut asked, mut told) = inner.split();
    tokio::select! {
        _ = copy(&mut asked, &mut said) => {}
        _ = copy(&mut heard, &mut told) => {}
    }
}
