//! The bugs of ZooKeeper's that concern locks, with the versions that have them, as its release notes tell and its
//! releases show. All are of several servers: one alone has none of them.

use lockhouse_core::{Bug, Version};

/// The oldest version that the engine works with.
const OLDEST: Version = (3, 5, 3);

pub(crate) const BUGS: [Bug; 7] = [
    Bug {
        what: "a claim may stay in line for ever when a server fails at the moment its session ends (ZOOKEEPER-2355)",
        guarded: false,
        since: OLDEST,
        fixed: &[(3, 5, 4)],
    },
    Bug {
        what: "a server whose disk is full may go on with what the others do not have (ZOOKEEPER-3701)",
        guarded: false,
        since: OLDEST,
        fixed: &[(3, 5, 7)],
    },
    Bug {
        what: "grants may be forgotten when servers fail while they catch up with a new leader (ZOOKEEPER-3642, \
               ZOOKEEPER-3911)",
        guarded: false,
        since: OLDEST,
        fixed: &[(3, 5, 10), (3, 6, 3)],
    },
    Bug {
        what: "grants may be forgotten when a server that has just caught up with a new leader fails (ZOOKEEPER-4785)",
        guarded: false,
        since: OLDEST,
        fixed: &[(3, 8, 5), (3, 9, 2)],
    },
    Bug {
        what: "a follower that lost its leader may come back with other data than the others have (ZOOKEEPER-4712)",
        guarded: false,
        since: OLDEST,
        fixed: &[(3, 9, 3)],
    },
    Bug {
        what: "a server that caught up and leads later may withhold grants from those that catch up then \
               (ZOOKEEPER-4925)",
        guarded: false,
        since: (3, 9, 3),
        fixed: &[(3, 9, 4)],
    },
    Bug {
        what: "with quorum.auth.enableSasl, whoever reaches the servers' own ports can join them and change everything \
               (CVE-2023-44981)",
        guarded: true,
        since: OLDEST,
        fixed: &[(3, 7, 2), (3, 8, 3), (3, 9, 1)],
    },
];

#[cfg(test)]
mod tests {
    use lockhouse_core::Checkup;

    use super::*;

    #[test]
    fn versions_with_known_bugs_are_told_with_a_better_one() {
        for (version, bugs, better) in [
            ("3.5.3-beta", 6, "3.9.4"),
            ("3.5.6", 5, "3.9.4"),
            ("3.5.9", 4, "3.9.4"),
            ("3.6.2", 4, "3.9.4"),
            ("3.6.4", 3, "3.9.4"),
            ("3.7.2", 2, "3.9.4"),
            ("3.8.0", 3, "3.9.4"),
            ("3.8.4", 2, "3.9.4"),
            ("3.8.5", 1, "3.9.4"),
            ("3.9.0", 3, "3.9.4"),
            ("3.9.2", 1, "3.9.4"),
            ("3.9.3", 1, "3.9.4"),
            ("3.9.4", 0, "3.9.4"),
            ("3.10.0", 0, "3.10.0"),
            ("unknown", 0, ""),
        ] {
            let told = Checkup::default().bugs("ZooKeeper", version, &BUGS, true).findings;
            assert_eq!(told.len(), bugs, "{version}");
            assert!(told.iter().all(|bug| bug.change.contains(better)), "{version}: {told:?}");
        }
    }
}
