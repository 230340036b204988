//! The tables: created when they are first needed, and brought from version to version.

use lockhouse_core::{Error, Kind};

use crate::error::Fault;
use crate::hold::Hold;
use crate::pool::{Request, Session, column, set};
use crate::settings::Settings;
use crate::statement::{Tables, Value, sql};

/// What leads to each version from the one before, beginning with version 1. All of it can be repeated.
const VERSIONS: &[&str] = &[sql!("version_1"), sql!("version_2"), sql!("version_3")];

/// What is known of the server when the tables are there.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) is_mariadb: bool,
    /// What is given back can be told by a table in its memory.
    pub(crate) has_memory: bool,
}

/// Makes sure that the tables are there, in the version of this program.
#[derive(Debug)]
pub(crate) struct Preparing<'a> {
    pub(crate) tables: &'a Tables,
    /// How locks are held.
    pub(crate) hold: Hold,
    /// Whether tables may be created.
    pub(crate) create: bool,
}

impl Request for Preparing<'_> {
    type Answer = Prepared;

    async fn carry_out(&self, session: &mut Session<'_>) -> Result<Prepared, Fault> {
        let settings = Settings::ask(session).await?;
        settings.fit(self.hold)?;
        if self.hold != Hold::Lease {
            self.is_direct(session).await?;
        }
        let mut version = match self.version(session).await {
            Err(fault) if fault.is_missing_table() && self.create => {
                session.write(&self.tables.write(sql!("schema"), &[])).await?;
                self.version(session).await?
            }
            Err(fault) if fault.is_missing_table() => return Err(Fault::Refusal(self.missing())),
            version => version?,
        };
        if version > VERSIONS.len() {
            return Err(Fault::Refusal(self.newer(version)));
        }
        if version < VERSIONS.len() && !self.create {
            return Err(Fault::Refusal(self.missing()));
        }
        while let Some(step) = VERSIONS.get(version) {
            let made = session.write(&self.tables.write(step, &[engine(settings.is_replicated())])).await;
            match made {
                // It may keep no tables in memory.
                Err(fault) if fault.is_the_servers() && !fault.is_busy() => {
                    session.write(&self.tables.write(step, &[engine(true)])).await?;
                }
                made => drop(made?),
            }
            version += 1;
            let value = [("version", Value::number(version as u64))];
            session.write(&self.tables.write(sql!("migrated"), &value)).await?;
        }
        let has_memory = !settings.is_replicated() && self.is_in_memory(session).await?;
        Ok(Prepared { is_mariadb: settings.is_mariadb(), has_memory })
    }
}

impl Preparing<'_> {
    /// A proxy that shares connections calls ours by a number of its own, and may carry out each statement on another
    /// one: what a connection holds is then not ours.
    async fn is_direct(&self, session: &mut Session<'_>) -> Result<(), Fault> {
        let sets = session.look(sql!("connection")).await?;
        let row = set(&sets, 0)?.rows.first().ok_or_else(|| Fault::Answer("a connection without a number".into()))?;
        // The greeting has room for 32 bits of it.
        if session.number().is_none_or(|number| column(row, 0).is_ok_and(|other: u64| other as u32 == number)) {
            return Ok(());
        }
        let what = "something between this program and the server shares connections: a lock that a connection holds \
                    would not be ours";
        let help = "give the address of the server itself, or use ?hold=lease";
        Err(Fault::Refusal(Error::new(Kind::Unsupported, what).help(help)))
    }

    async fn version(&self, session: &mut Session<'_>) -> Result<usize, Fault> {
        let sets = session.look(&self.tables.write(sql!("version"), &[])).await?;
        set(&sets, 0)?.rows.first().map_or(Ok(0), |row| column(row, 0))
    }

    /// An administrator may have made the table in another way.
    async fn is_in_memory(&self, session: &mut Session<'_>) -> Result<bool, Fault> {
        let table = [("table", Value::bytes(self.tables.name("released").as_bytes()))];
        let sets = session.look(&self.tables.write(sql!("in_memory"), &table)).await?;
        set(&sets, 0)?.rows.first().map_or(Ok(false), |row| column(row, 0))
    }

    fn missing(&self) -> Error {
        let what = format!(
            "the tables {}, {} and {} are not there, or too old, and ?create=no says not to create them",
            self.tables.name("locks"),
            self.tables.name("claims"),
            self.tables.name("cells")
        );
        Error::new(Kind::Denied, what)
            .help("have the statements that lockhouse doctor prints run by somebody who may, or leave ?create=no out")
    }

    fn newer(&self, version: usize) -> Error {
        let table = self.tables.name("schema");
        let what = format!("the table {table} says version {version}, and this program knows {}", VERSIONS.len());
        Error::new(Kind::Corrupt, what).help("update this program, or give it tables of its own with ?table=")
    }
}

/// What keeps the table of what was given back.
fn engine(replicated: bool) -> (&'static str, Value) {
    ("engine", Value::expression(if replicated { "InnoDB" } else { "MEMORY" }))
}

/// The statements that create everything on a server that is replicated or not, for an administrator.
pub(crate) fn statements(tables: &Tables, replicated: bool) -> String {
    let version = [("version", Value::number(VERSIONS.len() as u64)), engine(replicated)];
    let parts = [sql!("schema")].into_iter().chain(VERSIONS.iter().copied()).chain([sql!("migrated")]);
    parts.map(|part| tables.write(part, &version)).collect::<Vec<_>>().join("\n").replace("; ", ";\n")
}
