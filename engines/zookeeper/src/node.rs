//! The nodes of claims: what their names say.
//!
//! A claim is an ephemeral sequential node with a name as Curator writes it: `_c_<uuid>-lock-0000000007` in a mutex,
//! `-__READ__` and `-__WRIT__` in a read-write lock, and `-permits-2-of-5-` in a semaphore, which Curator keeps in
//! another way. The UUID of ours is the claim's public id and the session it was made in: the claim's secret is
//! nowhere. Nodes of Curator and of kazoo (`__lock__`, `__rlock__`) are claims too.

use std::cmp::Ordering;

use lockhouse_core::line::kind;
use lockhouse_core::{Claim, PublicId};

/// Marks a UUID as ours. Version 8 is for whoever has a use for it; Curator's are of version 4.
const OURS: &str = "8c68";
/// ZooKeeper writes the sequence with at least this many characters: digits, and a sign once it has overflowed.
const WIDTH: usize = 10;

/// What the name of a claim's node says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    /// The name itself.
    pub(crate) name: String,
    /// The place in line.
    pub(crate) sequence: i32,
    /// How much is claimed, unless it was downgraded since.
    pub(crate) weight: Weight,
    /// Which claim it is, if it is one of ours.
    pub(crate) claim: Option<Identity>,
}

/// Which claim a node of ours is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) id: PublicId,
    pub(crate) session: i64,
}

/// How much of a lock is claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weight {
    /// So much of so much.
    Of(u32, u32),
    /// Everything, of whatever there is: kazoo's locks and write locks have the same name.
    Everything,
    /// One reader, beside other readers: kazoo's.
    Reader,
}

impl Weight {
    fn of(claim: &Claim) -> Self {
        Self::Of(claim.weight, claim.capacity)
    }

    /// The weight in a lock of that capacity; the other capacity when they disagree.
    pub(crate) fn within(self, capacity: u32) -> Result<u32, u32> {
        match self {
            Self::Of(weight, all) if all == capacity => Ok(weight),
            Self::Of(_, all) => Err(all),
            Self::Everything => Ok(capacity),
            Self::Reader => Ok(kind::READER),
        }
    }

    /// How the name goes on behind the identity.
    fn suffix(self) -> String {
        match self {
            Self::Of(kind::MUTEX, kind::MUTEX) => "-lock-".into(),
            Self::Of(kind::READER, kind::WHOLE) => "-__READ__".into(),
            Self::Of(kind::WHOLE, kind::WHOLE) => "-__WRIT__".into(),
            Self::Of(weight, capacity) => format!("-permits-{weight}-of-{capacity}-"),
            Self::Everything => "__lock__".into(),
            Self::Reader => "__rlock__".into(),
        }
    }

    /// What the name says, without its sequence.
    fn read(name: &str) -> Option<Self> {
        if name.ends_with("lock-") {
            Some(Self::Of(kind::MUTEX, kind::MUTEX))
        } else if name.ends_with("__READ__") {
            Some(Self::Of(kind::READER, kind::WHOLE))
        } else if name.ends_with("__WRIT__") {
            Some(Self::Of(kind::WHOLE, kind::WHOLE))
        } else if name.ends_with("__rlock__") {
            Some(Self::Reader)
        } else if name.ends_with("__lock__") {
            Some(Self::Everything)
        } else {
            let (weight, capacity) = name.rsplit_once("-permits-")?.1.strip_suffix('-')?.split_once("-of-")?;
            Some(Self::Of(weight.parse().ok()?, capacity.parse().ok()?))
        }
    }
}

impl Node {
    /// The name to create a node with: ZooKeeper puts the sequence behind it.
    pub(crate) fn prefix(claim: &Claim, session: i64) -> String {
        let (id, session) = (claim.id.public().to_string(), format!("{session:016x}"));
        let (id, session) = (id.split_at(8), session.split_at(4));
        format!("_c_{}-{}-{OURS}-{}-{}{}", id.0, id.1, session.0, session.1, Weight::of(claim).suffix())
    }

    /// What the name of a node says; `None` when it is no claim's.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let start = name.trim_end_matches(|char: char| char.is_ascii_digit());
        let number = &name[start.len()..];
        // A dash may be the last character of a kind, as in `lock-`, or a sign behind it.
        let (weight, negative) = match Weight::read(start) {
            Some(weight) => (weight, false),
            None => (Weight::read(start.strip_suffix('-')?)?, true),
        };
        if number.len() != WIDTH && !(negative && number.len() + 1 == WIDTH) {
            return None;
        }
        let number: i64 = number.parse().ok()?;
        let sequence = i32::try_from(if negative { -number } else { number }).ok()?;
        Some(Self { name: name.to_owned(), sequence, weight, claim: identity(start) })
    }

    /// Whether the node is this claim's, as made in this session.
    pub(crate) fn is(&self, claim: &Claim, session: i64) -> bool {
        self.claim == Some(Identity { id: claim.id.public(), session })
    }

    /// What people call the claim: for those of others, digits made from the name.
    pub(crate) fn public_id(&self) -> PublicId {
        self.claim.map_or_else(|| stranger(&self.name), |identity| identity.id)
    }

    /// The order of the line. The sequence overflows and goes on with the smallest number: nodes that are there at the
    /// same time are never half the range apart.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        self.sequence.wrapping_sub(other.sequence).cmp(&0)
    }
}

