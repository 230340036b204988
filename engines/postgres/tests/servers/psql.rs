//! PostgreSQL's own client, as somebody who knows nothing of Lockhouse.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

const LONG: Duration = Duration::from_secs(60);

/// A `psql` that is told statements one by one. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Psql {
    _child: Child,
    tell: ChildStdin,
    said: Lines<BufReader<ChildStdout>>,
}

impl Psql {
    pub(crate) fn at(address: &str) -> Self {
        let mut command = Command::new("psql");
        command.arg(format!("postgres:{address}")).args(["-X", "-q", "-A", "-t"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("psql is there: see whether the package postgresql-client is installed");
        let (tell, said) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { _child: child, tell, said: BufReader::new(said).lines() }
    }

    /// Sends statements, and does not wait for them.
    pub(crate) async fn begin(&mut self, statements: &str) {
        self.tell.write_all(format!("{statements};\n\\echo done\n").as_bytes()).await.unwrap();
    }

    /// Waits until everything that was begun is done. Gives the last row.
    pub(crate) async fn done(&mut self) -> String {
        let mut last = String::new();
        loop {
            let line = tokio::time::timeout(LONG, self.said.next_line()).await.expect("psql answers");
            match line.unwrap().expect("psql lives") {
                line if line == "done" => return last,
                line => last = line,
            }
        }
    }

    pub(crate) async fn say(&mut self, statements: &str) -> String {
        self.begin(statements).await;
        self.done().await
    }
}
