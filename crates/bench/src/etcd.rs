//! The least that etcd itself needs for a lock: a key put under a lease if it is not there, and deleted.

use prost::{Message, Oneof};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

/// How long the lease lives, in seconds: longer than any bench.
const LEASE: i64 = 3_600;

/// A lease, and pairs of a transaction and a deletion under it.
#[derive(Debug)]
pub struct RawEtcd {
    channel: Channel,
    lease: i64,
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
struct Put {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
    #[prost(int64, tag = "3")]
    lease: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Delete {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Op {
    #[prost(oneof = "Kind", tags = "2")]
    kind: Option<Kind>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Kind {
    #[prost(message, tag = "2")]
    Put(Put),
}

/// The key's create revision is 0: it is not there.
#[derive(Clone, PartialEq, Message)]
struct Absent {
    #[prost(int32, tag = "2")]
    target: i32,
    #[prost(bytes = "vec", tag = "3")]
    key: Vec<u8>,
    #[prost(int64, optional, tag = "5")]
    create_revision: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Txn {
    #[prost(message, repeated, tag = "1")]
    compare: Vec<Absent>,
    #[prost(message, repeated, tag = "2")]
    success: Vec<Op>,
}

#[derive(Clone, PartialEq, Message)]
struct Done {
    #[prost(bool, tag = "2")]
    succeeded: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Nothing {}

impl RawEtcd {
    /// Connects to the member at `host:port`, and takes a lease.
    ///
    /// # Errors
    /// What the driver or etcd says.
    pub async fn connect(host: &str) -> Result<Self, Box<dyn std::error::Error>> {
        let channel = Endpoint::from_shared(format!("http://{host}"))?.tcp_nodelay(true).connect().await?;
        let mut raw = Self { channel, lease: 0 };
        let granted: Granted = raw.ask("/etcdserverpb.Lease/LeaseGrant", Grant { ttl: LEASE }).await?;
        raw.lease = granted.id;
        Ok(raw)
    }

    /// Takes a key of this number and gives it back, without asking whether anybody else is in line.
    ///
    /// # Errors
    /// What etcd says.
    pub async fn pair(&self, number: usize) -> Result<(), Status> {
        let key = format!("raw/orders/{number}/0123456789abcdef").into_bytes();
        let put = Put { key: key.clone(), value: b"alice@web-1:4711".to_vec(), lease: self.lease };
        let absent = Absent { target: 1, key: key.clone(), create_revision: Some(0) };
        let txn = Txn { compare: vec![absent], success: vec![Op { kind: Some(Kind::Put(put)) }] };
        let done: Done = self.ask("/etcdserverpb.KV/Txn", txn).await?;
        if !done.succeeded {
            return Err(Status::already_exists("the key of the bench is there"));
        }
        let _: Nothing = self.ask("/etcdserverpb.KV/DeleteRange", Delete { key }).await?;
        Ok(())
    }

    async fn ask<Q, A>(&self, path: &'static str, request: Q) -> Result<A, Status>
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
