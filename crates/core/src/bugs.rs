//! The known bugs of servers, which a checkup tells of.

use crate::checkup::Checkup;

/// The number of a server's version: `3.8.4`.
pub type Version = (u32, u32, u32);

/// A bug of a server that concerns locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bug {
    /// What it does to locks, and where to read about it.
    pub what: &'static str,
    /// Only where access is guarded, by accounts say: without, everybody may do everything anyway.
    pub guarded: bool,
    /// The first version that has it.
    pub since: Version,
    /// The first version without it in each series that had it, in order.
    pub fixed: &'static [Version],
}

impl Bug {
    /// The first version without it that comes after this one; `None` when this one is without it.
    fn better_than(&self, version: Version) -> Option<Version> {
        let series = |(major, minor, _): Version| (major, minor);
        let better = self.fixed.iter().find(|fixed| series(**fixed) >= series(version))?;
        (self.since <= version && version < *better).then_some(*better)
    }
}

impl Checkup {
    /// Tells of those bugs that a version has, with the first version after it that has none of them. They are dangers,
    /// but for those of guarded access where it is not known that access is guarded. A version that cannot be read has
    /// none.
    #[must_use]
    pub fn bugs(self, server: &str, version: &str, known: &[Bug], guarded: bool) -> Self {
        let Some(number) = parse(version) else { return self };
        let mut better = number;
        // What is without the one may be with another.
        while let Some(next) = known.iter().filter_map(|bug| bug.better_than(better)).max() {
            better = next;
        }
        let (major, minor, patch) = better;
        known.iter().filter(|bug| bug.better_than(number).is_some()).fold(self, |checkup, bug| {
            let what = format!("{server} {version}: {}", bug.what);
            let change = format!("upgrade to {major}.{minor}.{patch} or newer");
            if bug.guarded && !guarded { checkup.advice(what, change) } else { checkup.danger(what, change) }
        })
    }
}

fn parse(version: &str) -> Option<Version> {
    let mut parts = version.split(['.', '-', '+']).map_while(|part| part.parse().ok());
    Some((parts.next()?, parts.next()?, parts.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkup::Severity;

    const KNOWN: [Bug; 2] = [
        Bug { what: "forgets", guarded: false, since: (3, 5, 0), fixed: &[(3, 5, 3), (3, 6, 1)] },
        // What mends the one brings the other.
        Bug { what: "admits", guarded: true, since: (3, 5, 3), fixed: &[(3, 5, 5)] },
    ];

    #[test]
    fn a_version_is_told_of_its_bugs_and_of_a_better_one() {
        for (version, bugs, better) in [
            ("3.4.9", 0, ""),
            ("3.5.0-rc.1", 1, "3.5.5"),
            ("3.5.4+dev", 1, "3.5.5"),
            ("3.5.5", 0, ""),
            ("3.6.0", 1, "3.6.1"),
            ("3.7.0", 0, ""),
            ("unknown", 0, ""),
        ] {
            let told = Checkup::default().bugs("server", version, &KNOWN, true).findings;
            assert_eq!(told.len(), bugs, "{version}");
            assert!(told.iter().all(|finding| finding.change == format!("upgrade to {better} or newer")), "{told:?}");
        }
    }

    #[test]
    fn what_only_guards_can_suffer_from_is_no_danger_without_them() {
        for (guarded, severity) in [(true, Severity::Danger), (false, Severity::Advice)] {
            let told = Checkup::default().bugs("server", "3.5.4", &KNOWN, guarded).findings;
            assert_eq!(told.iter().map(|finding| finding.severity).collect::<Vec<_>>(), [severity]);
        }
    }
}
