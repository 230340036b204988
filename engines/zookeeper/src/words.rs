//! The servers' four-letter words: what each says of itself.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::address::Address;

/// A server that does not answer by then is down, for people.
const ASKING: Duration = Duration::from_millis(1500);

/// What one server says of itself by `srvr` and `conf`. What it does not permit to be asked is missing.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) version: Option<String>,
    pub(crate) mode: Option<String>,
    pub(crate) latency: Option<String>,
    /// The limits of a session, in milliseconds.
    pub(crate) shortest: Option<u64>,
    pub(crate) longest: Option<u64>,
    pub(crate) connections: Option<u64>,
}

impl Said {
    pub(crate) fn leads(&self) -> bool {
        self.is_alone() || self.mode.as_deref() == Some("leader")
    }

    /// Whether it has no others beside it.
    pub(crate) fn is_alone(&self) -> bool {
        self.mode.as_deref() == Some("standalone")
    }
}

/// Asks a server. `None` when it does not serve.
pub(crate) async fn ask(address: &Address, host: &str) -> Option<Said> {
    let server = word(address, host, "srvr").await?;
    let settings = word(address, host, "conf").await.unwrap_or_default();
    let said = read(&server, &settings);
    said.mode.is_some().then_some(said)
}

/// What a server answers to one of its four-letter words.
async fn word(address: &Address, host: &str, word: &str) -> Option<String> {
    let talk = async {
        match &address.trust {
            Some(trust) => say(trust.connect(host).await.ok()?, word).await,
            None => say(TcpStream::connect(host).await.ok()?, word).await,
        }
    };
    tokio::time::timeout(ASKING, talk).await.ok().flatten()
}

async fn say(mut stream: impl AsyncRead + AsyncWrite + Unpin, word: &str) -> Option<String> {
    stream.write_all(word.as_bytes()).await.ok()?;
    stream.flush().await.ok()?;
    let mut answer = Vec::new();
    // A server that hangs up on us without a farewell, as TLS has one, has said what it had to say.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).ok().filter(|answer| !answer.is_empty())
}

fn read(server: &str, settings: &str) -> Said {
    let told = |name: &str| server.lines().find_map(|line| line.strip_prefix(name)).map(|rest| rest.trim().to_owned());
    let set = |name: &str| settings.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')?.parse().ok());
    Said {
        version: told("Zookeeper version:").and_then(|version| version.split([',', '-']).next().map(str::to_owned)),
        mode: told("Mode:"),
        latency: told("Latency min/avg/max:").map(|times| format!("{times} ms")),
        shortest: set("minSessionTimeout"),
        longest: set("maxSessionTimeout"),
        connections: set("maxClientCnxns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: &str = "Zookeeper version: 3.8.0-${mvngit.commit.id}, built on 2022\nLatency min/avg/max: 0/0.5/12\n\
                          Received: 7\nMode: leader\n";

    #[test]
    fn what_a_server_says_is_read() {
        let said = read(SERVER, "tickTime=500\nmaxClientCnxns=0\nminSessionTimeout=1000\nmaxSessionTimeout=10000\n");
        assert_eq!((said.version.as_deref(), said.mode.as_deref()), (Some("3.8.0"), Some("leader")));
        assert_eq!((said.shortest, said.longest, said.connections), (Some(1000), Some(10_000), Some(0)));
        assert!(said.leads());
        // A server that does not permit the question says so in a sentence.
        let said = read(SERVER, "conf is not executed because it is not in the whitelist.");
        assert_eq!((said.shortest, said.connections), (None, None));
    }
}
