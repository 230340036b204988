//! The sizes of files and functions.

use super::Finding;
use super::masking::{is_word, line_of, words};
use super::tree::Tree;

/// A file is 80 to 250 lines, and never more than this.
const FILE_LINES: usize = 400;
const FUNCTION_LINES: usize = 70;

pub(super) fn files(tree: &Tree) -> Vec<Finding> {
    let too_long =
        tree.texts("rs").map(|text| (text, text.text.lines().count())).filter(|(_, lines)| *lines > FILE_LINES);
    too_long
        .map(|(text, lines)| {
            Finding::new(&text.path, lines, format!("the file has {lines} lines, {FILE_LINES} is the most"))
        })
        .collect()
}

pub(super) fn functions(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for text in tree.texts("rs") {
        for function in functions_in(&text.masked.code) {
            if function.lines > FUNCTION_LINES {
                let what = format!("`{}` has {} lines, {FUNCTION_LINES} is the most", function.name, function.lines);
                findings.push(Finding::new(&text.path, function.line, what));
            }
        }
    }
    findings
}

#[derive(Debug, PartialEq, Eq)]
struct Function<'a> {
    name: &'a str,
    line: usize,
    /// From its first line to its closing brace.
    lines: usize,
}

fn functions_in(code: &str) -> Vec<Function<'_>> {
    let macros: Vec<(usize, usize)> = words(code, "macro_rules").filter_map(|at| Some((at, body(code, at)?))).collect();
    // A macro's body is a pattern for code elsewhere: its functions are not this file's.
    let in_macro = |at: usize| macros.iter().any(|(start, end)| (*start..*end).contains(&at));
    let mut functions = Vec::new();
    for at in words(code, "fn").filter(|&at| !in_macro(at)) {
        let after = code[at + 2..].trim_start();
        let length = after.find(|letter| !is_word(letter)).unwrap_or(after.len());
        // `fn(u8)` is a type, and a declaration in a trait has no body.
        if length > 0
            && let Some(end) = body(code, at)
        {
            let lines = code[at..end].matches('\n').count() + 1;
            functions.push(Function { name: &after[..length], line: line_of(code, at), lines });
        }
    }
    functions
}

/// Where the body that begins after this place ends; `None` when a semicolon comes first.
fn body(code: &str, from: usize) -> Option<usize> {
    let (mut braces, mut others) = (0, 0);
    for (at, letter) in code[from..].char_indices() {
        match letter {
            '{' => braces += 1,
            '}' => {
                braces -= 1;
                if braces == 0 {
                    return Some(from + at + 1);
                }
            }
            '(' | '[' => others += 1,
            ')' | ']' => others -= 1,
            // Not the one in `[u8; 16]`.
            ';' if braces == 0 && others == 0 => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(code: &str) -> Vec<(&str, usize, usize)> {
        functions_in(code).iter().map(|function| (function.name, function.line, function.lines)).collect()
    }

    #[test]
    fn functions_are_found_with_their_lengths() {
        assert_eq!(
            found("fn a() {}\n\npub async fn b(x: [u8; 4]) -> [u8; 4] {\n  {}\n}\n"),
            [("a", 1, 1), ("b", 3, 3)]
        );
        assert_eq!(found("trait T {\n fn a();\n fn b() {\n }\n}"), [("b", 3, 2)]);
        assert_eq!(found("const A: fn(u8) = b;\nfn c()\nwhere\n  T: U,\n{\n}"), [("c", 2, 5)]);
    }

    #[test]
    fn a_function_in_a_function_counts_for_both() {
        assert_eq!(found("fn a() {\n  fn b() {\n  }\n}"), [("a", 1, 4), ("b", 2, 2)]);
    }

    #[test]
    fn macro_bodies_are_left_out_and_what_follows_is_not() {
        assert_eq!(found("macro_rules! m {\n () => {\n fn a() {\n }\n };\n}\nfn b() {}"), [("b", 7, 1)]);
    }
}