fn identity(start: &str) -> Option<Identity> {
    let uuid = start.strip_prefix("_c_")?.get(..36)?;
    let mut parts = uuid.split('-');
    let (id, ours) = (format!("{}{}", parts.next()?, parts.next()?), parts.next()?);
    let session = format!("{}{}", parts.next()?, parts.next()?);
    let session = u64::from_str_radix(&session, 16).ok()?.cast_signed();
    (ours == OURS).then_some(Identity { id: id.parse().ok()?, session })
}

/// Digits for a claim that has no id of ours: the 64-bit FNV-1a hash of its name, of which 48 bits are shown.
fn stranger(name: &str) -> PublicId {
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{:012x}", hash >> 16).parse().expect("twelve hexadecimal digits")
}

/// The claims among the children of a node, in the order of the line.
pub(crate) fn claims(children: &[String]) -> Vec<Node> {
    let mut nodes: Vec<Node> = children.iter().filter_map(|child| Node::parse(child)).collect();
    nodes.sort_by(Node::order);
    nodes
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockhouse_core::{ClaimId, Name, Owner, Patience};

    use super::*;

    fn claim(weight: u32, capacity: u32) -> Claim {
        Claim {
            id: ClaimId::from_bytes(*b"0123456789abcdef"),
            name: Name::new("a").unwrap(),
            owner: Owner::new("x"),
            weight,
            capacity,
            priority: 0,
            patience: Patience::Waits,
            ttl: Duration::from_secs(1),
            note: None,
            floor: 0,
            lingers: false,
        }
    }

    #[test]
    fn a_claim_is_written_as_curator_writes_it_and_read_again() {
        let whole = u32::MAX;
        for (weight, capacity, kind) in
            [(1, 1, "-lock-"), (1, whole, "-__READ__"), (whole, whole, "-__WRIT__"), (2, 5, "-permits-2-of-5-")]
        {
            let claim = claim(weight, capacity);
            let prefix = Node::prefix(&claim, 0x1000_0000_0000_0007);
            assert_eq!(prefix, format!("_c_30313233-3435-8c68-1000-000000000007{kind}"));
            for (number, sequence) in [("0000000042", 42), ("-2147483648", i32::MIN), ("-000000005", -5)] {
                let node = Node::parse(&format!("{prefix}{number}")).unwrap();
                assert_eq!((node.sequence, node.weight.within(capacity)), (sequence, Ok(weight)));
                assert!(node.is(&claim, 0x1000_0000_0000_0007) && !node.is(&claim, 8));
            }
        }
    }

    #[test]
    fn the_secret_is_not_in_the_name() {
        let prefix = Node::prefix(&claim(1, 1), 7);
        let secret = "3637383961626364";
        assert!(!prefix.replace('-', "").contains(&secret[..8]), "{prefix}");
    }

    #[test]
    fn others_locks_are_claims_and_other_nodes_are_not() {
        let weight = |name: &str| Node::parse(name).map(|node| node.weight);
        let curator = "_c_f1b8bd0e-6d36-4c68-9d0a-2c1d2ab7f5a0-lock-0000000003";
        assert_eq!(weight(curator), Some(Weight::Of(1, 1)));
        assert_eq!(Node::parse(curator).unwrap().claim, None);
        assert_eq!(weight("4e8f1f24f2b34a56a1b4__lock__0000000003"), Some(Weight::Everything));
        assert_eq!(weight("4e8f1f24f2b34a56a1b4__rlock__0000000003"), Some(Weight::Reader));
        for name in [
            "42",
            "orders",
            "0000000003",
            "x-0000000003",
            "-permits-2-of-0000000001",
            "lock-000000003",
            "lock-00000000003",
        ] {
            assert_eq!(weight(name), None, "{name}");
        }
    }

    #[test]
    fn the_line_goes_on_when_the_sequence_overflows() {
        let children: Vec<String> =
            ["lock--2147483647", "lock-2147483646", "lock--2147483648", "lock-2147483647", "other"]
                .map(str::to_owned)
                .to_vec();
        let sequences: Vec<i32> = claims(&children).iter().map(|node| node.sequence).collect();
        assert_eq!(sequences, [i32::MAX - 1, i32::MAX, i32::MIN, i32::MIN + 1]);
    }
}
