//! `lockhouse doctor`: reaches an engine, measures it, and says what it promises and what to change.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use lockhouse::{CrashFrees, Exclusion, Guarantees, Locks, TokenSurvives, WakeUp};
use serde_json::{Value, json};

use crate::address::Address;
use crate::args::Doctor;
use crate::complaint::Outcome;
use crate::exit::Exit;
use crate::here::Here;
use crate::table::print;

/// How often each thing is measured: enough for a median, few enough to be done before anybody wonders.
const SAMPLES: usize = 21;

/// Something to know, and what to do about it.
struct Finding {
    what: String,
    change: String,
}

/// What was measured.
struct Measured {
    connect: Duration,
    round_trip: Duration,
    pair: Duration,
}

/// Checks an engine.
pub(crate) async fn doctor(here: &Here, args: Doctor) -> Outcome<Exit> {
    let address = here.address(args.url.as_deref())?;
    let started = Instant::now();
    let locks = here.connect_to(&address).await?;
    let connect = started.elapsed();
    let (round_trip, pair) = measure(&locks).await?;
    let measured = Measured { connect, round_trip, pair };
    let findings = findings(&address, locks.guarantees());
    let text = if here.json {
        format!("{}\n", object(&address, &measured, locks.guarantees(), &findings))
    } else {
        report(&address, &measured, locks.guarantees(), &findings)
    };
    print(text)?;
    Ok(Exit::Done)
}

/// The medians of one question, and of taking and giving back a lock that nobody else wants.
async fn measure(locks: &Locks) -> Outcome<(Duration, Duration)> {
    let name = format!("lockhouse/doctor/{}", std::process::id());
    let (mut round_trips, mut pairs) = (Vec::new(), Vec::new());
    for _ in 0..SAMPLES {
        let started = Instant::now();
        locks.line(&name).await?;
        round_trips.push(started.elapsed());
        let started = Instant::now();
        locks.mutex(&name).lock().await?.release().await?;
        pairs.push(started.elapsed());
    }
    let median = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times[SAMPLES / 2]
    };
    Ok((median(round_trips), median(pairs)))
}

/// What an operator should know. Each engine's own checks stand behind its scheme.
fn findings(address: &Address, promised: &Guarantees) -> Vec<Finding> {
    let mut findings = Vec::new();
    match promised.exclusion {
        Exclusion::Process => findings.push(Finding {
            what: "these locks are seen by this one process alone, and gone when it ends".into(),
            change: "use it for trying things out; sqlite:/path for all processes of this machine".into(),
        }),
        Exclusion::Machine => findings.push(Finding {
            what: "these locks are seen on this machine alone".into(),
            change: "for locks between machines, use an engine that is a server".into(),
        }),
        _ => {}
    }
    if let Some(file) = address.file() {
        findings.extend(about_file(&file));
    }
    findings
}

/// The embedded engine refuses network file systems and files that are not its own by itself.
fn about_file(file: &Path) -> Option<Finding> {
    let found = std::fs::metadata(file).ok()?;
    if found.mode() & 0o022 != 0 {
        return Some(Finding {
            what: format!("{} can be written by others: they can take, free and forge locks", file.display()),
            change: format!("chmod go-w {}, unless they are meant to share it", file.display()),
        });
    }
    None
}

/// What the engine promises, one sentence each.
fn promises(promised: &Guarantees) -> Vec<(&'static str, String)> {
    let yes_no = |has: bool| if has { "yes" } else { "no" }.to_owned();
    let exclusion = match promised.exclusion {
        Exclusion::Process => "the memory of one process",
        Exclusion::Machine => "one machine: its file locks and its boot clock",
        Exclusion::Server => "one server, as long as it is healthy: a fail-over may lose a grant",
        Exclusion::Quorum => "a majority of independent servers whose clocks run at nearly the same speed",
        Exclusion::Consensus => "a replicated log: a grant survives what the log survives",
    };
    let token = match promised.token {
        TokenSurvives::Nothing => "nothing: it starts anew with the process",
        TokenSurvives::Clients => "a restart of every client",
        TokenSurvives::Crash => "a crash of the machine that keeps it",
        TokenSurvives::Members => "the loss of a minority of the members",
    };
    let crash = match promised.crash_frees {
        CrashFrees::AfterLease(late) if late.is_zero() => "when its lease is over".to_owned(),
        CrashFrees::AfterLease(late) => format!("when its lease is over, at most {late:?} later"),
        CrashFrees::Within(time) => format!("at most {time:?} after the crash"),
    };
    vec![
        ("exclusion rests on", exclusion.to_owned()),
        ("the token survives", token.to_owned()),
        ("a crashed holder's lock is free", crash),
        ("first come, first served", yes_no(promised.fair)),
        ("--shared", yes_no(promised.shared)),
        ("--permits", yes_no(promised.permits)),
        ("--priority", yes_no(promised.priority)),
        ("--at-least", yes_no(promised.outlives_process)),
        ("cells", yes_no(promised.cells)),
        ("waiters are", if promised.wake_up == WakeUp::Push { "told" } else { "asking from time to time" }.to_owned()),
        ("shortest --ttl", format!("{:?}", promised.min_ttl.max(lockhouse::MIN_TTL))),
    ]
}

/// Engines on this machine go by its own boot clock: there is no second clock to differ from.
fn clock(promised: &Guarantees) -> Option<Duration> {
    (promised.exclusion <= Exclusion::Machine).then_some(Duration::ZERO)
}

fn report(address: &Address, measured: &Measured, promised: &Guarantees, findings: &[Finding]) -> String {
    let mut lines = vec![
        format!("{} is reached ({}, lockhouse {})", address.shown(), promised.engine, env!("CARGO_PKG_VERSION")),
        format!("  {:<32} {:?}", "connecting took", measured.connect),
        format!("  {:<32} {:?}", "one question takes", measured.round_trip),
        format!("  {:<32} {:?}", "a lock and its release take", measured.pair),
    ];
    if clock(promised).is_some() {
        lines.push(format!("  {:<32} none: both sides go by this machine's boot clock", "clock difference"));
    }
    lines.push("It promises".to_owned());
    lines.extend(promises(promised).into_iter().map(|(what, how)| format!("  {what:<32} {how}")));
    if !findings.is_empty() {
        lines.push("To know, and to change".to_owned());
    }
    for Finding { what, change } in findings {
        lines.push(format!("  {what}\n    try: {change}"));
    }
    lines.join("\n") + "\n"
}

fn object(address: &Address, measured: &Measured, promised: &Guarantees, findings: &[Finding]) -> Value {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let findings: Vec<Value> = findings.iter().map(|one| json!({ "what": one.what, "try": one.change })).collect();
    json!({
        "url": address.shown(),
        "engine": promised.engine,
        "version": env!("CARGO_PKG_VERSION"),
        "connect_us": micros(measured.connect),
        "round_trip_us": micros(measured.round_trip),
        "lock_and_release_us": micros(measured.pair),
        "clock_difference_us": clock(promised).map(micros),
        "promises": {
            "exclusion": format!("{:?}", promised.exclusion).to_lowercase(),
            "token_survives": format!("{:?}", promised.token).to_lowercase(),
            "fair": promised.fair,
            "shared": promised.shared,
            "permits": promised.permits,
            "priority": promised.priority,
            "at_least": promised.outlives_process,
            "cells": promised.cells,
            "push": promised.wake_up == WakeUp::Push,
            "min_ttl_ms": micros(promised.min_ttl.max(lockhouse::MIN_TTL)) / 1000,
        },
        "findings": findings,
    })
}
