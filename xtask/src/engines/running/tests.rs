use std::net::TcpListener;

use super::*;
use crate::engines::server::{Origin, Program};

/// A server that ends at once, and says why.
const BROKEN: Server = Server {
    name: "broken",
    variable: "LOCKHOUSE_TEST_BROKEN",
    url: "broken://127.0.0.1:{port}",
    origin: Origin::Packages(&[]),
    programs: &[Program { name: "sh", places: &["sh"] }],
    account: None,
    files: &[],
    prepare: &[],
    start: &["{sh}", "-c", "echo the disk is full; exit 3"],
    probe: PING,
    stop: Signal::TERM,
    orphaned: "KILL",
};

const PING: Probe = Probe { ask: b"ping", is_answer: |answer| answer == b"pong" };

fn workspace() -> Workspace {
    Workspace::find().unwrap()
}

#[test]
fn a_server_that_ends_at_once_is_a_failure_that_shows_its_log() {
    static SERVER: Server = BROKEN;
    let text = Servers::start(&workspace(), &[&SERVER]).unwrap_err().to_string();
    assert!(text.contains("the disk is full") && text.contains("LOCKHOUSE_SKIP=broken"), "{text}");
}

#[test]
fn a_preparation_that_fails_is_a_failure() {
    static SERVER: Server = Server { prepare: &[&["{sh}", "-c", "echo no room; exit 1"]], ..BROKEN };
    let text = Servers::start(&workspace(), &[&SERVER]).unwrap_err().to_string();
    assert!(text.contains("no room"), "{text}");
}

#[test]
fn a_missing_program_is_told_with_the_command_that_installs_it() {
    static SERVER: Server = Server { programs: &[Program { name: "nosuch", places: &["no-such-program"] }], ..BROKEN };
    let text = Servers::start(&workspace(), &[&SERVER]).unwrap_err().to_string();
    assert!(text.contains("`nosuch`") && text.contains("engines install broken"), "{text}");
}

#[test]
fn a_probe_wants_the_answer_and_not_just_a_connection() {
    for (answer, ready) in [(b"pong", true), (b"busy", false)] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 4];
            stream.read_exact(&mut asked).unwrap();
            stream.write_all(answer).unwrap();
        });
        assert_eq!(is_ready(port, &PING), ready);
        server.join().unwrap();
    }
}
