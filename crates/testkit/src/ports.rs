//! Ports for servers that have to be told theirs.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::{Mutex, PoisonError};

/// Below those that the kernel gives to outgoing connections, and so that 10 000 more is too: there a member of a Redis
/// cluster talks to the others.
const RANGE: std::ops::Range<u16> = 12_000..20_000;

/// A port that nobody uses, nor the one 10 000 above it. No other test is given it while this process lives.
///
/// # Panics
/// When no port is free.
pub fn free_port() -> u16 {
    /// A socket without a file, named after the port, says to other test processes that it is taken.
    static TAKEN: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());
    let is_free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
    for _ in 0..1000 {
        let port = rand::random_range(RANGE);
        let sign = SocketAddr::from_abstract_name(format!("lockhouse-test-port-{port}")).expect("it is short");
        if let Ok(sign) = UnixListener::bind_addr(&sign)
            && is_free(port)
            && is_free(port + 10_000)
        {
            TAKEN.lock().unwrap_or_else(PoisonError::into_inner).push(sign);
            return port;
        }
    }
    panic!("no port is free from {} to {}", RANGE.start, RANGE.end);
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn nobody_is_given_the_same_port_twice() {
        let ports: HashSet<u16> = (0..500).map(|_| free_port()).collect();
        assert_eq!(ports.len(), 500);
    }
}
