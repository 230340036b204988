//! What a `lockhouse` further up holds: a nested `run` of the same name goes ahead under it instead of waiting for it.
//!
//! The command finds in `LOCKHOUSE_HELD` whom to ask. A variable proves nothing: it may have outlived the lock in some
//! daemon. So who holds the lock is asked, and goes on telling until when it does: see [`lifeline`](crate::lifeline).

use std::cell::Cell;
use std::time::Duration;

use lockhouse::Moment;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::sync::Mutex;

use crate::complaint::{Complaint, Outcome};
use crate::config::variable;
use crate::control::Order;
use crate::exit::Exit;
use crate::lifeline::{Held, is_one_of_us};

/// The variable with one line for each lock that is held further up: `ADDRESS NAME`.
pub(crate) const HELD: &str = "LOCKHOUSE_HELD";
/// How long a holder may take to answer. It has nothing else to do, so it hangs or is stopped if it takes longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where to ask for a lock that may be held further up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Above {
    pub(crate) address: String,
    pub(crate) name: String,
}

/// A claim that is held further up, and the line to who holds it.
#[derive(Debug)]
pub(crate) struct Borrowed {
    pub(crate) above: Above,
    pub(crate) held: Held,
    /// Held for certain until then, as far as the holder has told.
    until: Cell<Moment>,
    lines: Mutex<Lines<BufReader<UnixStream>>>,
}

impl Above {
    /// What the environment says.
    pub(crate) fn all() -> Vec<Self> {
        let text = variable(HELD).and_then(|value| value.into_string().ok()).unwrap_or_default();
        text.lines().filter_map(Self::parse).collect()
    }

    fn parse(line: &str) -> Option<Self> {
        let (address, name) = line.split_once(' ')?;
        Some(Self { address: address.to_owned(), name: name.to_owned() })
    }

    /// A line of the variable.
    pub(crate) fn line(&self) -> String {
        format!("{} {}", self.address, self.name)
    }

    /// The claim, if somebody is there who holds it on this engine.
    pub(crate) async fn borrow(&self, engine: &str) -> Outcome<Option<Borrowed>> {
        let Ok(answer) = tokio::time::timeout(PATIENCE, self.ask(engine)).await else {
            let what = format!("the lockhouse further up that holds {:?} does not answer", self.name);
            let help = format!("see whether it was stopped: lockhouse show {:?} tells its process", self.name);
            return Err(Complaint::new(Exit::Unreachable, what).help(help));
        };
        Ok(answer)
    }

    async fn ask(&self, engine: &str) -> Option<Borrowed> {
        let socket = UnixStream::connect(format!("\0{}", self.address)).await.ok()?;
        if !is_one_of_us(&socket) {
            return None;
        }
        let mut lines = BufReader::new(socket).lines();
        let all: Vec<Held> = serde_json::from_str(&lines.next_line().await.ok()??).ok()?;
        let held = all.into_iter().find(|held| held.name == self.name && held.engine == engine)?;
        let Order::Until(until) = Order::parse(&lines.next_line().await.ok()??)? else { return None };
        Some(Borrowed { above: self.clone(), held, until: Cell::new(until), lines: Mutex::new(lines) })
    }
}

impl Borrowed {
    /// Refuses what the claim does not cover: that would wait for itself.
    pub(crate) fn covers(&self, capacity: u32, weight: u32) -> Outcome<()> {
        if self.held.capacity == capacity && weight <= self.held.weight {
            return Ok(());
        }
        let name = &self.held.name;
        let what = format!("a lockhouse further up holds {name:?} in another way, and this one would wait for it");
        Err(Complaint::usage(what).help("the same --shared, --exclusive or --permits in both, or another name"))
    }

    /// Held for certain until then.
    pub(crate) fn until(&self) -> Moment {
        self.until.get()
    }

    pub(crate) fn ttl(&self) -> Duration {
        Duration::from_millis(self.held.ttl_ms)
    }

    /// Resolves when the holder does not hold it any more. Listens meanwhile to what the holder tells.
    pub(crate) async fn lost(&self) {
        while let Ok(Some(line)) = self.lines.lock().await.next_line().await {
            if let Some(Order::Until(until)) = Order::parse(&line) {
                self.until.set(until);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reads_back_whatever_the_name() {
        let above = Above { address: "lockhouse-1-2".into(), name: "a b  c".into() };
        assert_eq!(Above::parse(&above.line()), Some(above));
        assert_eq!(Above::parse("lockhouse-1-2"), None);
    }
}
