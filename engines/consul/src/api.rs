//! Consul's HTTP interface: the few messages that are used.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::behavior::Behavior;
use crate::error::Fault;
use crate::http::Answer;

/// Marks a key as a lock of `consul lock` and the Go client: they refuse a key with other flags.
pub(crate) const LOCK_FLAGS: u64 = 0x2ddc_cbc0_58a5_0c18;
/// So many operations fit into one transaction.
pub(crate) const OPERATIONS: usize = 64;

/// One operation of a transaction.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Op {
    #[serde(rename = "KV")]
    kv: KvOp,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "PascalCase")]
struct KvOp {
    verb: &'static str,
    key: String,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "encode")]
    value: Option<Vec<u8>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flags: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
}

impl Op {
    fn new(verb: &'static str, key: &str) -> Self {
        Self { kv: KvOp { verb, key: key.to_owned(), value: None, flags: None, index: None, session: None } }
    }

    /// Only if there is no such key.
    pub(crate) fn absent(key: &str) -> Self {
        Self::new("check-not-exists", key)
    }

    /// Only if the key was last written at this index.
    pub(crate) fn unchanged(key: &str, index: u64) -> Self {
        let mut op = Self::new("check-index", key);
        op.kv.index = Some(index);
        op
    }

    /// Only if the key is there and this session's.
    pub(crate) fn is_of(key: &str, session: &str) -> Self {
        let mut op = Self::new("check-session", key);
        op.kv.session = Some(session.to_owned());
        op
    }

    /// Acquires a key.
    pub(crate) fn acquire(key: &str, session: &str, value: Vec<u8>, flags: u64) -> Self {
        let mut op = Self::new("lock", key);
        (op.kv.session, op.kv.value, op.kv.flags) = (Some(session.to_owned()), Some(value), Some(flags));
        op
    }

    /// Writes a key if it was last written at this index: 0 if it is not there. Whoever has acquired it keeps it.
    pub(crate) fn write(key: &str, index: u64, value: Vec<u8>) -> Self {
        let mut op = Self::new("cas", key);
        (op.kv.index, op.kv.value) = (Some(index), Some(value));
        op
    }

    /// The same, with flags.
    pub(crate) fn flagged(mut self, flags: u64) -> Self {
        self.kv.flags = Some(flags);
        self
    }

    /// Deletes a key.
    pub(crate) fn delete(key: &str) -> Self {
        Self::new("delete", key)
    }

    /// Deletes a key, only if it was last written at this index. One that is not there is deleted.
    pub(crate) fn delete_at(key: &str, index: u64) -> Self {
        let mut op = Self::new("delete-cas", key);
        op.kv.index = Some(index);
        op
    }

    /// Reads every key that begins so. Nothing is refused when there is none.
    pub(crate) fn read(beginning: &str) -> Self {
        Self::new("get-tree", beginning)
    }
}

/// A key as Consul keeps it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Kv {
    pub(crate) key: String,
    /// `None` also where an operation does not give it back.
    #[serde(default, deserialize_with = "decode")]
    pub(crate) value: Option<Vec<u8>>,
    /// Who has acquired it.
    #[serde(default)]
    pub(crate) session: Option<String>,
    /// When it was made.
    #[serde(rename = "CreateIndex")]
    pub(crate) made: u64,
    /// When it was last written.
    #[serde(rename = "ModifyIndex")]
    pub(crate) written: u64,
}

/// A key that was seen, and when it was last written.
pub(crate) type Seen = (String, u64);

/// What became of a transaction: everything or nothing.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The keys that were read and written, in the order of the operations.
    Done(Vec<Kv>),
    /// Why not.
    Refused(Refusal),
}

/// Why a transaction was not carried out.
#[derive(Debug)]
pub(crate) struct Refusal(Vec<String>);

impl Refusal {
    /// The session is over.
    pub(crate) fn is_sessions_end(&self) -> bool {
        self.0.iter().any(|what| what.contains("invalid session"))
    }

    /// Another session that had the key has ended a moment ago, and asked for a pause after that.
    pub(crate) fn is_lock_delay(&self) -> bool {
        self.0.iter().any(|what| what.contains("lock delay"))
    }

    /// The token may not do that.
    pub(crate) fn denied(&self) -> Option<Fault> {
        let what = self.0.iter().find(|what| what.contains("Permission denied"))?;
        Some(Fault::Said(403, what.clone()))
    }

