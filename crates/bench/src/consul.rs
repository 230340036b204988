//! The least that Consul itself needs for a lock: a key acquired with a session, and released; and its own recipe for
//! waiting, a blocking query between two attempts.

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::HOST;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::turns::Outcome;

/// A session, and one connection to use it on.
#[derive(Debug)]
pub struct RawConsul {
    host: String,
    sender: SendRequest<Full<Bytes>>,
    session: String,
    _driver: JoinSet<()>,
}

impl RawConsul {
    /// Connects to the agent at `host:port`, and makes a session without an end.
    ///
    /// # Errors
    /// What the network or Consul says.
    pub async fn connect(host: &str) -> Outcome<Self> {
        let stream = TcpStream::connect(host).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        let mut driver = JoinSet::new();
        driver.spawn(async move { drop(connection.await) });
        let mut raw = Self { host: host.to_owned(), sender, session: String::new(), _driver: driver };
        let (_, made) = raw.ask(Method::PUT, "/v1/session/create", r#"{"LockDelay":"0s","Behavior":"delete"}"#).await?;
        raw.session = made.split('"').nth(3).ok_or("no session")?.to_owned();
        Ok(raw)
    }

    /// Takes a key of this number and gives it back.
    ///
    /// # Errors
    /// What the network or Consul says.
    pub async fn pair(&mut self, number: u32) -> Outcome<()> {
        let key = format!("raw/orders/{number}/.lock");
        if !self.acquire(&key).await? {
            return Err("the key of the bench is taken".into());
        }
        self.release(&key).await
    }

    /// Takes a key as Consul's own recipe does: an attempt, a blocking query, another attempt.
    ///
    /// # Errors
    /// What the network or Consul says.
    pub async fn lock(&mut self, key: &str) -> Outcome<()> {
        let mut index = 0;
        loop {
            if self.acquire(key).await? {
                return Ok(());
            }
            let (now, held) = self.ask(Method::GET, &format!("/v1/kv/{key}?index={index}&wait=10s"), "").await?;
            // Somebody has it, and what was seen is newer than the attempt: the next change is waited for.
            index = if held.contains("\"Session\"") { now } else { 0 };
        }
    }

    /// Gives a key back.
    ///
    /// # Errors
    /// What the network or Consul says.
    pub async fn release(&mut self, key: &str) -> Outcome<()> {
        let path = format!("/v1/kv/{key}?release={}", self.session);
        self.ask(Method::PUT, &path, "alice@web-1:4711").await.map(drop)
    }

    async fn acquire(&mut self, key: &str) -> Outcome<bool> {
        let path = format!("/v1/kv/{key}?acquire={}", self.session);
        Ok(self.ask(Method::PUT, &path, "alice@web-1:4711").await?.1.starts_with("true"))
    }

    async fn ask(&mut self, method: Method, path: &str, body: &str) -> Outcome<(u64, String)> {
        let request = Request::builder().method(method).uri(path).header(HOST, &self.host);
        self.sender.ready().await?;
        let answer = self.sender.send_request(request.body(Full::new(Bytes::from(body.to_owned())))?).await?;
        let index = answer.headers().get("x-consul-index").and_then(|index| index.to_str().ok()?.parse().ok());
        let body = answer.into_body().collect().await?.to_bytes();
        Ok((index.unwrap_or(0), String::from_utf8_lossy(&body).into_owned()))
    }
}
