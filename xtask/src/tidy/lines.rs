//! The lengths of lines.

use super::Finding;
use super::tree::Tree;

const LETTERS: usize = 120;

pub(super) fn length(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for text in tree.texts("rs") {
        for (number, (line, unquoted)) in text.text.lines().zip(text.masked.unquoted.lines()).enumerate() {
            if counted(unquoted) > LETTERS {
                let what = format!("the line has {} characters, {LETTERS} is the most", line.chars().count());
                findings.push(Finding::new(&text.path, number + 1, what));
            }
        }
    }
    findings
}

/// The letters of a line without its addresses.
fn counted(line: &str) -> usize {
    let length = |word: &str| if word.contains("://") { 0 } else { word.chars().count() };
    line.split(' ').map(|word| length(word) + 1).sum::<usize>() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_counted_and_addresses_are_not() {
        assert_eq!(counted("ab  cdé"), 7);
        assert_eq!(counted("/// see https://example.org/a/very/long/address."), 8);
        assert_eq!(counted(""), 0);
    }
}
