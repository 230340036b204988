//! What the server says of itself, for `lockhouse doctor`.

use std::time::Duration;

use lockhouse_core::Checkup;
use tokio_postgres::Row;

use crate::error::Fault;
use crate::server::{PATIENCE, Server, get};
use crate::tables::sql;

impl Server {
    pub(crate) async fn look_at_server(&self) -> Result<Checkup, Fault> {
        let row = self.one(sql!("ask/checkup"), &[], PATIENCE).await?;
        let mut checkup = facts(&row)?.fact("tables", self.tables.to_string());
        checkup.server_time = Some(Duration::from_micros(get::<i64>(&row, 1)?.unsigned_abs()));
        findings(checkup, &row)
    }
}

fn facts(row: &Row) -> Result<Checkup, Fault> {
    let (clients, most): (i64, i64) = (get(row, 7)?, get(row, 8)?);
    Ok(Checkup::default()
        .fact("version", get::<&str>(row, 0)?)
        .fact("encoding", get::<&str>(row, 3)?)
        .fact("clients", format!("{clients} of at most {most}"))
        .fact("replicas", get::<i64>(row, 9)?.to_string())
        .fact("isolation", format!("read committed here; {} by default", get::<&str>(row, 6)?)))
}

fn findings(mut checkup: Checkup, row: &Row) -> Result<Checkup, Fault> {
    let (clients, most): (i64, i64) = (get(row, 7)?, get(row, 8)?);
    if get(row, 2)? {
        let what = "this is a replica: it takes no writes, so no lock can be had here";
        checkup = checkup.danger(what, "give the address of the primary");
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
