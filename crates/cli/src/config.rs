//! The config file: named engines, and defaults for `run` and `elect`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::args::OnLost;
use crate::complaint::{Complaint, Outcome};
use crate::duration;

/// What the config file says. Everything in it is optional; what it does not know is refused.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// The engine to use: a URL, or one of `engines`.
    pub(crate) engine: Option<Secret>,
    pub(crate) run: Defaults,
    pub(crate) engines: BTreeMap<String, Entry>,
    /// Where it was read from; empty when there is none.
    #[serde(skip)]
    pub(crate) path: PathBuf,
}

/// The defaults of `run` and `elect`: a flag wins.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub(crate) struct Defaults {
    #[serde(deserialize_with = "time")]
    pub(crate) ttl: Option<Duration>,
    #[serde(deserialize_with = "time")]
    pub(crate) wait: Option<Duration>,
    #[serde(deserialize_with = "time")]
    pub(crate) grace: Option<Duration>,
    pub(crate) on_lost: Option<OnLost>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    pub(crate) url: Secret,
}

/// A URL that may carry a password: it is never shown as it is.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub(crate) struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    duration::parse(&text).map(Some).map_err(|help| serde::de::Error::custom(format!("{text:?} is not a time: {help}")))
}

impl Config {
    /// Reads the config file. One that is named must be there; the usual one need not.
    pub(crate) fn read(named: Option<&Path>) -> Outcome<Self> {
        let variable = || variable("LOCKHOUSE_CONFIG").map(PathBuf::from);
        let (path, must_exist) = match named.map(Path::to_owned).or_else(variable) {
            Some(path) => (path, true),
            None => match usual_path() {
                Some(path) => (path, false),
                None => return Ok(Self::default()),
            },
        };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !must_exist => return Ok(Self::default()),
            Err(error) => {
                let what = format!("the config file {} cannot be read: {error}", path.display());
                return Err(Complaint::config(what).help("--config with the path of a file that can be read"));
            }
        };
        let mut config = Self::parse(&text, &path)?;
        // A child may be started in another folder.
        config.path = std::path::absolute(&path).unwrap_or(path);
        Ok(config)
    }

    fn parse(text: &str, path: &Path) -> Outcome<Self> {
        toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            let what = format!("the config file {}, line {line}: {}", path.display(), discreet(error.message()));
            Complaint::config(what).help("engine, [run] ttl wait grace on-lost, [engines.NAME] url: see docs/cli.md")
        })
    }
}

/// A message that quotes a text quotes what may be a URL with a password.
fn discreet(message: &str) -> String {
    match (message.find("string \""), message.rfind('"')) {
        (Some(start), Some(end)) if start + 8 <= end => format!("{}text{}", &message[..start], &message[end + 1..]),
        _ => message.to_owned(),
    }
}

fn usual_path() -> Option<PathBuf> {
    let folder = variable("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = folder.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".config")))?;
    Some(folder.join("lockhouse/config.toml"))
}

/// An environment variable that is set and not empty.
#[expect(clippy::disallowed_methods, reason = "a command is configured by its environment")]
pub(crate) fn variable(key: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(key).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_file_is_read() {
        let text = "engine = 'prod'\n[run]\nttl = '10s'\non-lost = 'kill'\n[engines.prod]\nurl = 'memory:'\n";
        let config = Config::parse(text, Path::new("x")).unwrap();
        assert_eq!(config.run.ttl, Some(Duration::from_secs(10)));
        assert_eq!(config.run.on_lost, Some(OnLost::Kill));
        assert_eq!(config.engines["prod"].url.0, "memory:");
    }

    #[test]
    fn mistakes_are_told_with_their_line_and_without_secrets() {
        for (text, what) in [
            ("colour = 'red'", "line 1: unknown field `colour`"),
            ("[run]\nttl = '10'", "line 2: \"10\" is not a time"),
            ("[run]\nttl = ", "line 2"),
            ("[engines]\nprod = 'redis://:hunter2@host'", "line 2: invalid type: text, expected"),
        ] {
            let complaint = format!("{:?}", Config::parse(text, Path::new("x")).unwrap_err());
            assert!(complaint.contains(&what.replace('"', "\\\"")), "{complaint}");
            assert!(!complaint.contains("hunter2"), "{complaint}");
        }
    }
}
