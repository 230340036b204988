//! The engine on the client's end of the socket.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use lockhouse_core::{
    Cell, Claim, Connector, Engine, Error, Exclusion, Guarantees, Kind, Line, Memory, Name, PublicId, Renewal, Result,
    Side, Standing, TokenSurvives, Withdrawal, Write, Written,
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::message::{Answer, Request, WrittenWords, failure};

/// What the memory engine promises, across processes: its server keeps everything while it is stopped.
pub(crate) fn guarantees() -> Guarantees {
    let memory = Memory::new().guarantees();
    Guarantees { engine: "served", exclusion: Exclusion::Server, token: TokenSurvives::Crash, ..memory }
}

/// Connects to the server at an address, anew for every request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dialling(pub(crate) SocketAddr);

#[async_trait]
impl Connector for Dialling {
    async fn connect(&self, _side: Side) -> Result<Arc<dyn Engine>> {
        Ok(Arc::new(*self))
    }
}

impl Dialling {
    async fn ask(&self, request: Request) -> Result<Answer> {
        let unreachable = |what: &str, error: std::io::Error| Error::new(Kind::Unreachable, what).because(error);
        // Nothing was sent yet: it was certainly not carried out.
        let stream = TcpStream::connect(self.0).await.map_err(|error| unreachable("cannot connect", error))?;
        let (read, mut write) = stream.into_split();
        let mut line = serde_json::to_vec(&request).expect("requests can be written");
        line.push(b'\n');
        write.write_all(&line).await.map_err(|error| unreachable("cannot send", error).unknown())?;
        let answer = BufReader::new(read).lines().next_line().await;
        match answer.map_err(|error| unreachable("cannot hear", error).unknown())? {
            Some(line) => match serde_json::from_str(&line).expect("the server speaks the same language") {
                Answer::Failed { conflict, what } => Err(failure(conflict, what)),
                answer => Ok(answer),
            },
            None => Err(Error::new(Kind::Unreachable, "the server hung up").unknown()),
        }
    }
}

/// The answer of the kind that the request has.
macro_rules! expect {
    ($answer:expr, $pattern:pat => $value:expr) => {
        match $answer {
            $pattern => Ok($value),
            other => panic!("the server answered another question: {other:?}"),
        }
    };
}

#[async_trait]
impl Engine for Dialling {
    fn guarantees(&self) -> Guarantees {
        guarantees()
    }

    async fn claim(&self, claim: &Claim) -> Result<Standing> {
        expect!(self.ask(Request::Claim(claim.into())).await?, Answer::Standing(Some(standing)) => standing.into())
    }

    async fn moved(&self, claim: &Claim) -> Result<Option<Standing>> {
        expect!(self.ask(Request::Moved(claim.into())).await?, Answer::Standing(moved) => moved.map(Into::into))
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Renewal>> {
        let renewal = |renewed| if renewed { Renewal::Renewed } else { Renewal::Gone };
        let request = Request::Renew(claims.iter().map(Into::into).collect());
        expect!(self.ask(request).await?, Answer::Renewals(all) => all.into_iter().map(renewal).collect())
    }

    async fn withdraw(&self, claim: &Claim) -> Result<Withdrawal> {
        let withdrawal = |gone| if gone { Withdrawal::Withdrawn } else { Withdrawal::NotThere };
        expect!(self.ask(Request::Withdraw(claim.into())).await?, Answer::Withdrawn(gone) => withdrawal(gone))
    }

    async fn survey(&self, prefix: &str) -> Result<Vec<Line>> {
        let request = Request::Survey(prefix.to_owned());
        expect!(self.ask(request).await?, Answer::Lines(lines) => lines.into_iter().map(Into::into).collect())
    }

    async fn evict(&self, name: &Name, claim: &PublicId) -> Result<bool> {
        let request = Request::Evict(name.to_string(), claim.to_string());
        expect!(self.ask(request).await?, Answer::Evicted(there) => there)
    }

    async fn read(&self, name: &Name) -> Result<Cell> {
        let answer = self.ask(Request::Read(name.to_string())).await?;
        expect!(answer, Answer::Cell { version, token, value } => Cell { version, token, value })
    }

    async fn write(&self, name: &Name, write: &Write) -> Result<Written> {
        let Write { id, value, if_version, token } = write.clone();
        let request = Request::Write { name: name.to_string(), id, value, if_version, token };
        expect!(self.ask(request).await?, Answer::Written(written) => match written {
            WrittenWords::Yes(version) => Written::Yes { version },
            WrittenWords::Changed(version) => Written::Changed { version },
            WrittenWords::Stale(newest) => Written::Stale { newest },
        })
    }
}
