//! Our tables and functions: made on first use, by versions.

use std::cmp::Ordering;
use std::time::Duration;

use lockhouse_core::{Error, Kind};
use tokio::time::{Instant, timeout};
use tokio_postgres::GenericClient;

use crate::error::Fault;
use crate::pool::{Link, Pool};
use crate::pooler;
use crate::server::get;
use crate::tables::{Tables, sql};

/// What brings the tables from one version to the next. The last of them is the version of this build.
const TABLES: &[&str] = &[sql!("schema/tables"), sql!("schema/rows"), sql!("schema/sole")];
/// Made for the tables of this build, and made anew when those of an older one were changed: older clients go on
/// calling them, so what they take and give stays as it is.
const FUNCTIONS: &[&str] = &[
    sql!("schema/key"),
    sql!("schema/crowd"),
    sql!("schema/enter"),
    sql!("schema/held"),
    sql!("schema/settle"),
    sql!("schema/queued"),
    sql!("schema/look"),
    sql!("schema/again"),
    sql!("schema/claim"),
    sql!("schema/withdraw"),
    sql!("schema/leave"),
    sql!("schema/renew"),
    sql!("schema/evict"),
    sql!("schema/tidy"),
    sql!("schema/forget"),
    sql!("schema/write"),
    sql!("schema/version"),
];
/// Creating everything takes some 20 ms. Others may be at it, one after the other.
const LONGEST: Duration = Duration::from_secs(10);
/// How long a change may wait for a table that somebody is reading, and take in all.
const WAITS_BRIEFLY: &str = "SET LOCAL lock_timeout = '2s'; SET LOCAL statement_timeout = '8s'";
/// Whoever creates or changes tables of ours holds this advisory lock of the database: concurrent `CREATE`s of the same
/// thing fail in PostgreSQL, also with `IF NOT EXISTS`. The number spells "lckhouse".
const CREATING: i64 = 0x6c63_6b68_6f75_7365;

/// Everything that is created, for people who want to do it themselves, whatever is there already: each statement can
/// be repeated. One transaction, or a failure in the middle would be followed by what says that everything is there.
pub(crate) fn ddl(tables: &Tables) -> String {
    let all: String = changes(0).map(|statements| tables.fill(statements)).collect();
    format!("BEGIN;\n{all}COMMIT;\n")
}

/// What is to be done with tables of this version, in order.
fn changes(version: usize) -> impl Iterator<Item = &'static str> {
    TABLES.iter().skip(version).chain(FUNCTIONS).copied()
}

/// What a server says first.
struct Greeting {
    /// For how long the process that answers has been there.
    age: Duration,
    takes_no_writes: bool,
    /// Of the tables: 0 when there are none.
    version: usize,
}

/// Makes sure that locks can be kept there, and that the tables are there and of our version.
pub(crate) async fn prepare(pool: &Pool, tables: &Tables, create: bool) -> Result<(), Fault> {
    let preparing = async {
        let dialled = Instant::now();
        let mut link = pool.link().await?;
        let Greeting { age, takes_no_writes, version } = greet(&link.client, tables).await?;
        if takes_no_writes {
            return Err(Fault::ReadOnly);
        }
        // Who was there before we called belongs to a pooler. And tables are created under a lock of one connection.
        let (found_waiting, to_do) = (age > dialled.elapsed(), version < TABLES.len());
        if (found_waiting || to_do) && pooler::lends(pool, &link).await? {
            return Err(Fault::Pooled);
        }
        match version.cmp(&TABLES.len()) {
            Ordering::Equal => {}
            Ordering::Greater => return Err(newer(tables)),
            Ordering::Less if !create => return Err(missing(tables)),
            Ordering::Less => migrate(&mut link, tables).await?,
        }
        pool.keep(link);
        Ok(())
    };
    timeout(LONGEST, preparing).await.map_err(|_| Fault::NoConnection(LONGEST))?
}

async fn greet(client: &impl GenericClient, tables: &Tables) -> Result<Greeting, Fault> {
    let row = client.query_typed_one(&tables.fill(sql!("ask/greet")), &[]).await.map_err(Fault::Asking)?;
    let age = Duration::from_micros(get::<i64>(&row, 0)?.max(0).unsigned_abs());
    let (takes_no_writes, are_there) = (get(&row, 1)?, get(&row, 2)?);
    let mut version = 0;
    if are_there {
        let row = client.query_typed_one(&tables.fill(sql!("ask/version")), &[]).await.map_err(Fault::Asking)?;
        version = usize::try_from(get::<i32>(&row, 0)?).unwrap_or(usize::MAX);
    }
    Ok(Greeting { age, takes_no_writes, version })
}

/// Does what is to be done, in one transaction. Others who want the same wait, and find it done.
///
/// The transaction begins when the advisory lock is held: one that was begun before would not see what others created
/// while it waited.
async fn migrate(link: &mut Link, tables: &Tables) -> Result<(), Fault> {
    let waiting = format!("SET statement_timeout = 0; SELECT pg_advisory_lock({CREATING})");
    link.client.batch_execute(&waiting).await.map_err(Fault::Asking)?;
    let change = link.client.transaction().await.map_err(Fault::Asking)?;
    // Whoever waits for a table has all others wait behind it.
    change.batch_execute(WAITS_BRIEFLY).await.map_err(Fault::Asking)?;
    let done = greet(&change, tables).await?.version;
    // Others may have done it while we waited.
    for statements in changes(done).filter(|_| done < TABLES.len()) {
        change.batch_execute(&tables.fill(statements)).await.map_err(Fault::Asking)?;
    }
    change.commit().await.map_err(Fault::Asking)?;
    // When something went wrong before, the connection is closed, and the lock with it.
    let done = format!("SELECT pg_advisory_unlock({CREATING}); {}", sql!("ask/settings"));
    link.client.batch_execute(&done).await.map_err(Fault::Asking)
}

fn missing(tables: &Tables) -> Fault {
    Error::new(Kind::Denied, format!("the tables {tables} are not there, or of an older version, and ?create=no"))
        .help("have the statements that lockhouse doctor prints run by somebody who may, or leave ?create=no out")
        .into()
}

fn newer(tables: &Tables) -> Fault {
    Error::new(Kind::Corrupt, format!("the tables {tables} were made by a newer version of Lockhouse"))
        .help("update this program, or give ?table= another name")
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_thing_said_is_the_version_of_this_build() {
        let last = format!("lockhouse_version SET version = {};\nCOMMIT;\n", TABLES.len());
        assert!(ddl(&Tables::default()).ends_with(&last));
    }
}
