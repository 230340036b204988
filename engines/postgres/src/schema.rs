//! Our tables and functions: made on first use, by versions.

use std::cmp::Ordering;
use std::time::Duration;

use lockhouse_core::{Error, Kind};
use tokio::time::timeout;
use tokio_postgres::Transaction;

use crate::error::{Fault, is_missing_table};
use crate::pool::{Link, Pool};
use crate::tables::{Tables, sql};

/// What brings the tables from one version to the next. The last of them is the version of this build.
const MIGRATIONS: &[&[&str]] = &[&[
    sql!("schema/tables"),
    sql!("schema/enter"),
    sql!("schema/held"),
    sql!("schema/settle"),
    sql!("schema/leave"),
    sql!("schema/queued"),
    sql!("schema/look"),
    sql!("schema/again"),
    sql!("schema/claim"),
    sql!("schema/withdraw"),
    sql!("schema/renew"),
    sql!("schema/evict"),
    sql!("schema/tidy"),
    sql!("schema/forget"),
    sql!("schema/write"),
]];
/// Creating everything takes some 20 ms. Others may be at it, one after the other.
const LONGEST: Duration = Duration::from_secs(10);
/// Whoever creates or changes tables of ours holds this advisory lock of the database: concurrent `CREATE`s of the same
/// thing fail in PostgreSQL, also with `IF NOT EXISTS`. The number spells "lckhouse".
const CREATING: i64 = 0x6c63_6b68_6f75_7365;

/// Everything that is created, for people who want to do it themselves.
pub(crate) fn ddl(tables: &Tables) -> String {
    MIGRATIONS.iter().flat_map(|migration| *migration).map(|statements| tables.fill(statements)).collect()
}

/// Makes sure that the tables are there and of our version.
pub(crate) async fn prepare(pool: &Pool, tables: &Tables, create: bool) -> Result<(), Fault> {
    let preparing = async {
        let mut link = pool.link().await?;
        let ready = usize::try_from(version(&link, tables).await?).unwrap_or(usize::MAX);
        match ready.cmp(&MIGRATIONS.len()) {
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

/// The version of the tables; 0 when there are none.
async fn version(link: &Link, tables: &Tables) -> Result<i32, Fault> {
    match link.client.query_typed(&tables.fill(sql!("ask/version")), &[]).await {
        Ok(rows) => Ok(rows.first().map_or(0, |row| row.get(0))),
        Err(error) if is_missing_table(&error) => Ok(0),
        Err(error) => Err(Fault::Asking(error)),
    }
}

/// Does what is to be done, in one transaction. Others who want the same wait, and find it done.
async fn migrate(link: &mut Link, tables: &Tables) -> Result<(), Fault> {
    let change = link.client.transaction().await.map_err(Fault::Asking)?;
    run(&change, "SET LOCAL statement_timeout = 0").await?;
    run(&change, &format!("SELECT pg_advisory_xact_lock({CREATING})")).await?;
    let there = format!("SELECT to_regclass('{}') IS NOT NULL", tables.fill("lockhouse_version"));
    let there: bool = change.query_typed_one(&there, &[]).await.map_err(Fault::Asking)?.get(0);
    let done: i32 = match there {
        true => change.query_typed_one(&tables.fill(sql!("ask/version")), &[]).await.map_err(Fault::Asking)?.get(0),
        false => 0,
    };
    let done = usize::try_from(done).unwrap_or(usize::MAX);
    for statements in MIGRATIONS.iter().skip(done).flat_map(|migration| *migration) {
        run(&change, &tables.fill(statements)).await?;
    }
    change.commit().await.map_err(Fault::Asking)
}

async fn run(change: &Transaction<'_>, statements: &str) -> Result<(), Fault> {
    change.batch_execute(statements).await.map_err(Fault::Asking)
}

fn missing(tables: &Tables) -> Fault {
    Error::new(Kind::Denied, format!("the tables {tables} are not there, or of an older version, and ?create=no"))
        .help("have the statements of Postgres::ddl() run by somebody with the right to, or leave ?create=no out")
        .into()
}

fn newer(tables: &Tables) -> Fault {
    Error::new(Kind::Corrupt, format!("the tables {tables} were made by a newer version of Lockhouse"))
        .help("update this program, or give ?table= another name")
        .into()
}
