//! The roll call of `lockhouse doctor`: the members that the address names, and whoever else is in the cluster.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::join_all;
use lockhouse_core::Result;

use crate::address::Address;
use crate::error::Fault;
use crate::link::{Link, STATUS};
use crate::proto::{Member, Nothing, StatusResponse};
use crate::quota::from_metrics;
use crate::side::Side;

/// What a member knows by itself it says at once. Whoever stands still does not keep the others waiting for long.
const LIMIT: Duration = Duration::from_secs(1);

/// One member that was asked.
#[derive(Debug)]
pub(crate) struct Asked {
    /// What the cluster calls it, if that is known, and where it was asked.
    pub(crate) who: String,
    pub(crate) status: Result<StatusResponse, Fault>,
}

impl Asked {
    /// The number of the member that answered.
    fn id(&self) -> Option<u64> {
        Some(self.status.as_ref().ok()?.header.as_ref()?.member_id)
    }
}

impl Side {
    /// Asks every member how it is: first at the addresses that we have, then at their own.
    pub(crate) async fn call_the_roll(&self, members: &[Member]) -> Vec<Asked> {
        let address = self.link.address();
        let mut roll = ask_each(&self.link, members).await;
        let heard: HashSet<u64> = roll.iter().filter_map(Asked::id).collect();
        // Who may not ask does not learn who it was that refused.
        let refused = roll.iter().any(|asked| asked.status.as_ref().is_err_and(Fault::is_denied));
        let others = members.iter().filter(|member| !refused && !heard.contains(&member.id));
        let others = others.filter_map(|member| host(address, member)).filter(|host| !address.hosts.contains(host));
        let others = Address { hosts: others.collect(), ..address.clone() };
        if let Ok(link) = Link::new(others) {
            roll.extend(ask_each(&link, members).await);
        }
        roll
    }
}

async fn ask_each(link: &Link, members: &[Member]) -> Vec<Asked> {
    let asked = link.address().hosts.iter().enumerate().map(async |(at, there)| {
        let mut asked = Asked { who: there.clone(), status: ask(link, at, there).await };
        // Who answers says who it is; who does not is known by where it should be.
        let is_it = |member: &&Member| match asked.id() {
            Some(id) => member.id == id,
            None => host(link.address(), member).as_ref() == Some(there),
        };
        if let Some(member) = members.iter().find(is_it) {
            asked.who = format!("{} at {there}", member.name);
        }
        asked
    });
    join_all(asked).await
}

/// What a member says of itself, with its quota, which older versions do not put into it.
async fn ask(link: &Link, at: usize, host: &str) -> Result<StatusResponse, Fault> {
    let mut status: StatusResponse = link.ask_member(at, STATUS, Nothing {}, LIMIT).await?;
    if status.db_size_quota == 0 && !link.address().tls {
        status.db_size_quota = from_metrics(host).await.unwrap_or_default();
    }
    Ok(status)
}

/// Where a member wants to be spoken to, with TLS or without as we do. One that was never started has not said so.
fn host(address: &Address, member: &Member) -> Option<String> {
    let host = member.client_urls.iter().find_map(|url| url.strip_prefix(&address.uri("")))?;
    Address::parse(host).ok()?.hosts.pop()
}
