//! Notices of a server that it is a claim's turn, and the claims of a client that wait for one: for engines whose
//! server tells the next in line.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::claim::ClaimId;
use crate::clock::{Clock, Moment};
use crate::engine::Standing;

/// What a waiter is told: its new standing or, with `None`, that it should ask.
type Word = Option<Standing>;

/// Who waits to be told, and what was told to those who do not wait yet.
#[derive(Debug, Default)]
pub struct Notices {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: HashMap<ClaimId, Waiting>,
    /// What is to be known to a claim that does not wait yet: between the answer that it is queued and its waiting, a
    /// message can come.
    notes: HashMap<ClaimId, Note>,
    /// Old notes are cleared away when there are more than this.
    clear_at: usize,
    serial: u64,
}

#[derive(Debug)]
struct Waiting {
    /// Tells one registration of a claim from the next.
    serial: u64,
    tell: oneshot::Sender<Word>,
}

#[derive(Debug)]
struct Note {
    at: Moment,
    said: Said,
}

#[derive(Debug)]
enum Said {
    /// When its claim was sent, and when to ask again although nobody said anything.
    Queued { sent: Moment, ask_at: Moment },
    /// What a message said.
    Word(Word),
}

/// There is nothing to clear away below this.
const FEW: usize = 1024;
/// A claim that does not wait by then never will.
const OLD: Duration = Duration::from_secs(60);

/// A place among the waiters, given up when dropped.
#[derive(Debug)]
pub struct Registration<'a> {
    notices: &'a Notices,
    id: ClaimId,
    serial: u64,
    told: oneshot::Receiver<Word>,
    asked_at: Moment,
    ask_at: Moment,
}

