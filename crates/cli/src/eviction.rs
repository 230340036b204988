//! Why a claim was evicted: told to its holder through a cell beside the lock.
//!
//! The contract's `evict` takes no reason, and its holder learns only that the claim is gone. A cell holds the last
//! eviction of each name: whose claim, by whom, and why.

use std::time::Duration;

use lockhouse::Locks;

use crate::inherited::Inherited;

/// Where the last eviction of a name is kept.
const FOLDER: &str = "lockhouse/evicted/";
/// A reason is not worth waiting for longer than this.
const PATIENCE: Duration = Duration::from_secs(1);

/// Writes down who evicts a claim and why. What cannot be written does not keep anybody from evicting.
pub(crate) async fn record(locks: &Locks, name: &str, claim: &str, who: &str, reason: Option<&str>) {
    if !locks.guarantees().cells {
        return;
    }
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let value = format!("{claim}\n{}\n{}", one_line(who), one_line(reason.unwrap_or_default()));
    let _ = tokio::time::timeout(PATIENCE, locks.cell(format!("{FOLDER}{name}")).write(value)).await;
}

/// Who evicted this claim and why, if that was written down.
pub(crate) async fn told(locks: &Locks, claim: &Inherited) -> Option<String> {
    if !locks.guarantees().cells {
        return None;
    }
    let cell = locks.cell(format!("{FOLDER}{}", claim.name));
    let cell = tokio::time::timeout(PATIENCE, cell.read()).await.ok()?.ok()?;
    let text = String::from_utf8(cell.value).ok()?;
    let mut lines = text.lines();
    if lines.next()? != claim.id.to_string() {
        return None;
    }
    let who = lines.next()?;
    Some(match lines.next().filter(|reason| !reason.is_empty()) {
        Some(reason) => format!("evicted by {who}: {reason}"),
        None => format!("evicted by {who}"),
    })
}
