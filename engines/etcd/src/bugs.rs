//! The bugs of etcd's that concern locks, with the versions that have them, as etcd's own release notes tell.

use lockhouse_core::{Bug, Version};

/// Of every version that can be used here.
const EVER: Version = (0, 0, 0);

pub(crate) const BUGS: [Bug; 6] = [
    Bug {
        what: "after a crash under load its members may disagree about who holds a lock (issue 13766)",
        guarded: false,
        since: (3, 5, 0),
        fixed: &[(3, 5, 3)],
    },
    Bug {
        what: "revisions, and with them tokens, may differ among members after a crash while one is defragmented \
               (pull request 14730)",
        guarded: false,
        since: (3, 5, 0),
        fixed: &[(3, 5, 6)],
    },
    Bug {
        what: "a leader that stood still ends leases that are kept alive elsewhere, and with them locks (issue 15247)",
        guarded: false,
        since: EVER,
        fixed: &[(3, 4, 31), (3, 5, 13)],
    },
    Bug {
        what: "a waiter may not be told of its turn when the history is compacted at that moment (pull request 17612)",
        guarded: false,
        since: EVER,
        fixed: &[(3, 4, 31), (3, 5, 13)],
    },
    Bug {
        what: "revisions, and with them tokens, may go back after a crash during a compaction (pull request 17865)",
        guarded: false,
        since: EVER,
        fixed: &[(3, 4, 32), (3, 5, 14)],
    },
    Bug {
        what: "whoever reaches it can end leases without signing in, and nested transactions pass by the rights of \
               accounts (GHSA-q8m4-xhhv-38mg, GHSA-rfx7-8w68-q57q)",
        guarded: true,
        since: EVER,
        fixed: &[(3, 4, 42), (3, 5, 28), (3, 6, 9)],
    },
];

#[cfg(test)]
mod tests {
    use lockhouse_core::Checkup;

    use super::*;

    #[test]
    fn versions_with_known_bugs_are_told_with_a_better_one() {
        for (version, bugs, better) in [
            ("3.4.23", 4, "3.4.42"),
            ("3.4.31", 2, "3.4.42"),
            ("3.4.42", 0, "3.4.42"),
            ("3.5.2", 6, "3.5.28"),
            ("3.5.3", 5, "3.5.28"),
            ("3.5.6", 4, "3.5.28"),
            ("3.5.13", 2, "3.5.28"),
            ("3.5.27", 1, "3.5.28"),
            ("3.5.28", 0, "3.5.28"),
            ("3.6.0-rc.1", 1, "3.6.9"),
            ("3.6.10", 0, "3.6.10"),
            ("3.7.0", 0, "3.7.0"),
            ("4.0.0", 0, "4.0.0"),
            ("3.3.27", 4, "3.4.42"),
            ("unknown", 0, ""),
        ] {
            let told = Checkup::default().bugs("etcd", version, &BUGS, true).findings;
            assert_eq!(told.len(), bugs, "{version}");
            assert!(told.iter().all(|bug| bug.change.contains(better)), "{version}: {told:?}");
        }
    }
}
