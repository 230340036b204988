//! `lockhouse evict`: an operator ends a claim.

use std::io::{IsTerminal, Write};

use lockhouse::{Name, PublicId};
use serde_json::json;

use crate::args::Evict;
use crate::complaint::{Complaint, Outcome};
use crate::duration::show;
use crate::exit::Exit;
use crate::here::{Here, who};
use crate::table::print;
use crate::{eviction, waiting};

/// Ends one claim, or those of every holder. Their holders are told.
pub(crate) async fn evict(here: &Here, args: Evict) -> Outcome<Exit> {
    let name = Name::new(&args.name)?;
    let wanted: Option<PublicId> = args.claim.as_deref().map(|claim| parse(claim, &name)).transpose()?;
    let locks = here.connect().await?;
    let line = locks.line(name.as_str()).await?;
    let places = line.map(|line| line.places).unwrap_or_default();
    let chosen: Vec<_> = places
        .into_iter()
        .filter(|place| wanted.map_or(place.token.is_some(), |wanted| place.id == wanted) && !place.evicted)
        .collect();
    if chosen.is_empty() {
        let what = match &args.claim {
            Some(claim) => format!("there is no claim {claim} on {name}"),
            None => format!("nobody holds {name}"),
        };
        return Err(Complaint::usage(what).help(format!("lockhouse show {:?}", name.as_str())));
    }
    let mut evicted = Vec::new();
    for place in chosen {
        let state = if place.token.is_some() { "held" } else { "waiting" };
        let whose = format!("{} of {} ({state} for {})", place.id, place.owner, show(place.since));
        if !args.yes && std::io::stdin().is_terminal() && !confirmed(&format!("Evict {whose}?"))? {
            continue;
        }
        eviction::record(&locks, place.id, &who(None), args.reason.as_deref()).await;
        // One that ended by itself in between is gone as well.
        if locks.evict(name.as_str(), place.id).await? {
            if !here.json {
                print(format!("evicted {whose}\n"))?;
            }
            evicted.push(json!({
                "claim": place.id.to_string(),
                "owner": place.owner,
                "token": place.token,
                "since_ms": waiting::millis(place.since),
            }));
        }
    }
    if here.json {
        print(format!("{}\n", json!({ "name": name.as_str(), "evicted": evicted })))?;
    }
    Ok(Exit::Done)
}

fn parse(claim: &str, name: &Name) -> Outcome<PublicId> {
    claim.parse().map_err(|error| {
        Complaint::from(error).help(format!("twelve hexadecimal digits, as lockhouse show {:?} tells", name.as_str()))
    })
}

fn confirmed(question: &str) -> Outcome<bool> {
    let mut answer = String::new();
    let asked = write!(std::io::stderr(), "{question} [y/N] ");
    asked
        .and_then(|()| std::io::stdin().read_line(&mut answer).map(drop))
        .map_err(|error| Complaint::usage(format!("nobody can be asked: {error}")).help("--yes"))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
