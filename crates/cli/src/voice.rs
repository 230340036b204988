//! What is said on standard error while a command goes on: one live line on a terminal, plain lines elsewhere.

use std::cell::Cell;
use std::io::{IsTerminal, Write};

use serde_json::Value;

use crate::table::clean;

/// Speaks on standard error.
#[derive(Debug)]
pub(crate) struct Voice {
    json: bool,
    quiet: bool,
    terminal: bool,
    /// A live line is on the screen.
    live: Cell<bool>,
}

impl Voice {
    pub(crate) fn new(json: bool, quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal() && !json;
        Self { json, quiet, terminal, live: Cell::new(false) }
    }

    /// Nothing is to be said.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Whether there is a line that can be written again and again.
    pub(crate) fn is_live(&self) -> bool {
        self.terminal && !self.quiet
    }

    /// One line, as text or as an object.
    pub(crate) fn say(&self, text: &str, object: &Value) {
        if self.quiet {
            return;
        }
        self.clear();
        let line = if self.json { format!("{object}\n") } else { format!("lockhouse: {}\n", clean(text)) };
        write(&line);
    }

    /// Writes the live line anew.
    pub(crate) fn show(&self, text: &str) {
        let size = rustix::termios::tcgetwinsize(std::io::stderr()).map_or(0, |size| usize::from(size.ws_col));
        // Zero is how a terminal says that it does not know.
        let columns = if size == 0 { 80 } else { size };
        // One column stays free: a full line would go on to the next one, and could not be taken back.
        let text: String = clean(text).chars().take(columns - 1).collect();
        write(&format!("\r\x1b[K{text}"));
        self.live.set(true);
    }

    /// Takes the live line off the screen.
    pub(crate) fn clear(&self) {
        if self.live.take() {
            write("\r\x1b[K");
        }
    }
}

fn write(text: &str) {
    // Nobody is left to tell when standard error is gone.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
