//! Ours and the raw engine in turns: short rounds one after the other, so that both see the same machine.

use std::error::Error;
use std::fmt;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

/// What a bench says when something goes wrong: it ends.
pub type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// An odd number, as its multiples by the next one are: one round is in the middle.
const ROUNDS: usize = 31;
/// A round of one task, which needs no time to get going, is cut into so many: the shorter they are, the more alike is
/// the machine that both see.
const CUTS: u32 = 9;

/// The medians of all rounds.
#[derive(Debug, Clone, Copy)]
pub struct Compared {
    tasks: u32,
    raw: f64,
    ours: f64,
    /// Of the ratios of the rounds, not the ratio of both medians: what slows the machine down slows both.
    ratio: f64,
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tasks, raw, ours, ratio } = self;
        write!(f, "{tasks} tasks: raw {raw:.0} pairs/s, ours {ours:.0} pairs/s: {ratio:.2} of raw")
    }
}

/// Lets the raw engine and ours take turns. Both are given the number of a task and how many pairs it is to do.
///
/// # Errors
/// The first error of either.
pub async fn in_turns<R, O>(
    tasks: u32,
    pairs: u32,
    raw: impl Fn(u32, u32) -> R,
    ours: impl Fn(u32, u32) -> O,
) -> Outcome<Compared>
where
    R: Future<Output = Outcome<()>> + Send + 'static,
    O: Future<Output = Outcome<()>> + Send + 'static,
{
    let (mut of_raw, mut of_ours, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let cuts = if tasks == 1 { CUTS } else { 1 };
    let pairs = pairs / cuts;
    for _ in 0..ROUNDS * cuts as usize {
        let (theirs, own) = (round(tasks, pairs, &raw).await?, round(tasks, pairs, &ours).await?);
        of_raw.push(theirs);
        of_ours.push(own);
        ratios.push(own / theirs);
    }
    Ok(Compared { tasks, raw: median(of_raw), ours: median(of_ours), ratio: median(ratios) })
}

/// The pairs a second of so many tasks.
async fn round<F>(tasks: u32, pairs: u32, work: impl Fn(u32, u32) -> F) -> Outcome<f64>
where
    F: Future<Output = Outcome<()>> + Send + 'static,
{
    let begin = Instant::now();
    let mut all = JoinSet::new();
    for task in 0..tasks {
        all.spawn(work(task, pairs / tasks));
    }
    while let Some(done) = all.join_next().await {
        done??;
    }
    Ok(f64::from(pairs / tasks * tasks) / begin.elapsed().as_secs_f64())
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// The figure that all but one in a hundred are below.
pub(crate) fn ninety_nine(mut waits: Vec<Duration>) -> Duration {
    waits.sort();
    waits.get(waits.len().saturating_sub(1) * 99 / 100).copied().unwrap_or_default()
}
