//! What the server says of itself, for `lockhouse doctor`.

use std::time::Duration;

use lockhouse_core::Checkup;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::error::Fault;
use crate::server::{PATIENCE, Server, get};
use crate::tables::sql;

/// The first version that has `idle_session_timeout`.
const ENDS_SILENT_SESSIONS: i32 = 140_000;

impl Server {
    pub(crate) async fn look_at_server(&self) -> Result<Checkup, Fault> {
        let rows = self.statements.forget_rows.is_some().then_some("lockhouse_rows");
        let written = ["lockhouse_locks", "lockhouse_claims", "lockhouse_cells"].into_iter().chain(rows);
        let written: Vec<String> = written.map(|table| self.tables.fill(table)).collect();
        let question = self.tables.fill(sql!("ask/checkup"));
        let row = self.one(&question, &[(&written, Type::TEXT_ARRAY)], PATIENCE).await?;
        let mut checkup = facts(&row)?.fact("tables", self.tables.to_string());
        checkup.server_time = Some(Duration::from_micros(get::<i64>(&row, 1)?.unsigned_abs()));
        checkup = findings(checkup, &row)?;
        if get::<i32>(&row, 14)? < ENDS_SILENT_SESSIONS {
            let what = "before PostgreSQL 14 the server ends a silent session by TCP keepalive alone, which a proxy in \
                        between may answer: ?hold=session can then block other programs for longer than it says";
            checkup = checkup.advice(what, "update the server, or use ?hold=row or ?hold=lease");
        }
        Ok(checkup)
    }
}

fn facts(row: &Row) -> Result<Checkup, Fault> {
    let (clients, most): (i64, i64) = (get(row, 7)?, get(row, 8)?);
    Ok(Checkup::default()
        .fact("version", get::<&str>(row, 0)?)
        .fact("encoding", get::<&str>(row, 3)?)
        .fact("clients", format!("{clients} of at most {most}"))
        .fact("replicas", replicas(get(row, 9)?, get(row, 10)?))
        .fact("commits", format!("synchronous_commit is {} by default", get::<&str>(row, 5)?))
        .fact("isolation", format!("read committed here; {} by default", get::<&str>(row, 6)?))
        .fact("time-outs", format!("of our own here; by default {}", get::<&str>(row, 13)?))
        .fact("rights", rights(get(row, 11)?, get(row, 12)?))
        .fact("pooler", "none that lends connections for single transactions"))
}

fn replicas(number: i64, synchronous: &str) -> String {
    match synchronous {
        "" => format!("{number}, and the primary waits for none"),
        synchronous => format!("{number}, and the primary waits for {synchronous}"),
    }
}

fn rights(missing: Option<&str>, may_create: bool) -> String {
    let writes = missing.map_or("all that locks need".to_owned(), |missing| format!("not {missing}"));
    format!("{writes}; may {}create tables in the schema", if may_create { "" } else { "not " })
}

fn findings(mut checkup: Checkup, row: &Row) -> Result<Checkup, Fault> {
    let (clients, most): (i64, i64) = (get(row, 7)?, get(row, 8)?);
    if get(row, 2)? {
        let what = "this is a replica: it takes no writes, so no lock can be had here";
        checkup = checkup.danger(what, "give the address of the primary");
    }
    if let Some(missing) = get::<Option<&str>>(row, 11)? {
        let what = format!("the account may not {missing}: what needs it is refused");
        checkup = checkup.danger(what, format!("GRANT {missing} TO …, one by one"));
    }
    if !get::<bool>(row, 4)? {
        let what = "fsync is off: a crash of the machine can take back grants, and tokens with them";
        checkup = checkup.danger(what, "ALTER SYSTEM SET fsync = on; SELECT pg_reload_conf();");
    }
    if get::<&str>(row, 5)? == "off" {
        let what = "synchronous_commit is off by default: our own connections set it to on, since a grant must not be \
                    taken back";
        checkup = checkup.advice(what, "nothing, if that is meant for other programs");
    }
    if get::<&str>(row, 3)? != "UTF8" {
        let what = "the database's encoding is not UTF8: names with characters that it does not have are refused";
        checkup = checkup.advice(what, "CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0");
    }
    if get::<i64>(row, 9)? > 0 && get::<&str>(row, 10)?.is_empty() {
        let what = "replicas follow without the primary waiting for them: a fail-over can lose the newest grants";
        checkup = checkup.advice(what, "set synchronous_standby_names, and give tokens to what the locks protect");
    }
    if clients * 10 > most * 8 {
        let what = format!("{clients} of {most} connections are in use, and each client of ours may need eight");
        checkup = checkup.advice(what, "raise max_connections");
    }
    Ok(checkup)
}
