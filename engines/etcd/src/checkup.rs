//! What the cluster says of itself, for `lockhouse doctor`.

use std::time::Duration;

use futures_util::future::join_all;
use lockhouse_core::{Checkup, Clock, Result};

use crate::error::Fault;
use crate::link::{ALARM, MEMBERS, STATUS};
use crate::ops::point;
use crate::proto::{AlarmResponse, MemberListResponse, Nothing, StatusResponse};
use crate::side::{PATIENCE, Side};

/// The first versions of each series without known bugs that concern locks.
const GOOD: [(u32, u32, u32); 3] = [(3, 4, 42), (3, 5, 28), (3, 6, 9)];
/// A majority that takes longer than this to agree costs locks with short leases.
const SLOW: Duration = Duration::from_millis(100);

impl Side {
    /// Members, leader, versions, alarms and how long an answer takes.
    pub(crate) async fn checkup(&self) -> Result<Checkup> {
        let sent = Clock::Boot.now();
        // A read that a majority has a part in, of a key under the prefix that is no lock's.
        self.range(&point(self.keys.beginning("\tcheckup")), PATIENCE).await?;
        let latency = Clock::Boot.now().since(sent);
        let list: MemberListResponse = self.ask(MEMBERS, &Nothing {}, PATIENCE).await?;
        let hosts = self.link.address().hosts.clone();
        let asked = hosts.iter().enumerate().map(async |(at, host)| {
            let status: Result<StatusResponse, Fault> = self.link.ask_member(at, STATUS, Nothing {}, PATIENCE).await;
            (host.clone(), status)
        });
        let statuses = join_all(asked).await;
        let mut checkup = Checkup::default();
        for (host, status) in &statuses {
            checkup = match status {
                Ok(status) => member(checkup, host, status),
                Err(fault) if fault.is_denied() => checkup,
                Err(fault) => checkup.advice(
                    format!("the member {host} does not answer: {}", self.explain(fault.clone())),
                    "see whether it runs: etcdctl endpoint health",
                ),
            };
        }
        let leader = statuses.iter().find_map(|(_, status)| status.as_ref().ok()).map_or(0, |status| status.leader);
        let name = list.members.iter().find(|member| member.id == leader && leader != 0);
        checkup = checkup
            .fact("members", members(&list))
            .fact("leader", name.map_or("none".to_owned(), |member| member.name.clone()))
            .fact("latency", format!("{latency:.1?} for a read that a majority confirms"));
        checkup = advise(checkup, &list, name.is_some(), latency);
        // Only an administrator may ask.
        let alarms: Result<AlarmResponse> = self.ask(ALARM, &Nothing {}, PATIENCE).await;
        Ok(alarms.map_or_else(|_| checkup.clone(), |found| alarmed(checkup.clone(), &found)))
    }
}

fn members(list: &MemberListResponse) -> String {
    let name = |member: &crate::proto::Member| match member.is_learner {
        true => format!("{} (learner)", member.name),
        false => member.name.clone(),
    };
    format!("{}: {}", list.members.len(), list.members.iter().map(name).collect::<Vec<_>>().join(", "))
}

fn member(checkup: Checkup, host: &str, status: &StatusResponse) -> Checkup {
    let leads = status.header.as_ref().is_some_and(|header| header.member_id == status.leader);
    let size = status.db_size / (1 << 20);
    let role = if leads { "leader" } else { "follower" };
    let checkup = checkup.fact(format!("member {host}"), format!("etcd {}, {role}, {size} MiB", status.version));
    let Some(good) = better_version(&status.version) else { return checkup };
    checkup.danger(
        format!("etcd {} on {host} has known bugs that concern locks", status.version),
        format!("upgrade to {good} or newer"),
    )
}

fn advise(checkup: Checkup, list: &MemberListResponse, led: bool, latency: Duration) -> Checkup {
    let voters = list.members.iter().filter(|member| !member.is_learner).count();
    let mut checkup = checkup;
    if !led {
        checkup = checkup.danger("there is no leader: no lock can be had", "bring a majority of the members back");
    }
    if voters < 3 {
        checkup = checkup.advice(
            format!("{voters} voting members: when one fails, no lock can be had"),
            "run three or five members, on machines of their own",
        );
    } else if voters.is_multiple_of(2) {
        let what = format!("{voters} voting members survive no more failures than {}", voters - 1);
        checkup = checkup.advice(what, "run an odd number of members");
    }
    if latency > SLOW {
        let what = format!("a read took {latency:.0?}: renewals of short leases may come too late");
        checkup = checkup.advice(what, "give etcd a fast disk of its own, or use longer TTLs");
    }
    checkup
}

fn alarmed(checkup: Checkup, found: &AlarmResponse) -> Checkup {
    const NO_SPACE: i32 = 1;
    found.alarms.iter().fold(checkup, |checkup, alarm| match alarm.alarm {
        NO_SPACE => checkup.danger(
            format!("member {:x} is over its quota: no lock can be taken", alarm.member_id),
            "compact, defragment, then etcdctl alarm disarm; or raise --quota-backend-bytes",
        ),
        _ => checkup.danger(
            format!("member {:x} has corrupt data: locks may be wrong", alarm.member_id),
            "replace that member by a new one",
        ),
    })
}

/// The version to upgrade to, when this one has known bugs.
fn better_version(version: &str) -> Option<String> {
    let mut parts = version.split(['.', '-', '+']).map_while(|part| part.parse::<u32>().ok());
    let (major, minor, patch) = (parts.next()?, parts.next()?, parts.next()?);
    let ((_, _, first), (last_major, last_minor, _)) = (GOOD[0], GOOD[GOOD.len() - 1]);
    if (major, minor) > (last_major, last_minor) {
        return None;
    }
    let series = GOOD.iter().find(|(x, y, _)| (*x, *y) == (major, minor));
    let good = series.map_or(first, |(_, _, good)| *good);
    let (series_minor, older) = series.map_or((GOOD[0].1, true), |_| (minor, patch < good));
    older.then(|| format!("{major}.{series_minor}.{good}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_with_known_bugs_are_named() {
        for (version, better) in [
            ("3.4.23", Some("3.4.42")),
            ("3.4.42", None),
            ("3.5.27", Some("3.5.28")),
            ("3.5.28", None),
            ("3.6.0-rc.1", Some("3.6.9")),
            ("3.6.10", None),
            ("3.7.0", None),
            ("4.0.0", None),
            ("3.3.27", Some("3.4.42")),
            ("unknown", None),
        ] {
            assert_eq!(better_version(version).as_deref(), better, "{version}");
        }
    }
}
