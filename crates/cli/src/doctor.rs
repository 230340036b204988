//! `lockhouse doctor`: reaches an engine, measures it, and says what it promises and what to change.

use std::time::{Duration, Instant};

use lockhouse::{Checkup, CrashFrees, Exclusion, Finding, Guarantees, Locks, Severity, TokenSurvives, WakeUp};
use serde_json::{Map, Value, json};

use crate::address::Address;
use crate::args::Doctor;
use crate::complaint::Outcome;
use crate::exit::Exit;
use crate::here::Here;
use crate::table::print;

/// How often each thing is measured: enough for a median, few enough to be done before anybody wonders.
const SAMPLES: usize = 21;

/// What was measured.
struct Measured {
    connect: Duration,
    round_trip: Duration,
    pair: Duration,
    /// The server's clock less this machine's, in microseconds.
    clock_difference: Option<i64>,
}

/// Checks an engine.
pub(crate) async fn doctor(here: &Here, args: Doctor) -> Outcome<Exit> {
    let address = here.address(args.url.as_deref())?;
    let started = Instant::now();
    let locks = match here.connect_to(&address).await {
        Ok(locks) => locks,
        Err(complaint) => {
            if let Some(statements) = address.statements().filter(|_| complaint.is_refusal()) {
                print(format!("-- What {} needs, for somebody who may create it:\n{statements}", address.shown()))?;
            }
            return Err(complaint);
        }
    };
    let connect = started.elapsed();
    let (round_trip, pair) = measure(&locks).await?;
    let before = wall_clock();
    let mut checkup = locks.checkup().await?;
    let clock_difference = checkup.server_time.map(|theirs| difference(theirs, before, wall_clock()));
    let measured = Measured { connect, round_trip, pair, clock_difference };
    checkup.findings.extend(findings(locks.guarantees()));
    let text = if here.json {
        format!("{}\n", object(&address, &measured, locks.guarantees(), &checkup))
    } else {
        report(&address, &measured, locks.guarantees(), &checkup)
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

/// This machine's wall clock: for people, who compare it with the server's. No lock depends on it.
#[expect(clippy::disallowed_methods, reason = "the clocks are compared, and nothing is decided by them")]
fn wall_clock() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}

/// By how much their clock is ahead of the middle of the two moments between which it was read, in microseconds.
fn difference(theirs: Duration, before: Duration, after: Duration) -> i64 {
    let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    micros(theirs) - i64::midpoint(micros(before), micros(after))
}

/// What an operator should know whatever the engine says of itself.
fn findings(promised: &Guarantees) -> Vec<Finding> {
    let mut findings = Vec::new();
    match promised.exclusion {
        Exclusion::Process => findings.push(Finding {
            severity: Severity::Advice,
            what: "these locks are seen by this one process alone, and gone when it ends".into(),
            change: "use it for trying things out; sqlite:/path for all processes of this machine".into(),
        }),
        Exclusion::Machine => findings.push(Finding {
            severity: Severity::Advice,
            what: "these locks are seen on this machine alone".into(),
            change: "for locks between machines, use an engine that is a server".into(),
        }),
        _ => {}
    }
    findings
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

/// What the two clocks say of each other, in a few words.
fn clocks(measured: &Measured, promised: &Guarantees) -> String {
    match measured.clock_difference {
        Some(micros) => {
            let time = Duration::from_micros(micros.unsigned_abs());
            format!("the server is {time:.1?} {}; no lock depends on it", if micros < 0 { "behind" } else { "ahead" })
        }
        None if promised.exclusion <= Exclusion::Machine => "none: all go by this machine's boot clock".to_owned(),
        None => "not known: the server does not tell its time".to_owned(),
    }
}

fn report(address: &Address, measured: &Measured, promised: &Guarantees, checkup: &Checkup) -> String {
    let line = |what: &str, how: &str| format!("  {what:<32} {how}");
    let mut lines = vec![
        format!("{} is reached ({}, lockhouse {})", address.shown(), promised.engine, env!("CARGO_PKG_VERSION")),
        line("connecting took", &format!("{:.1?}", measured.connect)),
        line("one question takes", &format!("{:.1?}", measured.round_trip)),
        line("a lock and its release take", &format!("{:.1?}", measured.pair)),
        line("clock difference", &clocks(measured, promised)),
    ];
    lines.extend(checkup.facts.iter().map(|fact| line(&fact.what, &fact.value)));
    lines.push("It promises".to_owned());
    lines.extend(promises(promised).iter().map(|(what, how)| line(what, how)));
    for (severity, heading) in [(Severity::Danger, "To change"), (Severity::Advice, "To know")] {
        let mut findings = checkup.findings.iter().filter(|one| one.severity == severity).peekable();
        if findings.peek().is_some() {
            lines.push(heading.to_owned());
        }
        lines.extend(findings.map(|Finding { what, change, .. }| format!("  {what}\n    try: {change}")));
    }
    lines.join("\n") + "\n"
}

fn object(address: &Address, measured: &Measured, promised: &Guarantees, checkup: &Checkup) -> Value {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let finding = |one: &Finding| {
        let severity = format!("{:?}", one.severity).to_lowercase();
        json!({ "severity": severity, "what": one.what, "try": one.change })
    };
    let findings: Vec<Value> = checkup.findings.iter().map(finding).collect();
    let facts: Map<String, Value> =
        checkup.facts.iter().map(|fact| (fact.what.clone(), Value::from(fact.value.as_str()))).collect();
    json!({
        "url": address.shown(),
        "engine": promised.engine,
        "version": env!("CARGO_PKG_VERSION"),
        "connect_us": micros(measured.connect),
        "round_trip_us": micros(measured.round_trip),
        "lock_and_release_us": micros(measured.pair),
        "clock_difference_us": measured.clock_difference,
        "facts": facts,
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
