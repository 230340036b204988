//! Cells: a hash each.

use lockhouse_core::{Cell, Name, Result, Write, Written};
use redis::cmd;

use crate::answer::Answer;
use crate::call::Call;
use crate::error::Fault;
use crate::scripts::WRITE;
use crate::server::{PATIENCE, Server};

impl Server {
    pub(crate) async fn read_cell(&self, name: &Name) -> Result<Cell> {
        let mut command = cmd("HMGET");
        command.arg(self.keys.cell(name)).arg(&["v", "t", "d"]);
        let cell = self.link.ask(|_| command, PATIENCE).await.and_then(|heard| {
            let mut answer = Answer::new(heard.value)?;
            let (version, token) = (number(&mut answer)?, number(&mut answer)?);
            Ok(Cell { version, token, value: answer.bytes()?.unwrap_or_default() })
        });
        cell.map_err(|fault| self.explain(fault))
    }

    pub(crate) async fn write_cell(&self, name: &Name, write: &Write) -> Result<Written> {
        let text = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        let call = Call::new()
            .key(self.keys.cell(name))
            .bytes(&write.id)
            .bytes(&write.value)
            .text(&text(write.if_version))
            .text(&text(write.token));
        let written = WRITE.run(&self.link, &call, PATIENCE).await.and_then(|heard| {
            let mut answer = Answer::new(heard.value)?;
            Ok(match answer.count()? {
                0 => Written::Yes { version: number(&mut answer)? },
                1 => Written::Changed { version: number(&mut answer)? },
                2 => Written::Stale { newest: number(&mut answer)? },
                other => return Err(Fault::Answer(format!("{other} is no outcome of a write"))),
            })
        });
        written.map_err(|fault| self.explain(fault))
    }
}

/// A number of up to 64 bits, as text; 0 where there is nothing.
fn number(answer: &mut Answer) -> Result<u64, Fault> {
    let Some(text) = answer.bytes()? else { return Ok(0) };
    let number = std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| Fault::Answer("a text where a number belongs".into()))
}
