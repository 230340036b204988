#![doc = include_str!("../README.md")]

mod mariadb;
mod postgres;
mod ways;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lockhouse::Locks;
use tokio::task::JoinSet;

pub use mariadb::MariaDb;
pub use postgres::Postgres;
pub use ways::Way;

/// What can go wrong in a shop.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
/// A result of a shop's.
pub type Result<T> = std::result::Result<T, Error>;

/// How many buyers there are.
pub const BUYERS: u32 = 16;
/// How many items there are.
pub const ITEMS: i64 = 10;
/// How long a buyer thinks between looking and buying.
const THINKING: Duration = Duration::from_millis(5);

/// An item as a buyer sees it.
#[derive(Debug, Clone)]
pub struct Seen {
    /// How many are left.
    pub quantity: i64,
    /// How often it was written.
    pub version: u64,
    /// When it was last written, as the database writes it.
    pub updated_at: String,
}

/// The shop's own table, in some database.
#[async_trait]
pub trait Shelf: Send + Sync + 'static {
    /// Puts so many of an item on the shelf, in the place of what was there.
    async fn stock_up(&self, item: &str, quantity: i64) -> Result<()>;
    /// Looks at an item.
    async fn look(&self, item: &str) -> Result<Seen>;
    /// Writes how many are left, whatever happened since somebody looked.
    async fn write(&self, item: &str, quantity: i64) -> Result<()>;
    /// The same, if nobody has written since. `false` when somebody has.
    async fn write_if_version(&self, item: &str, quantity: i64, version: u64) -> Result<bool>;
    /// The same, by the time of the last change.
    async fn write_if_updated_at(&self, item: &str, quantity: i64, updated_at: &str) -> Result<bool>;
    /// Writes unless somebody with a newer token has written. `false` when somebody has.
    async fn write_fenced(&self, item: &str, quantity: i64, token: u64) -> Result<bool>;
}

/// The shop's table in the database at a URL, created if it is not there, as each of the buyers has it: with a
/// connection of its own, so that the database, too, does at the same time what they do at the same time.
///
/// # Errors
/// What the database says.
///
/// # Cancellation safety
/// A dropped future leaves the table behind or not.
pub async fn shelves(url: &str) -> Result<Vec<Arc<dyn Shelf>>> {
    let mut shelves: Vec<Arc<dyn Shelf>> = Vec::new();
    for _ in 0..BUYERS {
        shelves.push(match url.starts_with("postgres") {
            true => Arc::new(Postgres::connect(url).await?),
            false => Arc::new(MariaDb::connect(url).await?),
        });
    }
    Ok(shelves)
}

/// What came of a rush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// How many items were sold.
    pub sold: i64,
    /// How many the shelf says are left.
    pub left: i64,
}

impl Outcome {
    /// Whether something was sold that was not there, or lost.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.sold + self.left == ITEMS
    }
}

/// Lets all buyers loose on one item at the same time, each with a shelf from [`shelves`]. Each buys one, if it can.
///
/// # Errors
/// What the database or the lock's engine says.
///
/// # Cancellation safety
/// A dropped future drops the buyers; each has bought or has not.
pub async fn rush(shelves: &[Arc<dyn Shelf>], locks: &Locks, way: Way, item: &str) -> Result<Outcome> {
    let shop = shelves.first().ok_or("there are no buyers")?;
    shop.stock_up(item, ITEMS).await?;
    let mut buyers = JoinSet::new();
    for shelf in shelves {
        let (shelf, locks, item) = (Arc::clone(shelf), locks.clone(), item.to_owned());
        buyers.spawn(async move { way.buy(&*shelf, &locks, &item).await });
    }
    let mut sold = 0;
    while let Some(bought) = buyers.join_next().await {
        sold += i64::from(bought??);
    }
    Ok(Outcome { sold, left: shop.look(item).await?.quantity })
}

/// What a buyer does between looking and buying.
pub(crate) async fn think() {
    tokio::time::sleep(THINKING).await;
}
