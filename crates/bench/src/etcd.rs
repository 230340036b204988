//! The least that etcd itself needs for a lock: a key put under a lease if it is not there, and deleted.

use std::time::Duration;

use prost::{Message, Oneof};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use crate::turns::Outcome;

/// How long the lease lives, in seconds: longer than any bench.
const LEASE: i64 = 3_600;

/// A lease, and pairs of a transaction and a deletion under it.
#[derive(Debug)]
pub struct RawEtcd {
    pub(crate) channel: Channel,
    pub(crate) lease: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Grant {
    #[prost(int64, tag = "1")]
    ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Granted {
    #[prost(int64, tag = "2")]
    id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Put {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(crate) lease: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Delete {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
}

/// What a range of keys is asked for with.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Range {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(crate) limit: i64,
    #[prost(int32, tag = "5")]
    pub(crate) sort_order: i32,
    #[prost(int32, tag = "6")]
    pub(crate) sort_target: i32,
    #[prost(int64, tag = "13")]
    pub(crate) max_create_revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Op {
    #[prost(oneof = "Kind", tags = "1, 2")]
    pub(crate) kind: Option<Kind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Kind {
    #[prost(message, tag = "1")]
    Range(Range),
    #[prost(message, tag = "2")]
    Put(Put),
}

/// The key's create revision is 0: it is not there.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Absent {
    #[prost(int32, tag = "2")]
    target: i32,
    #[prost(bytes = "vec", tag = "3")]
    key: Vec<u8>,
    #[prost(int64, optional, tag = "5")]
    create_revision: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Txn {
    #[prost(message, repeated, tag = "1")]
    pub(crate) compare: Vec<Absent>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) success: Vec<Op>,
}

#[derive(Clone, PartialEq, Message)]
struct Done {
    #[prost(bool, tag = "2")]
    succeeded: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Nothing {}

impl RawEtcd {
    /// Connects to the member at `host:port`, and takes a lease.
    ///
    /// # Errors
    /// What the driver or etcd says.
    pub async fn connect(host: &str) -> Outcome<Self> {
        // As the engine connects.
        let endpoint = Endpoint::from_shared(format!("http://{host}"))?
            .tcp_nodelay(true)
            .http2_keep_alive_interval(Duration::from_secs(10))
            .keep_alive_while_idle(true);
        Self::over(endpoint.connect().await?).await
    }

    /// Takes another lease over a connection that is there.
    pub(crate) async fn over(channel: Channel) -> Outcome<Self> {
        let mut raw = Self { channel, lease: 0 };
        let granted: Granted = raw.ask("/etcdserverpb.Lease/LeaseGrant", Grant { ttl: LEASE }).await?;
        raw.lease = granted.id;
        Ok(raw)
    }

    /// Takes a key of this number and gives it back, without asking whether anybody else is in line.
    ///
    /// # Errors
    /// What etcd says.
    pub async fn pair(&self, number: u32) -> Result<(), Status> {
        let key = format!("raw/orders/{number}/0123456789abcdef").into_bytes();
        let put = Put { key: key.clone(), value: b"alice@web-1:4711".to_vec(), lease: self.lease };
        let txn = Txn { compare: vec![absent(&key)], success: vec![Op { kind: Some(Kind::Put(put)) }] };
        let done: Done = self.ask("/etcdserverpb.KV/Txn", txn).await?;
        if !done.succeeded {
            return Err(Status::already_exists("the key of the bench is there"));
        }
        let _: Nothing = self.ask("/etcdserverpb.KV/DeleteRange", Delete { key }).await?;
        Ok(())
    }

    pub(crate) async fn ask<Q, A>(&self, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let answer = grpc.unary(Request::new(request), PathAndQuery::from_static(path), ProstCodec::default()).await?;
        Ok(answer.into_inner())
    }
}

/// The key is not there.
pub(crate) fn absent(key: &[u8]) -> Absent {
    Absent { target: 1, key: key.to_vec(), create_revision: Some(0) }
}
