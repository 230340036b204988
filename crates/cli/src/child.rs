//! The command's life, from `lockhouse`'s side: it starts a warden, tells it how long the lock is held, and listens.

use std::io::{self, IsTerminal};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::pin::pin;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::complaint::{Complaint, Outcome};
use crate::control::{self, Order, Report};
use crate::exit::Exit;
use crate::holding::{Holding, Lost};
use crate::lifeline::Lifeline;
use crate::plan::Orders;
use crate::processes::{self, Reach};
use crate::signals::{self, Signals};
use crate::warden;

/// The warden is told of renewals this often in a lease: it is never much behind.
const BEATS_A_LEASE: u32 = 12;
/// How long killed processes may take to be gone before nobody waits for them any more: one that hangs in the kernel
/// cannot be waited for.
const LONGEST_DYING: Duration = Duration::from_secs(2);

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) exit: Exit,
    /// It was stopped since the lock was not certain any more.
    pub(crate) stopped: bool,
    /// The loss that was told while it ran.
    pub(crate) lost: Option<Lost>,
    /// We were told to end, and passed it on.
    pub(crate) told_to_end: bool,
}

/// Runs the command under the locks, until it ends or is ended.
pub(crate) async fn run(
    orders: &Orders,
    environment: &[(&str, String)],
    holding: &Holding,
    lifeline: Lifeline,
    signals: &mut Signals,
) -> Outcome<Ran> {
    let terminal = Terminal::remember();
    let (mut warden, socket) = start(orders, environment, holding).map_err(|error| {
        Complaint::new(Exit::CannotRun, format!("the process that runs the command cannot be started: {error}"))
            .help("ulimit -u and free memory: two processes are needed for each command")
    })?;
    let heard = attend(socket, orders, holding, lifeline, signals).await;
    if heard.ended.is_none() {
        // The warden is gone without a word: it killed the group it is in, or somebody killed it.
        bury(orders.reach, Pid::from_child(&warden)).await;
    }
    if heard.stopping || heard.ended.is_none() {
        terminal.restore();
    }
    // It has closed its socket, so it has ended or is about to.
    let _ = warden.wait();
    let exit = match heard.ended {
        Some(Report::Exited(code)) => Exit::Command(code),
        Some(Report::Signaled(signal)) => Exit::Signal(signal),
        Some(Report::NotStarted(missing, why)) => return Err(not_started(orders, missing, &why)),
        Some(Report::Stopping) | None => Exit::Signal(Signal::KILL.as_raw()),
    };
    Ok(Ran { exit, stopped: heard.stopping, lost: heard.lost, told_to_end: heard.told_to_end })
}

/// Starts this program once more, as a warden.
fn start(orders: &Orders, environment: &[(&str, String)], holding: &Holding) -> io::Result<(Child, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new(own_program()?);
    command.arg0("lh-warden").args(orders.arguments(holding.valid_until()));
    command.envs(environment.iter().map(|(key, value)| (key, value))).stdin(OwnedFd::from(theirs));
    match orders.reach {
        Reach::Group => drop(command.process_group(0)),
        Reach::Session => warden::adopt_orphans(),
    }
    let warden = command.spawn()?;
    control::send_file(&ours, io::stdin())?;
    Ok((warden, ours))
}

/// This very program, also when its file was replaced since it was started.
fn own_program() -> io::Result<PathBuf> {
    let itself = PathBuf::from("/proc/self/exe");
    if itself.exists() { Ok(itself) } else { std::env::current_exe() }
}

/// What was heard of the command.
#[derive(Default)]
struct Heard {
    stopping: bool,
    lost: Option<Lost>,
    told_to_end: bool,
    ended: Option<Report>,
}

/// Tells the warden, and those inside the command, of renewals, signals and losses until it has no more to say.
async fn attend(
    socket: UnixStream,
    orders: &Orders,
    holding: &Holding,
    mut lifeline: Lifeline,
    signals: &mut Signals,
) -> Heard {
    let mut heard = Heard::default();
    let nonblocking = socket.set_nonblocking(true).and_then(|()| tokio::net::UnixStream::from_std(socket));
    // Without a socket there is nothing to hear, and the warden, which sees it closed, ends the command.
    let Ok(socket) = nonblocking else { return heard };
    let (reader, mut writer) = socket.into_split();
    let mut lines = BufReader::new(reader).lines();
    let mut beat = tokio::time::interval(holding.ttl() / BEATS_A_LEASE);
    let mut told = holding.valid_until();
    let mut lost = pin!(holding.lost());
    loop {
        let order = tokio::select! {
            biased;
            line = lines.next_line() => match line.ok().flatten() {
                Some(line) => {
                    match Report::parse(&line) {
                        Some(Report::Stopping) => heard.stopping = true,
                        ended => heard.ended = ended,
                    }
                    continue;
                }
                None => return heard,
            },
            signal = signals.next() => {
                heard.told_to_end |= signals::is_end(signal);
                Order::Signal(signal.as_raw())
            }
            lost = &mut lost, if heard.lost.is_none() => {
                heard.lost = Some(lost);
                lifeline.cut();
                Order::Lost
            }
            _ = beat.tick() => {
                let until = holding.valid_until();
                if until <= told {
                    continue;
                }
                told = until;
                lifeline.tell(until);
                Order::Until(until)
            }
            caller = lifeline.called() => {
                lifeline.greet(caller, holding.valid_until());
                continue;
            }
        };
        // When it cannot be told, it is gone, which the next look at the socket will show.
        let _ = writer.write_all(order.to_string().as_bytes()).await;
        if orders.reach == Reach::Session && order == Order::Signal(Signal::TSTP.as_raw()) {
            // The shell waits until we stop as well.
            signals::stop_ourselves();
        }
    }
}

/// Ends what a warden left behind, and waits until it is gone.
async fn bury(reach: Reach, warden: Pid) {
    let started = Instant::now();
    loop {
        let left = match reach {
            // The warden is not waited for yet, so the number of its group is nobody else's.
            Reach::Group => {
                let _ = kill_process_group(warden, Signal::KILL);
                processes::in_group(warden)
            }
            Reach::Session => processes::descendants(rustix::process::getpid()),
        };
        let left: Vec<Pid> = left.into_iter().filter(|pid| *pid != warden).collect();
        if left.is_empty() || started.elapsed() > LONGEST_DYING {
            return;
        }
        processes::signal_each(&left, Signal::KILL);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn not_started(orders: &Orders, missing: bool, why: &str) -> Complaint {
    let program = orders.program().to_string_lossy();
    if missing {
        let help = match program.contains(char::is_whitespace) {
            true => format!("-c {program:?}, if it is a line of shell"),
            false => format!("command -v {program}, or -c 'LINE' for a line of shell"),
        };
        return Complaint::new(Exit::NotFound, format!("{program}: there is no such command")).help(help);
    }
    Complaint::new(Exit::CannotRun, format!("{program} cannot be run: {why}"))
        .help(format!("chmod +x {program}, or sh {program}"))
}

/// The state of the terminal: a command that was killed cannot put it back.
struct Terminal(Option<Termios>);

impl Terminal {
    fn remember() -> Self {
        Self(io::stdin().is_terminal().then(|| tcgetattr(io::stdin()).ok()).flatten())
    }

    fn restore(&self) {
        // In the background, changing the terminal would stop us.
        let ours = tcgetpgrp(io::stdin()).is_ok_and(|group| group == rustix::process::getpgrp());
        if let Some(state) = self.0.as_ref().filter(|_| ours) {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, state);
        }
    }
}
