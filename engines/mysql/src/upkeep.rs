//! What somebody has to do now and then: sweep up under names that nobody asks for.

use std::sync::{Arc, Weak};
use std::time::Duration;

use mysql_async::Row;
use rand::Rng;

use crate::error::Fault;
use crate::pool::{Pool, Request, Session, column, set};
use crate::statement::{Tables, Value, sql};

/// Nobody depends on sweeping: whoever claims a name looks after it, so this only bounds what is left lying around.
const SWEEP: Duration = Duration::from_secs(60);
/// Short-lived commands do not sweep up: they should be done before that.
const FIRST_SWEEP: Duration = Duration::from_secs(10);
const LIMIT: Duration = Duration::from_secs(10);

/// Sweeps until the client is gone.
pub(crate) async fn keep_up(pool: Weak<Pool>, tables: Arc<Tables>) {
    let mut pause = FIRST_SWEEP;
    loop {
        let apart = pause.mul_f64(rand::rng().random_range(0.5..1.5));
        tokio::time::sleep(apart).await;
        pause = SWEEP;
        let Some(pool) = pool.upgrade() else { return };
        if let Err(error) = pool.run(LIMIT, &Sweep { tables: &tables }).await {
            tracing::debug!(%error, "cannot sweep up");
        }
    }
}

/// Removes some of what is over.
#[derive(Debug)]
pub(crate) struct Sweep<'a> {
    pub(crate) tables: &'a Tables,
}

impl Request for Sweep<'_> {
    type Answer = ();

    const WAITS: bool = true;

    async fn carry_out(&self, session: &mut Session<'_>) -> Result<(), Fault> {
        self.sweep(session, sql!("over"), sql!("sweep_claims"), "ids").await?;
        self.sweep(session, sql!("unused"), sql!("sweep_locks"), "names").await?;
        session.write(&self.tables.write(sql!("sweep_released"), &[])).await.map(drop)
    }
}

impl Sweep<'_> {
    /// Searched without locking anything, then deleted by key.
    async fn sweep(&self, session: &mut Session<'_>, find: &str, delete: &str, keys: &str) -> Result<(), Fault> {
        let sets = session.look(&self.tables.write(find, &[])).await?;
        let key = |row: &Row| Ok(Value::bytes(&column::<Vec<u8>>(row, 0)?));
        let found = set(&sets, 0)?.rows.iter().map(key).collect::<Result<Vec<_>, Fault>>()?;
        if !found.is_empty() {
            session.write(&self.tables.write(delete, &[(keys, Value::list(found))])).await?;
        }
        Ok(())
    }
}
