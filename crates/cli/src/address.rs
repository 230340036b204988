//! Which engine: a flag, a variable, the config file, or the embedded file in the user's state folder.

use std::path::{Path, PathBuf};

use lockhouse::{EngineUrl, Kind, Locks};

use crate::complaint::{Complaint, Outcome};
use crate::config::{Config, variable};
use crate::exit::Exit;

/// The engine that was chosen.
pub(crate) struct Address {
    url: String,
    /// What the command's own `lockhouse` needs to find the same engine: the name of a config entry, or the URL as it
    /// was given. It never carries a password that the environment did not carry before.
    pub(crate) handed_on: String,
    /// Who is to be told when it is wrong.
    blame: Exit,
}

impl Address {
    /// Chooses the engine. `given` is what the command line says.
    pub(crate) fn choose(given: Option<&str>, config: &Config) -> Outcome<Self> {
        if let Some(given) = given {
            if has_password(given) {
                let what = "a password on the command line can be read by everybody on this machine";
                return Err(
                    Complaint::usage(what).help("LOCKHOUSE_ENGINE=URL, or a config file with [engines.NAME] url")
                );
            }
            return Self::resolve(given, config, Exit::Usage);
        }
        if let Some(value) = variable("LOCKHOUSE_ENGINE") {
            let value = value.into_string().map_err(|_| Complaint::config("LOCKHOUSE_ENGINE is not UTF-8"))?;
            return Self::resolve(&value, config, Exit::Config);
        }
        if let Some(engine) = &config.engine {
            let chosen = Self::resolve(&engine.0, config, Exit::Config)?;
            // The child reads the same config file, and finds the same there.
            let handed_on = if has_password(&engine.0) { String::new() } else { chosen.handed_on };
            return Ok(Self { handed_on, ..chosen });
        }
        Self::embedded()
    }

    /// A URL as it is, or the name of an entry of the config file.
    fn resolve(value: &str, config: &Config, blame: Exit) -> Outcome<Self> {
        if value.contains(':') {
            let url = absolute(value)?;
            return Ok(Self { handed_on: url.clone(), url, blame });
        }
        let Some(entry) = config.engines.get(value) else {
            let known: Vec<&str> = config.engines.keys().map(String::as_str).collect();
            let what = match known.as_slice() {
                [] => format!("there is no engine named {value:?}: the config file has none"),
                known => format!("there is no engine named {value:?}: the config file has {}", known.join(", ")),
            };
            let help = match known.as_slice() {
                _ if value.contains('/') => format!("sqlite:{value}, if it is a file"),
                [] => "a URL, such as sqlite:/var/lib/locks.db".to_owned(),
                _ => "one of these names, or a URL such as sqlite:/var/lib/locks.db".to_owned(),
            };
            return Err(Complaint::new(blame, what).help(help));
        };
        Ok(Self { url: absolute(&entry.url.0)?, handed_on: value.to_owned(), blame: Exit::Config })
    }

    /// The file in the user's state folder. The engine makes the folder when it is not there.
    fn embedded() -> Outcome<Self> {
        let folder = state_folder().ok_or_else(|| {
            Complaint::config("there is no place for the embedded file: neither HOME nor XDG_STATE_HOME is set")
                .help("LOCKHOUSE_ENGINE=sqlite:/var/lib/locks.db, or another place for the file")
        })?;
        let url = file_url(&folder.join("locks.db"))?;
        Ok(Self { handed_on: url.clone(), url, blame: Exit::Config })
    }

    /// Connects to it.
    pub(crate) async fn connect(&self) -> Outcome<Locks> {
        lockhouse::connect(&self.url).await.map_err(|error| {
            let ours = error.kind() == Kind::Invalid;
            let complaint = Complaint::from(error);
            if ours { complaint.exit(self.blame) } else { complaint }
        })
    }

    /// The statements that create what the engine needs, where it may not create it itself.
    pub(crate) fn statements(&self) -> Option<String> {
        lockhouse::statements(&self.url).ok().flatten()
    }

    /// The URL without its credentials, for people.
    pub(crate) fn shown(&self) -> String {
        EngineUrl::parse(&self.url).map_or_else(|_| "an engine".to_owned(), |url| url.to_string())
    }
}

fn state_folder() -> Option<PathBuf> {
    let folder = variable("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = folder.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".local/state")))?;
    Some(folder.join("lockhouse"))
}

/// The URL with the path of its file made absolute: the command may be started in, or go to, another folder.
fn absolute(url: &str) -> Outcome<String> {
    let Some(rest) = url.strip_prefix("sqlite:").filter(|rest| !rest.is_empty() && !rest.starts_with(['/', '?']))
    else {
        return Ok(url.to_owned());
    };
    let here = std::env::current_dir()
        .map_err(|error| Complaint::config(format!("the present folder cannot be read: {error}")))?;
    Ok(format!("{}/{rest}", file_url(&here)?.trim_end_matches('/')))
}

fn file_url(path: &Path) -> Outcome<String> {
    let text = path.to_str().ok_or_else(|| {
        let what = format!("the path {} is not UTF-8", path.display());
        Complaint::config(what).help("LOCKHOUSE_ENGINE=sqlite:/var/lib/locks.db, or another place for the file")
    })?;
    Ok(format!("sqlite:{}", text.replace('%', "%25").replace('?', "%3f")))
}

/// Whether a URL carries what must not be seen.
fn has_password(url: &str) -> bool {
    let authority = url.split_once("//").map_or("", |(_, rest)| rest.split(['/', '?']).next().unwrap_or_default());
    // The last @ ends the credentials: a password may contain one that is not escaped, and a / as well.
    let credentials = url.split_once("//").and_then(|(_, rest)| rest.rsplit_once('@')).map(|(before, _)| before);
    let in_authority = authority.rsplit_once('@').map(|(before, _)| before).or(credentials);
    let options = url.split_once('?').map_or("", |(_, query)| query);
    in_authority.is_some_and(|user| user.split_once(':').is_some_and(|(_, password)| !password.is_empty()))
        || options.split('&').any(|option| option.starts_with("password=") || option.starts_with("token="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_noticed() {
        for url in ["redis://:pw@host", "redis://u:p/w@host/0", "mysql://u:pw@host/db?x=1", "http://h?token=t"] {
            assert!(has_password(url), "{url}");
        }
        for url in
            ["redis://host:6379/0", "postgres://alice@host/db", "sqlite:/a@b:c", "memory:", "zookeeper://a:1,b:2/r"]
        {
            assert!(!has_password(url), "{url}");
        }
    }

    #[test]
    fn a_name_is_looked_up_and_a_url_is_not() {
        let config = Config::default();
        assert_eq!(Address::resolve("memory:", &config, Exit::Usage).unwrap_or_else(|_| panic!()).handed_on, "memory:");
        assert_eq!(Address::resolve("prod", &config, Exit::Usage).err().map(|c| c.exit), Some(Exit::Usage));
    }

    #[test]
    fn a_path_survives_its_url() {
        let url = file_url(Path::new("/a/50%?/locks.db")).unwrap();
        assert_eq!(EngineUrl::parse(&url).unwrap().rest(), "/a/50%?/locks.db");
    }
}
