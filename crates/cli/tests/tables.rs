//! An engine that may not create its tables.

mod house;

use house::House;
use lockhouse_testkit::Postgres;

#[test]
fn doctor_prints_what_somebody_else_has_to_create() {
    let (house, server) = (House::new(), Postgres::start(&[]));
    let url = format!("postgres:{}?create=no", server.address());
    let output = house.output(&["doctor", &url]);
    let (told, complaint) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(69), "{complaint}");
    assert!(complaint.contains("the tables public.lockhouse_… are not there"), "{complaint}");
    assert!(told.starts_with("-- ") && told.contains("CREATE TABLE public.lockhouse_claims"), "{told}");
    // Nothing is printed for a server that is not there, and what was printed is all that is needed.
    assert!(house.output(&["doctor", "postgres://127.0.0.1:1/x?create=no"]).stdout.is_empty());
    std::fs::write(house.path("tables.sql"), &output.stdout).unwrap();
    let mut psql = std::process::Command::new("psql");
    psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", &format!("postgres:{}", server.address())]);
    assert!(psql.arg("-f").arg(house.path("tables.sql")).status().unwrap().success());
    let output = house.output(&["doctor", &url]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("all that locks need"));
}
