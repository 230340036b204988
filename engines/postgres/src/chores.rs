//! What somebody has to do now and then, beside the locks: tidy lines whose holder is gone, and sweep.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::Name;
use rand::Rng;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_postgres::types::Type;

use crate::error::Fault;
use crate::pool::Pool;
use crate::server::{PATIENCE, get};
use crate::tables::Statements;

/// Nobody depends on sweeping: whoever claims a name looks after it, so this only bounds what is left lying around.
const SWEEP: Duration = Duration::from_secs(60);
/// More lines than that are not remembered: their waiters will say so again.
const LINES: usize = 256;

/// The chores of one client. They end when it is dropped.
#[derive(Debug)]
pub(crate) struct Chores {
    lines: Sender<Name>,
    _task: JoinSet<()>,
}

impl Chores {
    pub(crate) fn begin(pool: Arc<Pool>, statements: Arc<Statements>) -> Self {
        let (lines, to_tidy) = channel(LINES);
        let mut task = JoinSet::new();
        task.spawn(async move { Worker { pool, statements, sweeps: SWEEP }.run(to_tidy).await });
        Self { lines, _task: task }
    }

    /// A line has a holder whose lease is over: somebody should let in who is next.
    pub(crate) fn tidy(&self, name: &Name) {
        // A full list is no harm, as it says.
        let _ = self.lines.try_send(name.clone());
    }
}

struct Worker {
    pool: Arc<Pool>,
    statements: Arc<Statements>,
    /// How often, about.
    sweeps: Duration,
}

impl Worker {
    async fn run(self, mut to_tidy: Receiver<Name>) {
        // Short-lived commands do not sweep, and many clients that were started together do not do it together.
        let next = || Instant::now() + self.sweeps.mul_f64(rand::rng().random_range(0.5..1.5));
        let mut next_sweep = next();
        loop {
            let done = tokio::select! {
                name = to_tidy.recv() => match name {
                    Some(name) => self.tidy(name.as_str()).await,
                    None => return,
                },
                () = sleep_until(next_sweep) => {
                    next_sweep = next();
                    self.sweep().await
                }
            };
            if let Err(fault) = done {
                tracing::debug!(?fault, "cannot sweep up");
            }
        }
    }

    async fn tidy(&self, name: &str) -> Result<(), Fault> {
        self.pool.ask(&self.statements.tidy, &[(&name, Type::TEXT)], PATIENCE).await.map(drop)
    }

    /// Removes claims whose lease is over under names that nobody asks for, and locks that nobody uses.
    async fn sweep(&self) -> Result<(), Fault> {
        for row in self.pool.ask(&self.statements.ended, &[], PATIENCE).await? {
            self.tidy(get(&row, 0)?).await?;
        }
        self.pool.ask(&self.statements.forget, &[], PATIENCE).await?;
        if let Some(forget_rows) = &self.statements.forget_rows {
            self.pool.ask(forget_rows, &[], PATIENCE).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use lockhouse_testkit::{Postgres, eventually};

    use super::*;
    use crate::address::Address;
    use crate::dial::Dial;
    use crate::hold::Hold;
    use crate::schema::prepare;
    use crate::tables::Tables;

    /// A lock with a holder and a waiter, which nobody has used for days and nobody will ask for, and another that is
    /// in use; a row that nobody needs, and one that somebody has locked.
    const BEFORE: &str = r"
        SELECT lockhouse_claim(name, id, 1, 1, 0, 1::smallint, 3600000000, 0, false, 'nobody', 'tester', NULL)
        FROM (VALUES ('ended'), ('used')) AS lock (name), (VALUES ('\x01'::bytea), ('\x02')) AS claim (id);
        UPDATE lockhouse_claims SET lease_end = clock_timestamp() WHERE name = 'ended';
        UPDATE lockhouse_locks SET used = used - interval '2 days';
        INSERT INTO lockhouse_rows VALUES ('ended'), ('used'), ('forgotten'), ('locked')";
    const LEFT: &str = "
        SELECT coalesce(string_agg(what, ', ' ORDER BY what), '') FROM (
            SELECT 'claim ' || name AS what FROM lockhouse_claims UNION ALL
            SELECT 'lock ' || name FROM lockhouse_locks UNION ALL SELECT 'row ' || name FROM lockhouse_rows) AS left_over";

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_over_is_swept_also_under_names_that_nobody_asks_for() {
        let (server, tables) = (Postgres::start(&[]), Tables::default());
        let dial = Dial::to(&Address::parse(&server.address()).unwrap(), None).unwrap();
        let statements = Arc::new(Statements::about(&tables, Hold::Row));
        let pool = Arc::new(Pool::new(dial, 1, statements.warm.clone()));
        prepare(&pool, &tables, true).await.unwrap();
        let (somebody, other) = (pool.link().await.unwrap(), pool.link().await.unwrap());
        let (somebody, other) = (&somebody.client, &other.client);
        somebody.batch_execute(BEFORE).await.unwrap();
        let lock = "BEGIN; SELECT FROM lockhouse_rows WHERE name = 'locked' FOR UPDATE";
        other.batch_execute(lock).await.unwrap();
        let (_lines, to_tidy) = channel(1);
        let (worker, mut task) = (Worker { pool, statements, sweeps: Duration::from_millis(50) }, JoinSet::new());
        task.spawn(worker.run(to_tidy));
        let left = async |expected: &str| {
            eventually(Duration::from_secs(20), expected, async || {
                somebody.query_one(LEFT, &[]).await.unwrap().get::<_, &str>(0) == expected
            })
            .await;
        };
        left("claim used, claim used, lock used, row locked, row used").await;
        other.batch_execute("COMMIT").await.unwrap();
        left("claim used, claim used, lock used, row used").await;
    }
}
