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
        task.spawn(async move { Worker { pool, statements }.run(to_tidy).await });
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
}

impl Worker {
    async fn run(self, mut to_tidy: Receiver<Name>) {
        // Short-lived commands do not sweep, and many clients that were started together do not do it together.
        let next = || Instant::now() + SWEEP.mul_f64(rand::rng().random_range(0.5..1.5));
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
