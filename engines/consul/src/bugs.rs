//! The bugs of Consul's that concern locks, with the versions that have them, as Consul's own notes tell.

/// The number of a version: `1.8.7`.
type Version = (u32, u32, u32);

/// One bug.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bug {
    /// What it does to locks, and where to read about it.
    pub(crate) what: &'static str,
    /// Only with ACLs: without, everybody may do everything anyway.
    pub(crate) acls: bool,
    /// The first version that has it.
    since: Version,
    /// The first version after that which has it no more.
    fixed: Version,
}

const BUGS: [Bug; 2] = [
    Bug {
        what: "a token with rights on one prefix can delete keys, and with them locks, outside of it (issue 5888)",
        acls: true,
        since: (1, 4, 0),
        fixed: (1, 5, 1),
    },
    Bug {
        what: "queries that wait for a key fail, so waiters may not be told of their turn (issue 13303)",
        acls: false,
        since: (1, 12, 1),
        fixed: (1, 12, 2),
    },
];

impl Bug {
    /// The version to upgrade to.
    pub(crate) fn fixed(&self) -> String {
        let (major, minor, patch) = self.fixed;
        format!("{major}.{minor}.{patch}")
    }
}

/// The bugs of a version. None of one that cannot be read.
pub(crate) fn bugs_of(version: &str) -> impl Iterator<Item = &'static Bug> {
    let version = parse(version);
    BUGS.iter().filter(move |bug| version.is_some_and(|version| (bug.since..bug.fixed).contains(&version)))
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
        for (version, better) in [
            ("1.3.1", None),
            ("1.4.4", Some("1.5.1")),
            ("1.5.0+ent", Some("1.5.1")),
            ("1.5.1", None),
            ("1.8.7", None),
            ("1.12.0", None),
            ("1.12.1", Some("1.12.2")),
            ("1.12.2", None),
            ("unknown", None),
        ] {
            let found: Vec<String> = bugs_of(version).map(Bug::fixed).collect();
            assert_eq!(found.first().map(String::as_str), better, "{version}");
        }
    }
}
