//! What the server says of itself: the settings that matter for locks.

use std::collections::HashMap;
use std::time::Duration;

use lockhouse_core::{Checkup, Error, Kind};
use mysql_async::Row;

use crate::error::Fault;
use crate::hold::Hold;
use crate::pool::{Request, Session, column, set};
use crate::schema::statements;
use crate::statement::{Tables, Value, sql};

/// The tables that clients write to, and a key of each.
const TABLES: [(&str, &str); 6] =
    [("locks", "name"), ("gates", "name"), ("claims", "id"), ("cells", "name"), ("rows", "name"), ("released", "id")];

/// Variables of a session, as far as the server has them: MySQL and MariaDB differ.
#[derive(Debug)]
pub(crate) struct Settings(HashMap<String, String>);

impl Settings {
    /// Asks the server.
    pub(crate) async fn ask(session: &mut Session<'_>) -> Result<Self, Fault> {
        let sets = session.look(sql!("settings")).await?;
        let pair = |row| Ok((column::<String>(row, 0)?.to_lowercase(), column(row, 1)?));
        Ok(Self(set(&sets, 0)?.rows.iter().map(pair).collect::<Result<_, Fault>>()?))
    }

    fn get(&self, variable: &str) -> Option<&str> {
        self.0.get(variable).map(String::as_str)
    }

    fn is_on(&self, variable: &str) -> bool {
        self.get(variable).is_some_and(|value| !matches!(value, "OFF" | "0"))
    }

    /// Whether locks can be held in this way there.
    ///
    /// A server that takes no writes keeps no locks: a replica, a secondary of group replication. A node of a Galera
    /// cluster does not tell the others which connection holds what.
    pub(crate) fn fit(&self, hold: Hold) -> Result<(), Fault> {
        if hold != Hold::Lease && self.is_on("wsrep_on") {
            let what = "this is a node of a Galera cluster: locks that a connection has exist on that node alone";
            let help = "use ?hold=lease, with all clients at the same node";
            return Err(Fault::Refusal(Error::new(Kind::Unsupported, what).help(help)));
        }
        let read_only = ["read_only", "super_read_only", "innodb_read_only"].into_iter().find(|one| self.is_on(one));
        let Some(variable) = read_only else { return Ok(()) };
        let what = format!("the server is read-only ({variable} is on): it is a replica, or a secondary of a group");
        Err(Fault::Refusal(Error::new(Kind::Unsupported, what).help("give the address of the primary")))
    }

    pub(crate) fn is_mariadb(&self) -> bool {
        self.get("version").is_some_and(|version| version.contains("MariaDB"))
    }

    /// Whether other servers may be told of every change: then no table is kept in memory.
    pub(crate) fn is_replicated(&self) -> bool {
        self.is_on("log_bin") || self.is_on("wsrep_on")
    }

    fn replication(&self) -> Replication {
        if self.is_on("wsrep_on") {
            Replication::Galera
        } else if self.get("group_replication_group_name").is_some_and(|group| !group.is_empty()) {
            Replication::Group
        } else if self.is_on("rpl_semi_sync_master_enabled") || self.is_on("rpl_semi_sync_source_enabled") {
            Replication::SemiSynchronous
        } else if self.is_on("log_bin") {
            Replication::Asynchronous
        } else {
            Replication::None
        }
    }

    fn facts(&self, mut checkup: Checkup) -> Checkup {
        let flavour = if self.is_mariadb() { "MariaDB" } else { "MySQL" };
        checkup = checkup.fact("server", format!("{flavour} {}", self.get("version").unwrap_or("of no version")));
        if let Some(isolation) = self.get("transaction_isolation").or_else(|| self.get("tx_isolation")) {
            let isolation = isolation.to_lowercase().replace('-', " ");
            checkup = checkup.fact("isolation", format!("read committed here; {isolation} by default"));
        }
        for (what, variable) in [
            ("longest wait for a row by default, in s", "innodb_lock_wait_timeout"),
            ("idle connections end by default after, in s", "wait_timeout"),
            ("most connections", "max_connections"),
            ("flush at commit", "innodb_flush_log_at_trx_commit"),
            ("binary log", "log_bin"),
            ("logged are", "binlog_format"),
        ] {
            if let Some(value) = self.get(variable) {
                checkup = checkup.fact(what, value);
            }
        }
        checkup.fact("replication", self.replication().told())
    }

    /// What an operator should know.
    fn findings(&self, mut checkup: Checkup) -> Checkup {
        if let Some(flush) = self.get("innodb_flush_log_at_trx_commit").filter(|flush| *flush != "1") {
            checkup = checkup.danger(
                format!("innodb_flush_log_at_trx_commit is {flush}: a crash can take back the last grants and tokens"),
                "SET GLOBAL innodb_flush_log_at_trx_commit = 1",
            );
        }
        if self.is_on("log_bin") && self.get("sync_binlog").is_some_and(|sync| sync != "1") {
            checkup = checkup.advice(
                "sync_binlog is not 1: after a crash, a replica can lack the last grants",
                "SET GLOBAL sync_binlog = 1",
            );
        }
        match self.replication() {
            Replication::Galera => checkup.advice(
                "this is a node of a Galera cluster: locks exclude each other on one node of it alone",
                "have all clients use the same node",
            ),
            Replication::Asynchronous => checkup.advice(
                "replication is asynchronous, if there are replicas: a fail-over can lose a grant",
                "fence what the lock protects with its token",
            ),
            Replication::None | Replication::SemiSynchronous | Replication::Group => checkup,
        }
    }
}

