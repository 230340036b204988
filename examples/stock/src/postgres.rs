//! The shelf in PostgreSQL.

use async_trait::async_trait;
use tokio::task::JoinSet;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls};

use crate::{Error, Result, Seen, Shelf};

/// The shop's own table in PostgreSQL, with a connection of the shop's own.
#[derive(Debug)]
pub struct Postgres {
    client: Client,
    /// Carries what is sent and received. Ends with the shop.
    _driver: JoinSet<()>,
}

impl Postgres {
    /// Connects to `postgres://user:password@host:port/database`, and creates the table if it is not there.
    ///
    /// # Errors
    /// What the database says.
    ///
    /// # Cancellation safety
    /// A dropped future leaves the table behind or not.
    pub async fn connect(url: &str) -> Result<Self> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        let mut driver = JoinSet::new();
        driver.spawn(async move { drop(connection.await) });
        client.batch_execute(include_str!("sql/postgres/create.sql")).await?;
        Ok(Self { client, _driver: driver })
    }

    /// Carries out a statement, and says whether it changed a row.
    async fn change(&self, statement: &str, values: &[&(dyn ToSql + Sync)]) -> Result<bool> {
        Ok(self.client.execute(statement, values).await? > 0)
    }
}

fn number(number: u64) -> Result<i64> {
    Ok(i64::try_from(number)?)
}

#[async_trait]
impl Shelf for Postgres {
    async fn stock_up(&self, item: &str, quantity: i64) -> Result<()> {
        self.change(include_str!("sql/postgres/stock_up.sql"), &[&item, &quantity]).await.map(drop)
    }

    async fn look(&self, item: &str) -> Result<Seen> {
        let seen = self.client.query_opt(include_str!("sql/postgres/look.sql"), &[&item]).await?;
        let seen = seen.ok_or_else(|| Error::from(format!("there is no item {item:?}")))?;
        Ok(Seen {
            quantity: seen.try_get(0)?,
            version: seen.try_get::<_, i64>(1)?.unsigned_abs(),
            updated_at: seen.try_get(2)?,
        })
    }

    async fn write(&self, item: &str, quantity: i64) -> Result<()> {
        self.change(include_str!("sql/postgres/naive.sql"), &[&item, &quantity]).await.map(drop)
    }

    async fn write_if_version(&self, item: &str, quantity: i64, version: u64) -> Result<bool> {
        let version = number(version)?;
        self.change(include_str!("sql/postgres/by_version.sql"), &[&item, &quantity, &version]).await
    }

    async fn write_if_updated_at(&self, item: &str, quantity: i64, updated_at: &str) -> Result<bool> {
        self.change(include_str!("sql/postgres/by_updated_at.sql"), &[&item, &quantity, &updated_at]).await
    }

    async fn write_fenced(&self, item: &str, quantity: i64, token: u64) -> Result<bool> {
        let token = number(token)?;
        self.change(include_str!("sql/postgres/fenced.sql"), &[&item, &quantity, &token]).await
    }
}
