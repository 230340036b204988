//! The warden: a second process, the command's parent, which stops the command when the lock is not certain any more.
//!
//! `lockhouse` cannot do that alone. When it is killed, nobody would be left to stop the command; when it is stopped
//! past its lease, it would notice too late. So it starts itself once more as a warden, tells it until when the lock is
//! held, and tells it again with every renewal. The warden knows the boot clock: when the time is nearly up it stops
//! the command, whatever `lockhouse` does. When its socket is closed, `lockhouse` is gone, and the command goes at
//! once.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode};
use std::time::Duration;

use lockhouse::{Clock, Moment};
use rustix::process::{Pid, Signal, WaitOptions};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::signal::unix::SignalKind;

use crate::args::OnLost;
use crate::control::{self, Order, Report};
use crate::exit::Exit;
use crate::plan::Orders;
use crate::processes::Reach;
use crate::signals::Signals;

/// How often a warden looks whether the rest is gone after the command itself has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How far apart two processes of one job may notice a signal that was sent to the whole job.
const SETTLE: Duration = Duration::from_millis(50);
/// A warden's `nice` value. It sleeps nearly always, so nobody has less of the machine for it.
const AHEAD_OF_OTHERS: i32 = -15;

/// The process that `lockhouse` starts beside itself. Its arguments are [`Orders`].
pub(crate) fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(orders) = Orders::parse(arguments) else { return Exit::Usage.into() };
    // A pattern that kills every `lockhouse` should leave the one that cleans up after it.
    let _ = rustix::thread::set_name(c"lh-warden");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return Exit::Unreachable.into() };
    match runtime.block_on(start(orders)) {
        Some(()) => Exit::Done.into(),
        None => Exit::Unreachable.into(),
    }
}

/// Starts the command and watches over it. `None` when `lockhouse` was gone before it began.
async fn start(orders: Orders) -> Option<()> {
    let socket = UnixStream::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).ok()?);
    let stdin = control::receive_file(&socket).ok()?;
    socket.set_nonblocking(true).ok()?;
    let (reader, mut writer) = tokio::net::UnixStream::from_std(socket).ok()?.into_split();
    // From here on this process outlives what is meant for the command.
    let signals = Signals::catch().ok()?;
    let children = tokio::signal::unix::signal(SignalKind::child()).ok()?;
    if orders.reach == Reach::Session {
        adopt_orphans();
    }
    let [program, arguments @ ..] = orders.command.as_slice() else { return None };
    let spawned = Command::new(program).args(arguments).stdin(stdin).spawn();
    let command = match spawned {
        Ok(child) => Pid::from_child(&child),
        Err(error) => {
            let missing = error.kind() == ErrorKind::NotFound;
            let report = Report::NotStarted(missing, error.to_string());
            return writer.write_all(report.to_string().as_bytes()).await.ok();
        }
    };
    hurry();
    let until = orders.until;
    let (heard, held_back) = (Vec::new(), Vec::new());
    let warden = Warden { orders, command, writer, until, stopping: None, ended: None, heard, held_back };
    warden.watch(BufReader::new(reader).lines(), children, signals).await;
    Some(())
}

/// Asks to be woken ahead of others: on a machine with too much to do, who ends the command must not come last. The
/// command was started before and does not inherit it. It takes a privilege; without it the reserve has to do.
fn hurry() {
    let _ = rustix::process::setpriority_process(None, AHEAD_OF_OTHERS);
}

/// Orphans of the command's become children of this process, where they can be found.
pub(crate) fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

struct Warden {
    orders: Orders,
    command: Pid,
    writer: OwnedWriteHalf,
    /// The lock is held for certain until then.
    until: Moment,
    /// The command is being stopped: whatever is left of it is killed then.
    stopping: Option<Moment>,
    ended: Option<Report>,
    /// The signals that came to this process itself, and when each came last.
    heard: Vec<(Signal, Moment)>,
    /// On a terminal: the signals to pass on when it is clear that the command has not had them already.
    held_back: Vec<(Signal, Moment)>,
}

impl Warden {
    async fn watch(
        mut self,
        mut socket: Lines<BufReader<OwnedReadHalf>>,
        mut children: tokio::signal::unix::Signal,
        mut signals: Signals,
    ) {
        loop {
            if let Some(ended) =
                self.ended.take_if(|_| self.stopping.is_none() || self.orders.reach.others().is_empty())
            {
                return self.report(&ended).await;
            }
            tokio::select! {
                biased;
                line = socket.next_line() => match line {
                    Ok(Some(line)) => self.obey(&line).await,
                    _ => return self.orphaned().await,
                },
                _ = children.recv() => self.reap(),
                // Meant for the command, which is in the same group and has had it already.
                signal = signals.next() => {
                    self.heard.retain(|(other, _)| *other != signal);
                    self.heard.push((signal, Clock::Boot.now()));
                }
                () = Clock::Boot.sleep_until(self.next_look()) => self.look().await,
            }
        }
    }

