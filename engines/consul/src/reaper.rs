//! Takes out what is not wanted any more although its session goes on, and what sessions that are over left behind.

use std::time::Duration;

use futures_util::future::join_all;

use crate::api::{OPERATIONS, Op};
use crate::kept::Kept;
use crate::store::Store;

/// Takes out claims that nobody renewed in time, and those that appeared after they were given up.
pub(crate) async fn reap(store: &Store, kept: &Kept, limit: Duration) {
    let overdue = kept.overdue().into_iter().map(async |(id, spot)| {
        // It may have been withdrawn, or renewed at the last moment, while others were taken out.
        if !kept.is_overdue(&id) {
            return;
        }
        match store.take_out(&spot.name, &spot.segment, limit).await {
            Ok(_) if spot.unanswered > 0 => kept.stray(&id),
            Ok(_) => kept.leave(&id),
            Err(fault) => tracing::debug!(?fault, "a claim that is over could not be taken out yet"),
        }
    });
    let strays = kept.strays().into_iter().map(async |stray| {
        if let Err(fault) = store.take_out(&stray.name, &stray.segment, limit).await {
            tracing::debug!(?fault, "a claim that is not wanted could not be looked for yet");
        }
    });
    tokio::join!(join_all(overdue), join_all(strays), clear(store, kept, limit));
}

/// Deletes what was met of claims whose sessions are over, unless somebody has written it since.
pub(crate) async fn clear(store: &Store, kept: &Kept, limit: Duration) {
    for some in kept.left_behind().chunks(OPERATIONS) {
        let ops: Vec<Op> = some.iter().map(|(key, written)| Op::delete_at(key, *written)).collect();
        if let Err(fault) = store.change(&ops, limit).await {
            tracing::debug!(?fault, "what claims left behind could not be cleared away yet");
        }
    }
}
