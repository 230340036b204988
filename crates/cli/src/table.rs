//! Data on standard output: tables with aligned columns, and colour only on a terminal.

use std::io::{ErrorKind, IsTerminal, Write};

use crate::complaint::{Complaint, Outcome};
use crate::config::variable;
use crate::exit::Exit;

/// Rows under a heading.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(heading: &[&str]) -> Self {
        Self { rows: vec![heading.iter().map(|&title| title.to_owned()).collect()] }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| clean(&cell)).collect());
    }

    /// The table as lines, the heading bold where that is wanted.
    pub(crate) fn text(&self, colour: bool) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |at: usize| self.rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max();
        let widths: Vec<usize> = (0..columns).map(|at| width(at).unwrap_or(0)).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        let mut lines = self.rows.iter().map(line);
        let heading = lines.next().unwrap_or_default();
        let heading = if colour { format!("\x1b[1m{heading}\x1b[0m") } else { heading };
        std::iter::once(heading).chain(lines).map(|line| line + "\n").collect()
    }
}

/// A control character in somebody's note or owner must not reach the terminal of whoever looks.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Whether standard output is to be coloured.
pub(crate) fn colour() -> bool {
    std::io::stdout().is_terminal() && variable("NO_COLOR").is_none()
}

/// Writes to standard output. A reader that has seen enough is no error.
pub(crate) fn print(text: impl AsRef<[u8]>) -> Outcome<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_ref()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Complaint::new(Exit::Unreachable, format!("standard output cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_nothing_escapes() {
        let mut table = Table::new(&["NAME", "NOTE"]);
        table.row(["é".to_owned(), "\x1b[31m".to_owned()]);
        assert_eq!(table.text(false), "NAME  NOTE\né      [31m\n");
        assert!(table.text(true).starts_with("\x1b[1mNAME"));
    }
}
