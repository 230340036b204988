//! A TCP proxy with a pair of scissors: for clients of a server whose connection is to be cut.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::wire::{Cut, Wire};

/// A TCP proxy whose connections can be cut and mended. It has a thread of its own, and ends when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    /// How it is cut at present; all connections watch it.
    cut: watch::Sender<Option<Cut>>,
    /// Tells the thread that the proxy is gone, by being dropped.
    _alive: watch::Sender<()>,
}

impl Proxy {
    /// A proxy on a free port of this machine, before a server.
    ///
    /// # Panics
    /// When no port can be had.
    #[must_use]
    pub fn before(server: SocketAddr) -> Self {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        listener.set_nonblocking(true).expect("a socket can be made asynchronous");
        let (cut, watched) = watch::channel(None);
        let (alive, gone) = watch::channel(());
        std::thread::Builder::new()
            .name("proxy".into())
            .spawn(move || run(listener, server, watched, gone))
            .expect("a thread can be started");
        Self { address, cut, _alive: alive }
    }

    /// Where to connect instead of the server.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Wire for Proxy {
    fn cut(&self, how: Cut) {
        self.cut.send_replace(Some(how));
    }

    fn mend(&self) {
        self.cut.send_replace(None);
    }
}

fn run(
    listener: std::net::TcpListener,
    server: SocketAddr,
    cut: watch::Receiver<Option<Cut>>,
    mut gone: watch::Receiver<()>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        tokio::select! {
            () = accept(listener, server, cut) => {}
            _ = gone.changed() => {}
        }
    });
}

/// Accepts connections, except while they are to be refused: then there is nobody to connect to.
async fn accept(listener: std::net::TcpListener, server: SocketAddr, mut cut: watch::Receiver<Option<Cut>>) {
    let address = listener.local_addr().expect("a bound socket has an address");
    let mut listener = Some(TcpListener::from_std(listener).expect("within a runtime"));
    let mut connections = JoinSet::new();
    loop {
        let closed = *cut.borrow_and_update() == Some(Cut::Closed);
        if closed {
            listener = None;
        } else if listener.is_none() {
            listener = listen_again(address).ok();
        }
        tokio::select! {
            changed = cut.changed() => if changed.is_err() { return },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            Ok((client, _)) = async { listener.as_ref().expect("checked").accept().await }, if listener.is_some() => {
                connections.spawn(connection(client, server, cut.clone()));
            }
        }
    }
}

fn listen_again(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    // Connections that were closed a moment ago still have the port.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(128)
}

/// One connection, until either end closes it or it is cut.
async fn connection(client: TcpStream, server: SocketAddr, mut cut: watch::Receiver<Option<Cut>>) {
    // A connection that is made while nothing gets through is accepted by the machine, and then hears nothing.
    let open =
        cut.wait_for(|cut| matches!(cut, None | Some(Cut::Closed | Cut::Reset | Cut::Deaf))).await.map(|cut| *cut);
    match open {
        Ok(Some(Cut::Reset)) => return reset(&client),
        Ok(Some(Cut::Closed)) | Err(_) => return,
        Ok(_) => {}
    }
    let mut client = client;
    let Ok(mut upstream) = TcpStream::connect(server).await else { return };
    let ended = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = upstream.split();
        // A cut is sharp: from its moment on nothing passes, although this task may not have heard of it yet.
        let mute = |cut: Option<Cut>| !matches!(cut, None | Some(Cut::Deaf));
        let deaf = |cut: Option<Cut>| cut.is_some();
        let (requests, answers) = (cut.clone(), cut.clone());
        tokio::select! {
            () = pump(from_client, to_server, requests, mute) => None,
            () = pump(from_server, to_client, answers, deaf) => None,
            ended = cut.wait_for(|cut| matches!(cut, Some(Cut::Closed | Cut::Reset | Cut::HalfOpen))) => {
                ended.ok().and_then(|cut| *cut)
            }
        }
    };
    drop(upstream);
    match ended {
        Some(Cut::Reset) => reset(&client),
        // The server's end is closed by now. This one stays open and silent until it is mended, and is then reset, as a
        // machine does that hears of a connection it does not know.
        Some(Cut::HalfOpen) => {
            let _ = cut.wait_for(|cut| *cut != Some(Cut::HalfOpen)).await;
            reset(&client);
        }
        _ => {}
    }
}

