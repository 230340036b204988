//! Rust with its code, its comments and its literals told apart.
//!
//! This is not a parser: it knows just enough of the language not to take a word in a string or a comment for code.

/// The same text three times, line for line.
#[derive(Debug, Default)]
pub(super) struct Masked {
    /// Comments and the insides of literals are blank.
    pub(super) code: String,
    /// All but comments is blank.
    pub(super) comments: String,
    /// The insides of literals are taken out.
    pub(super) unquoted: String,
}

/// What a stretch of text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

pub(super) fn mask(text: &str) -> Masked {
    let mut masked = Masked::default();
    let mut rest = text;
    let mut before = ' ';
    while let Some(first) = rest.chars().next() {
        let (kind, length) = stretch(rest, first, before);
        let (part, after) = rest.split_at(length);
        for letter in part.chars() {
            let blank = if letter == '\n' { '\n' } else { ' ' };
            masked.code.push(if kind == Kind::Code { letter } else { blank });
            masked.comments.push(if kind == Kind::Comment { letter } else { blank });
            if kind != Kind::Literal || letter == '\n' {
                masked.unquoted.push(letter);
            }
        }
        before = part.chars().next_back().unwrap_or(before);
        rest = after;
    }
    masked
}

/// The kind of what the text starts with, and its length in bytes.
fn stretch(text: &str, first: char, before: char) -> (Kind, usize) {
    if text.starts_with("//") {
        return (Kind::Comment, text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return (Kind::Comment, block_comment(text));
    }
    if first == '"' {
        return (Kind::Literal, quoted(text, '"'));
    }
    if first == '\'' {
        return character(text).map_or((Kind::Code, 1), |length| (Kind::Literal, length));
    }
    // `r`, `br` and `cr` start a raw string unless they end a longer word.
    if first == 'r'
        && (!is_word(before) || matches!(before, 'b' | 'c'))
        && let Some(length) = raw_string(text)
    {
        return (Kind::Literal, length);
    }
    (Kind::Code, first.len_utf8())
}

/// Block comments nest.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

fn quoted(text: &str, end: char) -> usize {
    let mut letters = text.char_indices().skip(1);
    while let Some((at, letter)) = letters.next() {
        if letter == '\\' {
            letters.next();
        } else if letter == end {
            return at + end.len_utf8();
        }
    }
    text.len()
}

/// `'a'` and `'\n'` are literals; `'a` is a lifetime, or a label.
fn character(text: &str) -> Option<usize> {
    let mut letters = text.chars().skip(1);
    let (first, second) = (letters.next()?, letters.next());
    (first == '\\' || second == Some('\'')).then(|| quoted(text, '\''))
}

fn raw_string(text: &str) -> Option<usize> {
    let hashes = text[1..].chars().take_while(|&letter| letter == '#').count();
    let inside = text[1 + hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let start = text.len() - inside.len();
    Some(inside.find(&end).map_or(text.len(), |at| start + at + end.len()))
}

pub(super) fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Where a word stands by itself, in bytes.
pub(super) fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> {
    text.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// The number of the line that this byte is in.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        mask(text).code.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn strings_and_comments_are_not_code() {
        assert_eq!(code("a // b\nc"), "a c");
        assert_eq!(code("a /* b /* c */ d */ e"), "a e");
        assert_eq!(code(r#"a("b \" { c") d"#), "a( ) d");
        assert_eq!(code("a(r#\"b \" c\"#) br\"}\" d"), "a( ) b d");
        assert_eq!(code("a('{') '\\'' b"), "a( ) b");
        assert_eq!(code("for<'a> &'a str"), "for<'a> &'a str");
        assert_eq!(code("\"// no comment\" a"), "a");
    }

    #[test]
    fn comments_alone() {
        assert_eq!(mask("a; // b \"c\"\nd").comments.trim(), "// b \"c\"");
        assert_eq!(mask("\"// a\"").comments.trim(), "");
    }

    #[test]
    fn lines_stay_lines_and_an_open_end_is_no_panic() {
        for text in ["a\n\"b\nc\"\n// d\n/* e\nf */\ng\n", "\"a\nb", "r#\"a\n", "/* a\n", "'", "'\\", "r"] {
            let masked = mask(text);
            for same in [&masked.code, &masked.comments, &masked.unquoted] {
                assert_eq!(same.matches('\n').count(), text.matches('\n').count(), "{text}");
            }
        }
    }

    #[test]
    fn words_stand_by_themselves() {
        assert_eq!(words("fn often fn_ fn(", "fn").collect::<Vec<_>>(), [0, 13]);
    }
}
