//! The shelf in MySQL or MariaDB.

use async_trait::async_trait;
use mysql_async::prelude::Queryable;
use mysql_async::{Params, Pool, params};

use crate::{Error, Result, Seen, Shelf};

/// The shop's own table in MySQL or MariaDB, with the shop's own connections.
#[derive(Debug)]
pub struct MariaDb {
    pool: Pool,
}

impl MariaDb {
    /// Connects to `mysql://user:password@host:port/database`, and creates the table if it is not there.
    ///
    /// # Errors
    /// What the database says.
    ///
    /// # Cancellation safety
    /// A dropped future leaves the table behind or not.
    pub async fn connect(url: &str) -> Result<Self> {
        let pool = Pool::from_url(url)?;
        pool.get_conn().await?.query_drop(include_str!("sql/create.sql")).await?;
        Ok(Self { pool })
    }

    /// Carries out a statement, and says whether it changed a row.
    async fn change(&self, statement: &str, values: Params) -> Result<bool> {
        let mut connection = self.pool.get_conn().await?;
        connection.exec_drop(statement, values).await?;
        Ok(connection.affected_rows() > 0)
    }
}

#[async_trait]
impl Shelf for MariaDb {
    async fn stock_up(&self, item: &str, quantity: i64) -> Result<()> {
        self.change(include_str!("sql/stock_up.sql"), params! { item, quantity }).await.map(drop)
    }

    async fn look(&self, item: &str) -> Result<Seen> {
        let mut connection = self.pool.get_conn().await?;
        let seen = connection.exec_first(include_str!("sql/look.sql"), params! { item }).await?;
        let (quantity, version, updated_at) = seen.ok_or_else(|| Error::from(format!("there is no item {item:?}")))?;
        Ok(Seen { quantity, version, updated_at })
    }

    async fn write(&self, item: &str, quantity: i64) -> Result<()> {
        self.change(include_str!("sql/naive.sql"), params! { item, quantity }).await.map(drop)
    }

    async fn write_if_version(&self, item: &str, quantity: i64, version: u64) -> Result<bool> {
        self.change(include_str!("sql/by_version.sql"), params! { item, quantity, version }).await
    }

    async fn write_if_updated_at(&self, item: &str, quantity: i64, updated_at: &str) -> Result<bool> {
        self.change(include_str!("sql/by_updated_at.sql"), params! { item, quantity, updated_at }).await
    }

    async fn write_fenced(&self, item: &str, quantity: i64, token: u64) -> Result<bool> {
        self.change(include_str!("sql/fenced.sql"), params! { item, quantity, token }).await
    }
}
