//! Requests to the members: one after the other where one does not answer, and none without a time limit.

use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{Stream, stream};
use lockhouse_core::{Race, Result};
use prost::Message;
use tokio::time::{Instant, timeout};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Streaming};
use tonic_prost::ProstCodec;

use crate::address::Address;
use crate::error::{Fault, explain, innermost};
use crate::proto::{AuthenticateRequest, AuthenticateResponse};

/// How long a cluster without a leader is left alone.
const ELECTION: Duration = Duration::from_millis(100);
/// What a member that does not even take the connection is given.
const CONNECTING: Duration = Duration::from_secs(1);
/// The shortest time that a member is given before another one is asked as well.
const IMPATIENCE: Duration = Duration::from_millis(150);
/// Every so often a silent connection is looked at. By default etcd hangs up on who does so more often than every 5 s.
const PING: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(3));
/// A line of many thousand claims in one answer.
const LARGEST_ANSWER: usize = 256 << 20;

/// One request of etcd's interface.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Method {
    path: &'static str,
    /// Whether a request whose outcome is not known may be sent again: it would change nothing more.
    repeatable: bool,
    /// Whether it is one of etcd's streams, of which the first answer is all that is wanted.
    streams: bool,
    /// Whether a member that has lost sight of its leader is to say so at once instead of letting us wait.
    leader: bool,
}

const fn method(path: &'static str, repeatable: bool, streams: bool) -> Method {
    Method { path, repeatable, streams, leader: true }
}

/// What a member knows by itself, also while it sees no leader.
const fn known(path: &'static str) -> Method {
    Method { path, repeatable: true, streams: false, leader: false }
}

pub(crate) const RANGE: Method = method("/etcdserverpb.KV/Range", true, false);
/// Deletes a key that is never made again.
pub(crate) const DELETE: Method = method("/etcdserverpb.KV/DeleteRange", true, false);
/// Not to be repeated here: a copy that comes late makes a claim that nobody knows of.
pub(crate) const TXN: Method = method("/etcdserverpb.KV/Txn", false, false);
/// The same for a transaction that only reads.
pub(crate) const LOOK: Method = method("/etcdserverpb.KV/Txn", true, false);
/// A second lease nobody uses ends by itself.
pub(crate) const GRANT: Method = method("/etcdserverpb.Lease/LeaseGrant", true, false);
pub(crate) const REVOKE: Method = method("/etcdserverpb.Lease/LeaseRevoke", true, false);
/// A stream for each: one that is kept open would have to be opened again whenever its member fails.
pub(crate) const KEEP_ALIVE: Method = method("/etcdserverpb.Lease/LeaseKeepAlive", true, true);
pub(crate) const TIME_TO_LIVE: Method = method("/etcdserverpb.Lease/LeaseTimeToLive", true, false);
pub(crate) const MEMBERS: Method = known("/etcdserverpb.Cluster/MemberList");
pub(crate) const STATUS: Method = known("/etcdserverpb.Maintenance/Status");
pub(crate) const ALARM: Method = method("/etcdserverpb.Maintenance/Alarm", true, false);
pub(crate) const WATCH: Method = method("/etcdserverpb.Watch/Watch", true, true);
const AUTHENTICATE: Method = method("/etcdserverpb.Auth/Authenticate", true, false);

/// One side's connections to the members.
#[derive(Debug)]
pub(crate) struct Link {
    address: Address,
    endpoints: Vec<Endpoint>,
    channels: Mutex<Vec<Option<Channel>>>,
    /// The member that answered last.
    current: AtomicUsize,
    /// What etcd gave for our password.
    token: Mutex<Option<MetadataValue<Ascii>>>,
}

impl Link {
    /// Connects to nobody yet.
    pub(crate) fn new(address: Address) -> Result<Self> {
        let endpoints: Result<Vec<Endpoint>, Fault> =
            address.hosts.iter().map(|host| endpoint(&address, host)).collect();
        let endpoints = endpoints.map_err(|fault| explain(fault, &address.to_string()))?;
        let channels = Mutex::new(vec![None; endpoints.len()]);
        // Clients begin with different members.
        let current = AtomicUsize::new(rand::random_range(0..endpoints.len().max(1)));
        Ok(Self { address, endpoints, channels, current, token: Mutex::default() })
    }

