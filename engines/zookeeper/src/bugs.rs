//! The bugs of ZooKeeper's that concern locks, with the versions that have them, as its release notes tell and its
//! releases show. All are of several servers: one alone has none of them.

/// The number of a version: `3.8.4`.
type Version = (u32, u32, u32);

/// The oldest version that the engine works with.
const OLDEST: Version = (3, 5, 3);

/// One bug.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bug {
    /// What it does to locks, and where to read about it.
    pub(crate) what: &'static str,
    /// Only where the servers sign in with one another, which we cannot see.
    pub(crate) sasl: bool,
    /// The first version that has it, of those that the engine works with.
    since: Version,
    /// The first version without it in each series that had it.
    fixed: &'static [Version],
}

const BUGS: [Bug; 7] = [
    Bug {
        what: "a claim may stay in line for ever when a server fails at the moment its session ends (ZOOKEEPER-2355)",
        sasl: false,
        since: OLDEST,
        fixed: &[(3, 5, 4)],
    },
    Bug {
        what: "a server whose disk is full may go on with what the others do not have (ZOOKEEPER-3701)",
        sasl: false,
        since: OLDEST,
        fixed: &[(3, 5, 7)],
    },
    Bug {
        what: "grants may be forgotten when servers fail while they catch up with a new leader (ZOOKEEPER-3642, \
               ZOOKEEPER-3911)",
        sasl: false,
        since: OLDEST,
        fixed: &[(3, 5, 10), (3, 6, 3)],
    },
    Bug {
        what: "grants may be forgotten when a server that has just caught up with a new leader fails (ZOOKEEPER-4785)",
        sasl: false,
        since: OLDEST,
        fixed: &[(3, 8, 5), (3, 9, 2)],
    },
    Bug {
        what: "a follower that lost its leader may come back with other data than the others have (ZOOKEEPER-4712)",
        sasl: false,
        since: OLDEST,
        fixed: &[(3, 9, 3)],
    },
    Bug {
        what: "a server that caught up and leads later may withhold grants from those that catch up then \
               (ZOOKEEPER-4925)",
        sasl: false,
        since: (3, 9, 3),
        fixed: &[(3, 9, 4)],
    },
    Bug {
        what: "with quorum.auth.enableSasl, whoever reaches the servers' own ports can join them and change everything \
               (CVE-2023-44981)",
        sasl: true,
        since: OLDEST,
        fixed: &[(3, 7, 2), (3, 8, 3), (3, 9, 1)],
    },
];

/// The bugs of a version, and the first one after it that has none. None of one that cannot be read.
pub(crate) fn bugs_of(version: &str) -> (Vec<&'static Bug>, String) {
    let Some(version) = parse(version) else { return (Vec::new(), String::new()) };
    let found: Vec<&Bug> = BUGS.iter().filter(|bug| bug.better_than(version).is_some()).collect();
    let mut better = version;
    // What is without the one may be with another.
    while let Some(next) = BUGS.iter().filter_map(|bug| bug.better_than(better)).max() {
        better = next;
    }
    let (major, minor, patch) = better;
    (found, format!("{major}.{minor}.{patch}"))
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
            let (found, upgrade) = bugs_of(version);
            assert_eq!((found.len(), upgrade.as_str()), (bugs, better), "{version}");
        }
    }
}
