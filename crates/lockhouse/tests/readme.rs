//! The README says what the code promises: its table is made from `Guarantees`, its example is a doc test of this
//! file's crate.

use std::fmt::Write as _;
use std::sync::Arc;

use lockhouse::{CrashFrees, Engine, Exclusion, Guarantees, Memory, Quorum, TokenSurvives, WakeUp};
use lockhouse_mysql::Hold;

const START: &str = "LOCKHOUSE_BLESS=1 writes it anew -->\n";
const END: &str = "<!-- end of guarantees -->";

fn row(url: &str, promised: &Guarantees) -> String {
    let yes = |promised: bool| if promised { "yes" } else { "no" };
    let exclusion = match promised.exclusion {
        Exclusion::Process => "the process",
        Exclusion::Machine => "the machine",
        Exclusion::Server => "one healthy server",
        Exclusion::Quorum => "a majority of servers, and their clocks' speed",
        Exclusion::Consensus => "consensus",
    };
    let token = match promised.token {
        TokenSurvives::Nothing => "nothing",
        TokenSurvives::Clients => "restarted clients",
        TokenSurvives::Crash => "a crash of the machine",
        TokenSurvives::Members => "the loss of a minority",
    };
    let crash = match promised.crash_frees {
        CrashFrees::AfterLease(slack) if slack.is_zero() => "when the lease ends".to_owned(),
        CrashFrees::AfterLease(slack) => format!("{slack:?} after the lease ends"),
        CrashFrees::Within(time) => format!("within {time:?}"),
    };
    let wake_up = match promised.wake_up {
        WakeUp::Push => "told",
        WakeUp::Poll => "asks",
    };
    let Guarantees { fair, shared, permits, priority, cells, .. } = *promised;
    let flags = [fair, shared, permits, priority, cells].map(yes).join(" | ");
    format!("| `{url}` | {exclusion} | {token} | {crash} | {flags} | {wake_up} |\n")
}

fn table() -> String {
    let members = (0..5).map(|_| Arc::new(Memory::new()) as Arc<dyn Engine>).collect();
    let mut table = String::from(
        "| engine | exclusion rests on | token survives | a crash frees | fair | read-write | permits | priority | cells \
         | a waiter |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    write!(table, "{}", row("sqlite:path", &lockhouse_sqlite::Sqlite::guarantees())).unwrap();
    write!(
        table,
        "{}",
        row("redis://, rediss://, redis+sentinel://, redis+cluster://", &lockhouse_redis::Redis::guarantees())
    )
    .unwrap();
    let redlock = lockhouse_redis::Redlock::at("//a,b,c").unwrap().guarantees();
    write!(table, "{}", row("redlock://host,host,host", &redlock)).unwrap();
    let mysql = lockhouse_mysql::Mysql::at("//host/db").unwrap();
    for (url, hold) in [("", Hold::Lease), ("?hold=session", Hold::Session), ("?hold=row", Hold::Row)] {
        let held = mysql.clone().hold(hold).guarantees();
        write!(table, "{}", row(&format!("mysql://host/db{url}"), &held)).unwrap();
    }
    let postgres = lockhouse_postgres::Postgres::at("//host/db").unwrap();
    write!(table, "{}", row("postgres://host/db", &postgres.guarantees())).unwrap();
    let held = postgres.hold(lockhouse_postgres::Hold::Session).guarantees();
    write!(table, "{}", row("postgres://host/db?hold=session, ?hold=row", &held)).unwrap();
    write!(table, "{}", row("etcd://h1,h2,h3", &lockhouse_etcd::Etcd::guarantees(3))).unwrap();
    let zookeeper = lockhouse_zookeeper::ZooKeeper::guarantees();
    write!(table, "{}", row("zookeeper://host,…/root", &zookeeper)).unwrap();
    let consul = lockhouse_consul::Consul::at("//h1,h2,h3").unwrap().guarantees(3);
    write!(table, "{}", row("consul://h1,h2,h3", &consul)).unwrap();
    write!(table, "{}", row("memory:", &Memory::new().guarantees())).unwrap();
    write!(table, "{}", row("Quorum", &Quorum::new(members).unwrap().guarantees())).unwrap();
    table
}

#[test]
fn the_readme_has_the_guarantees_that_the_code_has() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let readme = std::fs::read_to_string(path).unwrap();
    let start = readme.find(START).expect("the table's start") + START.len();
    let end = readme.find(END).expect("the table's end");
    let table = table();
    #[expect(clippy::disallowed_methods, reason = "a test is told to write its expectation by the environment")]
    if std::env::var("LOCKHOUSE_BLESS").is_ok() {
        std::fs::write(path, format!("{}{table}{}", &readme[..start], &readme[end..])).unwrap();
        return;
    }
    assert_eq!(&readme[start..end], table, "run LOCKHOUSE_BLESS=1 cargo test -p lockhouse --test readme");
}
