//! Which servers a test run needs, read off the workspace.

use std::fmt;

use super::server::Server;
use super::table::SERVERS;
use crate::environment;
use crate::workspace::Workspace;

/// One server, and how the run comes by it.
#[derive(Debug)]
pub(crate) struct Need {
    server: &'static Server,
    way: Way,
}

#[derive(Debug, PartialEq, Eq)]
enum Way {
    /// Somebody runs it already, and its variable says where.
    Given(String),
    Start,
    /// It was asked to be left out.
    LeftOut,
}

impl Need {
    pub(crate) fn is_left_out(&self) -> bool {
        self.way == Way::LeftOut
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Server { name, variable, .. } = self.server;
        match &self.way {
            // The URL may hold a password: it is not repeated.
            Way::Given(_) => write!(f, "{name}, the one in {variable}"),
            Way::Start => write!(f, "{name}, started for this run"),
            Way::LeftOut => write!(f, "{name} is LEFT OUT, because LOCKHOUSE_SKIP names it"),
        }
    }
}

/// What the engines of this workspace need.
pub(crate) fn of(workspace: &Workspace) -> Vec<Need> {
    let skip = environment::variable("LOCKHOUSE_SKIP").unwrap_or_default();
    decide(&skip, |name| workspace.has_engine(name), environment::variable)
}

fn decide(skip: &str, exists: impl Fn(&str) -> bool, variable: impl Fn(&str) -> Option<String>) -> Vec<Need> {
    let skipped: Vec<&str> = skip.split(',').map(str::trim).collect();
    let way = |server: &Server| {
        if skipped.contains(&server.name) {
            Way::LeftOut
        } else {
            variable(server.variable).map_or(Way::Start, Way::Given)
        }
    };
    SERVERS.iter().filter(|server| exists(server.name)).map(|server| Need { server, way: way(server) }).collect()
}

/// Those that are to be started.
pub(crate) fn to_start(needs: &[Need]) -> Vec<&'static Server> {
    needs.iter().filter(|need| need.way == Way::Start).map(|need| need.server).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none(_: &str) -> Option<String> {
        None
    }

    fn names(servers: &[&Server]) -> Vec<&'static str> {
        servers.iter().map(|server| server.name).collect()
    }

    #[test]
    fn a_server_is_needed_when_its_engine_exists() {
        assert!(decide("", |name| name == "sqlite", none).is_empty());
        assert_eq!(names(&to_start(&decide("", |name| name == "etcd", none))), ["etcd"]);
        assert_eq!(decide("", |_| true, none).len(), SERVERS.len());
    }

    #[test]
    fn a_server_in_a_variable_is_used_and_not_started() {
        let given = |name: &str| (name == "LOCKHOUSE_TEST_REDIS").then(|| "redis://:secret@db:6379".to_owned());
        let needs = decide("", |name| name == "redis", given);
        assert!(to_start(&needs).is_empty());
        assert!(!needs[0].to_string().contains("secret"));
    }

    #[test]
    fn a_server_in_the_skip_list_is_left_out_and_said_so() {
        let needs = decide("mysql, etcd", |name| name != "consul", none);
        assert_eq!(names(&to_start(&needs)), ["redis", "postgres", "zookeeper"]);
        let left_out: Vec<String> = needs.iter().filter(|need| need.is_left_out()).map(Need::to_string).collect();
        assert_eq!(left_out.len(), 2);
        assert!(left_out[0].contains("mysql is LEFT OUT"));
    }
}
