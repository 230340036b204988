//! `cargo xtask engines`: the servers that the tests need.

pub(crate) mod finding;
pub(crate) mod install;
pub(crate) mod need;
mod place;
pub(crate) mod running;
mod server;
mod table;
mod unpack;

use std::thread;
use std::time::Duration;

use self::running::Servers;
use self::server::Server;
use self::table::SERVERS;
use crate::environment;
use crate::interrupt;
use crate::problem::Problem;
use crate::workspace::Workspace;

pub(crate) const HELP: &str = "\
The servers that the tests of the engines need.

usage: cargo xtask engines list
       cargo xtask engines install [NAME…]
       cargo xtask engines start [NAME…]

  list      what is known, what is installed, and where
  install   installs what is missing: Debian packages with apt-get, as root or with sudo;
            Consul is unpacked into target/consul
  start     starts servers on free loopback ports with temporary folders, prints the lines that
            tell the tests about them, and keeps them until Ctrl-C

Without a NAME all are meant: redis, mysql (MariaDB), postgres, zookeeper, etcd, consul.
A server whose variable LOCKHOUSE_TEST_<NAME> is set is not started: that one is used.

`cargo xtask test` starts what it needs by itself. To run tests many times against the same servers:

  cargo xtask engines start redis etcd      and, in another terminal, the lines it printed
";

pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Problem> {
    let Some((verb, names)) = arguments.split_first() else {
        print!("{HELP}");
        return Ok(());
    };
    let chosen = choose(names)?;
    match verb.as_str() {
        "list" => list(workspace, &chosen),
        "install" => install::all(workspace, &chosen)?,
        "start" => start(workspace, &chosen)?,
        other => {
            return Err(Problem::usage(format!("engines cannot `{other}`"))
                .because("it can list, install and start")
                .advise("cargo xtask help engines"));
        }
    }
    Ok(())
}

fn choose(names: &[String]) -> Result<Vec<&'static Server>, Problem> {
    if names.is_empty() {
        return Ok(SERVERS.iter().collect());
    }
    let one = |name: &String| {
        SERVERS.iter().find(|server| server.name == *name).ok_or_else(|| {
            let known: Vec<&str> = SERVERS.iter().map(|server| server.name).collect();
            Problem::usage(format!("there is no server `{name}`"))
                .because(format!("the servers are: {}; other engines need none", known.join(", ")))
                .advise("cargo xtask engines list")
        })
    };
    names.iter().map(one).collect()
}

fn list(workspace: &Workspace, servers: &[&Server]) {
    println!("{:<10} {:<6} {:<26} program", "engine", "crate", "variable");
    for server in servers {
        let has_crate = if workspace.has_engine(server.name) { "yes" } else { "no" };
        let set = if environment::variable(server.variable).is_some() { " (set)" } else { "" };
        let program = match finding::programs(workspace, server) {
            Ok(found) => found.get(server.programs[0].name).map(|file| file.display().to_string()).unwrap_or_default(),
            Err(program) => format!("`{program}` is missing; packages: {}", finding::packages(server).join(" ")),
        };
        println!("{:<10} {has_crate:<6} {:<26} {program}", server.name, format!("{}{set}", server.variable));
    }
}

fn start(workspace: &Workspace, servers: &[&'static Server]) -> Result<(), Problem> {
    let given = |server: &&'static Server| environment::variable(server.variable).is_some();
    let (given, wanted): (Vec<_>, Vec<_>) = servers.iter().copied().partition(given);
    for server in given {
        eprintln!("{} is not started: {} is set, and that server is used.", server.name, server.variable);
    }
    let mut running = Servers::start(workspace, &wanted)?;
    for (variable, url) in running.variables() {
        println!("export {variable}={url}");
    }
    if running.is_empty() {
        return Ok(());
    }
    eprintln!("Ctrl-C stops them.");
    while interrupt::caught().is_none() {
        running.check()?;
        thread::sleep(Duration::from_millis(100));
    }
    eprintln!("Stopping.");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_means_all_and_an_unknown_one_is_told_the_known() {
        assert_eq!(choose(&[]).unwrap().len(), SERVERS.len());
        assert_eq!(choose(&["etcd".to_owned()]).unwrap()[0].name, "etcd");
        assert!(choose(&["oracle".to_owned()]).unwrap_err().to_string().contains("zookeeper"));
    }

    #[test]
    fn the_help_names_every_server() {
        assert!(SERVERS.iter().all(|server| HELP.contains(server.name)));
    }
}
