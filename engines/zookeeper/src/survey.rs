//! Every line under a prefix, for people; and how an operator ends a claim.

use futures_util::future::join_all;
use lockhouse_core::line::{Room, kind};
use lockhouse_core::{Line, Name, Place, PublicId, Result};
use zookeeper_client::{Client, Error as Said, Stat};

use crate::ensemble::{Ensemble, PATIENCE};
use crate::error::Fault;
use crate::node::{Node, Weight, claims};
use crate::record::Record;
use crate::session::Open;

/// So many nodes are asked for at once.
const NODES_AT_ONCE: usize = 64;

/// A node that may be the line of a name.
struct Found {
    path: String,
    /// `None` for the root, which is no name's.
    name: Option<String>,
}

impl Ensemble {
    /// Goes through the tree from the root, and only where names can begin with the prefix.
    pub(crate) async fn survey(&self, prefix: &str) -> Result<Vec<Line>> {
        self.learn_time().await?;
        let mut lines = Vec::new();
        let mut places = vec![Found { path: self.paths.root().to_owned(), name: None }];
        while !places.is_empty() {
            let some: Vec<Found> = places.drain(..places.len().min(NODES_AT_ONCE)).collect();
            let level = self.ask(PATIENCE, async |open| {
                // What was done before we ask is to be seen, also by a server that lags behind.
                let _caught_up = open.client.sync(self.paths.root()).await;
                Ok(join_all(some.iter().map(|found| self.visit(open, found, prefix))).await)
            });
            for visited in level.await? {
                let (line, below) = visited.map_err(|fault| self.explain(fault))?;
                lines.extend(line);
                places.extend(below);
            }
        }
        lines.sort_by(|a: &Line, b: &Line| a.name.cmp(&b.name));
        Ok(lines)
    }

    /// Learns what time it is at the servers: only who makes a node is told. Where that is not permitted, people see no
    /// times.
    async fn learn_time(&self) -> Result<()> {
        if self.session.clock().now().is_some() {
            return Ok(());
        }
        let path = self.paths.clock();
        let options = self.claims();
        self.ask(PATIENCE, async |open| {
            if let Ok((stat, sequence)) = open.client.create(&path, b"", &options).await {
                self.session.clock().learn(stat.ctime);
                let _ = open.client.delete(&format!("{path}{sequence}"), None).await;
            }
            Ok(())
        })
        .await
    }

    async fn visit(&self, open: &Open, found: &Found, prefix: &str) -> Result<(Option<Line>, Vec<Found>), Fault> {
        let children = match open.client.list_children(&found.path).await {
            Ok(children) => children,
            Err(Said::NoNode) => return Ok((None, Vec::new())),
            Err(said) => return Err(said.into()),
        };
        let at = if found.path == "/" { "" } else { &found.path };
        let below = children.iter().filter_map(|child| {
            let name = self.paths.below(found.name.as_deref(), child)?;
            // Either it begins with the prefix, or something below it can.
            let near = name.starts_with(prefix) || prefix.starts_with(&format!("{name}/"));
            near.then(|| Found { path: format!("{at}/{child}"), name: Some(name) })
        });
        let below = below.collect();
        let name = found.name.as_ref().filter(|name| name.starts_with(prefix)).and_then(|name| Name::new(name).ok());
        let nodes = claims(&children);
        match name {
            Some(name) if !nodes.is_empty() => {
                let now = self.session.clock().now();
                Ok((line(&open.client, &found.path, name, nodes, now).await?, below))
            }
            _ => Ok((None, below)),
        }
    }

    /// A mark in the node of a claim of ours: it is renewed no more. The lock of another program ends at once.
    pub(crate) async fn evict(&self, name: &Name, claim: &PublicId) -> Result<bool> {
        let line = self.paths.line(name);
        self.ask(PATIENCE, async |open| {
            let children = match open.client.list_children(&line).await {
                Ok(children) => claims(&children),
                Err(Said::NoNode) => return Ok(false),
                Err(said) => return Err(said.into()),
            };
            match children.into_iter().find(|node| node.public_id() == *claim) {
                Some(node) => end(&open.client, &format!("{line}/{}", node.name)).await,
                None => Ok(false),
            }
        })
        .await
    }
}

async fn end(client: &Client, path: &str) -> Result<bool, Fault> {
    loop {
        let ended = match client.get_data(path).await {
            Ok((data, stat)) => match Record::read(&data) {
                Some(Record { evicted: true, .. }) => return Ok(true),
                Some(record) => {
                    let marked = Record { evicted: true, ..record }.write();
                    client.set_data(path, &marked, Some(stat.version)).await.map(|_| ())
                }
                None => client.delete(path, Some(stat.version)).await,
            },
            Err(said) => Err(said),
        };
        match ended {
            Ok(()) => return Ok(true),
            Err(Said::NoNode) => return Ok(false),
            // It was downgraded at the same time.
            Err(Said::BadVersion) => {}
            Err(said) => return Err(said.into()),
        }
    }
}

/// A line as people see it: everyone by what is in their nodes.
async fn line(
    client: &Client,
    path: &str,
    name: Name,
    nodes: Vec<Node>,
    now: Option<i64>,
) -> Result<Option<Line>, Fault> {
    let capacity = capacity(&nodes);
    let paths: Vec<String> = nodes.iter().map(|node| format!("{path}/{}", node.name)).collect();
    let answers = join_all(paths.iter().map(|path| client.get_data(path))).await;
    let mut seen = Vec::new();
    for (node, answer) in nodes.into_iter().zip(answers) {
        match answer {
            Ok((data, stat)) => seen.push((node, data, stat)),
            // It has left meanwhile.
            Err(Said::NoNode) => {}
            Err(said) => return Err(said.into()),
        }
    }
    let (mut room, mut granted) = (Room::new(capacity), true);
    let mut places = Vec::with_capacity(seen.len());
    for (node, data, stat) in seen {
        let record = Record::read(&data);
        let said = node.weight.within(capacity).unwrap_or(capacity);
        let weight = record.as_ref().map_or(said, |record| record.weight.min(said));
        granted = granted && room.admit(weight);
        places.push(place(&node, record, &stat, weight, granted, now));
    }
    Ok((!places.is_empty()).then_some(Line { name, capacity, places }))
}

/// What those in line believe: a lock of another program alone does not say.
fn capacity(nodes: &[Node]) -> u32 {
    let said =
        nodes.iter().find_map(|node| if let Weight::Of(_, capacity) = node.weight { Some(capacity) } else { None });
    let readers = nodes.iter().any(|node| node.weight == Weight::Reader);
    said.unwrap_or(if readers { kind::WHOLE } else { kind::MUTEX })
}

fn place(node: &Node, record: Option<Record>, stat: &Stat, weight: u32, granted: bool, now: Option<i64>) -> Place {
    let millis = now.and_then(|now| u64::try_from(now - stat.ctime).ok()).unwrap_or(0);
    let (owner, note, evicted) = match record {
        Some(record) => (record.owner, record.note, record.evicted),
        None => ("another program".to_owned(), None, false),
    };
    Place {
        id: node.public_id(),
        owner,
        weight,
        priority: 0,
        token: granted.then(|| u64::try_from(stat.czxid).unwrap_or(0)),
        since: std::time::Duration::from_millis(millis),
        // A session decides.
        lease_left: std::time::Duration::ZERO,
        note,
        evicted,
    }
}
