//! The parts of transactions, and what comes back from them.

use crate::error::Fault;
use crate::keys::end_of;
use crate::proto::{
    Compare, DeleteRequest, Header, KeyValue, PutRequest, RangeRequest, RangeResponse, Request, RequestOp, Response,
    Revision, TxnRequest, TxnResponse,
};

/// One key.
pub(crate) fn point(key: Vec<u8>) -> RangeRequest {
    RangeRequest { key, ..RangeRequest::default() }
}

/// Every key that begins like this.
pub(crate) fn beginning(with: Vec<u8>) -> RangeRequest {
    let range_end = end_of(&with);
    // etcd's first key has one byte.
    let key = if with.is_empty() { vec![0] } else { with };
    RangeRequest { key, range_end, ..RangeRequest::default() }
}

/// Every key that begins like this and was made before a revision, the newest first; all of them where the limit is 0.
pub(crate) fn newest_before(with: Vec<u8>, revision: i64, limit: i64) -> RangeRequest {
    const DESCENDING: i32 = 2;
    const BY_CREATE_REVISION: i32 = 2;
    let (sort_order, sort_target) = (DESCENDING, BY_CREATE_REVISION);
    RangeRequest { sort_order, sort_target, max_create_revision: revision - 1, limit, ..beginning(with) }
}

/// Writes a key under a lease.
pub(crate) fn put(key: Vec<u8>, value: Vec<u8>, lease: i64) -> Request {
    Request::Put(PutRequest { key, value, lease, ignore_lease: false })
}

/// Writes a key that is there, and leaves it the lease it has.
pub(crate) fn rewrite(key: Vec<u8>, value: Vec<u8>) -> Request {
    Request::Put(PutRequest { key, value, lease: 0, ignore_lease: true })
}

/// Deletes a key.
pub(crate) fn delete(key: Vec<u8>) -> Request {
    Request::Delete(DeleteRequest { key })
}

/// The key was made at this revision; at 0: there is no such key.
pub(crate) fn made_at(key: Vec<u8>, revision: i64) -> Compare {
    Compare { target: 1, key, revision: Some(Revision::Create(revision)), ..Compare::default() }
}

/// The key was last written at this revision; at 0: there is no such key.
pub(crate) fn written_at(key: Vec<u8>, revision: i64) -> Compare {
    Compare { target: 2, key, revision: Some(Revision::Mod(revision)), ..Compare::default() }
}

/// There is no key that begins like this.
///
/// A comparison of a range holds for each of its keys, and where there is none it is made with revision 0.
pub(crate) fn nothing_begins(with: Vec<u8>) -> Compare {
    Compare { range_end: end_of(&with), ..made_at(with, 0) }
}

/// No key that begins like this was written after the revision.
pub(crate) fn nothing_written_after(with: Vec<u8>, revision: i64) -> Compare {
    const LESS: i32 = 2;
    Compare { result: LESS, range_end: end_of(&with), ..written_at(with, revision + 1) }
}

/// A transaction: one of two lists of requests, after the comparisons hold or not.
pub(crate) fn txn(compare: Vec<Compare>, then: Vec<Request>, otherwise: Vec<Request>) -> TxnRequest {
    let ops = |requests: Vec<Request>| {
        requests.into_iter().map(|request| RequestOp { request: Some(request) }).collect::<Vec<_>>()
    };
    TxnRequest { compare, success: ops(then), failure: ops(otherwise) }
}

/// What came back from a transaction.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) succeeded: bool,
    /// The revision of the store after it.
    pub(crate) revision: i64,
    /// The term of the leader that it went through.
    pub(crate) term: u64,
    /// What its reads found, in their order.
    reads: std::vec::IntoIter<RangeResponse>,
}

impl Outcome {
    pub(crate) fn of(answer: TxnResponse) -> Result<Self, Fault> {
        let header = header(answer.header)?;
        let reads = answer.responses.into_iter().filter_map(|op| match op.response {
            Some(Response::Range(read)) => Some(read),
            _ => None,
        });
        let reads = reads.collect::<Vec<_>>().into_iter();
        Ok(Self { succeeded: answer.succeeded, revision: header.revision, term: header.raft_term, reads })
    }

    /// What the next read found.
    pub(crate) fn read(&mut self) -> Result<RangeResponse, Fault> {
        self.reads.next().ok_or(Fault::Answer("it is too short"))
    }

    /// The only key of the next read, if it is there.
    pub(crate) fn key(&mut self) -> Result<Option<KeyValue>, Fault> {
        Ok(self.read()?.kvs.pop())
    }
}

/// The header of an answer.
pub(crate) fn header(header: Option<Header>) -> Result<Header, Fault> {
    header.ok_or(Fault::Answer("it has no header"))
}
