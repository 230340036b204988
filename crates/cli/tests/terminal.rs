//! On a terminal: the command keeps it, the keyboard's signals reach it, and the wait is one live line.

mod house;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use house::{House, LOCKHOUSE, Started, lives, wait_for};
use rustix::pty::OpenptFlags;

/// A terminal with a shell command in its foreground.
struct Terminal {
    keyboard: File,
    screen: Arc<Mutex<String>>,
    shell: Started,
}

impl Terminal {
    /// Runs a line of shell in a session of its own with this terminal as its own.
    fn run(house: &House, line: &str) -> Self {
        let main = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        rustix::pty::grantpt(&main).unwrap();
        rustix::pty::unlockpt(&main).unwrap();
        let name = rustix::pty::ptsname(&main, Vec::new()).unwrap();
        let side: OwnedFd = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap().into();
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait", "sh", "-c", line]);
        house.settle(&mut command);
        let copy = || Stdio::from(side.try_clone().unwrap());
        let shell = Started(command.stdin(copy()).stdout(copy()).stderr(copy()).spawn().unwrap());
        let keyboard = File::from(main);
        let (screen, mut output) = (Arc::new(Mutex::new(String::new())), keyboard.try_clone().unwrap());
        let shown = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                shown.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Self { keyboard, screen, shell }
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    #[track_caller]
    fn wait_for(&self, text: &str) {
        wait_for(text, || self.screen.lock().unwrap().contains(text));
    }
}

const CTRL_C: &str = "\x03";
const CTRL_Z: &str = "\x1a";

#[test]
fn the_command_keeps_the_terminal() {
    let house = House::new();
    let line = "$LH run x -c 'test -t 0 && test -t 1 && test -t 2 && read word && echo got-$word'; echo code $?";
    let mut terminal = Terminal::run(&house, line);
    terminal.press("hello\n");
    terminal.wait_for("got-hello");
    terminal.wait_for("code 0");
    assert!(terminal.shell.status().success());
}

#[test]
fn the_wait_is_one_live_line_and_ctrl_c_leaves_it_at_once() {
    let house = House::new();
    let mut holder = house.hold("x");
    let mut terminal = Terminal::run(&house, "trap : INT; $LH run x -- true; echo code $?");
    terminal.wait_for("waiting for x for 1s, 1 ahead, held by tester@");
    assert!(terminal.screen.lock().unwrap().contains("\r\x1b[K"));
    assert!(!terminal.screen.lock().unwrap().contains('\n'));
    terminal.press(CTRL_C);
    terminal.wait_for("code 130");
    assert_eq!(house.count("x", "waits"), 0);
    house.touch("go");
    assert_eq!(holder.code(), 0);
}

#[test]
fn ctrl_c_reaches_the_command_once() {
    let house = House::new();
    let inner = "trap \"echo got >> got; sleep 0.3; exit 7\" INT; touch started; while :; do sleep 0.02; done";
    let mut terminal = Terminal::run(&house, &format!("trap : INT; $LH run x -c '{inner}'; echo code $?"));
    house.wait_for_file("started");
    terminal.press(CTRL_C);
    terminal.wait_for("code 7");
    assert_eq!(house.read("got"), "got\n");
}

#[test]
fn a_signal_to_lockhouse_alone_reaches_the_command_too() {
    let house = House::new();
    let inner = "trap \"exit 7\" INT; ps -o ppid= -p $PPID > lockhouse; while :; do sleep 0.02; done";
    let terminal = Terminal::run(&house, &format!("$LH run x -c '{inner}'; echo code $?"));
    let lockhouse = rustix::process::Pid::from_raw(house.pid("lockhouse")).unwrap();
    rustix::process::kill_process(lockhouse, rustix::process::Signal::INT).unwrap();
    terminal.wait_for("code 7");
}

#[test]
fn ctrl_z_stops_the_job_and_a_job_that_is_stopped_past_its_lease_does_not_come_back() {
    let house = House::new();
    // `-m` gives the job a group of its own, as an interactive shell does.
    let inner = "echo $$ > child; while :; do sleep 0.02; done";
    let line = format!(
        "set -m; $LH run x --ttl 2s -c '{inner}'; echo stopped $?; \
         until [ -e go ]; do sleep 0.02; done; fg; echo code $?"
    );
    let mut terminal = Terminal::run(&house, &line);
    let child = house.pid("child");
    terminal.press(CTRL_Z);
    // Stopped by SIGSTOP: the SIGTSTP of the keyboard was caught.
    terminal.wait_for("stopped 147");
    let next = house.output(&["run", "x", "-c", &format!("kill -0 {child} && echo overlap")]);
    assert_eq!(String::from_utf8_lossy(&next.stdout), "");
    wait_for("the command is gone", || !lives(child));
    house.touch("go");
    terminal.wait_for("code 74");
}

#[test]
fn a_loss_ends_every_job_of_a_shell_on_the_terminal() {
    let house = House::new();
    // Every background job of this shell has a process group of its own.
    let inner =
        "set -m; sh -c \"trap : TERM; echo \\$\\$ > grandchild; while :; do sleep 0.1; done\" & echo $$ > child; wait";
    let terminal = Terminal::run(&house, &format!("$LH run x --ttl 2s --grace 200ms -c '{inner}'; echo code $?"));
    let family = [house.pid("child"), house.pid("grandchild")];
    assert_eq!(house.code(&["evict", "x"]), 0);
    terminal.wait_for("code 74");
    assert_eq!(family.map(lives), [false, false]);
}

#[test]
fn evict_asks_first() {
    let house = House::new();
    let mut holder = house.hold("x");
    let mut terminal = Terminal::run(&house, "$LH evict x; echo code $?");
    terminal.wait_for("[y/N] ");
    terminal.press("n\n");
    terminal.wait_for("code 0");
    assert_eq!(house.count("x", "holds"), 1);
    house.touch("go");
    assert_eq!(holder.code(), 0);
}

#[test]
fn colour_is_for_terminals_and_no_color_is_respected() {
    let house = House::new();
    let terminal = Terminal::run(&house, "$LH ls; echo; NO_COLOR=1 $LH ls; echo end");
    terminal.wait_for("end");
    let screen = terminal.screen.lock().unwrap().clone();
    assert_eq!(screen.matches("\x1b[1mNAME").count(), 1, "{screen}");
    assert_eq!(screen.matches("NAME").count(), 2, "{LOCKHOUSE}: {screen}");
}
