//! The members of an ensemble, as its own node `/zookeeper/config` names them: also those that the address does not.

use lockhouse_core::Checkup;

use crate::ensemble::{Ensemble, PATIENCE};

/// A member of the ensemble.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// As the settings have it: `server.1=10.0.0.1:2888:3888`.
    server: String,
    /// It has no vote.
    observes: bool,
}

impl Ensemble {
    /// Who belongs to the ensemble. Nobody, when there is one server alone or the node cannot be read.
    pub(crate) async fn members(&self) -> Vec<Member> {
        let config = self.ask(PATIENCE, async |open| Ok(open.client.get_config().await?)).await;
        config.ok().and_then(|(data, _)| String::from_utf8(data).ok()).map_or_else(Vec::new, |config| read(&config))
    }
}

/// `server.1=10.0.0.1:2888:3888:participant;0.0.0.0:2181`, a line for each; other lines say something else.
fn read(config: &str) -> Vec<Member> {
    let servers = config.lines().filter(|line| line.starts_with("server."));
    servers
        .map(|line| {
            let server = line.split(';').next().unwrap_or(line);
            let voter = server.strip_suffix(":observer").is_none();
            let server = server.trim_end_matches(":observer").trim_end_matches(":participant").to_owned();
            Member { server, observes: !voter }
        })
        .collect()
}

/// Tells who belongs to the ensemble, beside so many in the address.
pub(crate) fn told(checkup: Checkup, members: &[Member], named: usize) -> Checkup {
    let mut checkup = checkup;
    if !members.is_empty() {
        let shown = members.iter().map(|member| {
            let observes = if member.observes { " (observer)" } else { "" };
            format!("{}{observes}", member.server)
        });
        let shown = shown.collect::<Vec<_>>().join(", ");
        checkup = checkup.fact("members", format!("{}: {shown}", members.len()));
    }
    if members.len() > named {
        let what = format!("the address names {named} of {} members", members.len());
        checkup = checkup.advice(what, "name all of them, so that a client finds another when one is down");
    }
    let voters = if members.is_empty() { named } else { members.iter().filter(|member| !member.observes).count() };
    match voters {
        2 => checkup.advice("an ensemble of two stops when either is down", "run three, or one"),
        4.. if voters.is_multiple_of(2) => {
            let what = format!("{voters} voting members survive no more failures than {}", voters - 1);
            checkup.advice(what, "run an odd number of them")
        }
        _ => checkup,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "server.1=10.0.0.1:2888:3888:participant;0.0.0.0:2181\n\
                          server.2=[::1]:2888:3888:participant\nserver.3=c:2888:3888:observer;2181\n\
                          weight.1=1\nversion=100000000";

    #[test]
    fn the_members_are_read_from_the_settings() {
        let members = read(CONFIG);
        let shown = told(Checkup::default(), &members, 3);
        assert_eq!(
            shown.facts[0].value,
            "3: server.1=10.0.0.1:2888:3888, server.2=[::1]:2888:3888, server.3=c:2888:3888 (observer)"
        );
        assert!(shown.findings[0].what.contains("of two"), "an observer has no vote: {:?}", shown.findings);
        // One server alone has no members in its settings.
        assert_eq!(told(Checkup::default(), &read(""), 1), Checkup::default());
    }

    #[test]
    fn members_that_the_address_does_not_name_are_told() {
        let findings = told(Checkup::default(), &read(CONFIG), 1).findings;
        assert!(findings[0].what.contains("names 1 of 3"), "{findings:?}");
    }
}
