//! The node of the catalog that a session belongs to.
//!
//! Every session belongs to a node, and ends when that is taken out of the catalog. Where nobody names one, an agent
//! gives it its own node. That is in the catalog of the agent's own datacenter alone: for another one a node has to be
//! named, and one of its servers' is there for certain.

use std::time::Duration;

use hyper::Method;
use serde::Deserialize;

use crate::api::read;
use crate::checkup::Myself;
use crate::error::Fault;
use crate::link::{Link, Repeat};
use crate::session::Terms;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Service {
    node: Node,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Node {
    node: String,
}

/// The node that a new session is to belong to: `None` leaves it to the agent, which gives it its own.
pub(crate) async fn node(terms: &Terms, link: &Link, limit: Duration) -> Result<Option<String>, Fault> {
    let (None, Some(datacenter)) = (&terms.node, link.datacenter()) else { return Ok(terms.node.clone()) };
    let ask = async |path| link.ask(Method::GET, path, Vec::new(), Repeat::Freely, limit).await;
    match ask("/v1/agent/self").await {
        Ok(answer) if read::<Myself>(&answer)?.is_in(datacenter) => return Ok(None),
        Ok(_) => {}
        // A token need not be able to ask that.
        Err(fault) if fault.is_denied() => return Ok(None),
        Err(fault) => return Err(fault),
    }
    let servers: Vec<Service> = read(&ask("/v1/health/service/consul?passing").await?)?;
    // Not the same for everybody: a server that is taken out should not end all sessions.
    match servers.len() {
        0 => Err(Fault::NoNode),
        some => Ok(servers.into_iter().nth(rand::random_range(0..some)).map(|service| service.node.node)),
    }
}