/// How other servers learn of what is written to this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Replication {
    None,
    Asynchronous,
    SemiSynchronous,
    Group,
    Galera,
}

impl Replication {
    fn told(self) -> &'static str {
        match self {
            Self::None => "none: there is no binary log",
            Self::Asynchronous => "asynchronous, if there are replicas",
            Self::SemiSynchronous => "semi-synchronous",
            Self::Group => "by a group",
            Self::Galera => "by Galera",
        }
    }
}

/// `checkup`.
#[derive(Debug)]
pub(crate) struct CheckingUp<'a> {
    pub(crate) tables: &'a Tables,
}

impl Request for CheckingUp<'_> {
    type Answer = Checkup;

    async fn carry_out(&self, session: &mut Session<'_>) -> Result<Checkup, Fault> {
        let settings = Settings::ask(session).await?;
        let names = TABLES.map(|(table, _)| Value::bytes(self.tables.name(table).as_bytes()));
        let tables = [("tables", Value::list(names))];
        let sets = session.look(&self.tables.write(sql!("checkup"), &tables)).await?;
        let time = set(&sets, 0)?.rows.first().ok_or_else(|| Fault::Answer("no time".into()))?;
        let server_time = Some(Duration::from_micros(column(time, 0)?));
        let mut checkup = settings.facts(Checkup { server_time, ..Checkup::default() });
        checkup = self.engines(&set(&sets, 1)?.rows, &settings, checkup)?;
        checkup =
            checkup.fact("tables are made by", format!("\n{}", statements(self.tables, settings.is_replicated())));
        let missing = self.missing_rights(session).await?;
        if missing.is_empty() {
            checkup = checkup.fact("rights", "all that locks need");
        } else {
            let missing = missing.join(", ");
            checkup = checkup.fact("rights", format!("not {missing}"));
            let what = format!("the account may not {missing}: what needs it is refused");
            checkup = checkup.danger(what, "GRANT SELECT, INSERT, UPDATE, DELETE ON … TO …, for each of the tables");
        }
        Ok(settings.findings(checkup))
    }
}

impl CheckingUp<'_> {
    /// What keeps the tables: InnoDB, but for the one that says what was given back.
    fn engines(&self, rows: &[Row], settings: &Settings, mut checkup: Checkup) -> Result<Checkup, Fault> {
        let released = self.tables.name("released");
        let mut others = Vec::new();
        for row in rows {
            let (table, engine): (String, String) = (column(row, 0)?, column(row, 1)?);
            if table == released && engine == "MEMORY" && settings.is_replicated() {
                let what = format!("{table} is kept in memory, and this server is replicated: replicas can fail by it");
                checkup = checkup.danger(what, format!("ALTER TABLE {table} ENGINE = InnoDB"));
            } else if table != released && engine != "InnoDB" {
                let what = format!("{table} is kept by {engine}, and locks need InnoDB");
                checkup = checkup.danger(what, format!("ALTER TABLE {table} ENGINE = InnoDB"));
                others.push(format!("{table} by {engine}"));
            }
        }
        let kept = if others.is_empty() { "InnoDB".to_owned() } else { format!("InnoDB, but {}", others.join(", ")) };
        Ok(checkup.fact("storage engine", kept))
    }

    /// What the account may not do to the tables, whoever gave it its rights: the server explains a statement only to
    /// those who may have it carried out.
    async fn missing_rights(&self, session: &mut Session<'_>) -> Result<Vec<String>, Fault> {
        let mut missing = Vec::new();
        for (table, key) in TABLES {
            let table = format!("{{{table}}}");
            for (right, statement) in [
                ("SELECT", "SELECT * FROM {table}"),
                ("INSERT", "INSERT INTO {table} SELECT * FROM {table}"),
                ("UPDATE", "UPDATE {table} SET {key} = {key}"),
                ("DELETE", "DELETE FROM {table} WHERE {key} = x''"),
            ] {
                let statement = format!("EXPLAIN {}", statement.replace("{table}", &table).replace("{key}", key));
                match session.look(&self.tables.write(&statement, &[])).await {
                    Err(fault) if fault.is_denied() => {
                        missing.push(format!("{right} on {}", self.tables.write(&table, &[]).trim()));
                    }
                    explained => drop(explained?),
                }
            }
        }
        Ok(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Settings {
        Settings(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn a_secondary_of_a_group_is_refused_and_its_primary_is_not() {
        let group = ("group_replication_group_name", "a-group");
        let secondary = settings(&[group, ("read_only", "ON"), ("super_read_only", "ON")]);
        let primary = settings(&[group, ("read_only", "OFF"), ("super_read_only", "OFF")]);
        for hold in [Hold::Lease, Hold::Session, Hold::Row] {
            let Err(Fault::Refusal(error)) = secondary.fit(hold) else { panic!("{hold:?}: it is not refused") };
            assert_eq!(error.kind(), Kind::Unsupported);
            assert!(primary.fit(hold).is_ok());
        }
        assert_eq!(primary.replication(), Replication::Group);
    }
}
