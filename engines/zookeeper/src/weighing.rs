//! Where a claim stands: by the names in its line and, where these are not enough, by what is in the nodes.

use zookeeper_client::{Client, Error as Said};

use crate::error::Fault;
use crate::node::Node;
use crate::record::Record;
use crate::standing::{Ahead, Stands, Weighed};

/// Where a claim stands.
#[derive(Debug)]
pub(crate) enum Answer {
    Granted,
    /// So many are ahead, of whom these decide when it may be granted: child nodes of the line, with their weights.
    Queued(u32, Vec<Weighed>),
    /// Somebody ahead believes in another capacity.
    Conflict(u32),
    /// Its own node is not there.
    Missing,
}

/// Where a claim stands in a line: its own, or that of a newcomer when there is none.
pub(crate) async fn weigh(
    client: &Client,
    line: &str,
    children: Vec<Node>,
    own: Option<&Node>,
    capacity: u32,
    weight: u32,
) -> Result<Answer, Fault> {
    if own.is_some_and(|own| !children.iter().any(|child| child.name == own.name)) {
        return Ok(Answer::Missing);
    }
    let mut ahead = match Ahead::of(children, own, capacity) {
        Ok(ahead) => ahead,
        Err(capacity) => return Ok(Answer::Conflict(capacity)),
    };
    let mut asked = 0;
    loop {
        let Stands::Queued(count) = ahead.stands(weight) else { return Ok(Answer::Granted) };
        // The names say how much was claimed at first. Only when that is too much is it asked how much it is now.
        let doubtful: Vec<usize> = ahead.doubtful().filter(|at| *at >= asked).collect();
        let Some(last) = doubtful.last() else {
            let blockers = ahead.blockers(weight).into_iter().cloned().collect();
            return Ok(Answer::Queued(count, blockers));
        };
        asked = last + 1;
        let paths: Vec<String> = doubtful.iter().map(|at| format!("{line}/{}", ahead.claims[*at].node.name)).collect();
        let answers: Vec<_> = paths.iter().map(|path| client.get_data(path)).collect();
        for (at, answer) in doubtful.into_iter().zip(answers) {
            match answer.await {
                Ok((data, _)) => {
                    let now = Record::read(&data).map_or(u32::MAX, |record| record.weight);
                    ahead.claims[at].weight = ahead.claims[at].weight.min(now);
                }
                // It has left meanwhile. As if it were there: whoever watches it hears of that at once.
                Err(Said::NoNode) => {}
                Err(said) => return Err(said.into()),
            }
        }
    }
}