    /// What the members are called in errors.
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// Asks the members until one answers or the time is up. While they elect a leader it waits for that.
    pub(crate) async fn ask<Q, A>(&self, method: Method, request: &Q, limit: Duration) -> Result<A, Fault>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let until = Instant::now() + limit;
        loop {
            match self.ask_members(method, request, until).await {
                // Said before anything is done, so whatever it was can be asked again.
                Err(fault) if fault.is_leaderless() && Instant::now() + ELECTION < until => {
                    tokio::time::sleep(ELECTION).await;
                }
                answer => return answer,
            }
        }
    }

    /// Asks one member. When it fails or is slow and asking again changes nothing, the next one too: the first answer
    /// counts.
    async fn ask_members<Q, A>(&self, method: Method, request: &Q, until: Instant) -> Result<A, Fault>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let members = self.endpoints.len();
        let left = || until.saturating_duration_since(Instant::now());
        let share = (left() / u32::try_from(members).unwrap_or(1)).max(IMPATIENCE);
        let mut asked = Race::new();
        let (mut attempts, mut member) = (0, self.current.load(Ordering::Relaxed));
        loop {
            let this = member;
            let answer = self.ask_member(this, method, request.clone(), left());
            asked.push(async move { (this, answer.await) });
            attempts += 1;
            member = (member + 1) % members;
            let others = attempts < members;
            tokio::select! {
                Some((from, answer)) = asked.next() => match answer {
                    Err(fault) if fault.is_the_members() => {
                        self.leave(from, &fault);
                        // What was not sent can be sent to another member, whatever it is.
                        let again = method.repeatable || matches!(fault, Fault::Connecting(_));
                        if !again || !others || Instant::now() >= until {
                            return last_hope(asked, fault).await;
                        }
                    }
                    answer => return answer,
                },
                () = tokio::time::sleep(share), if method.repeatable && others => self.pass(this),
            }
        }
    }

    /// Asks this member and no other.
    pub(crate) async fn ask_member<Q, A>(
        &self,
        member: usize,
        method: Method,
        request: Q,
        limit: Duration,
    ) -> Result<A, Fault>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let until = Instant::now() + limit;
        let channel = self.channel(member, limit).await?;
        let left = || until.saturating_duration_since(Instant::now());
        let token = self.authenticate(&channel, left()).await?;
        let sent = timeout(left(), send(channel.clone(), method, token, request.clone())).await;
        let answer = sent.unwrap_or(Err(Fault::Silence(limit)));
        let Err(fault) = &answer else { return answer };
        if !fault.is_token_stale() || self.address.account.is_none() {
            return answer;
        }
        // Tokens end after some minutes, and with the member's process.
        *self.token() = None;
        let token = self.authenticate(&channel, left()).await?;
        timeout(left(), send(channel, method, token, request)).await.unwrap_or(Err(Fault::Silence(limit)))
    }

    /// Opens a stream to the member that answered last.
    pub(crate) async fn stream<Q, A>(
        &self,
        method: Method,
        requests: impl Stream<Item = Q> + Send + 'static,
        limit: Duration,
    ) -> Result<Streaming<A>, Fault>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let member = self.current.load(Ordering::Relaxed);
        let open = async {
            let channel = self.channel(member, limit).await?;
            let token = self.authenticate(&channel, limit).await?;
            open(channel, method, token, requests).await
        };
        let opened = timeout(limit, open).await.unwrap_or(Err(Fault::Silence(limit)));
        opened.inspect_err(|fault| self.leave(member, fault))
    }

    /// The connection to a member, made when there is none.
    async fn channel(&self, member: usize, limit: Duration) -> Result<Channel, Fault> {
        if let Some(channel) = self.channels().get(member).and_then(Option::as_ref) {
            return Ok(channel.clone());
        }
        let Some(endpoint) = self.endpoints.get(member) else { return Err(Fault::Answer("there is no such member")) };
        let channel = match timeout(limit.min(CONNECTING), endpoint.connect()).await {
            Ok(Ok(channel)) => channel,
            Ok(Err(error)) => return Err(Fault::Connecting(innermost(&error))),
            Err(_) => return Err(Fault::Connecting("no answer in time".into())),
        };
        if let Some(slot) = self.channels().get_mut(member) {
            *slot = Some(channel.clone());
        }
        Ok(channel)
    }

    /// A member has failed.
    fn leave(&self, member: usize, fault: &Fault) {
        if fault.breaks_connection()
            && let Some(slot) = self.channels().get_mut(member)
        {
            *slot = None;
        }
        self.pass(member);
    }

    /// Others begin with the next member, if nobody has seen to that already.
    fn pass(&self, member: usize) {
        let next = (member + 1) % self.endpoints.len().max(1);
        let _ = self.current.compare_exchange(member, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// What to show with each request; `None` without an account.
    async fn authenticate(&self, channel: &Channel, limit: Duration) -> Result<Option<MetadataValue<Ascii>>, Fault> {
        let Some((name, password)) = &self.address.account else { return Ok(None) };
        if let Some(token) = self.token().clone() {
            return Ok(Some(token));
        }
        let request = AuthenticateRequest { name: name.clone(), password: password.clone() };
        let asked = timeout(limit, send::<_, AuthenticateResponse>(channel.clone(), AUTHENTICATE, None, request)).await;
        let answer = asked.unwrap_or_else(|_| Err(Fault::Connecting("no answer to our password".into())))?;
        let token = MetadataValue::try_from(answer.token).map_err(|_| Fault::Answer("a token that cannot be sent"))?;
        *self.token() = Some(token.clone());
        Ok(Some(token))
    }

    fn channels(&self) -> MutexGuard<'_, Vec<Option<Channel>>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn token(&self) -> MutexGuard<'_, Option<MetadataValue<Ascii>>> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn endpoint(address: &Address, host: &str) -> Result<Endpoint, Fault> {
    let invalid = |error: tonic::transport::Error| Fault::Connecting(innermost(&error));
    let endpoint = Endpoint::from_shared(address.uri(host))
        .map_err(invalid)?
        .user_agent(concat!("lockhouse/", env!("CARGO_PKG_VERSION")))
        .map_err(invalid)?
        .connect_timeout(CONNECTING)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(PING.0)
        .keep_alive_timeout(PING.1)
        .keep_alive_while_idle(true);
    if !address.tls {
        return Ok(endpoint);
    }
    let tls = match &address.authority {
        Some(pem) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)),
        None => ClientTlsConfig::new().with_native_roots(),
    };
    let tls = match &address.identity {
        Some((certificate, key)) => tls.identity(Identity::from_pem(certificate, key)),
        None => tls,
    };
    endpoint.tls_config(tls).map_err(invalid)
}

