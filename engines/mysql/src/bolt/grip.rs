//! How a connection shuts a lock's bolt, so that other programs are kept out, and how it opens it.

use lockhouse_core::{Claim, ClaimId, Name};
use mysql_async::Conn;

use crate::claims::taking;
use crate::error::Fault;
use crate::hold::Hold;
use crate::pool::{ask, column, execute, set};
use crate::statement::{Tables, Value, sql};

/// How a connection shuts bolts and opens them: by `GET_LOCK`, or by a row that its transaction has locked.
#[derive(Debug)]
pub(crate) struct Grip {
    pub(crate) hold: Hold,
    pub(crate) tables: std::sync::Arc<Tables>,
    /// MySQL and MariaDB write the same thing differently.
    pub(crate) is_mariadb: bool,
}

/// A claim that asks for its turn together with its bolt.
#[derive(Debug)]
pub(crate) struct Entrance {
    pub(crate) claim: Claim,
    /// What this client gave back last, if the lock's row may not say so yet.
    pub(crate) before: Option<ClaimId>,
}

impl Grip {
    /// Shuts the bolt. `false` when another program has the lock. Nobody waits here: a connection must be there for
    /// whoever lets go.
    pub(crate) async fn shut(&self, connection: &mut Conn, name: &Name, shared: bool) -> Result<bool, Fault> {
        if self.hold == Hold::Row {
            return self.lock_row(connection, name, shared).await;
        }
        match self.told(connection, sql!("bolt/get_lock"), name).await? {
            Some(got) => Ok(got == 1),
            None => Err(Fault::Answer("the server cannot tell who has the lock".into())),
        }
    }

    /// Takes a lock that nobody has for a claim, and shuts its bolt: its token, or `None` and neither. This may wait
    /// for the lock's row for a second, and waits for the disk: nothing else may be held by the connection.
    pub(crate) async fn enter(&self, connection: &mut Conn, entrance: &Entrance) -> Result<Option<u64>, Fault> {
        let values = taking(&entrance.claim, entrance.before);
        let taken = execute(connection, &self.tables, sql!("bolt/enter"), &values).await?;
        Ok(taken.number.filter(|_| taken.changed == 1))
    }

    /// A writer becomes a reader. `false` when another program was faster to take the row.
    pub(crate) async fn weaken(&self, connection: &mut Conn, name: &Name) -> Result<bool, Fault> {
        let text = self.tables.write(sql!("bolt/weaken_row"), &self.row(name, true));
        self.locked(connection, &text, 2).await.map(|locked| locked == Some(true))
    }

    /// Opens the bolt.
    pub(crate) async fn open(&self, connection: &mut Conn, name: &Name) -> Result<(), Fault> {
        if self.hold == Hold::Row {
            return ask(connection, "COMMIT").await.map(drop).map_err(sent);
        }
        self.told(connection, sql!("bolt/release_lock"), name).await.map(drop)
    }

    /// Opens the bolt of a claim that nobody else seems to be beside, and takes it out of its line. `false` when it did
    /// not do both: the bolt may be shut still.
    pub(crate) async fn leave(
        &self,
        connection: &mut Conn,
        id: &ClaimId,
        name: &Name,
        lease: Value,
    ) -> Result<bool, Fault> {
        let values = [("id", Value::id(id)), ("name", Value::name(name)), ("ttl", lease)];
        execute(connection, &self.tables, sql!("bolt/leave"), &values).await.map(|left| left.changed == 1)
    }

    /// `SELECT … FOR UPDATE` in a transaction that stays open. The row is made first where there is none: a search that
    /// finds nothing would lock nothing.
    async fn lock_row(&self, connection: &mut Conn, name: &Name, shared: bool) -> Result<bool, Fault> {
        let row = self.row(name, shared);
        let lock = self.tables.write(sql!("bolt/lock_row"), &row);
        for _ in 0..2 {
            if let Some(locked) = self.locked(connection, &lock, 1).await? {
                return Ok(locked);
            }
            let create = self.tables.write(sql!("bolt/create_row"), &row);
            match ask(connection, &format!("ROLLBACK; {create}")).await.map_err(sent) {
                // Somebody else made it meanwhile, and has it.
                Err(fault) if fault.is_busy() => return Ok(false),
                made => drop(made?),
            }
        }
        Err(Fault::Answer("the lock's row is removed as soon as it is made".into()))
    }

    /// Whether the row could be locked; `None` when there is no row.
    async fn locked(&self, connection: &mut Conn, text: &str, at: usize) -> Result<Option<bool>, Fault> {
        match ask(connection, text).await.map_err(sent) {
            Ok(sets) => Ok((!set(&sets, at)?.rows.is_empty()).then_some(true)),
            Err(fault) if fault.is_busy() => {
                ask(connection, "ROLLBACK").await.map_err(sent)?;
                Ok(Some(false))
            }
            Err(fault) => Err(fault),
        }
    }

    /// The one number that a statement about a name finds.
    async fn told(&self, connection: &mut Conn, one: &str, name: &Name) -> Result<Option<u8>, Fault> {
        let found = execute(connection, &self.tables, one, &[("name", Value::name(name))]).await?;
        let row = found.rows.first().ok_or_else(|| Fault::Answer("no word about the lock".into()))?;
        column(row, 0)
    }

    fn row(&self, name: &Name, shared: bool) -> [(&'static str, Value); 2] {
        let mode = match (shared, self.is_mariadb) {
            (false, _) => "FOR UPDATE",
            (true, true) => "LOCK IN SHARE MODE",
            (true, false) => "FOR SHARE",
        };
        [("name", Value::name(name)), ("mode", Value::expression(mode))]
    }
}

fn sent(error: mysql_async::Error) -> Fault {
    Fault::Asking { error, final_word: true }
}
