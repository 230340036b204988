//! A server's own folder and ports, and the texts of the table filled with them.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use tempfile::TempDir;

use super::server::Server;
use crate::problem::Problem;

/// How many ports a server may use: `{port}`, `{port2}`, `{port3}`.
const PORTS: usize = 3;

/// Where one server lives. Dropping it removes the folder.
#[derive(Debug)]
pub(crate) struct Place {
    folder: TempDir,
    pub(crate) port: u16,
    values: BTreeMap<String, String>,
}

impl Place {
    pub(crate) fn new<'a>(
        server: &Server,
        programs: impl IntoIterator<Item = (&'a str, &'a Path)>,
        account: Option<&str>,
    ) -> Result<Self, Problem> {
        let trouble = |error: std::io::Error| {
            Problem::new(format!("no folder or port for {}", server.name)).because(error.to_string())
        };
        let folder =
            tempfile::Builder::new().prefix(&format!("lockhouse-{}-", server.name)).tempdir().map_err(trouble)?;
        if let Some((user, group)) = account.and_then(ids) {
            std::os::unix::fs::chown(folder.path(), Some(user), Some(group)).map_err(trouble)?;
        }
        let ports = free_ports().map_err(trouble)?;
        let mut values: BTreeMap<String, String> = ["port", "port2", "port3"]
            .into_iter()
            .zip(ports)
            .map(|(name, port)| (name.to_owned(), port.to_string()))
            .collect();
        values.insert("dir".to_owned(), folder.path().display().to_string());
        values.insert("user".to_owned(), own_name());
        values.extend(programs.into_iter().map(|(name, file)| (name.to_owned(), file.display().to_string())));
        let place = Self { folder, port: ports[0], values };
        for (name, text) in server.files {
            let file = place.path().join(name);
            std::fs::write(&file, place.fill(text)).map_err(|error| Problem::file("write", &file, &error))?;
        }
        Ok(place)
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The text with everything in braces replaced.
    pub(crate) fn fill(&self, text: &str) -> String {
        self.values.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
    }
}

/// Ports that nobody listens on at this moment. All are held until all are found, so that they differ.
fn free_ports() -> std::io::Result<[u16; PORTS]> {
    let mut held = Vec::new();
    let mut ports = [0; PORTS];
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}

fn own_name() -> String {
    let own = rustix::process::geteuid().as_raw();
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = accounts.lines().find_map(|line| match parse(line) {
        Some((name, user, _)) if user == own => Some(name.to_owned()),
        _ => None,
    });
    name.unwrap_or_else(|| own.to_string())
}

fn ids(account: &str) -> Option<(u32, u32)> {
    let accounts = std::fs::read_to_string("/etc/passwd").ok()?;
    accounts.lines().filter_map(parse).find(|(name, _, _)| *name == account).map(|(_, user, group)| (user, group))
}

/// `name:password:user:group:…`
fn parse(line: &str) -> Option<(&str, u32, u32)> {
    let mut fields = line.split(':');
    Some((fields.next()?, fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::table::SERVERS;

    fn place(server: &Server) -> Place {
        let programs = server.programs.iter().map(|program| (program.name, Path::new("/bin/true")));
        Place::new(server, programs, None).unwrap()
    }

    #[test]
    fn every_text_of_the_table_can_be_filled() {
        for server in SERVERS {
            let place = place(server);
            let words = server.prepare.iter().chain([&server.start]).flat_map(|words| words.iter());
            let texts = words.chain([&server.url]).chain(server.files.iter().map(|(_, text)| text));
            for text in texts {
                let filled = place.fill(text).replace("connect { enabled = false }", "");
                assert!(!filled.contains(['{', '}']), "{}: {filled}", server.name);
            }
        }
    }

    #[test]
    fn the_folder_has_the_files_and_goes_with_the_place() {
        let zookeeper = SERVERS.iter().find(|server| server.name == "zookeeper").unwrap();
        let place = place(zookeeper);
        let text = std::fs::read_to_string(place.path().join("zoo.cfg")).unwrap();
        assert!(text.contains(&format!("clientPort={}\n", place.port)), "{text}");
        let folder = place.path().to_path_buf();
        drop(place);
        assert!(!folder.exists());
    }

    #[test]
    fn ports_differ() {
        let [one, two, three] = free_ports().unwrap();
        assert!(one != two && two != three && one != three);
    }

    #[test]
    fn accounts_are_read() {
        assert_eq!(
            parse("postgres:x:106:114:PostgreSQL,,,:/var/lib/postgresql:/bin/bash"),
            Some(("postgres", 106, 114))
        );
        assert_eq!(parse("nonsense"), None);
        assert!(!own_name().is_empty());
    }
}
