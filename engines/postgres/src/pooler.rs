//! Whether somebody between us and the server lends its connections for single transactions.
//!
//! Behind such a pooler another process of the server may answer from one statement to the next, and the same one may
//! answer on two connections of ours. How soon that is to be seen depends on what the pooler's other clients do.

use tokio_postgres::Client;

use crate::error::Fault;
use crate::pool::{Link, Pool};
use crate::tables::sql;

/// How often the connections are asked. Even if it were left to chance which of only two processes answers, all of it
/// would look like a server itself in less than one of a million cases.
const ROUNDS: usize = 7;

/// Whether a pooler lends connections for single transactions: asks on this one and on one more.
pub(crate) async fn lends(pool: &Pool, link: &Link) -> Result<bool, Fault> {
    let ask = async |link: &Link| backend(&link.client).await.map_err(Fault::Asking);
    // A pooler in session mode may have no more of them. Then this one has to do.
    let other = pool.link().await.ok();
    let (mine, mut theirs) = (ask(link).await?, None);
    for _ in 0..ROUNDS {
        // Twice: a pooler that lends its connections in turns might answer ours in step otherwise.
        if ask(link).await? != mine || ask(link).await? != mine {
            return Ok(true);
        }
        if let Some(other) = &other {
            let answering = ask(other).await?;
            if answering == mine || *theirs.get_or_insert(answering) != answering {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// The process of the server that answers.
pub(crate) async fn backend(client: &Client) -> Result<i32, tokio_postgres::Error> {
    client.query_typed_one(sql!("ask/backend"), &[]).await?.try_get(0)
}
