//! What the node of a claim has in it, for people and for the next in line.
//!
//! The owner comes first: kazoo's `contenders()` shows what is in a node as it is. Then a line of numbers, then the
//! note.

use lockhouse_core::Claim;

/// What the node of a claim has in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) owner: String,
    /// How much is claimed: less than the node's name says once it was downgraded.
    pub(crate) weight: u32,
    pub(crate) ttl_millis: u64,
    /// An operator has ended it.
    pub(crate) evicted: bool,
    pub(crate) note: Option<String>,
}

impl Record {
    pub(crate) fn of(claim: &Claim) -> Self {
        // A line break in a label would be read as its end.
        let one_line = |text: &str| text.replace(['\n', '\r'], " ");
        Self {
            owner: one_line(claim.owner.label()),
            weight: claim.weight,
            ttl_millis: u64::try_from(claim.ttl.as_millis()).unwrap_or(u64::MAX),
            evicted: false,
            note: claim.note.as_deref().map(str::to_owned),
        }
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        let Self { owner, weight, ttl_millis, evicted, note } = self;
        let evicted = if *evicted { " evicted" } else { "" };
        let note = note.as_deref().map(|note| format!("\n{note}")).unwrap_or_default();
        format!("{owner}\nlockhouse weight={weight} ttl={ttl_millis}{evicted}{note}").into_bytes()
    }

    /// `None` for what Lockhouse did not write.
    pub(crate) fn read(data: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(data).ok()?;
        let (owner, rest) = text.split_once('\n')?;
        let (numbers, note) = rest.split_once('\n').map_or((rest, None), |(numbers, note)| (numbers, Some(note)));
        let mut words = numbers.strip_prefix("lockhouse ")?.split(' ');
        Some(Self {
            owner: owner.to_owned(),
            weight: words.next()?.strip_prefix("weight=")?.parse().ok()?,
            ttl_millis: words.next()?.strip_prefix("ttl=")?.parse().ok()?,
            evicted: words.next() == Some("evicted"),
            note: note.map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_back() {
        let record = Record {
            owner: "alice@web-1:4711".into(),
            weight: 3,
            ttl_millis: 30_000,
            evicted: false,
            note: Some("the nightly\nreport".into()),
        };
        assert_eq!(record.write(), b"alice@web-1:4711\nlockhouse weight=3 ttl=30000\nthe nightly\nreport");
        assert_eq!(Record::read(&record.write()), Some(record.clone()));
        let evicted = Record { evicted: true, note: None, ..record };
        assert_eq!(Record::read(&evicted.write()), Some(evicted));
    }

    #[test]
    fn what_others_write_is_not_taken_for_ours() {
        for data in [&b""[..], b"10.0.0.7", b"me\n", b"me\nlockhouse", b"\xff\nlockhouse weight=1 ttl=1"] {
            assert_eq!(Record::read(data), None);
        }
    }
}
