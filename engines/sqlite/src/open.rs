//! Opening the database: ours, new, or refused as it is.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::boot::Boot;
use crate::error::{Fault, foreign, newer};
use crate::ground::{APPLICATION_ID, FORMAT, prepare};

/// Small pages: a transaction of ours changes one page and writes it whole, so a quarter of SQLite's usual 4 KiB is
/// less to copy and to checksum. Below this, long names and notes would spill into further pages.
const PAGE_BYTES: u32 = 1024;
/// The write-ahead log is cut back to this when it begins anew.
const LOG_LIMIT_BYTES: u32 = 4 << 20;
/// More than there are statements.
const STATEMENTS: usize = 64;

/// Two threads of a process open files one after the other: see `ground::inspect` for what could go wrong.
static OPENING: Mutex<()> = Mutex::new(());

/// Tries to open the database. A fault that [is busy](Fault::is_busy) means: try again.
pub(crate) fn open(path: &Path) -> Result<Connection, Fault> {
    let _one_at_a_time = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    prepare(path)?;
    let mut connection = plain(path)?;
    if connection.is_readonly("main")? {
        let error = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        return Err(Fault::File("opening the file", error));
    }
    let boot = Boot::current().map_err(|error| Fault::File("reading the boot id", error))?;
    identify(&mut connection, path, &boot)?;
    connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0))?;
    check_boot(&mut connection, &boot)?;
    connection.pragma_update(None, "synchronous", "normal")?;
    Ok(connection)
}

/// A connection with our settings and nothing asked yet.
///
/// Waiting and checkpoints are our own business: SQLite would do both on the caller's thread, and at the worst moment.
/// So it also leaves the log as it is when the last connection closes: the next one to open reads it.
pub(crate) fn plain(path: &Path) -> Result<Connection, Fault> {
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // Plans must not depend on the values bound: otherwise SQLite may plan a statement anew each time that it is run.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.busy_timeout(std::time::Duration::ZERO)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "journal_size_limit", LOG_LIMIT_BYTES)?;
    Ok(connection)
}

/// Makes a new file ours, and refuses one that is not.
fn identify(connection: &mut Connection, path: &Path, boot: &Boot) -> Result<(), Fault> {
    let number = |connection: &Connection, pragma| connection.pragma_query_value(None, pragma, |row| row.get(0));
    if number(connection, "application_id")? == 0 {
        create(connection, path, boot)?;
    }
    if number(connection, "application_id")? != APPLICATION_ID {
        return Err(foreign(path).into());
    }
    match number(connection, "user_version")? {
        FORMAT => Ok(()),
        version if version > FORMAT => Err(newer(path, version).into()),
        _ => Err(foreign(path).into()),
    }
}

/// In one transaction, before the file turns to WAL: it carries our id from its first moment on.
fn create(connection: &mut Connection, path: &Path, boot: &Boot) -> Result<(), Fault> {
    connection.pragma_update(None, "page_size", PAGE_BYTES)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Exclusive)?;
    let tables: i64 = transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let id: i64 = transaction.pragma_query_value(None, "application_id", |row| row.get(0))?;
    match (id, tables) {
        (0, 0) => {}
        // Another process was faster.
        (APPLICATION_ID, _) => return Ok(()),
        _ => return Err(foreign(path).into()),
    }
    transaction.execute_batch(include_str!("sql/schema.sql"))?;
    transaction.execute("UPDATE boot SET id = ?1", [boot.stored()])?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", FORMAT)?;
    transaction.commit()?;
    Ok(())
}

/// After a new start of the machine no claim is left, and the counter makes a jump that nothing lost can exceed.
fn check_boot(connection: &mut Connection, boot: &Boot) -> Result<(), Fault> {
    let stored =
        |connection: &Connection| connection.query_row("SELECT id FROM boot", [], |row| row.get::<_, String>(0));
    if boot.is(&stored(connection)?)? {
        return Ok(());
    }
    // This commit must survive the next power cut, or the same jump would be made twice from the same place.
    connection.pragma_update(None, "synchronous", "full")?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have been faster.
    if !boot.is(&stored(&transaction)?)? {
        transaction.execute_batch(include_str!("sql/void.sql"))?;
        transaction.execute("UPDATE boot SET id = ?1", [boot.stored()])?;
    }
    transaction.commit()?;
    Ok(())
}
