//! The steps of Go's `concurrency.Mutex`, which is what `etcdctl lock` uses, taken by a client in Rust.
//!
//! A key `name/<lease>` is put, and the first key of the name read with it. Whoever is not the first looks for the last
//! key made before its own and watches that one until it is deleted, looks again, and at last makes sure that its own
//! key is still there.

use std::sync::Arc;

use prost::{Message, Oneof};
use tonic::Request;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic_prost::ProstCodec;

use crate::etcd::{Delete, Kind, Nothing, Op, Put, Range, RawEtcd, Txn, absent};
use crate::handover::{CONTENDERS, Referee};
use crate::turns::Outcome;

const BY_CREATE_REVISION: i32 = 2;
const ASCENDING: i32 = 1;
const DESCENDING: i32 = 2;

/// One contender with a lease of its own.
#[derive(Debug)]
pub struct GoMutex {
    session: RawEtcd,
    prefix: String,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(int64, tag = "2")]
    create_revision: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Header {
    #[prost(int64, tag = "3")]
    revision: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Found {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(message, repeated, tag = "2")]
    kvs: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct Answer {
    #[prost(message, optional, tag = "1")]
    range: Option<Found>,
}

#[derive(Clone, PartialEq, Message)]
struct Answers {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(bool, tag = "2")]
    succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    responses: Vec<Answer>,
}

#[derive(Clone, PartialEq, Message)]
struct Watch {
    #[prost(oneof = "Verb", tags = "1")]
    verb: Option<Verb>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Verb {
    #[prost(message, tag = "1")]
    Create(Create),
}

#[derive(Clone, PartialEq, Message)]
struct Create {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(int64, tag = "3")]
    start_revision: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Event {
    /// 1 is a deletion.
    #[prost(int32, tag = "1")]
    kind: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Watched {
    #[prost(message, repeated, tag = "11")]
    events: Vec<Event>,
}

impl GoMutex {
    /// All contenders for one name. As with ours, half of them share a connection and half another.
    ///
    /// # Errors
    /// What the driver or etcd says.
    pub async fn sessions(host: &str, name: &str) -> Outcome<Arc<Vec<Self>>> {
        let (first, second) = (RawEtcd::connect(host).await?, RawEtcd::connect(host).await?);
        let mut all = Vec::new();
        for contender in 0..CONTENDERS {
            let channel = if contender % 2 == 0 { &first } else { &second }.channel.clone();
            all.push(Self { session: RawEtcd::over(channel).await?, prefix: format!("{name}/") });
        }
        Ok(Arc::new(all))
    }

    /// Takes the lock and gives it back at once.
    ///
    /// # Errors
    /// What etcd says.
    pub async fn turn(&self, referee: &Referee) -> Outcome<()> {
        let key = format!("{}{:x}", self.prefix, self.session.lease).into_bytes();
        self.lock(&key).await?;
        referee.turn();
        let _: Nothing = self.session.ask("/etcdserverpb.KV/DeleteRange", Delete { key }).await?;
        Ok(())
    }

    async fn lock(&self, key: &[u8]) -> Outcome<()> {
        let put = Put { key: key.to_vec(), value: Vec::new(), lease: self.session.lease };
        let first = Range { sort_order: ASCENDING, limit: 1, ..self.by_age() };
        let requests = [Kind::Put(put), Kind::Range(first)].map(|kind| Op { kind: Some(kind) });
        let txn = Txn { compare: vec![absent(key)], success: requests.into() };
        let answers: Answers = self.session.ask("/etcdserverpb.KV/Txn", txn).await?;
        let made = answers.header.ok_or("an answer without a header")?.revision;
        let owner = answers.responses.get(1).and_then(|answer| answer.range.as_ref()?.kvs.first());
        if !answers.succeeded || owner.is_none_or(|owner| owner.create_revision == made) {
            return Ok(());
        }
        loop {
            let last = Range { sort_order: DESCENDING, limit: 1, max_create_revision: made - 1, ..self.by_age() };
            let found: Found = self.session.ask("/etcdserverpb.KV/Range", last).await?;
            let (Some(header), Some(ahead)) = (found.header, found.kvs.into_iter().next()) else { break };
            self.until_deleted(ahead.key, header.revision).await?;
        }
        let own = Range { key: key.to_vec(), ..Range::default() };
        let found: Found = self.session.ask("/etcdserverpb.KV/Range", own).await?;
        if found.kvs.is_empty() { Err("the key of a waiter is gone".into()) } else { Ok(()) }
    }

    async fn until_deleted(&self, key: Vec<u8>, revision: i64) -> Outcome<()> {
        let create = Create { key, start_revision: revision };
        let (requests, queue) = tokio::sync::mpsc::unbounded_channel();
        requests.send(Watch { verb: Some(Verb::Create(create)) })?;
        let requests_of = |queue| {
            futures_util::stream::unfold(queue, |mut queue: tokio::sync::mpsc::UnboundedReceiver<Watch>| async {
                queue.recv().await.map(|request| (request, queue))
            })
        };
        let mut grpc = Grpc::new(self.session.channel.clone());
        grpc.ready().await?;
        let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
        let codec = ProstCodec::<Watch, Watched>::default();
        let mut events = grpc.streaming(Request::new(requests_of(queue)), path, codec).await?.into_inner();
        while let Some(watched) = events.message().await? {
            if watched.events.iter().any(|event| event.kind == 1) {
                return Ok(());
            }
        }
        Err("a watch ended".into())
    }

    fn by_age(&self) -> Range {
        let mut range_end = self.prefix.clone().into_bytes();
        // A prefix ends with a slash, and what follows a slash is a zero.
        range_end.pop();
        range_end.push(b'0');
        Range { key: self.prefix.clone().into_bytes(), range_end, sort_target: BY_CREATE_REVISION, ..Range::default() }
    }
}
