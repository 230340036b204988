//! The line from a `lockhouse` to those inside its command: what it holds, and until when.
//!
//! A nested `run` of a name that an outer one holds goes ahead under it instead of waiting for it. Nobody but the outer
//! one knows whether it holds the name and until when, so nobody else is asked: it listens on a socket, tells whoever
//! connects what it holds, and then the same that it tells its warden. When it has given the lock back, lost it or is
//! gone, the connection ends. The other end of the line is in [`above`](crate::above).

use lockhouse::{ClaimId, Moment};
use serde::{Deserialize, Serialize};
use tokio::net::{UnixListener, UnixStream};

use crate::control::Order;

/// A claim that is held, as those who go ahead under it need to know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Held {
    /// The engine's URL without credentials: the same name elsewhere is another lock.
    pub(crate) engine: String,
    pub(crate) name: String,
    /// What people call the claim. It gives no right over it.
    pub(crate) claim: String,
    pub(crate) token: u64,
    pub(crate) capacity: u32,
    pub(crate) weight: u32,
    pub(crate) ttl_ms: u64,
}

/// The holder's end.
#[derive(Debug)]
pub(crate) struct Lifeline {
    /// `None` when nobody is to be told any more, or there is nothing to tell.
    listener: Option<UnixListener>,
    address: String,
    /// What is said first: all that is held, as one line of JSON.
    greeting: String,
    below: Vec<UnixStream>,
}

impl Lifeline {
    /// Listens for those inside. Where that is not possible a nested `run` waits like anybody else.
    pub(crate) fn new(held: &[Held]) -> Self {
        // No file: an abstract address of Linux is gone with its process, however that ends. It is no secret, so each
        // end looks who is at the other.
        let address = format!("lockhouse-{:032x}", u128::from_ne_bytes(*ClaimId::random().as_bytes()));
        let listener = if held.is_empty() { None } else { UnixListener::bind(format!("\0{address}")).ok() };
        let greeting = serde_json::to_string(held).unwrap_or_default() + "\n";
        Self { listener, address, greeting, below: Vec::new() }
    }

    /// Where to find it.
    pub(crate) fn address(&self) -> Option<&str> {
        self.listener.as_ref().map(|_| self.address.as_str())
    }

    /// Waits for the next one from inside the command.
    pub(crate) async fn called(&self) -> UnixStream {
        loop {
            let Some(listener) = &self.listener else { return std::future::pending().await };
            match listener.accept().await {
                Ok((caller, _)) if is_one_of_us(&caller) => return caller,
                Ok(_) => {}
                // Out of descriptors, perhaps. The caller takes the end of the line for a no; the next may do better.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(100)).await,
            }
        }
    }

    /// Tells one that has called what is held, and until when.
    pub(crate) fn greet(&mut self, caller: UnixStream, until: Moment) {
        let greeting = format!("{}{}", self.greeting, Order::Until(until));
        if say(&caller, &greeting) {
            self.below.push(caller);
        }
    }

    /// Tells all until when the locks are held.
    pub(crate) fn tell(&mut self, until: Moment) {
        let order = Order::Until(until).to_string();
        self.below.retain(|one| say(one, &order));
    }

    /// The locks are not held any more: the line ends.
    pub(crate) fn cut(&mut self) {
        self.listener = None;
        self.below.clear();
    }
}

/// Never waits: one that does not listen must not keep the holder. Its line ends instead.
fn say(to: &UnixStream, text: &str) -> bool {
    matches!(to.try_write(text.as_bytes()), Ok(written) if written == text.len())
}

/// Whether the other end is the same user's or the system's: anybody may have taken an address that became free.
pub(crate) fn is_one_of_us(peer: &UnixStream) -> bool {
    let us = rustix::process::geteuid().as_raw();
    peer.peer_cred().is_ok_and(|peer| peer.uid() == us || peer.uid() == 0)
}
