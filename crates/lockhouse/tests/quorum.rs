//! A quorum of five embedded engines faces the conformance suite, with two of its members dead from the start.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lockhouse::{Connector, Engine, Guarantees, Locks, Majority, Name, Quorum};
use lockhouse_sqlite::Sqlite;
use lockhouse_testkit::{Gate, Members, Mode, OwnServer, Saboteur, Server, Subject, Verb, async_trait, eventually};
use tempfile::TempDir;

const MEMBERS: usize = 5;

/// Five files in a folder of their own, each behind a gate.
#[derive(Debug, Clone)]
struct Files {
    folder: Arc<TempDir>,
    gates: Arc<Vec<Gate>>,
}

impl Files {
    fn new() -> Self {
        let gates = (0..MEMBERS).map(|_| Gate::default()).collect();
        Self { folder: Arc::new(tempfile::tempdir().expect("a folder")), gates: Arc::new(gates) }
    }

    /// Two of the five are dead: one refuses, the other never answers.
    fn with_two_dead() -> Self {
        let files = Self::new();
        files.gates[0].set_all(Mode::Fail);
        files.gates[1].set_all(Mode::Hang);
        files
    }

    fn client(&self) -> Majority {
        client(self.folder.path(), &self.gates)
    }
}

fn file(folder: &Path, member: usize) -> PathBuf {
    folder.join(format!("member-{member}.db"))
}

/// One client of the five: a connection to each.
fn client(folder: &Path, gates: &[Gate]) -> Majority {
    let member = |(at, gate): (usize, &Gate)| -> Arc<dyn Connector> {
        Arc::new(gate.before(Arc::new(Sqlite::at(file(folder, at)))))
    };
    Majority::of(gates.iter().enumerate().map(member).collect())
}

#[async_trait]
impl Subject for Files {
    fn guarantees(&self) -> Guarantees {
        let members = (0..MEMBERS).map(|_| Arc::new(lockhouse::Memory::new()) as Arc<dyn Engine>).collect();
        let quorum = Quorum::new(members).expect("five members").guarantees();
        // What it passes on of its members is the same for both kinds of engine, but for the shortest lease.
        Guarantees { min_ttl: quorum.min_ttl.max(Sqlite::guarantees().min_ttl), ..quorum }
    }

    fn connector(&self) -> Arc<dyn Connector> {
        Arc::new(self.client())
    }

    fn pace(&self) -> u32 {
        20
    }

    fn url(&self) -> Option<String> {
        Some(self.folder.path().display().to_string())
    }

    fn saboteur(&self) -> Option<&dyn Saboteur> {
        Some(self)
    }

    fn has_server(&self) -> bool {
        true
    }

    fn has_members(&self) -> bool {
        true
    }

    async fn own_server(&self) -> Option<OwnServer> {
        let files = Arc::new(Self::new());
        let (server, members) = (Arc::clone(&files) as Arc<dyn Server>, Arc::clone(&files) as Arc<dyn Members>);
        Some(OwnServer { subject: files, server, members: Some(members) })
    }
}

#[async_trait]
impl Saboteur for Files {
    async fn remove(&self, name: &Name) {
        for member in 0..MEMBERS {
            let database = rusqlite::Connection::open(file(self.folder.path(), member)).expect("the file is there");
            database.busy_timeout(Duration::from_secs(5)).expect("a time limit");
            database.execute("DELETE FROM claims WHERE name = ?1", [name.as_str()]).expect("the claims are there");
        }
    }
}

#[async_trait]
impl Server for Files {
    async fn stop(&self) {
        self.gates.iter().for_each(|gate| gate.set_all(Mode::Fail));
    }

    async fn start(&self) {
        self.restore().await;
    }

    async fn pause(&self) {
        self.gates.iter().for_each(|gate| gate.set_all(Mode::Hang));
    }

    async fn resume(&self) {
        self.restore().await;
    }
}

/// There is no leader: any two members will do.
#[async_trait]
impl Members for Files {
    async fn stop_leader(&self) {
        self.gates[..2].iter().for_each(|gate| gate.set_all(Mode::Fail));
    }

    async fn pause_leader(&self) {
        self.gates[3..].iter().for_each(|gate| gate.set_all(Mode::Hang));
    }

    async fn stop_majority(&self) {
        self.gates[..3].iter().for_each(|gate| gate.set_all(Mode::Fail));
    }

    async fn restore(&self) {
        self.gates.iter().for_each(|gate| gate.set_all(Mode::Pass));
    }
}

async fn connect(folder: String) -> Locks {
    let gates = Files::with_two_dead().gates;
    Locks::new(client(Path::new(&folder), &gates)).await.expect("the files can be opened")
}

lockhouse_testkit::conformance!(Files::with_two_dead(), taker: connect);

/// Found by the cases that drop futures: the keeper withdrew what the front had sent to a slow member, too early.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_reaches_a_member_after_its_withdrawal_is_taken_out_there() {
    let files = Files::new();
    let locks = Locks::new(files.client()).await.unwrap();
    files.gates[MEMBERS - 1].set(Verb::Claim, Mode::Straggle(Duration::from_millis(100)));
    let lease = Duration::from_secs(60);
    drop(locks.mutex("dropped").ttl(lease).lock().await.unwrap());
    locks.mutex("released").ttl(lease).lock().await.unwrap().release().await.unwrap();
    let slow = Locks::new(Sqlite::at(file(files.folder.path(), MEMBERS - 1))).await.unwrap();
    files.gates[MEMBERS - 1].until_all_arrived().await;
    let gone = async || slow.survey("").await.unwrap().is_empty();
    eventually(Duration::from_secs(1), "the slow member has nothing left", gone).await;
}