/// Carries bytes one way. What is on its way while nothing gets through is delivered when it is mended, as TCP would.
async fn pump(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut cut: watch::Receiver<Option<Cut>>,
    held: impl Fn(Option<Cut>) -> bool,
) {
    let mut bytes = vec![0; 16 * 1024];
    loop {
        let read = from.read(&mut bytes).await.unwrap_or(0);
        let open = cut.wait_for(|cut| !held(*cut)).await.is_ok();
        if read == 0 || !open || to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}

/// Makes the end of this connection a reset.
fn reset(stream: &TcpStream) {
    // It fails only on a connection that is gone already.
    let _ = stream.set_zero_linger();
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A server that answers every byte with the same byte, and says how many it has had.
    async fn echo() -> (SocketAddr, JoinSet<()>, watch::Receiver<u32>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (count, counted) = watch::channel(0);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let count = count.clone();
                connections.spawn(async move {
                    while let Ok(byte) = stream.read_u8().await {
                        count.send_modify(|count| *count += 1);
                        if stream.write_u8(byte).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        (address, tasks, counted)
    }

    const SOON: Duration = Duration::from_secs(10);
    const A_WHILE: Duration = Duration::from_millis(100);

    async fn ask(stream: &mut TcpStream) -> std::io::Result<u8> {
        stream.write_u8(7).await?;
        stream.read_u8().await
    }

    #[tokio::test]
    async fn bytes_pass_both_ways() {
        let (server, _tasks, _) = echo().await;
        let proxy = Proxy::before(server);
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(ask(&mut stream).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn a_closed_connection_ends_and_a_new_one_is_refused() {
        let (server, _tasks, _) = echo().await;
        let proxy = Proxy::before(server);
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        ask(&mut stream).await.unwrap();
        proxy.cut(Cut::Closed);
        assert!(stream.read_u8().await.is_err());
        let refused = async || TcpStream::connect(proxy.address()).await.is_err();
        crate::eventually::eventually(SOON, "a new one is refused", refused).await;
        proxy.mend();
        let again = async || match TcpStream::connect(proxy.address()).await {
            Ok(mut stream) => ask(&mut stream).await.is_ok(),
            Err(_) => false,
        };
        crate::eventually::eventually(SOON, "mended", again).await;
    }

    #[tokio::test]
    async fn a_reset_connection_says_so() {
        let (server, _tasks, _) = echo().await;
        let proxy = Proxy::before(server);
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        ask(&mut stream).await.unwrap();
        proxy.cut(Cut::Reset);
        let error = stream.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
    }

    #[tokio::test]
    async fn a_silent_connection_delivers_nothing_until_it_is_mended() {
        let (server, _tasks, counted) = echo().await;
        let proxy = Proxy::before(server);
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        ask(&mut stream).await.unwrap();
        proxy.cut(Cut::Silent);
        assert!(tokio::time::timeout(A_WHILE, ask(&mut stream)).await.is_err());
        assert_eq!(*counted.borrow(), 1, "the request got through");
        proxy.mend();
        assert_eq!(tokio::time::timeout(SOON, stream.read_u8()).await.unwrap().unwrap(), 7);
    }

    #[tokio::test]
    async fn a_deaf_connection_delivers_requests_alone() {
        let (server, _tasks, mut counted) = echo().await;
        let proxy = Proxy::before(server);
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        ask(&mut stream).await.unwrap();
        proxy.cut(Cut::Deaf);
        assert!(tokio::time::timeout(A_WHILE, ask(&mut stream)).await.is_err());
        tokio::time::timeout(SOON, counted.wait_for(|count| *count == 2)).await.unwrap().unwrap();
        proxy.mend();
        assert_eq!(tokio::time::timeout(SOON, stream.read_u8()).await.unwrap().unwrap(), 7);
    }

    #[tokio::test]
    async fn a_half_open_connection_is_silent_and_then_reset() {
        let (server, _tasks, counted) = echo().await;
        let proxy = Proxy::before(server);
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        ask(&mut stream).await.unwrap();
        proxy.cut(Cut::HalfOpen);
        assert!(tokio::time::timeout(A_WHILE, ask(&mut stream)).await.is_err());
        assert_eq!(*counted.borrow(), 1, "the request got through");
        proxy.mend();
        let ended = tokio::time::timeout(SOON, stream.read_u8()).await.unwrap();
        assert!(ended.is_err(), "{ended:?}");
    }
}
