//! From a URL to PostgreSQL.

use std::sync::Arc;

use lockhouse_core::{Connector, Error, Kind, Result};
use lockhouse_postgres::{Hold, Postgres, Tls};

use crate::databases::create;
use crate::url::EngineUrl;

const OPTIONS: &[&str] = &["prefix", "hold", "silence", "rows", "table", "create", "sslmode", "sslrootcert"];

pub(crate) fn connector(url: &EngineUrl) -> Result<Arc<dyn Connector>> {
    url.only(OPTIONS)?;
    let mut postgres = tables(url)?;
    if let Some(tls) = tls(url)? {
        postgres = postgres.encrypted(&tls)?;
    }
    Ok(Arc::new(held(url, postgres)?))
}

/// What creates the tables, if the engine itself may not.
pub(crate) fn statements(url: &EngineUrl) -> Result<Option<String>> {
    let postgres = tables(url)?;
    Ok((!create(url)?).then(|| postgres.ddl()))
}

/// Which tables are meant, on which server.
fn tables(url: &EngineUrl) -> Result<Postgres> {
    let postgres = Postgres::at(url.rest())?.create(create(url)?);
    url.option("table").map_or(Ok(postgres.clone()), |base| postgres.table(base))
}

/// How locks are held, and what can be said about it.
fn held(url: &EngineUrl, postgres: Postgres) -> Result<Postgres> {
    let hold = match url.option("hold") {
        None | Some("lease") => Hold::Lease,
        Some("session") => Hold::Session,
        Some("row") => Hold::Row,
        Some(other) => {
            return Err(invalid(format!("a lock on PostgreSQL cannot be held by {other:?}"))
                .help("write ?hold=lease, ?hold=session or ?hold=row"));
        }
    };
    let mut postgres = postgres.hold(hold);
    if let Some(silence) = url.duration("silence")? {
        if hold == Hold::Lease {
            return Err(invalid("the option \"silence\" is for connections that hold locks".into())
                .help("write ?hold=session or ?hold=row with it, or leave it out"));
        }
        postgres = postgres.silence(silence)?;
    }
    match url.option("rows") {
        None => Ok(postgres),
        Some(_) if hold != Hold::Row => Err(invalid("the option \"rows\" is for locks that are held by rows".into())
            .help("write ?hold=row with it, or leave it out")),
        Some(rows) => match rows.parse() {
            Ok(rows) if rows > 0 => Ok(postgres.rows(rows)),
            _ => Err(invalid(format!("the option rows={rows} is not a number of locks")).help("write rows=16")),
        },
    }
}

/// Whether and how connections are encrypted, in the words of PostgreSQL's own clients.
fn tls(url: &EngineUrl) -> Result<Option<Tls>> {
    match (url.option("sslmode"), url.option("sslrootcert")) {
        (Some("verify-full"), None) => Ok(Some(Tls::new())),
        (Some("verify-full"), Some(authority)) => Tls::new().ca(authority.as_ref()).map(Some),
        (_, Some(_)) => Err(invalid("the option \"sslrootcert\" is for verifying the server".into())
            .help("write ?sslmode=verify-full with it")),
        (None | Some("disable"), None) => Ok(None),
        (Some("require"), None) => Ok(Some(Tls::unverified())),
        (Some(other), None) => Err(invalid(format!("the option sslmode cannot be {other:?}"))
            .help("write ?sslmode=disable, ?sslmode=require or ?sslmode=verify-full")),
    }
}

fn invalid(what: String) -> Error {
    Error::new(Kind::Invalid, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(options: &str) -> String {
        let url = EngineUrl::parse(&format!("postgres://127.0.0.1/db?{options}")).unwrap();
        let error = connector(&url).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{error}");
        error.to_string()
    }

    #[test]
    fn every_way_to_hold_and_to_encrypt_is_taken() {
        for options in [
            "hold=lease",
            "hold=session&silence=10s",
            "hold=row&rows=4&silence=10s",
            "sslmode=disable",
            "sslmode=require",
            "sslmode=verify-full",
            "table=app.locks&create=no&prefix=a/",
        ] {
            let url = EngineUrl::parse(&format!("postgres://127.0.0.1/db?{options}")).unwrap();
            connector(&url).unwrap_or_else(|error| panic!("{options}: {error}"));
        }
    }

    #[test]
    fn statements_are_for_those_who_may_not_create_tables() {
        let statements = |options: &str| {
            let url = EngineUrl::parse(&format!("postgres://127.0.0.1/db?{options}")).unwrap();
            super::statements(&url).unwrap()
        };
        assert_eq!(statements("hold=session"), None);
        assert!(statements("create=no&table=app.jobs").unwrap().contains("CREATE TABLE IF NOT EXISTS app.jobs_claims"));
    }

    #[test]
    fn what_is_not_known_is_refused_with_what_to_write() {
        for (options, help) in [
            ("hold=table", "write ?hold=lease, ?hold=session or ?hold=row"),
            ("silence=10s", "?hold=session"),
            ("hold=session&silence=1s", "from 2s to 24h"),
            ("hold=session&rows=3", "?hold=row"),
            ("hold=row&rows=0", "rows=16"),
            ("hold=row&rows=many", "rows=16"),
            ("create=maybe", "?create=yes"),
            ("sslmode=prefer", "?sslmode=verify-full"),
            ("sslrootcert=/ca.crt", "?sslmode=verify-full"),
            ("sslmode=verify-full&sslrootcert=/nowhere/ca.crt", "PEM"),
            ("ssl=yes", "sslmode"),
        ] {
            let told = refused(options);
            assert!(told.contains(help), "{options}: {told}");
        }
    }
}
