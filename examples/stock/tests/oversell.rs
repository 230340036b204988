//! Sixteen buyers, ten items, on a MariaDB server of the test's own.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use stock::{BUYERS, ITEMS, MariaDb, Shelf, Way, rush};
use tempfile::TempDir;

/// A server that ends with the test. The kernel ends it when the test's thread is gone before that.
struct Server {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Server {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display();
        let made = Command::new("mariadb-install-db")
            .args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", "--user=root"])
            .arg(format!("--datadir={path}/data"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        assert!(made.expect("the package mariadb-server is installed").success());
        std::fs::write(folder.path().join("init.sql"), "CREATE DATABASE shop;\n").unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "mariadbd", "--no-defaults", "--user=root", "--bind-address=127.0.0.1"])
            .args(["--skip-name-resolve".to_owned(), format!("--port={port}"), format!("--datadir={path}/data")])
            .args([format!("--socket={path}/my.sock"), format!("--init-file={path}/init.sql")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { child, port, _folder: folder };
        let until = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < until, "the server cannot be started");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    fn url(&self) -> String {
        format!("mysql://root@127.0.0.1:{}/shop", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn nothing_is_lost_and_nothing_oversold_but_by_the_naive_way() {
    let server = Server::start();
    let shelf: Arc<dyn Shelf> = Arc::new(MariaDb::connect(&server.url()).await.unwrap());
    let locks = lockhouse::connect(&server.url()).await.unwrap();
    for way in Way::ALL {
        let outcome = rush(Arc::clone(&shelf), &locks, way, "teapot").await.unwrap();
        if way == Way::Naive {
            // All of them saw items on the shelf before the first one had written.
            assert!(outcome.sold > ITEMS, "the naive way was lucky: {outcome:?}");
            assert!(!outcome.is_exact(), "{outcome:?}");
        } else {
            assert!(outcome.is_exact(), "{way:?}: {outcome:?}");
            assert_eq!((outcome.sold, outcome.left), (ITEMS, 0), "{way:?}");
        }
    }
    assert!(i64::from(BUYERS) > ITEMS, "there is something to compete for");
}

#[tokio::test]
async fn a_holder_that_lost_the_lock_is_refused_by_its_token() {
    let server = Server::start();
    let shelf = MariaDb::connect(&server.url()).await.unwrap();
    shelf.stock_up("teapot", ITEMS).await.unwrap();
    let (older, newer) = (41, 42);
    assert!(shelf.write_fenced("teapot", 9, older).await.unwrap());
    assert!(shelf.write_fenced("teapot", 8, newer).await.unwrap());
    assert!(!shelf.write_fenced("teapot", 9, older).await.unwrap(), "somebody else has the lock by now");
    assert_eq!(shelf.look("teapot").await.unwrap().quantity, 8);
}
