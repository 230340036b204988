//! Installing servers that are missing.

use super::finding;
use super::server::{Origin, Server};
use super::unpack;
use crate::apt;
use crate::problem::Problem;
use crate::workspace::Workspace;

/// Installs those of these servers that are missing.
pub(crate) fn all(workspace: &Workspace, servers: &[&Server]) -> Result<(), Problem> {
    let missing: Vec<&Server> =
        servers.iter().copied().filter(|server| finding::is_missing(workspace, server)).collect();
    let mut packages: Vec<&str> = Vec::new();
    for server in &missing {
        match server.origin {
            Origin::Packages(names) => packages.extend(names),
            Origin::Unpacked { package, suite, into } => unpack::package(package, suite, &workspace.root().join(into))?,
        }
    }
    apt::install(&packages)?;
    missing.into_iter().try_for_each(|server| match finding::programs(workspace, server) {
        Ok(_) => Ok(()),
        Err(program) => Err(Problem::new(format!("{} is installed, but `{program}` was not found", server.name))
            .because("this system keeps it in a place that is not known here")
            .advise(format!("add the place to `programs` in xtask/src/engines/table.rs, or set {}", server.variable))),
    })
}