    async fn report(&mut self, report: &Report) {
        // Nobody is there to be told when this fails, which the next look at the socket will show.
        let _ = self.writer.write_all(report.to_string().as_bytes()).await;
    }

    async fn obey(&mut self, line: &str) {
        match Order::parse(line) {
            Some(Order::Until(moment)) => self.until = moment,
            Some(Order::Signal(number)) => self.pass_on(number),
            Some(Order::Lost) if self.stopping.is_none() => self.stop().await,
            Some(Order::Lost) | None => {}
        }
    }

    /// What a terminal would send to a whole job goes to the whole group. The rest is the command's own: it would end
    /// processes that do not know of it.
    fn pass_on(&mut self, number: i32) {
        let Some(signal) = Signal::from_named_raw(number) else { return };
        match (self.orders.reach, signal) {
            (Reach::Session, _) => self.held_back.push((signal, Clock::Boot.now() + SETTLE)),
            (Reach::Group, Signal::USR1 | Signal::USR2) => self.signal_command(signal),
            (Reach::Group, _) => self.orders.reach.signal(signal),
        }
    }

    /// On a terminal `lockhouse`, this process and the command are one job. What came to this process as well came to
    /// all of them, as from the keyboard, and is not sent twice; the rest was meant for the command.
    fn pass_on_the_rest(&mut self, now: Moment) {
        let due: Vec<_> = self.held_back.extract_if(.., |(_, due)| *due <= now).collect();
        for (signal, due) in due {
            let came_to_all = |(other, at): &(Signal, Moment)| *other == signal && *at + SETTLE + SETTLE >= due;
            if !self.heard.iter().any(came_to_all) {
                self.signal_command(signal);
            }
        }
    }

    fn signal_command(&self, signal: Signal) {
        // The command is not reaped before `ended` is set, so its id is nobody else's.
        if self.ended.is_none() {
            let _ = rustix::process::kill_process(self.command, signal);
        }
    }

    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if pid == self.command {
                self.ended = Some(match (status.exit_status(), status.terminating_signal()) {
                    (Some(code), _) => Report::Exited(u8::try_from(code).unwrap_or(u8::MAX)),
                    (None, signal) => Report::Signaled(signal.unwrap_or(0)),
                });
            }
        }
    }

    /// The moment at which the command is killed at the latest.
    fn last_moment(&self) -> Moment {
        self.until - self.orders.margin
    }

    fn next_look(&self) -> Moment {
        let held_back = self.held_back.iter().map(|(_, due)| *due).min().unwrap_or(Moment::NEVER);
        self.next_deadline().min(held_back)
    }

    fn next_deadline(&self) -> Moment {
        match (self.stopping, self.orders.on_lost) {
            (Some(_), _) if self.ended.is_some() => Clock::Boot.now() + LOOK_AGAIN,
            (Some(kill_at), _) => kill_at,
            (None, OnLost::Term) => self.last_moment() - self.orders.grace,
            (None, OnLost::Kill) => self.last_moment(),
            (None, OnLost::Ignore) => Moment::NEVER,
        }
    }

    /// The time is up: for the lock, or for what was told to stop. The clock is asked again, since a look comes also
    /// when a renewal moved the end while we slept.
    async fn look(&mut self) {
        let now = Clock::Boot.now();
        self.pass_on_the_rest(now);
        match self.stopping {
            Some(kill_at) if now >= kill_at => self.kill().await,
            Some(_) => {}
            None if now >= self.next_deadline() => self.stop().await,
            None => {}
        }
    }

    async fn stop(&mut self) {
        if self.orders.on_lost == OnLost::Ignore {
            return;
        }
        if self.orders.on_lost == OnLost::Kill {
            // Told first, since this process may not be there any more afterwards.
            self.report(&Report::Stopping).await;
            return self.kill().await;
        }
        self.stopping = Some(self.last_moment().min(Clock::Boot.now() + self.orders.grace));
        self.orders.reach.signal(Signal::TERM);
        // One that is stopped could not clean up.
        self.orders.reach.signal(Signal::CONT);
        self.report(&Report::Stopping).await;
    }

    /// Ends every process of the command's. In its group, this one too: `lockhouse` knows what that means.
    async fn kill(&mut self) {
        self.stopping = Some(Moment::PAST);
        self.orders.reach.signal(Signal::KILL);
        while !self.orders.reach.others().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
            self.orders.reach.signal(Signal::KILL);
        }
        self.reap();
    }

    /// `lockhouse` is gone, and with it the lock, perhaps at once: there is no time for a grace.
    async fn orphaned(&mut self) {
        if self.orders.on_lost != OnLost::Ignore {
            self.kill().await;
        }
    }
}
