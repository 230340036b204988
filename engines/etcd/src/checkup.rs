//! What the cluster says of itself, for `lockhouse doctor`.

use std::collections::BTreeSet;
use std::time::Duration;

use lockhouse_core::{Checkup, Clock, Result};

use crate::bugs::BUGS;
use crate::claims::MIN_TTL;
use crate::error::{Fault, explain};
use crate::link::{ALARM, MEMBERS};
use crate::ops::point;
use crate::proto::{AlarmResponse, MemberListResponse, Nothing, StatusResponse};
use crate::roll::Asked;
use crate::side::{PATIENCE, Side};

/// A majority that takes longer than this to agree costs locks with short leases.
const SLOW: Duration = Duration::from_millis(100);
/// From so many hundredths of its quota on a member is nearly full.
const NEARLY_FULL: i64 = 80;

impl Side {
    /// Members, leader, versions, what is left of the quota, the shortest lease, alarms, and how long an answer takes.
    pub(crate) async fn checkup(&self) -> Result<Checkup> {
        let sent = Clock::Boot.now();
        // A read that a majority has a part in, of a key under the prefix that is no lock's.
        self.range(&point(self.keys.beginning("\tcheckup")), PATIENCE).await?;
        let latency = Clock::Boot.now().since(sent);
        let list: MemberListResponse = self.ask(MEMBERS, &Nothing {}, PATIENCE).await?;
        let roll = self.call_the_roll(&list.members).await;
        let mut checkup = self.versions(&roll);
        for Asked { who, status } in &roll {
            checkup = match status {
                Ok(status) => member(checkup, who, status),
                Err(fault) if fault.is_denied() => checkup,
                Err(fault) => checkup.advice(
                    format!("the member {who} does not answer: {}", explain(fault.clone(), "it")),
                    "see whether it runs, and advertises the right address: etcdctl endpoint health --cluster",
                ),
            };
        }
        let leader = roll.iter().find_map(|asked| asked.status.as_ref().ok()).map_or(0, |status| status.leader);
        let name = list.members.iter().find(|member| member.id == leader && leader != 0);
        checkup = checkup
            .fact("members", members(&list))
            .fact("leader", name.map_or("none".to_owned(), |member| member.name.clone()))
            .fact("latency", format!("{latency:.1?} for a read that a majority confirms"));
        checkup = advise(checkup, &list, name.is_some(), latency);
        checkup = self.leases(checkup, self.shortest_lease().await);
        // Only an administrator may ask.
        let alarms: Result<AlarmResponse> = self.ask(ALARM, &Nothing {}, PATIENCE).await;
        Ok(alarms.map_or_else(|_| checkup.clone(), |found| alarmed(checkup.clone(), &found)))
    }

    /// The bugs of the versions that run, each once.
    fn versions(&self, roll: &[Asked]) -> Checkup {
        let versions: BTreeSet<&str> =
            roll.iter().filter_map(|asked| Some(asked.status.as_ref().ok()?.version.as_str())).collect();
        let signs_in = self.link.address().account.is_some();
        let told = |checkup: Checkup, version| checkup.bugs("etcd", version, &BUGS, signs_in);
        versions.into_iter().fold(Checkup::default(), told)
    }

    fn leases(&self, checkup: Checkup, shortest: Result<Duration, Fault>) -> Checkup {
        match shortest {
            Ok(shortest) if shortest > MIN_TTL => checkup.fact("shortest lease", format!("{shortest:?}")).advice(
                format!("no lease is shorter than {shortest:?}: a crashed holder's lock stays taken for so long"),
                "set a shorter --election-timeout, of which leases are half as much again",
            ),
            Ok(shortest) => checkup.fact("shortest lease", format!("{shortest:?}")),
            Err(fault) => checkup.danger(
                format!("there is no lease to be had, and so no lock: {}", self.explain(fault)),
                "see what the leader logs",
            ),
        }
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
    let role = if leads { "leader" } else { "follower" };
    let (size, quota) = (status.db_size / (1 << 20), status.db_size_quota / (1 << 20));
    let of = if quota > 0 { format!(" of {quota} MiB") } else { " MiB".to_owned() };
    let checkup = checkup.fact(format!("member {host}"), format!("etcd {}, {role}, {size}{of}", status.version));
    let used = status.db_size.saturating_mul(100) / status.db_size_quota.max(1);
    if status.db_size_quota == 0 || used < NEARLY_FULL {
        return checkup;
    }
    checkup.advice(
        format!("the member {host} has used {used} % of its quota: when it is full, no lock can be taken"),
        "compact and defragment it, or raise --quota-backend-bytes",
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