/// One member has failed, and nobody else is to be asked: what others say who were asked before.
async fn last_hope<A>(
    mut asked: Race<impl Future<Output = (usize, Result<A, Fault>)>>,
    fault: Fault,
) -> Result<A, Fault> {
    while let Some((_, answer)) = asked.next().await {
        if answer.as_ref().err().is_none_or(|fault| !fault.is_the_members()) {
            return answer;
        }
    }
    Err(fault)
}

/// Sends one request and takes the first answer.
async fn send<Q, A>(
    channel: Channel,
    method: Method,
    token: Option<MetadataValue<Ascii>>,
    message: Q,
) -> Result<A, Fault>
where
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    if method.streams {
        let mut answers = open(channel, method, token, stream::iter([message])).await?;
        let first = answers.message().await.map_err(|status| Fault::of(&status))?;
        return first.ok_or(Fault::Answer("a stream that ends before it begins"));
    }
    let mut grpc = ready(channel).await?;
    let request = prepared(message, method, token);
    let answer = grpc.unary(request, PathAndQuery::from_static(method.path), ProstCodec::default()).await;
    answer.map(tonic::Response::into_inner).map_err(|status| Fault::of(&status))
}

async fn open<Q, A>(
    channel: Channel,
    method: Method,
    token: Option<MetadataValue<Ascii>>,
    requests: impl Stream<Item = Q> + Send + 'static,
) -> Result<Streaming<A>, Fault>
where
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    let mut grpc = ready(channel).await?;
    let request = prepared(requests, method, token);
    let answers = grpc.streaming(request, PathAndQuery::from_static(method.path), ProstCodec::default()).await;
    answers.map(tonic::Response::into_inner).map_err(|status| Fault::of(&status))
}

async fn ready(channel: Channel) -> Result<Grpc<Channel>, Fault> {
    let mut grpc = Grpc::new(channel).max_decoding_message_size(LARGEST_ANSWER);
    grpc.ready().await.map_err(|error| Fault::Broken(innermost(&error)))?;
    Ok(grpc)
}

fn prepared<T>(message: T, method: Method, token: Option<MetadataValue<Ascii>>) -> Request<T> {
    let mut request = Request::new(message);
    if method.leader {
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
    }
    if let Some(token) = token {
        request.metadata_mut().insert("authorization", token);
    }
    request
}
