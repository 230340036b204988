//! An engine that may not create its tables.

mod house;

use std::fs::File;
use std::process::Command;

use house::House;
use lockhouse_testkit::{MariaDb, Postgres};

/// What the doctor prints is all that is needed, once somebody has run it.
fn doctor_prints_what_is_missing(
    url: &str,
    nowhere: &str,
    missing: &str,
    statement: &str,
    run: impl Fn(File) -> Command,
) {
    let house = House::new();
    let output = house.output(&["doctor", url]);
    let (told, complaint) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(69), "{complaint}");
    assert!(complaint.contains(missing), "{complaint}");
    assert!(told.starts_with("-- ") && told.contains(statement), "{told}");
    // Nothing is printed for a server that is not there.
    assert!(house.output(&["doctor", nowhere]).stdout.is_empty());
    std::fs::write(house.path("tables.sql"), &output.stdout).unwrap();
    assert!(run(File::open(house.path("tables.sql")).unwrap()).status().unwrap().success());
    let output = house.output(&["doctor", url]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("all that locks need"));
}

#[test]
fn doctor_prints_what_somebody_else_has_to_create_in_postgresql() {
    let server = Postgres::start(&[]);
    let database = format!("postgres:{}", server.address());
    doctor_prints_what_is_missing(
        &format!("{database}?create=no"),
        "postgres://127.0.0.1:1/x?create=no",
        "the tables public.lockhouse_… are not there",
        "CREATE TABLE IF NOT EXISTS public.lockhouse_claims",
        |statements| {
            let mut psql = Command::new("psql");
            psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", &database]).stdin(statements);
            psql
        },
    );
}

#[test]
fn doctor_prints_what_somebody_else_has_to_create_in_mariadb() {
    let server = MariaDb::start(&[]);
    doctor_prints_what_is_missing(
        &format!("mysql:{}?create=no", server.address()),
        "mysql://127.0.0.1:1/x?create=no",
        "the tables lockhouse_locks, lockhouse_claims and lockhouse_cells are not there",
        "CREATE TABLE IF NOT EXISTS `lockhouse_claims`",
        |statements| {
            let database = server.address().rsplit_once('/').expect("a database").1.to_owned();
            let mut mariadb = Command::new("mariadb");
            mariadb.args(["--no-defaults", "--protocol=tcp", "--user=root", "--host=127.0.0.1"]);
            mariadb.args([&format!("--port={}", server.port()), "--database", &database]).stdin(statements);
            mariadb
        },
    );
}