impl Notices {
    /// Registers a claim, which is told at once what was said to it before.
    #[must_use]
    pub fn register(&self, id: ClaimId) -> Registration<'_> {
        let (tell, told) = oneshot::channel();
        let mut state = self.state();
        state.serial += 1;
        let serial = state.serial;
        let (asked_at, ask_at) = match state.notes.remove(&id).map(|note| note.said) {
            Some(Said::Word(word)) => {
                // The other end is right here.
                let _ = tell.send(word);
                (Moment::NEVER, Moment::NEVER)
            }
            hint => {
                state.waiting.insert(id, Waiting { serial, tell });
                match hint {
                    Some(Said::Queued { sent, ask_at }) => (sent, ask_at),
                    _ => (Moment::PAST, Moment::NEVER),
                }
            }
        };
        Registration { notices: self, id, serial, told, asked_at, ask_at }
    }

    /// The claim, sent at that moment, is queued: it should ask again at the other if it is told nothing.
    pub fn queued(&self, id: ClaimId, sent: Moment, ask_at: Moment) {
        let mut state = self.state();
        // A notice that came before the answer knows better.
        if !matches!(state.notes.get(&id), Some(Note { said: Said::Word(_), .. })) {
            state.note(id, Said::Queued { sent, ask_at });
        }
    }

    /// What the server tells: the id of a claim and its token, or the id alone when it should ask.
    pub fn hear(&self, notice: &str) {
        if let Some((id, word)) = read(notice) {
            self.tell(id, word);
        }
    }

    /// Everyone should ask: messages may have been lost.
    pub fn wake_all(&self) {
        let waiting = std::mem::take(&mut self.state().waiting);
        for (_, waiting) in waiting {
            // It may have gone away in the meantime.
            let _ = waiting.tell.send(None);
        }
    }

    fn tell(&self, id: ClaimId, word: Word) {
        let mut state = self.state();
        match state.waiting.remove(&id) {
            Some(waiting) => drop(waiting.tell.send(word)),
            None => state.note(id, Said::Word(word)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn note(&mut self, id: ClaimId, said: Said) {
        let now = Clock::Boot.now();
        self.notes.insert(id, Note { at: now, said });
        if self.notes.len() > self.clear_at.max(FEW) {
            self.notes.retain(|_, note| now.since(note.at) < OLD);
            self.clear_at = self.notes.len() * 2;
        }
    }
}

impl Registration<'_> {
    /// When its claim was last sent: what was told before that, its answer knew.
    #[must_use]
    pub fn asked_at(&self) -> Moment {
        self.asked_at
    }

    /// Resolves when the claim is told something, or should ask.
    ///
    /// # Cancellation safety
    /// What was told is told once: whoever drops this asks instead.
    pub async fn told(&mut self) -> Word {
        tokio::select! {
            biased;
            // The other end is dropped when the same claim is registered again: then both should ask.
            word = &mut self.told => word.unwrap_or(None),
            () = Clock::Boot.sleep_until(self.ask_at), if self.ask_at < Moment::NEVER => None,
        }
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        let mut state = self.notices.state();
        if state.waiting.get(&self.id).is_some_and(|waiting| waiting.serial == self.serial) {
            state.waiting.remove(&self.id);
        }
    }
}

fn read(notice: &str) -> Option<(ClaimId, Word)> {
    let (id, token) = notice.split_once(' ').map_or((notice, None), |(id, token)| (id, Some(token)));
    let id = (id.len() == 32).then(|| u128::from_str_radix(id, 16).ok()).flatten()?;
    let word = match token {
        Some(token) => Some(Standing::Granted { token: token.parse().ok()? }),
        None => None,
    };
    Some((ClaimId::from_bytes(id.to_be_bytes()), word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(id: &ClaimId, token: &str) -> String {
        format!("{:032x}{token}", u128::from_be_bytes(*id.as_bytes()))
    }

    #[tokio::test]
    async fn only_the_one_meant_is_told_and_nothing_stays_behind() {
        let (notices, first, second) = (Notices::default(), ClaimId::random(), ClaimId::random());
        let mut one = notices.register(first);
        let two = notices.register(second);
        notices.hear(&notice(&first, " 7"));
        assert_eq!(one.told().await, Some(Standing::Granted { token: 7 }));
        drop((one, two));
        assert!(notices.state().waiting.is_empty() && notices.state().notes.is_empty());
    }

    #[tokio::test]
    async fn a_notice_that_comes_before_its_waiter_is_kept_for_it() {
        let (notices, id) = (Notices::default(), ClaimId::random());
        notices.hear(&notice(&id, " 7"));
        notices.queued(id, Moment::PAST, Moment::NEVER);
        assert_eq!(notices.register(id).told().await, Some(Standing::Granted { token: 7 }));
        assert!(notices.state().notes.is_empty());
    }

    #[tokio::test]
    async fn everyone_asks_when_the_connection_is_gone() {
        let (notices, id) = (Notices::default(), ClaimId::random());
        let mut one = notices.register(id);
        notices.wake_all();
        assert_eq!(one.told().await, None);
    }

    #[tokio::test]
    async fn a_waiter_asks_when_it_was_told_to() {
        let (notices, id) = (Notices::default(), ClaimId::random());
        let now = Clock::Boot.now();
        notices.queued(id, now, now + Duration::from_millis(5));
        let mut registration = notices.register(id);
        assert_eq!(registration.asked_at(), now);
        assert_eq!(registration.told().await, None);
    }

    #[tokio::test]
    async fn registering_again_wakes_the_first_and_keeps_the_second() {
        let (notices, id) = (Notices::default(), ClaimId::random());
        let mut one = notices.register(id);
        let mut two = notices.register(id);
        assert_eq!(one.told().await, None);
        drop(one);
        notices.hear(&notice(&id, ""));
        assert_eq!(two.told().await, None);
    }

    #[test]
    fn notes_that_nobody_takes_do_not_pile_up_for_ever() {
        let notices = Notices::default();
        for _ in 0..4 * FEW {
            notices.queued(ClaimId::random(), Moment::PAST, Moment::NEVER);
        }
        // None is old yet, so all are kept, and they are looked through only now and then.
        assert!(notices.state().clear_at >= FEW);
    }
}
