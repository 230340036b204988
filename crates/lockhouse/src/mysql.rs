//! From a URL to MySQL and MariaDB.

use std::sync::Arc;

use lockhouse_core::{Connector, Error, Kind, Result};
use lockhouse_mysql::{Hold, Mysql, Tls};

use crate::databases::create;
use crate::url::EngineUrl;

const OPTIONS: &[&str] = &["prefix", "hold", "silence", "rows", "table", "create", "sslmode", "sslrootcert"];

pub(crate) fn connector(url: &EngineUrl) -> Result<Arc<dyn Connector>> {
    url.only(OPTIONS)?;
    let mut mysql = tables(url)?;
    if let Some(tls) = tls(url)? {
        mysql = mysql.encrypted(&tls);
    }
    Ok(Arc::new(held(url, mysql)?))
}

/// What creates the tables, if the engine itself may not.
pub(crate) fn statements(url: &EngineUrl) -> Result<Option<String>> {
    let mysql = tables(url)?;
    Ok((!create(url)?).then(|| mysql.ddl()))
}

/// Which tables are meant, on which server.
fn tables(url: &EngineUrl) -> Result<Mysql> {
    let mysql = Mysql::at(url.rest())?.create(create(url)?);
    url.option("table").map_or(Ok(mysql.clone()), |base| mysql.tables(base))
}

/// How locks are held, and what can be said about it.
fn held(url: &EngineUrl, mysql: Mysql) -> Result<Mysql> {
    let hold = url.option("hold").map_or(Ok(Hold::Lease), str::parse)?;
    let mut mysql = mysql.hold(hold);
    if let Some(silence) = url.duration("silence")? {
        if hold == Hold::Lease {
            return Err(invalid("the option \"silence\" is for connections that hold locks".into())
                .help("write ?hold=session or ?hold=row with it, or leave it out"));
        }
        mysql = mysql.silence(silence)?;
    }
    match url.option("rows") {
        None => Ok(mysql),
        Some(_) if hold != Hold::Row => Err(invalid("the option \"rows\" is for locks that are held by rows".into())
            .help("write ?hold=row with it, or leave it out")),
        Some(rows) => match rows.parse() {
            Ok(rows) if rows > 0 => Ok(mysql.rows(rows)),
            _ => Err(invalid(format!("the option rows={rows} is not a number of locks")).help("write rows=16")),
        },
    }
}

/// Whether and how connections are encrypted: the same words as for PostgreSQL.
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

    fn url(options: &str) -> EngineUrl {
        EngineUrl::parse(&format!("mysql://127.0.0.1/db?{options}")).unwrap()
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
            "table=jobs&create=no&prefix=a/",
        ] {
            connector(&url(options)).unwrap_or_else(|error| panic!("{options}: {error}"));
        }
    }

    #[test]
    fn statements_are_for_those_who_may_not_create_tables() {
        assert_eq!(statements(&url("hold=session")).unwrap(), None);
        let statements = statements(&url("create=no&table=jobs")).unwrap().unwrap();
        assert!(statements.contains("CREATE TABLE IF NOT EXISTS `jobs_claims`"), "{statements}");
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
            ("sslrootcert=/ca.pem", "?sslmode=verify-full"),
            ("sslmode=verify-full&sslrootcert=/nowhere/ca.pem", "PEM"),
            ("ssl=yes", "sslmode"),
        ] {
            let error = connector(&url(options)).unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid, "{error}");
            assert!(error.to_string().contains(help), "{options}: {error}");
        }
    }
}
