//! Takes claims out of their lines whose leases are over although their session goes on.

use std::time::Duration;

use zookeeper_client::{Client, Error as Said};

use crate::leases::{Lease, Leases};
use crate::node::{Node, claims};

/// The pause before a claim that could not be taken out is tried again.
const AGAIN: Duration = Duration::from_millis(100);

/// Takes out what is over, for as long as the session lasts.
pub(crate) async fn reap(client: &Client, leases: &Leases) {
    loop {
        for (id, lease) in leases.over().await {
            // It may have been withdrawn, or renewed at the last moment, while others were taken out.
            let still = leases.get(&id).is_some_and(|now| now.ends == lease.ends);
            if !still {
                continue;
            }
            match take_out(client, &lease).await {
                Ok(_) => leases.forget(&id),
                Err(said) => {
                    tracing::debug!(%said, line = lease.line, "a claim that is over could not be taken out yet");
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }
}

/// Deletes every node of a claim. Whether there was one.
///
/// Where a request to create it was not answered, the line is looked through: requests of a session are carried out in
/// their order, so what was asked for before is there by now or never will be.
pub(crate) async fn take_out(client: &Client, lease: &Lease) -> Result<bool, Said> {
    if let Some(placed) = lease.placed.as_ref().filter(|_| !lease.doubt) {
        return delete(client, &placed.path).await;
    }
    let mut found = false;
    for node in up_to_date(client, &lease.line).await?.into_iter().filter(|node| lease.owns(node)) {
        found |= delete(client, &format!("{}/{}", lease.line, node.name)).await?;
    }
    Ok(found)
}

/// The claims in a line, as the leader knows them: a server that lags behind catches up first.
pub(crate) async fn up_to_date(client: &Client, line: &str) -> Result<Vec<Node>, Said> {
    let (sync, list) = (client.sync(line), client.list_children(line));
    match sync.await {
        Ok(()) | Err(Said::NoNode) => {}
        Err(said) => return Err(said),
    }
    match list.await {
        Ok(children) => Ok(claims(&children)),
        Err(Said::NoNode) => Ok(Vec::new()),
        Err(said) => Err(said),
    }
}

/// Deletes a node. Whether it was there.
pub(crate) async fn delete(client: &Client, path: &str) -> Result<bool, Said> {
    match client.delete(path, None).await {
        Ok(()) => Ok(true),
        Err(Said::NoNode) => Ok(false),
        Err(said) => Err(said),
    }
}
