//! What there is to know about a server.
//!
//! Texts in braces stand for what is only known at the start: `{dir}` the server's temporary folder, `{port}`,
//! `{port2}`, `{port3}` free ports of the loopback interface, `{user}` who we are, and each program by its name.

use rustix::process::Signal;

/// One kind of server.
#[derive(Debug)]
pub(crate) struct Server {
    /// The name of its engine: the folder in `engines/`.
    pub(crate) name: &'static str,
    /// The variable that tells the tests where it is.
    pub(crate) variable: &'static str,
    /// What that variable is set to.
    pub(crate) url: &'static str,
    pub(crate) origin: Origin,
    pub(crate) programs: &'static [Program],
    /// The account to run it under when we are root, for a server that refuses root.
    pub(crate) account: Option<&'static str>,
    /// Files to write into its folder first: name and text.
    pub(crate) files: &'static [(&'static str, &'static str)],
    /// Commands to run to their end first.
    pub(crate) prepare: &'static [&'static [&'static str]],
    /// The server itself, in the foreground.
    pub(crate) start: &'static [&'static str],
    pub(crate) probe: Probe,
    /// The signal that ends it soonest without leaving something behind.
    pub(crate) stop: Signal,
    /// What the kernel sends it when we die without having ended it, as `setpriv` calls the signal.
    pub(crate) orphaned: &'static str,
}

/// Where a server that is not installed comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Origin {
    /// These packages of the system.
    Packages(&'static [&'static str]),
    /// A package of another Debian release, unpacked into a folder of the workspace; the system stays as it is.
    Unpacked { package: &'static str, suite: &'static str, into: &'static str },
}

/// A file that is needed to start a server.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    /// Where to look, best first: a bare name is looked for in `PATH`, a path may have one part that is `*`, and a path
    /// that is not absolute starts at the workspace.
    pub(crate) places: &'static [&'static str],
}

/// How to know that a server is ready: it gives a sensible answer.
#[derive(Debug)]
pub(crate) struct Probe {
    /// Sent after connecting to `{port}`. Empty for a server that speaks first.
    pub(crate) ask: &'static [u8],
    pub(crate) is_answer: fn(&[u8]) -> bool,
}
