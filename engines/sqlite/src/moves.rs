//! What a transaction has changed for others, told once it is committed.

use lockhouse_core::{ClaimId, Name};

use crate::client::Client;
use crate::waiters::Word;

/// Claims that moved in a transaction.
#[derive(Debug, Default)]
pub(crate) struct Moves(Vec<Move>);

#[derive(Debug)]
struct Move {
    client: Option<i64>,
    name: Name,
    id: ClaimId,
    word: Word,
}

impl Moves {
    /// Notes that a claim of a client has moved.
    pub(crate) fn add(&mut self, client: Option<i64>, name: &Name, id: ClaimId, word: Word) {
        self.0.push(Move { client, name: name.clone(), id, word });
    }

    /// Hands the news over: in memory to one's own waiters, and with a ring to other clients, each once.
    pub(crate) fn tell(&self, client: &Client) {
        let mut rung: Vec<i64> = Vec::new();
        for Move { client: whose, name, id, word } in &self.0 {
            match *whose {
                Some(whose) if whose == client.id => client.waiters.tell(name, id, *word),
                Some(whose) if !rung.contains(&whose) => {
                    rung.push(whose);
                    client.ring(whose);
                }
                _ => {}
            }
        }
    }
}
