//! MySQL or MariaDB beside its own statements, in one run and in turns: uncontended locks beside the least that the
//! server needs for the same promise.
//!
//! It starts a server of its own, unless it is given the address of one: `//root@127.0.0.1:3306/lockhouse`.

#![expect(clippy::print_stdout, reason = "it prints its result")]

use std::sync::Arc;

use lockhouse::Locks;
use lockhouse_bench::{Outcome, in_turns};
use lockhouse_testkit::MariaDb;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Statement, params};
use tokio::sync::Mutex;

const PAIRS: u32 = 200;

/// The server's own statements, prepared, on one connection.
struct Raw {
    connection: Conn,
    upsert: Statement,
    delete: Statement,
    lock: Statement,
    unlock: Statement,
}

impl Raw {
    async fn connect(url: &str) -> Outcome<Self> {
        // As ours does: the driver would prefer a socket, which is faster.
        let options = OptsBuilder::from_opts(Opts::from_url(url)?).prefer_socket(false);
        let mut connection = Conn::new(options).await?;
        connection
            .query_drop(
                "CREATE TABLE IF NOT EXISTS raw_leases (name VARBINARY(255) PRIMARY KEY, id BINARY(16), \
                 until DATETIME(6)) ENGINE = InnoDB",
            )
            .await?;
        Ok(Self {
            upsert: connection
                .prep(
                    "INSERT INTO raw_leases VALUES (:name, :id, UTC_TIMESTAMP(6) + INTERVAL 30 SECOND) \
                     ON DUPLICATE KEY UPDATE id = IF(until < UTC_TIMESTAMP(6), VALUES(id), id), \
                     until = IF(until < UTC_TIMESTAMP(6), VALUES(until), until)",
                )
                .await?,
            delete: connection.prep("DELETE FROM raw_leases WHERE name = :name AND id = :id").await?,
            lock: connection.prep("SELECT GET_LOCK('raw', 10)").await?,
            unlock: connection.prep("SELECT RELEASE_LOCK('raw')").await?,
            connection,
        })
    }

    /// An insert-or-update and a delete, each committed by itself.
    async fn leases(&mut self, pairs: u32) -> Outcome<()> {
        for pair in 0..pairs {
            let values = params! { "name" => "raw", "id" => format!("{pair:016}") };
            self.connection.exec_drop(&self.upsert, values.clone()).await?;
            self.connection.exec_drop(&self.delete, values).await?;
        }
        Ok(())
    }

    /// A `GET_LOCK` and its end: without a token, and nothing is committed.
    async fn sessions(&mut self, pairs: u32) -> Outcome<()> {
        for _ in 0..pairs {
            self.connection.exec_drop(&self.lock, ()).await?;
            self.connection.exec_drop(&self.unlock, ()).await?;
        }
        Ok(())
    }
}

async fn pairs(locks: Locks, pairs: u32) -> Outcome<()> {
    let mutex = locks.mutex("pair");
    for _ in 0..pairs {
        mutex.lock().await?.release().await?;
    }
    Ok(())
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Outcome<()> {
    let given = std::env::args().nth(1);
    // As it is set up by default: the disk is waited for.
    let server = given.is_none().then(|| MariaDb::start(&["--innodb-flush-log-at-trx-commit=1"]));
    let address = given.or(server.as_ref().map(MariaDb::address)).ok_or("no address")?;
    let url = format!("mysql:{address}");
    let raw = Arc::new(Mutex::new(Raw::connect(&url).await?));
    for hold in ["lease", "session", "row"] {
        let locks = lockhouse::connect(&format!("{url}?hold={hold}")).await?;
        let leases = |_, count| {
            let raw = Arc::clone(&raw);
            async move { raw.lock().await.leases(count).await }
        };
        let ours = |_, count| pairs(locks.clone(), count);
        println!("{hold}, beside an insert-or-update and a delete: {}", in_turns(1, PAIRS, leases, ours).await?);
        if hold == "session" {
            let bare = |_, count| {
                let raw = Arc::clone(&raw);
                async move { raw.lock().await.sessions(count).await }
            };
            println!("{hold}, beside a bare GET_LOCK: {}", in_turns(1, PAIRS, bare, ours).await?);
        }
    }
    Ok(())
}
