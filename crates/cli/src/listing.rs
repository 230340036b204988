//! `lockhouse ls`, `show` and `watch`: what people see of the locks.

use std::collections::BTreeMap;
use std::io::IsTerminal;

use lockhouse::line::kind;
use lockhouse::{Line, Name, Place};
use serde_json::{Value, json};

use crate::args::{Prefix, Show, Watch};
use crate::complaint::Outcome;
use crate::duration::show as time;
use crate::exit::Exit;
use crate::here::Here;
use crate::table::{Table, colour, print};
use crate::waiting::millis;

/// Every lock that is held or waited for.
pub(crate) async fn ls(here: &Here, args: Prefix) -> Outcome<Exit> {
    let lines = here.connect().await?.survey(&args.prefix).await?;
    if here.json {
        let lines: Vec<Value> = lines.iter().map(object).collect();
        print(format!("{}\n", Value::from(lines)))?;
    } else {
        print(overview(&lines))?;
    }
    Ok(Exit::Done)
}

fn overview(lines: &[Line]) -> String {
    let mut table = Table::new(&["NAME", "KIND", "HELD BY", "FOR", "TOKEN", "WAITING", "NOTE"]);
    for line in lines {
        let holder = line.holders().next();
        let others = line.holders().count().saturating_sub(1);
        let owner = holder.map_or_else(|| "-".to_owned(), |place| place.owner.clone());
        table.row([
            line.name.to_string(),
            kind_of(line),
            if others == 0 { owner } else { format!("{owner} +{others}") },
            holder.map_or_else(|| "-".to_owned(), |place| time(place.since)),
            holder.and_then(|place| place.token).map_or_else(|| "-".to_owned(), |token| token.to_string()),
            line.waiters().count().to_string(),
            holder.and_then(|place| place.note.clone()).unwrap_or_default(),
        ]);
    }
    table.text(colour())
}

/// What a line is, with how much of it is taken where that is a number.
fn kind_of(line: &Line) -> String {
    match line.capacity {
        kind::MUTEX => "mutex".to_owned(),
        kind::WHOLE if line.holders().any(|place| place.weight == kind::WHOLE) => "rwlock writer".to_owned(),
        kind::WHOLE => format!("rwlock {} readers", line.holders().count()),
        permits => format!("permits {}/{permits}", line.holders().map(|place| u64::from(place.weight)).sum::<u64>()),
    }
}

/// One lock: who holds it and who waits.
pub(crate) async fn show(here: &Here, args: Show) -> Outcome<Exit> {
    let name = Name::new(&args.name)?;
    let line = here.connect().await?.line(name.as_str()).await?;
    let line = line.unwrap_or(Line { name, capacity: 0, places: Vec::new() });
    if here.json {
        print(format!("{}\n", object(&line)))?;
    } else if line.places.is_empty() {
        print(format!("{} is free\n", line.name))?;
    } else {
        print(format!("{}: {}, {} waiting\n{}", line.name, kind_of(&line), line.waiters().count(), places(&line)))?;
    }
    Ok(Exit::Done)
}

fn places(line: &Line) -> String {
    let mut table = Table::new(&["CLAIM", "STATE", "OWNER", "FOR", "TOKEN", "LEASE", "WEIGHT", "PRIORITY", "NOTE"]);
    for place in &line.places {
        table.row([
            place.id.to_string(),
            state(place).to_owned(),
            place.owner.clone(),
            time(place.since),
            place.token.map_or_else(|| "-".to_owned(), |token| token.to_string()),
            if place.lease_left.is_zero() { "-".to_owned() } else { time(place.lease_left) },
            if place.weight == kind::WHOLE { "all".to_owned() } else { place.weight.to_string() },
            place.priority.to_string(),
            place.note.clone().unwrap_or_default(),
        ]);
    }
    table.text(colour())
}

fn state(place: &Place) -> &'static str {
    match (place.evicted, place.token) {
        (true, _) => "evicted",
        (false, Some(_)) => "holds",
        (false, None) => "waits",
    }
}

/// A line as JSON. The names of its fields are documented in docs/cli.md and stay.
fn object(line: &Line) -> Value {
    let kind = match line.capacity {
        0 => "free",
        kind::MUTEX => "mutex",
        kind::WHOLE => "rwlock",
        _ => "semaphore",
    };
    let place = |place: &Place| {
        json!({
            "claim": place.id.to_string(),
            "state": state(place),
            "owner": place.owner,
            "token": place.token,
            "weight": place.weight,
            "priority": place.priority,
            "since_ms": millis(place.since),
            "lease_left_ms": millis(place.lease_left),
            "note": place.note,
        })
    };
    let places: Vec<Value> = line.places.iter().map(place).collect();
    json!({ "name": line.name.as_str(), "kind": kind, "capacity": line.capacity, "places": places })
}

/// The locks, live: the whole table on a terminal, one line for each change elsewhere.
pub(crate) async fn watch(here: &Here, args: Watch) -> Outcome<Exit> {
    let locks = here.connect().await?;
    let screen = std::io::stdout().is_terminal() && !here.json;
    let mut seen = BTreeMap::new();
    loop {
        let lines = locks.survey(&args.prefix.prefix).await?;
        if screen {
            // Home, the table, and whatever was below it before.
            print(format!("\x1b[H\x1b[2J{}", overview(&lines)))?;
        } else {
            changes(here.json, &lines, &mut seen)?;
        }
        tokio::time::sleep(args.every).await;
    }
}

/// What decides whether a line has changed: who is in it, and how; not for how long.
type Looks = Vec<(lockhouse::PublicId, Option<u64>, bool)>;

fn changes(json: bool, lines: &[Line], seen: &mut BTreeMap<Name, Looks>) -> Outcome<()> {
    let mut now = BTreeMap::new();
    for line in lines {
        let looks: Looks = line.places.iter().map(|place| (place.id, place.token, place.evicted)).collect();
        if seen.get(&line.name) != Some(&looks) {
            let holder = line.holders().next();
            let held = holder.map_or_else(|| "nobody holds it".to_owned(), |place| format!("held by {}", place.owner));
            let waiting = line.waiters().count();
            let text = format!("{}: {}, {held}, {waiting} waiting\n", line.name, kind_of(line));
            print(if json { format!("{}\n", object(line)) } else { text })?;
        }
        now.insert(line.name.clone(), looks);
    }
    for name in seen.keys().filter(|name| !now.contains_key(*name)) {
        let free = Line { name: name.clone(), capacity: 0, places: Vec::new() };
        print(if json { format!("{}\n", object(&free)) } else { format!("{name}: free\n") })?;
    }
    *seen = now;
    Ok(())
}
