//! How a connection gets hold of a lock, and how it lets go.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::{Claim, ClaimId, Name};
use mysql_async::Conn;

use crate::claims::values;
use crate::store::patience;
use crate::error::Fault;
use crate::hold::Hold;
use crate::pool::{Pool, Request, Session, Set, ask, column, set};
use crate::statement::{Tables, Value, sql};

/// How often a grant is written down anew when the server ended it in favour of another transaction.
const DEADLOCKS: u32 = 10;

/// What came of asking for a lock.
#[derive(Debug)]
pub(crate) enum Taken {
    /// The connection has it, and this is its token.
    Granted(u64),
    /// Somebody else has it.
    Busy,
    /// An operator took the claim out of the line.
    Evicted,
}

/// How a connection gets hold of a lock, and how it lets go.
#[derive(Debug)]
pub(crate) struct Grip {
    pub(crate) tables: Arc<Tables>,
    /// For what a connection that has a row locked must not do itself: count its token, in another transaction.
    pub(crate) pool: Arc<Pool>,
    /// MySQL and MariaDB write the same thing differently.
    pub(crate) is_mariadb: bool,
}

impl Grip {
    /// Takes the lock if nobody has it, or waits for it for so long.
    pub(crate) async fn take(&self, connection: &mut Conn, claim: &Claim, wait: Duration) -> Result<Taken, Fault> {
        match self.tables.hold() {
            Hold::Row => self.lock_row(connection, claim, wait).await,
            Hold::Session | Hold::Lease => self.get_lock(connection, claim, wait).await,
        }
    }

    /// Lets go. `false` when the connection did not have it.
    pub(crate) async fn let_go(&self, connection: &mut Conn, id: &ClaimId, name: &Name) -> Result<bool, Fault> {
        let sent = |error| Fault::Asking { error, final_word: true };
        if self.tables.hold() == Hold::Row {
            // The commit comes first: what is written down is for people.
            let key = [("id", Value::id(id)), ("name", Value::name(name))];
            let text = format!("COMMIT; {}", self.tables.write(sql!("remove"), &key));
            return ask(connection, &text).await.map(|_| true).map_err(sent);
        }
        let key = [("key", Value::key(name))];
        let sets = ask(connection, &self.tables.write(sql!("bound/release_lock"), &key)).await.map_err(sent)?;
        let row = set(&sets, 0)?.rows.first().ok_or_else(|| Fault::Answer("no word about the release".into()))?;
        Ok(column::<Option<u8>>(row, 0)? == Some(1))
    }

    /// `GET_LOCK`. Taking what is free is one round trip and one commit.
    async fn get_lock(&self, connection: &mut Conn, claim: &Claim, wait: Duration) -> Result<Taken, Fault> {
        let seconds = Value::number(wait.as_secs());
        let get = self.tables.write(sql!("bound/get_lock"), &[("key", Value::key(&claim.name)), ("seconds", seconds)]);
        let own = [
            ("got", Value::expression("@lockhouse_got = 1")),
            ("alone", Value::flag(true)),
            ("connection", Value::expression("CONNECTION_ID()")),
        ];
        let grant = self.tables.write(sql!("bound/grant"), &values(claim, &own));
        let name = [("name", Value::name(&claim.name))];
        let create = self.tables.write(sql!("create_lock"), &name);
        let sent = |error| Fault::Asking { error, final_word: true };
        let (mut text, mut at) = (format!("{get}{grant}"), 2);
        for _ in 0..DEADLOCKS {
            match ask(connection, &text).await.map_err(sent) {
                Ok(sets) => match granted(&sets, at)? {
                    Granted::Counted(taken) => return Ok(taken),
                    Granted::NoRow => (text, at) = (format!("{create}{grant}"), 1),
                },
                // The lock is ours, if it is: what failed is to write it down.
                Err(fault) if fault.is_deadlock() => (text, at) = (format!("ROLLBACK; {grant}"), 1),
                Err(fault) => {
                    if !fault.ends_connection() {
                        ask(connection, "ROLLBACK").await.map_err(sent)?;
                    }
                    return Err(fault);
                }
            }
        }
        Err(Fault::Answer("the lock's counter is out of reach".into()))
    }

