//! Signals: which are caught, and one stream of them.

use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix;

use crate::complaint::{Complaint, Outcome};
use crate::exit::Exit;

/// What is passed on to the command.
const PASSED_ON: [Signal; 9] = [
    Signal::TERM,
    Signal::INT,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::WINCH,
    Signal::TSTP,
    Signal::CONT,
];

/// The signals that reach this process, in one stream.
pub(crate) struct Signals {
    streams: Vec<(Signal, unix::Signal)>,
}

impl Signals {
    /// Catches what is passed on to a command.
    ///
    /// What is ignored stays ignored, as `nohup` and background jobs of a shell want it: the command inherits that.
    /// What is caught is the default again in the command, since a handler cannot outlive `exec`.
    pub(crate) fn catch() -> Outcome<Self> {
        let ignored = ignored();
        let caught = PASSED_ON.into_iter().filter(|signal| ignored & bit(*signal) == 0);
        let streams = caught.map(|signal| {
            let stream = unix::signal(unix::SignalKind::from_raw(signal.as_raw()));
            stream
                .map(|stream| (signal, stream))
                .map_err(|error| Complaint::new(Exit::Unreachable, format!("signals cannot be caught: {error}")))
        });
        Ok(Self { streams: streams.collect::<Result<_, _>>()? })
    }

    /// The next signal.
    pub(crate) async fn next(&mut self) -> Signal {
        std::future::poll_fn(|context| {
            let ready = self.streams.iter_mut().find_map(|(signal, stream)| {
                matches!(stream.poll_recv(context), Poll::Ready(Some(()))).then_some(*signal)
            });
            ready.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// The next signal that is to end us while there is no command yet. To be stopped is obeyed in passing.
    pub(crate) async fn end(&mut self) -> Signal {
        loop {
            match self.next().await {
                signal if is_end(signal) => return signal,
                Signal::TSTP => stop_ourselves(),
                _ => {}
            }
        }
    }
}

/// Whether a signal asks a process to end.
pub(crate) fn is_end(signal: Signal) -> bool {
    matches!(signal, Signal::TERM | Signal::INT | Signal::HUP | Signal::QUIT)
}

/// Stops this process as `SIGTSTP` would have if it were not caught, until somebody continues it.
pub(crate) fn stop_ourselves() {
    // Cannot fail: a process may always signal itself.
    let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
}

fn bit(signal: Signal) -> u64 {
    1 << (signal.as_raw() - 1)
}

/// The signals that this process was started with as ignored. `sigaction` cannot be asked without `unsafe`; the kernel
/// tells the same here. Where there is no `/proc`, none.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
