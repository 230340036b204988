//! The quotas of ZooKeeper's, below `/zookeeper/quota`: how much there may be below a node, and how much there is.

use lockhouse_core::Checkup;

use crate::ensemble::{Ensemble, PATIENCE};
use crate::paths::ancestry;

/// From so many hundredths of a quota on it is nearly used up.
const NEARLY_FULL: u64 = 80;

/// What a node of limits or of numbers says; a limit that is not set is missing.
#[derive(Debug, Default, PartialEq, Eq)]
struct Track {
    nodes: Option<u64>,
    bytes: Option<u64>,
    /// Limits that the servers keep.
    hard_nodes: Option<u64>,
    hard_bytes: Option<u64>,
}

impl Ensemble {
    /// Tells of the quotas of the root and of what is above it, as far as they can be read.
    pub(crate) async fn quotas(&self, checkup: Checkup) -> Checkup {
        let mut checkup = checkup;
        for path in ancestry(self.paths.root()) {
            let limits = self.track(path, "zookeeper_limits").await;
            let used = self.track(path, "zookeeper_stats").await;
            if let (Some(limits), Some(used)) = (limits, used) {
                checkup = told(checkup, path, &limits, &used);
            }
        }
        checkup
    }

    async fn track(&self, path: &str, name: &str) -> Option<Track> {
        let node = format!("/zookeeper/quota{path}/{name}");
        let read = self.ask(PATIENCE, async |open| Ok(open.client.get_data(&node).await?)).await;
        Some(Track::read(&String::from_utf8(read.ok()?.0).ok()?))
    }
}

impl Track {
    /// `count=3,bytes=-1`, and what the versions since 3.7 put behind it: `=;byteHardLimit=-1;countHardLimit=10`.
    fn read(text: &str) -> Self {
        let number = |name: &str| {
            let mut pairs = text.split([',', ';']).filter_map(|pair| pair.split_once('='));
            pairs.find(|(key, _)| *key == name).and_then(|(_, value)| value.trim_end_matches('=').parse().ok())
        };
        Self {
            nodes: number("count"),
            bytes: number("bytes"),
            hard_nodes: number("countHardLimit"),
            hard_bytes: number("byteHardLimit"),
        }
    }
}

fn told(checkup: Checkup, path: &str, limits: &Track, used: &Track) -> Checkup {
    const SOFT: &str = "beyond it the servers write warnings";
    const HARD: &str = "beyond it no lock can be taken, where enforceQuota is set";
    let quotas = [
        ("nodes", used.nodes, limits.nodes, SOFT),
        ("nodes", used.nodes, limits.hard_nodes, HARD),
        ("bytes", used.bytes, limits.bytes, SOFT),
        ("bytes", used.bytes, limits.hard_bytes, HARD),
    ];
    quotas.into_iter().fold(checkup, |checkup, (what, used, limit, beyond)| {
        let (Some(used), Some(limit)) = (used, limit) else { return checkup };
        let checkup = checkup.fact(format!("quota of {path}"), format!("{used} of {limit} {what}; {beyond}"));
        if used.saturating_mul(100) / limit.max(1) < NEARLY_FULL {
            return checkup;
        }
        let found = format!("the quota of {path} is nearly used up, with {used} of {limit} {what}: {beyond}");
        checkup.advice(found, "see what is below it, or raise it by setquota in zkCli.sh")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_each_version_writes_them() {
        let old = Track { nodes: Some(3), ..Track::default() };
        assert_eq!(Track::read("count=3,bytes=-1"), old);
        assert_eq!(Track::read("count=3,bytes=-1=;byteHardLimit=-1;countHardLimit=-1"), old);
        let new = Track { bytes: Some(7), hard_nodes: Some(10), ..Track::default() };
        assert_eq!(Track::read("count=-1,bytes=7=;byteHardLimit=-1;countHardLimit=10"), new);
        assert_eq!(Track::read(""), Track::default());
    }

    #[test]
    fn only_what_is_nearly_used_up_is_a_finding() {
        let limits = Track { nodes: Some(100), hard_bytes: Some(1000), ..Track::default() };
        for (nodes, bytes, findings) in [(79, 799, 0), (80, 0, 1), (0, 5000, 1), (100, 1000, 2)] {
            let used = Track { nodes: Some(nodes), bytes: Some(bytes), ..Track::default() };
            let checkup = told(Checkup::default(), "/locks", &limits, &used);
            assert_eq!((checkup.facts.len(), checkup.findings.len()), (2, findings), "{:?}", checkup.findings);
        }
    }
}