    /// `SELECT … FOR UPDATE` in a transaction that stays open.
    async fn lock_row(&self, connection: &mut Conn, claim: &Claim, wait: Duration) -> Result<Taken, Fault> {
        let sent = |error| Fault::Asking { error, final_word: true };
        let mode = match (claim.weight == claim.capacity, self.is_mariadb) {
            (true, _) => "FOR UPDATE",
            (false, true) => "LOCK IN SHARE MODE",
            (false, false) => "FOR SHARE",
        };
        let wait = if wait.is_zero() { "NOWAIT" } else { "" };
        let name = [
            ("name", Value::name(&claim.name)),
            ("mode", Value::expression(mode)),
            ("wait", Value::expression(wait)),
        ];
        let lock = self.tables.write(sql!("bound/lock_row"), &name);
        for _ in 0..2 {
            let locked = match ask(connection, &lock).await.map_err(sent) {
                Ok(sets) => !set(&sets, 1)?.rows.is_empty(),
                Err(fault) if fault.is_busy() => {
                    ask(connection, "ROLLBACK").await.map_err(sent)?;
                    return Ok(Taken::Busy);
                }
                Err(fault) => return Err(fault),
            };
            if locked {
                let counted = self.count(connection, claim).await;
                if !matches!(counted, Ok(Taken::Granted(_))) {
                    ask(connection, "ROLLBACK").await.map_err(sent)?;
                }
                return counted;
            }
            let create = self.tables.write(sql!("bound/create_row"), &name);
            match ask(connection, &format!("ROLLBACK; {create}")).await.map_err(sent) {
                // Somebody else made it meanwhile, and has it.
                Err(fault) if fault.is_busy() => return Ok(Taken::Busy),
                made => drop(made?),
            }
        }
        Err(Fault::Answer("the lock's row is removed as soon as it is made".into()))
    }

    /// Counts the token of a row that this connection has locked, on another connection.
    async fn count(&self, connection: &mut Conn, claim: &Claim) -> Result<Taken, Fault> {
        let counting = Counting { tables: &self.tables, claim, connection: connection.id() };
        self.pool.run(patience(claim.ttl), &counting).await.map_err(Fault::Refusal)
    }
}

/// What `grant.sql` did.
enum Granted {
    Counted(Taken),
    /// There is no row yet to count in.
    NoRow,
}

impl Granted {
    fn counted(self) -> Result<Taken, Fault> {
        match self {
            Self::Counted(taken) => Ok(taken),
            Self::NoRow => Err(Fault::Answer("the lock's counter is removed as soon as it is made".into())),
        }
    }
}

/// Reads what `grant.sql` answered, from its first answer on.
fn granted(sets: &[Set], at: usize) -> Result<Granted, Fault> {
    let row = set(sets, at + 5)?.rows.first().ok_or_else(|| Fault::Answer("no word about the grant".into()))?;
    let (got, token, evicted): (Option<bool>, u64, bool) = (column(row, 0)?, column(row, 1)?, column(row, 2)?);
    Ok(match got {
        None => return Err(Fault::Answer("the server cannot tell who has the lock".into())),
        Some(false) => Granted::Counted(Taken::Busy),
        Some(true) if set(sets, at + 1)?.changed == 0 => Granted::NoRow,
        Some(true) if evicted => Granted::Counted(Taken::Evicted),
        Some(true) => Granted::Counted(Taken::Granted(token)),
    })
}

/// Counts a token for the holder of a row.
#[derive(Debug)]
struct Counting<'a> {
    tables: &'a Tables,
    claim: &'a Claim,
    connection: u32,
}

impl Request for Counting<'_> {
    type Answer = Taken;

    async fn carry_out(&self, session: &mut Session<'_>) -> Result<Taken, Fault> {
        let own = [
            ("got", Value::flag(true)),
            ("alone", Value::flag(self.claim.weight == self.claim.capacity)),
            ("connection", Value::number(self.connection)),
        ];
        let grant = self.tables.write(sql!("bound/grant"), &values(self.claim, &own));
        if let Granted::Counted(taken) = granted(&session.write(&grant).await?, 0)? {
            return Ok(taken);
        }
        let create = self.tables.write(sql!("create_lock"), &[("name", Value::name(&self.claim.name))]);
        granted(&session.write(&format!("{create}{grant}")).await?, 1)?.counted()
    }
}
