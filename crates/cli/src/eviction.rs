//! Why a claim was evicted: told to its holder through a cell.
//!
//! The contract's `evict` takes no reason, and its holder learns only that the claim is gone. The reason waits for it
//! in one of 256 cells, chosen by the first byte of the claim's id, which is random. Each cell keeps one eviction and
//! the next one overwrites it, so there are never more, and a reason is missed only when another claim with the same
//! first byte is evicted before the holder, at its next renewal, has looked.

use std::time::Duration;

use lockhouse::{CellHandle, Locks, PublicId};

use crate::lifeline::Held;

/// Where the cells are.
const FOLDER: &str = "lockhouse/evicted/";
/// A reason is not worth waiting for longer than this.
const PATIENCE: Duration = Duration::from_secs(1);
/// Nor is it worth more room than this, in characters.
const LONGEST: usize = 300;

/// Writes down who evicts a claim and why. What cannot be written does not keep anybody from evicting.
pub(crate) async fn record(locks: &Locks, claim: PublicId, who: &str, reason: Option<&str>) {
    let claim = claim.to_string();
    let Some(cell) = cell(locks, &claim) else { return };
    let value = format!("{claim}\n{}\n{}", one_line(who), one_line(reason.unwrap_or_default()));
    let _ = tokio::time::timeout(PATIENCE, cell.write(value)).await;
}

/// Who evicted this claim and why, if that was written down.
pub(crate) async fn told(locks: &Locks, claim: &Held) -> Option<String> {
    let cell = cell(locks, &claim.claim)?;
    let cell = tokio::time::timeout(PATIENCE, cell.read()).await.ok()?.ok()?;
    let text = String::from_utf8(cell.value).ok()?;
    let mut lines = text.lines();
    if lines.next()? != claim.claim {
        return None;
    }
    let who = lines.next()?;
    Some(match lines.next().filter(|reason| !reason.is_empty()) {
        Some(reason) => format!("evicted by {who}: {reason}"),
        None => format!("evicted by {who}"),
    })
}

/// The cell of a claim, on an engine that has cells.
fn cell(locks: &Locks, claim: &str) -> Option<CellHandle> {
    let first_byte = claim.get(..2)?;
    locks.guarantees().cells.then(|| locks.cell(format!("{FOLDER}{first_byte}")))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(LONGEST).collect()
}
