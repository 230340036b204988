//! From a name to its node and back.
//!
//! A name with slashes nests, as ZooKeeper's own tools expect: `orders/42` is `/root/orders/42`. What ZooKeeper forbids
//! in a path, or what would be taken for something else, is written as `%` and hexadecimal digits.

use lockhouse_core::{Error, Kind, Name, Result};

use crate::error::ENGINE;
use crate::node::Node;

/// The node of the cells. No part of a name is written like this: `%` is followed by upper-case digits there.
const CELLS: &str = "%cells";
/// What ZooKeeper keeps for itself, directly below its root.
const RESERVED: &str = "zookeeper";

/// Where the nodes of a client are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Paths {
    /// Empty, or a path that does not end with a slash.
    root: String,
}

impl Paths {
    /// Everything below this path: empty, `/`, or `/locks`.
    pub(crate) fn new(root: &str) -> Result<Self> {
        let root = root.trim_end_matches('/');
        let sound = |part: &str| !part.is_empty() && part != "." && part != ".." && part.chars().all(is_allowed);
        let reserved = root == format!("/{RESERVED}") || root.starts_with(&format!("/{RESERVED}/"));
        if !root.is_empty() && (reserved || !root.starts_with('/') || !root[1..].split('/').all(sound)) {
            return Err(Error::new(Kind::Invalid, format!("{root:?} is not a path that ZooKeeper permits"))
                .help("write zookeeper://host:2181/locks")
                .engine(ENGINE));
        }
        Ok(Self { root: root.to_owned() })
    }

    /// The node that everything is below.
    pub(crate) fn root(&self) -> &str {
        if self.root.is_empty() { "/" } else { &self.root }
    }

    /// The node whose children are the claims on a name.
    pub(crate) fn line(&self, name: &Name) -> String {
        let mut path = self.root.clone();
        for (depth, part) in name.as_str().split('/').enumerate() {
            path.push('/');
            let reserved = depth == 0 && self.root.is_empty() && part == RESERVED;
            write_part(&mut path, part, reserved);
        }
        path
    }

    /// The node of a cell: all in one part, so that `a` and `a/b` are independent.
    pub(crate) fn cell(&self, name: &Name) -> String {
        let mut path = format!("{}/{CELLS}/", self.root);
        write_part(&mut path, name.as_str(), false);
        path
    }

    /// The start of a node that is made and deleted to learn the time.
    pub(crate) fn clock(&self) -> String {
        format!("{}/%clock-", self.root)
    }

    /// The name of one more part below a name, as it is written in a path; `None` for what is no name of ours.
    pub(crate) fn below(&self, name: Option<&str>, part: &str) -> Option<String> {
        let foreign = part == CELLS || (name.is_none() && self.root.is_empty() && part == RESERVED);
        let part = (!foreign && Node::parse(part).is_none()).then(|| read_part(part)).flatten()?;
        Some(match name {
            Some(name) => format!("{name}/{part}"),
            None => part,
        })
    }
}

/// The nodes that must be there before a path can be: its ancestors, the highest first, and the path itself.
pub(crate) fn ancestry(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').skip(1).map(|(at, _)| &path[..at]).chain(std::iter::once(path))
}

/// ZooKeeper checks UTF-16 units, so that nothing from the first surrogate on is permitted, emoji included.
fn is_allowed(char: char) -> bool {
    !char.is_control() && u32::from(char) < 0xd800
}

fn write_part(path: &mut String, part: &str, reserved: bool) {
    if part.is_empty() {
        // Nothing else is written as a percent sign alone.
        path.push('%');
        return;
    }
    // What looks like a claim, or is reserved, no longer does when its first character is written in digits.
    let disguise = reserved || part == "." || part == ".." || Node::parse(part).is_some();
    for (at, char) in part.chars().enumerate() {
        if is_allowed(char) && char != '%' && char != '/' && !(disguise && at == 0) {
            path.push(char);
        } else {
            let mut bytes = [0; 4];
            char.encode_utf8(&mut bytes).bytes().for_each(|byte| path.push_str(&format!("%{byte:02X}")));
        }
    }
}

fn read_part(part: &str) -> Option<String> {
    if part == "%" {
        return Some(String::new());
    }
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: u8| char::from(byte).to_digit(16).filter(|_| !byte.is_ascii_lowercase());
        match byte {
            b'%' => bytes.push(u8::try_from(digit(rest.next()?)? * 16 + digit(rest.next()?)?).ok()?),
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(root: &str, name: &str) -> String {
        Paths::new(root).unwrap().line(&Name::new(name).unwrap())
    }

    /// The name of a path, read part by part.
    fn name(root: &str, path: &str) -> Option<String> {
        let paths = Paths::new(root).unwrap();
        let below = path.strip_prefix(root.trim_end_matches('/'))?.strip_prefix('/')?;
        below.split('/').try_fold(None, |name: Option<String>, part| paths.below(name.as_deref(), part).map(Some))?
    }

    #[test]
    fn plain_names_are_written_as_they_are() {
        assert_eq!(line("/locks/", "orders/42"), "/locks/orders/42");
        assert_eq!(line("", "caf\u{e9} 1"), "/caf\u{e9} 1");
        assert_eq!(ancestry("/a/b/c").collect::<Vec<_>>(), ["/a", "/a/b", "/a/b/c"]);
    }

    #[test]
    fn what_zookeeper_forbids_or_would_mistake_is_written_otherwise() {
        for (name, path) in [
            (".", "/%2E"),
            ("a/..", "/a/%2E."),
            ("a//b", "/a/%/b"),
            ("/a/", "/%/a/%"),
            ("a%2Fb", "/a%252Fb"),
            ("\u{1f512}", "/%F0%9F%94%92"),
            ("zookeeper/quota", "/%7Aookeeper/quota"),
            ("a/lock-0000000001", "/a/%6Cock-0000000001"),
        ] {
            assert_eq!(line("", name), path);
        }
        assert_eq!(line("/r", "zookeeper"), "/r/zookeeper");
    }

    #[test]
    fn roots_that_cannot_be_are_refused() {
        for root in ["locks", "/a//b", "/a/../b", "/zookeeper", "/zookeeper/x", "/\u{1f512}"] {
            assert_eq!(Paths::new(root).unwrap_err().kind(), Kind::Invalid, "{root}");
        }
        assert_eq!(Paths::new("/").unwrap().root(), "/");
    }

    proptest! {
        #[test]
        fn every_name_is_found_again(raw in "[a-z./%_\u{e000}\u{1f512}-]{1,12}", root in "(/|/r|/a/b)") {
            prop_assert_eq!(name(&root, &line(&root, &raw)), Some(raw));
        }
    }
}
