//! What a script is called with.
//!
//! Every lock makes two calls, so their words are written into few buffers, one behind the other.

use std::fmt::Display;
use std::io::Write;

use redis::{Cmd, RedisWrite};

use crate::keys::LineKeys;
use crate::life::Life;

/// The keys and arguments of one call.
#[derive(Debug)]
pub(crate) struct Call {
    keys: Words,
    arguments: Words,
}

/// Words one behind the other, and where each ends.
#[derive(Debug)]
struct Words {
    text: Vec<u8>,
    ends: Vec<usize>,
}

/// What the usual call needs: five keys, ten arguments, and names of a usual length. Longer ones are no problem.
const USUAL_TEXT: usize = 256;
const USUAL_WORDS: usize = 10;
/// What the driver puts before the keys: the verb, the script's hash, and the number of keys.
const BEFORE: usize = 64;

impl Call {
    /// A call without keys and arguments.
    pub(crate) fn new() -> Self {
        Self { keys: Words::new(), arguments: Words::new() }
    }

    /// The keys of one lock but for that of the newest token.
    pub(crate) fn line(self, line: &LineKeys) -> Self {
        self.key(&line.holder).key(line.claims()).key(line.waiters()).key(line.leases())
    }

    pub(crate) fn key(mut self, key: impl Display) -> Self {
        self.keys.show(key);
        self
    }

    pub(crate) fn bytes(mut self, argument: &[u8]) -> Self {
        self.arguments.push(argument);
        self
    }

    pub(crate) fn text(self, argument: &str) -> Self {
        self.bytes(argument.as_bytes())
    }

    pub(crate) fn show(mut self, argument: impl Display) -> Self {
        self.arguments.show(argument);
        self
    }

    pub(crate) fn flag(self, argument: bool) -> Self {
        self.text(if argument { "1" } else { "0" })
    }

    /// The command that calls a script: the process that the connection leads to is put before the arguments.
    pub(crate) fn command(&self, verb: &str, script: &str, life: &Life) -> Cmd {
        let words = self.keys.ends.len() + self.arguments.ends.len() + 5;
        let length = BEFORE + script.len() + self.keys.text.len() + life.run_id.len() + self.arguments.text.len();
        let mut command = Cmd::with_capacity(words, length);
        command.arg(verb).arg(script).arg(self.keys.ends.len());
        self.keys.each().for_each(|key| command.write_arg(key));
        command.arg(&life.run_id).arg(life.started);
        self.arguments.each().for_each(|argument| command.write_arg(argument));
        command
    }
}

impl Words {
    fn new() -> Self {
        Self { text: Vec::with_capacity(USUAL_TEXT), ends: Vec::with_capacity(USUAL_WORDS) }
    }

    fn push(&mut self, word: &[u8]) {
        self.text.extend_from_slice(word);
        self.ends.push(self.text.len());
    }

    fn show(&mut self, word: impl Display) {
        write!(self.text, "{word}").expect("memory takes everything");
        self.ends.push(self.text.len());
    }

    fn each(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, end)| &self.text[begin..*end])
    }
}

#[cfg(test)]
mod tests {
    use lockhouse_core::Name;

    use super::*;
    use crate::keys::Keys;

    #[test]
    fn a_call_says_its_words_in_the_order_of_the_scripts() {
        let name = Name::new("a").unwrap();
        let keys = Keys::new("p:").unwrap();
        let call = Call::new().line(&keys.line(&name)).key(keys.counter(&name)).show(7).text("").bytes(&[0]).flag(true);
        let life = Life { run_id: "run".into(), started: 1 };
        let packed = call.command("EVALSHA", "hash", &life).get_packed_command();
        let mut expected = cmd_of(&["EVALSHA", "hash", "5", "p:a", "{p:a}\tclaims", "{p:a}\twaiters", "{p:a}\tleases"]);
        expected.arg(&["p:\ttokens", "run", "1", "7", "", "\0", "1"]);
        assert_eq!(packed, expected.get_packed_command());
    }

    fn cmd_of(words: &[&str]) -> Cmd {
        let mut command = Cmd::new();
        command.arg(words);
        command
    }
}