    /// The operation may not be carried out as it is.
    pub(crate) fn too_large(&self) -> Option<Fault> {
        let what = self.0.iter().find(|what| what.contains("exceeds") && what.contains("limit"))?;
        Some(Fault::Said(413, what.clone()))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TxnAnswer {
    results: Option<Vec<TxnResult>>,
    errors: Option<Vec<TxnError>>,
}

#[derive(Deserialize)]
struct TxnResult {
    #[serde(rename = "KV")]
    kv: Option<Kv>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TxnError {
    what: String,
}

impl Outcome {
    pub(crate) fn of(answer: &Answer) -> Result<Self, Fault> {
        let TxnAnswer { results, errors } = read(answer)?;
        match errors {
            Some(errors) if !errors.is_empty() => {
                let refusal = Refusal(errors.into_iter().map(|error| error.what).collect());
                match refusal.denied().or_else(|| refusal.too_large()) {
                    Some(fault) => Err(fault),
                    None => Ok(Self::Refused(refusal)),
                }
            }
            _ => Ok(Self::Done(results.unwrap_or_default().into_iter().filter_map(|result| result.kv).collect())),
        }
    }
}

/// What a new session is to be.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct NewSession {
    pub(crate) name: String,
    #[serde(rename = "TTL")]
    pub(crate) ttl: String,
    pub(crate) lock_delay: String,
    pub(crate) behavior: Behavior,
    /// The node of the catalog that it belongs to, if it is not the agent's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<String>,
    /// Without the health of the agent's node: the client may go on with another agent when this one fails.
    pub(crate) node_checks: [&'static str; 0],
    /// The same by its older name.
    pub(crate) checks: [&'static str; 0],
}

#[derive(Deserialize)]
#[serde(rename_all = "UPPERCASE")]
struct SessionId {
    id: String,
}

/// The id of the session that was created.
pub(crate) fn session_id(answer: &Answer) -> Result<String, Fault> {
    read::<SessionId>(answer).map(|session| session.id)
}

/// Takes an answer for what it should be.
pub(crate) fn read<'a, T: Deserialize<'a>>(answer: &'a Answer) -> Result<T, Fault> {
    serde_json::from_slice(&answer.body).map_err(|error| Fault::Answer(error.to_string()))
}

/// Writes a message.
pub(crate) fn json(message: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(message).expect("our messages have nothing that JSON lacks")
}

fn encode<S: Serializer>(value: &Option<Vec<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&BASE64_STANDARD.encode(value.as_deref().unwrap_or_default()))
}

fn decode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<u8>>, D::Error> {
    let text: Option<std::borrow::Cow<'de, str>> = Option::deserialize(deserializer)?;
    text.map(|text| BASE64_STANDARD.decode(text.as_bytes()).map_err(serde::de::Error::custom)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> Answer {
        Answer { status: 200, index: 0, body: text.to_owned().into() }
    }

    #[test]
    fn an_operation_is_written_as_consul_reads_it() {
        let op = Op::acquire("a/.lock", "s", b"hi".to_vec(), LOCK_FLAGS);
        let text = r#"{"KV":{"Verb":"lock","Key":"a/.lock","Value":"aGk=","Flags":3304740253564472344,"Session":"s"}}"#;
        assert_eq!(String::from_utf8(json(&op)).unwrap(), text);
    }

    #[test]
    fn what_consul_answers_is_read() {
        let done = answer(
            r#"{"Results":[{"KV":{"LockIndex":1,"Key":"a","Flags":0,"Value":"aGk=","Session":"s","CreateIndex":7,
            "ModifyIndex":8}},{"KV":{"Key":"b","Value":null,"CreateIndex":1,"ModifyIndex":1}}],"Errors":null}"#,
        );
        let Outcome::Done(kvs) = Outcome::of(&done).unwrap() else { panic!("it was done") };
        assert_eq!((kvs[0].value.as_deref(), kvs[0].made, kvs[0].written), (Some(&b"hi"[..]), 7, 8));
        assert_eq!((kvs[1].value.as_deref(), kvs[1].session.as_deref()), (None, None));
        let refused = answer(r#"{"Results":null,"Errors":[{"OpIndex":0,"What":"invalid session \"x\""}]}"#);
        assert!(matches!(Outcome::of(&refused).unwrap(), Outcome::Refused(why) if why.is_sessions_end()));
        let denied = answer(r#"{"Results":null,"Errors":[{"OpIndex":0,"What":"Permission denied"}]}"#);
        assert!(Outcome::of(&denied).unwrap_err().is_denied());
        assert!(matches!(Outcome::of(&answer("<html>")), Err(Fault::Answer(_))));
    }
}
