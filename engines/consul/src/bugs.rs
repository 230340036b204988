//! The bugs of Consul's that concern locks, with the versions that have them, as Consul's own notes tell.

use lockhouse_core::Bug;

pub(crate) const BUGS: [Bug; 2] = [
    Bug {
        what: "a token with rights on one prefix can delete keys, and with them locks, outside of it (issue 5888)",
        guarded: true,
        since: (1, 4, 0),
        fixed: &[(1, 5, 1)],
    },
    Bug {
        what: "queries that wait for a key fail, so waiters may not be told of their turn (issue 13303)",
        guarded: false,
        since: (1, 12, 1),
        fixed: &[(1, 12, 2)],
    },
];

#[cfg(test)]
mod tests {
    use lockhouse_core::Checkup;

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
            let told = Checkup::default().bugs("Consul", version, &BUGS, true).findings;
            assert_eq!(told.len(), usize::from(better.is_some()), "{version}");
            assert!(told.iter().all(|bug| better.is_some_and(|better| bug.change.contains(better))), "{version}");
        }
    }
}
