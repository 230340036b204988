//! Hand-overs: many contend for one lock, each takes it and gives it back at once.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::turns::{Outcome, ninety_nine};

/// How many contend for the lock.
pub const CONTENDERS: u32 = 8;
/// How long one contest lasts.
pub const CONTEST: Duration = Duration::from_secs(3);

/// Told by each contender when it has the lock, and when it begins to give it back.
#[derive(Debug, Default)]
pub struct Referee(Mutex<Notes>);

#[derive(Debug, Default)]
struct Notes {
    released: Option<Instant>,
    waits: Vec<Duration>,
}

impl Referee {
    /// Somebody has the lock, and gives it back at once.
    pub fn turn(&self) {
        let now = Instant::now();
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(released) = notes.released.replace(now) {
            notes.waits.push(now - released);
        }
    }
}

/// How fast the lock went from hand to hand.
#[derive(Debug, Clone, Copy)]
pub struct Handed {
    /// Grants a second.
    pub grants: f64,
    /// From one grant to the next: all but one in a hundred are faster.
    pub p99: Duration,
}

impl fmt::Display for Handed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} grants/s, p99 {:.1} ms", self.grants, self.p99.as_secs_f64() * 1e3)
    }
}

/// Lets contenders take turns for a while. One turn is to take the lock, tell the referee, and give it back.
///
/// # Errors
/// The first error of a turn.
pub async fn contest<F>(turn: impl Fn(u32, Arc<Referee>) -> F + Clone + Send + 'static) -> Outcome<Handed>
where
    F: Future<Output = Outcome<()>> + Send + 'static,
{
    let (referee, begin) = (Arc::new(Referee::default()), Instant::now());
    let mut all = JoinSet::new();
    for contender in 0..CONTENDERS {
        let (turn, referee) = (turn.clone(), Arc::clone(&referee));
        all.spawn(async move {
            while begin.elapsed() < CONTEST {
                turn(contender, Arc::clone(&referee)).await?;
            }
            Outcome::Ok(())
        });
    }
    while let Some(done) = all.join_next().await {
        done??;
    }
    let elapsed = begin.elapsed().as_secs_f64();
    let waits = std::mem::take(&mut referee.0.lock().unwrap_or_else(PoisonError::into_inner).waits);
    Ok(Handed { grants: waits.len() as f64 / elapsed, p99: ninety_nine(waits) })
}

/// A turn as users of Lockhouse take it: half of the contenders are in one client and half in another.
///
/// # Errors
/// What the engine says.
pub async fn our_turn(clients: [lockhouse::Locks; 2], contender: u32, referee: Arc<Referee>) -> Outcome<()> {
    let guard = clients[contender as usize % 2].mutex("handed").lock().await?;
    referee.turn();
    guard.release().await?;
    Ok(())
}
