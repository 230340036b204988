//! The bugs of etcd's that concern locks, with the versions that have them, as etcd's own release notes tell.

/// The number of a version: `3.4.23`.
type Version = (u32, u32, u32);

/// One bug.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bug {
    /// What it does to locks, and where to read about it.
    pub(crate) what: &'static str,
    /// Only with accounts: without, everybody may do everything anyway.
    pub(crate) accounts: bool,
    /// The first version that had it.
    since: Version,
    /// The first version without it in each series that had it.
    fixed: &'static [Version],
}

/// Of every version that can be used here.
const EVER: Version = (0, 0, 0);

const BUGS: [Bug; 6] = [
    Bug {
        what: "after a crash under load its members may disagree about who holds a lock (issue 13766)",
        accounts: false,
        since: (3, 5, 0),
        fixed: &[(3, 5, 3)],
    },
    Bug {
        what: "revisions, and with them tokens, may differ among members after a crash while one is defragmented \
               (pull request 14730)",
        accounts: false,
        since: (3, 5, 0),
        fixed: &[(3, 5, 6)],
    },
    Bug {
        what: "a leader that stood still ends leases that are kept alive elsewhere, and with them locks (issue 15247)",
        accounts: false,
        since: EVER,
        fixed: &[(3, 4, 31), (3, 5, 13)],
    },
    Bug {
        what: "a waiter may not be told of its turn when the history is compacted at that moment (pull request 17612)",
        accounts: false,
        since: EVER,
        fixed: &[(3, 4, 31), (3, 5, 13)],
    },
    Bug {
        what: "revisions, and with them tokens, may go back after a crash during a compaction (pull request 17865)",
        accounts: false,
        since: EVER,
        fixed: &[(3, 4, 32), (3, 5, 14)],
    },
    Bug {
        what: "whoever reaches it can end leases without signing in, and nested transactions pass by the rights of \
               accounts (GHSA-q8m4-xhhv-38mg, GHSA-rfx7-8w68-q57q)",
        accounts: true,
        since: EVER,
        fixed: &[(3, 4, 42), (3, 5, 28), (3, 6, 9)],
    },
];

/// The bugs of a version, and the version to upgrade to. None of one that cannot be read.
pub(crate) fn bugs_of(version: &str) -> (Vec<&'static Bug>, String) {
    let Some(version) = parse(version) else { return (Vec::new(), String::new()) };
    let found: Vec<(&Bug, Version)> = BUGS.iter().filter_map(|bug| Some((bug, bug.better_than(version)?))).collect();
    let (major, minor, patch) = found.iter().map(|(_, better)| *better).max().unwrap_or(version);
    (found.into_iter().map(|(bug, _)| bug).collect(), format!("{major}.{minor}.{patch}"))
}

impl Bug {
    /// The first version without it that comes after this one; `None` when this one is without it.
    fn better_than(&self, version: Version) -> Option<Version> {
        let series = |(major, minor, _): Version| (major, minor);
        let better = self.fixed.iter().find(|fixed| series(**fixed) >= series(version))?;
        (self.since <= version && version < *better).then_some(*better)
    }
}

fn parse(version: &str) -> Option<Version> {
    let mut parts = version.split(['.', '-', '+']).map_while(|part| part.parse().ok());
    Some((parts.next()?, parts.next()?, parts.next()?))
}

#[cfg(test)]
mod tests {
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
            let (found, upgrade) = bugs_of(version);
            assert_eq!((found.len(), upgrade.as_str()), (bugs, better), "{version}");
        }
    }
}
