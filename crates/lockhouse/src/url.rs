//! The URL of an engine.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use lockhouse_core::{Error, Kind, Result};

/// The URL of an engine, taken apart: `scheme:rest?option=value&…`.
///
/// What comes between the scheme and the options is the engine's own: a path, hosts, a database. `Display` and `Debug`
/// leave credentials out, so that a URL can be logged.
#[derive(Clone, PartialEq, Eq)]
pub struct EngineUrl {
    scheme: String,
    rest: String,
    options: BTreeMap<String, String>,
}

impl EngineUrl {
    /// Takes a URL apart.
    ///
    /// # Errors
    /// [`Kind::Invalid`] when it has no scheme, an option without a value or an option twice.
    pub fn parse(url: &str) -> Result<Self> {
        let (scheme, after) = url.split_once(':').filter(|(scheme, _)| is_scheme(scheme)).ok_or_else(|| {
            Error::new(
                Kind::Invalid,
                format!("{:?} is not the URL of an engine: it has no scheme", without_credentials(url)),
            )
            .help("write something like sqlite:locks.db, or redis://127.0.0.1")
        })?;
        let (rest, query) = after.split_once('?').unwrap_or((after, ""));
        let mut options = BTreeMap::new();
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let (key, value) = option.split_once('=').ok_or_else(|| {
                Error::new(Kind::Invalid, format!("the option {option:?} of the engine's URL has no value"))
                    .help(format!("write ?{option}=…"))
            })?;
            if options.insert(key.to_owned(), decode(value)?).is_some() {
                return Err(Error::new(Kind::Invalid, format!("the option {key:?} is in the engine's URL twice")));
            }
        }
        Ok(Self { scheme: scheme.to_ascii_lowercase(), rest: decode(rest)?, options })
    }

    /// What stands before the first colon, in lower case.
    #[must_use]
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// What stands between the scheme and the options.
    #[must_use]
    pub fn rest(&self) -> &str {
        &self.rest
    }

    /// An option's value.
    #[must_use]
    pub fn option(&self, key: &str) -> Option<&str> {
        self.options.get(key).map(String::as_str)
    }

    /// An option that is a length of time: `10s`, `1500ms`, `2m`.
    ///
    /// # Errors
    /// [`Kind::Invalid`] for what is none.
    pub fn duration(&self, key: &str) -> Result<Option<Duration>> {
        let Some(text) = self.option(key) else { return Ok(None) };
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let millis = match &text[digits.len()..] {
            "ms" => Some(1),
            "s" => Some(1000),
            "m" => Some(60_000),
            _ => None,
        };
        let millis = millis.zip(digits.parse::<u64>().ok()).and_then(|(unit, number)| number.checked_mul(unit));
        millis.map(|millis| Some(Duration::from_millis(millis))).ok_or_else(|| {
            Error::new(Kind::Invalid, format!("the option {key}={text} is not a length of time"))
                .help(format!("write {key}=10s, or {key}=1500ms"))
        })
    }

    /// What is in the file that an option names.
    ///
    /// # Errors
    /// [`Kind::Invalid`] for one that cannot be read.
    pub fn file(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let Some(path) = self.option(key) else { return Ok(None) };
        std::fs::read(path).map(Some).map_err(|error| {
            Error::new(Kind::Invalid, format!("the file {path:?} of the option {key:?} cannot be read")).because(error)
        })
    }

    /// Refuses options that the engine does not have.
    ///
    /// # Errors
    /// [`Kind::Invalid`] with the list of those it has.
    pub fn only(&self, known: &[&str]) -> Result<()> {
        let Some(unknown) = self.options.keys().find(|key| !known.contains(&key.as_str())) else { return Ok(()) };
        let help = match known {
            [] => "it has none".to_owned(),
            known => format!("it has {}", known.join(", ")),
        };
        Err(Error::new(Kind::Invalid, format!("the engine {} has no option {unknown:?}", self.scheme)).help(help))
    }
}

fn is_scheme(scheme: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '+';
    scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(letters)
}

/// Takes `%41` for `A`.
fn decode(text: &str) -> Result<String> {
    let invalid = || {
        Error::new(Kind::Invalid, format!("{text:?} in the engine's URL has a % that is not followed by two digits"))
            .help("write %25 for a percent sign")
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (code, after) = rest.split_at_checked(2).ok_or_else(invalid)?;
        let code = std::str::from_utf8(code).ok().filter(|code| code.bytes().all(|byte| byte.is_ascii_hexdigit()));
        bytes.push(code.and_then(|code| u8::from_str_radix(code, 16).ok()).ok_or_else(invalid)?);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|error| invalid().because(error))
}

/// The URL with what stands between `//` and `@` left out.
fn without_credentials(url: &str) -> String {
    match (url.find("//"), url.rfind('@')) {
        (Some(start), Some(end)) if start < end => format!("{}//…{}", &url[..start], &url[end..]),
        _ => url.to_owned(),
    }
}

impl fmt::Display for EngineUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.scheme, without_credentials(&self.rest))?;
        for (at, (key, value)) in self.options.iter().enumerate() {
            let secret = ["password", "token", "user"].contains(&key.as_str());
            let value = if secret { "…" } else { value };
            write!(f, "{}{key}={value}", if at == 0 { '?' } else { '&' })?;
        }
        Ok(())
    }
}

impl fmt::Debug for EngineUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        let url = EngineUrl::parse("sqlite:/var/lib/a%20b.db?prefix=jobs%2F").unwrap();
        assert_eq!((url.scheme(), url.rest(), url.option("prefix")), ("sqlite", "/var/lib/a b.db", Some("jobs/")));
    }

    #[test]
    fn a_length_of_time_has_a_unit() {
        let url = |session: &str| EngineUrl::parse(&format!("zookeeper://host?session={session}")).unwrap();
        for (text, millis) in [("10s", 10_000), ("1500ms", 1500), ("2m", 120_000)] {
            assert_eq!(url(text).duration("session").unwrap(), Some(Duration::from_millis(millis)));
        }
        assert_eq!(url("1s").duration("other").unwrap(), None);
        for text in ["10", "s", "-1s", "1h", "99999999999999999999s", "99999999999999999s"] {
            assert_eq!(url(text).duration("session").unwrap_err().kind(), Kind::Invalid, "{text}");
        }
    }

    #[test]
    fn credentials_are_not_shown() {
        let url = EngineUrl::parse("redis://alice:s3cret@host:6379/0?password=hunter2").unwrap();
        assert_eq!(url.to_string(), "redis://…@host:6379/0?password=…");
        let error = EngineUrl::parse("//alice:s3cret@host").unwrap_err();
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }

    #[test]
    fn mistakes_are_told_with_what_to_write() {
        for (url, what) in [
            ("locks.db", "no scheme"),
            ("sqlite:x?prefix", "no value"),
            ("sqlite:x?a=1&a=2", "twice"),
            ("sqlite:x%2", "two digits"),
            ("sqlite:x%zz", "two digits"),
        ] {
            let error = EngineUrl::parse(url).unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid);
            assert!(error.to_string().contains(what), "{error}");
        }
        let error = EngineUrl::parse("sqlite:x?colour=red").unwrap().only(&["prefix"]).unwrap_err();
        assert_eq!(error.to_string(), "the engine sqlite has no option \"colour\"; it has prefix");
    }
}
