//! The memory engine behind a socket, on a thread of its own.

use std::net::SocketAddr;

use lockhouse_core::{Claim, Engine, Memory};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::message::{Answer, IntoAnswer, Request, name, public, write};

/// How the server is at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Serving,
    /// It neither answers nor closes anything.
    Paused,
    /// There is nobody to connect to; what it kept is kept.
    Stopped,
}

/// The memory engine behind a socket. Ends when it is dropped.
#[derive(Debug)]
pub(crate) struct MemoryServer {
    address: SocketAddr,
    memory: Memory,
    wanted: watch::Sender<State>,
    reached: watch::Receiver<State>,
}

impl MemoryServer {
    pub(crate) fn start() -> Self {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        drop(listener);
        let memory = Memory::new();
        let (wanted, state) = watch::channel(State::Serving);
        let (tell, mut reached) = watch::channel(State::Stopped);
        let engine = memory.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(serve(address, engine, state, tell));
        });
        // Waits until it listens, as starting a real server would.
        while *reached.borrow_and_update() != State::Serving {
            std::thread::yield_now();
        }
        Self { address, memory, wanted, reached }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    pub(crate) async fn set(&self, state: State) {
        self.wanted.send_replace(state);
        let mut reached = self.reached.clone();
        reached.wait_for(|reached| *reached == state).await.expect("the server's thread lives");
    }
}

async fn serve(address: SocketAddr, memory: Memory, mut state: watch::Receiver<State>, reached: watch::Sender<State>) {
    let mut listener = None;
    let mut connections = JoinSet::new();
    loop {
        let now = *state.borrow_and_update();
        match now {
            State::Stopped => {
                listener = None;
                connections.shutdown().await;
            }
            State::Serving | State::Paused if listener.is_none() => listener = Some(listen(address)),
            State::Serving | State::Paused => {}
        }
        reached.send_replace(now);
        tokio::select! {
            changed = state.changed() => if changed.is_err() { return },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            Ok((stream, _)) = async { listener.as_ref().expect("checked").accept().await }, if listener.is_some() => {
                connections.spawn(connection(stream, memory.clone(), state.clone()));
            }
        }
    }
}

fn listen(address: SocketAddr) -> TcpListener {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseaddr(true).expect("a socket can be told so");
    socket.bind(address).expect("the port is still ours");
    socket.listen(1024).expect("a bound socket can listen")
}

/// One request a connection. Whoever hangs up takes a request that waits with them.
async fn connection(stream: TcpStream, memory: Memory, mut state: watch::Receiver<State>) {
    let (read, mut to_client) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    let Ok(Some(line)) = lines.next_line().await else { return };
    let request: Request = serde_json::from_str(&line).expect("the client speaks the same language");
    if state.wait_for(|state| *state == State::Serving).await.is_err() {
        return;
    }
    let answer = tokio::select! {
        answer = carry_out(&memory, request) => answer,
        _ = lines.next_line() => return,
    };
    if state.wait_for(|state| *state == State::Serving).await.is_err() {
        return;
    }
    let mut line = serde_json::to_vec(&answer).expect("answers can be written");
    line.push(b'\n');
    // A client that is gone asks again with the same claim.
    let _ = to_client.write_all(&line).await;
}

async fn carry_out(memory: &Memory, request: Request) -> Answer {
    match request {
        Request::Claim(claim) => memory.claim(&claim.into()).await.into_answer(),
        Request::Moved(claim) => memory.moved(&claim.into()).await.into_answer(),
        Request::Renew(claims) => {
            let claims: Vec<Claim> = claims.into_iter().map(Into::into).collect();
            memory.renew(&claims).await.into_answer()
        }
        Request::Withdraw(claim) => memory.withdraw(&claim.into()).await.into_answer(),
        Request::Survey(prefix) => memory.survey(&prefix).await.into_answer(),
        Request::Evict(line, id) => memory.evict(&name(&line), &public(&id)).await.into_answer(),
        Request::Read(cell) => memory.read(&name(&cell)).await.into_answer(),
        Request::Write { name: cell, id, value, if_version, token } => {
            memory.write(&name(&cell), &write(id, value, if_version, token)).await.into_answer()
        }
    }
}
