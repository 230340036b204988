//! Real servers of the tests' own: started on free ports, stopped and started again, ended with the test process.

use std::fmt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockhouse_core::Clock;
use rustix::process::{Pid, Signal, kill_process};

/// A server that a test started. Ended when it is dropped, and at the latest when the test process ends.
pub struct Program {
    launch: Box<dyn Fn() -> Command + Send + Sync>,
    child: Mutex<Child>,
}

/// How often a server that starts is asked whether it is up.
const ASK_EVERY: Duration = Duration::from_millis(10);

impl Program {
    /// Starts what `launch` describes: a command made by [`bound`]. It is asked for it again by every restart.
    pub fn start(launch: impl Fn() -> Command + Send + Sync + 'static) -> Self {
        let child = Mutex::new(spawn(launch()));
        Self { launch: Box::new(launch), child }
    }

    /// Waits until the server says that it is up. `false` when it ended, or the time is over.
    pub fn answers(&self, within: Duration, mut says_so: impl FnMut() -> bool) -> bool {
        let begun = Clock::Boot.now();
        while self.is_up() && Clock::Boot.now().since(begun) < within {
            if says_so() {
                // Somebody else's server may have answered, on the port that ours could not have.
                return self.is_up();
            }
            std::thread::sleep(ASK_EVERY);
        }
        false
    }

    /// Whether it runs, or stands still.
    pub fn is_up(&self) -> bool {
        self.child().try_wait().expect("it is our child").is_none()
    }

    /// Its process id.
    pub fn id(&self) -> Pid {
        Pid::from_raw(self.child().id().cast_signed()).expect("a process id is not 0")
    }

    /// Sends it a signal, if it runs.
    pub fn signal(&self, signal: Signal) {
        // Nobody else can have its id while it was not waited for.
        if self.is_up() {
            kill_process(self.id(), signal).expect("it is our child");
        }
    }

    /// Ends it without warning.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
        self.wait();
    }

    /// Waits until it ended.
    pub fn wait(&self) -> ExitStatus {
        self.child().wait().expect("it is our child")
    }

    /// Starts it again, as it was started first.
    ///
    /// # Panics
    /// While it still runs.
    pub fn restart(&self) {
        assert!(!self.is_up(), "it still runs");
        *self.child() = spawn((self.launch)());
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("id", &self.id()).finish_non_exhaustive()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// A command for a program that the kernel ends when the thread that started it ends: see [`spawn`]. It has no input
/// and says nothing.
pub fn bound(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", program]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Starts a program on a thread that lives as long as this process.
///
/// # Panics
/// When it cannot be started.
pub fn spawn(command: Command) -> Child {
    type Order = (Command, Sender<Child>);
    static STARTER: LazyLock<Mutex<Sender<Order>>> = LazyLock::new(|| {
        let (sender, orders) = channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, answer) in orders {
                let child = command.spawn().unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"));
                let _ = answer.send(child);
            }
        });
        Mutex::new(sender)
    });
    let (sender, child) = channel();
    let starter = STARTER.lock().unwrap_or_else(PoisonError::into_inner).clone();
    starter.send((command, sender)).expect("a program before this one could not be started");
    child.recv().expect("the program can be started")
}

/// The address, without the scheme, of a server that was given to the tests by such as `LOCKHOUSE_TEST_REDIS`.
#[expect(clippy::disallowed_methods, reason = "tests are told of a server by the environment")]
pub fn given(variable: &str) -> Option<String> {
    let url = std::env::var(variable).ok()?;
    Some(url.split_once(':').map_or(url.as_str(), |(_, address)| address).to_owned())
}
