//! Names and other input.

use std::time::Duration;

use lockhouse_core::{Kind, MAX_NAME_BYTES};

use crate::eventually::eventually;
use crate::stage::{BUSY_MACHINE, Stage};
use crate::task::spawn;

/// What an engine might mistake for one another, or for an instruction.
const ODD: &[&str] = &[
    "a",
    "A",
    "a/b",
    "ab",
    "a%2Fb",
    "a%2fb",
    "{a}",
    "{a}b",
    "a b",
    "a  b",
    " a",
    "a ",
    "a/",
    "/a",
    "a//b",
    "a.",
    ".",
    "..",
    "../a",
    "a/../b",
    "\u{1f512}",
    "caf\u{e9}",
    "cafe\u{301}",
    "ß",
    "ss",
    "İ",
    "i",
    "ı",
    "\u{212a}",
    "k",
    "\u{200b}a",
    "'; DROP TABLE claims; --",
    "a' OR '1'='1",
    "\"a\"",
    "`a`",
    "a\\",
    "\\",
    "%",
    "_",
    "a%",
    "a_",
    "a*",
    "*",
    "a?",
    "[a]",
    "a]",
    "return redis.call('flushall')",
    "${a}",
    "$(a)",
    "a:b",
    "a:",
    ":a",
    "a;b",
    "a,b",
    "a|b",
    "a&b",
    "a=b",
    "a#b",
    "a@b",
    "~a",
    "a~",
    "-a",
    "--",
    "0",
    "00",
    "null",
    "NULL",
    "true",
    "\u{ffff}",
    "\u{10ffff}",
];

pub(crate) async fn names_that_look_alike_are_different_locks(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let mut guards = Vec::new();
    for odd in ODD {
        let guard = stage.mutex(&a, odd).ttl(stage.ttl() * 5).try_lock().await.unwrap();
        guards.push(guard.unwrap_or_else(|| panic!("{odd:?} is taken for another name")));
    }
    for odd in ODD {
        assert!(stage.mutex(&b, odd).try_lock().await.unwrap().is_none(), "{odd:?} is not found again");
    }
    let mut names: Vec<String> = ODD.iter().map(|odd| stage.name(odd)).collect();
    names.sort();
    let lines = b.survey(stage.name("")).await.unwrap();
    let seen: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    assert_eq!(seen, names, "every name as it was given, in order");
    // Each release frees its own name and no other. A member of a quorum may hear of it late.
    for (at, guard) in guards.into_iter().enumerate() {
        guard.release().await.unwrap();
        names.retain(|name| *name != stage.name(ODD[at]));
        let what = format!("after the release of {:?} the others are left", ODD[at]);
        eventually(BUSY_MACHINE, &what, async || {
            let lines = b.survey(stage.name("")).await.unwrap();
            lines.iter().map(|line| line.name.as_str()).eq(names.iter().map(String::as_str))
        })
        .await;
    }
}

pub(crate) async fn a_survey_shows_what_is_under_a_prefix_and_nothing_else(stage: Stage) {
    let locks = stage.client().await;
    let mut guards = Vec::new();
    for name in ["a", "a/b", "ab", "b", "a%", "a_c", "A/b"] {
        guards.push(stage.mutex(&locks, name).lock().await.unwrap());
    }
    for (prefix, under) in [
        ("a", vec!["a", "a%", "a/b", "a_c", "ab"]),
        ("a/", vec!["a/b"]),
        ("a_", vec!["a_c"]),
        ("a%", vec!["a%"]),
        ("c", vec![]),
    ] {
        let lines = locks.survey(stage.name(prefix)).await.unwrap();
        let seen: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(seen, under.iter().map(|name| stage.name(name)).collect::<Vec<_>>(), "under {prefix:?}");
    }
}

pub(crate) async fn a_survey_shows_who_holds_and_who_waits(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let alice = lockhouse_core::Owner::new("alice@web-1");
    let guard =
        stage.mutex(&a, "x").owner(&alice).note("the nightly report; 'quoted', \u{1f512}").lock().await.unwrap();
    let mutex = stage.mutex(&b, "x").note("next");
    let waiter = spawn(async move { mutex.lock().await });
    let line = stage.until_waiting(&b, "x", 1).await;
    assert_eq!((line.capacity, line.places.len()), (1, 2));
    let (holder, next) = (&line.places[0], &line.places[1]);
    assert_eq!((holder.owner.as_str(), holder.token), ("alice@web-1", Some(guard.token())));
    assert_eq!(holder.note.as_deref(), Some("the nightly report; 'quoted', \u{1f512}"));
    assert_eq!((next.token, next.note.as_deref()), (None, Some("next")));
    assert!(holder.lease_left <= stage.ttl() && !holder.evicted, "{holder:?}");
    waiter.abort();
}

pub(crate) async fn the_longest_name_is_fine_and_a_longer_one_is_refused(stage: Stage) {
    let locks = stage.client().await;
    let fill = |bytes: usize, with: &str| {
        let mut name = stage.name("");
        while name.len() + with.len() <= bytes {
            name.push_str(with);
        }
        while name.len() < bytes {
            name.push('x');
        }
        name
    };
    for with in ["x", "é", "\u{1f512}", "%"] {
        let longest = fill(MAX_NAME_BYTES, with);
        let guard = locks.mutex(&longest).ttl(stage.ttl()).lock().await.unwrap();
        assert_eq!(locks.line(&longest).await.unwrap().expect("held").name.as_str(), longest);
        // A name that differs in its last byte alone is another lock: nothing was cut off.
        let mut other = longest.clone();
        other.pop();
        while other.len() < MAX_NAME_BYTES {
            other.push('y');
        }
        assert!(locks.mutex(&other).ttl(stage.ttl()).try_lock().await.unwrap().is_some(), "cut off: {other}");
        guard.release().await.unwrap();
        let error = locks.mutex(fill(MAX_NAME_BYTES + 1, with)).lock().await.unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{error}");
    }
}

pub(crate) async fn bad_names_are_refused_before_anything_is_sent(stage: Stage) {
    let (locks, gate) = stage.gated().await;
    let before = gate.all_calls();
    for bad in ["", "a\0b", "a\nb", "a\u{7f}", "\u{85}"] {
        assert_eq!(locks.mutex(bad).lock().await.unwrap_err().kind(), Kind::Invalid, "{bad:?}");
        assert_eq!(locks.mutex(bad).try_lock().await.unwrap_err().kind(), Kind::Invalid, "{bad:?}");
        assert_eq!(locks.several([bad]).lock().await.unwrap_err().kind(), Kind::Invalid, "{bad:?}");
        assert_eq!(locks.election(bad).campaign().await.unwrap_err().kind(), Kind::Invalid, "{bad:?}");
        assert_eq!(locks.cell(bad).read().await.unwrap_err().kind(), Kind::Invalid, "{bad:?}");
        assert_eq!(locks.line(bad).await.unwrap_err().kind(), Kind::Invalid, "{bad:?}");
    }
    assert_eq!(gate.all_calls(), before, "something was sent");
}

pub(crate) async fn a_name_in_use_as_a_mutex_is_a_conflict_as_a_semaphore(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let guard = stage.mutex(&a, "x").lock().await.unwrap();
    let error = b.semaphore(stage.name("x"), 3).ttl(stage.ttl()).try_acquire(1).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict, "{error}");
    guard.check().unwrap();
    guard.release().await.unwrap();
    let permit = b.semaphore(stage.name("x"), 3).ttl(stage.ttl()).acquire(1).await.unwrap();
    let waiting = tokio::time::timeout(Duration::from_secs(10), stage.mutex(&a, "x").lock()).await;
    let error = waiting.expect("told at once").unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict, "{error}");
    permit.check().unwrap();
}

pub(crate) async fn a_name_in_use_as_a_mutex_is_a_conflict_as_a_read_write_lock(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let _guard = stage.mutex(&a, "x").lock().await.unwrap();
    let error = b.rwlock(stage.name("x")).ttl(stage.ttl()).try_read().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict, "{error}");
    let _reader = b.rwlock(stage.name("y")).ttl(stage.ttl()).read().await.unwrap();
    let error = stage.mutex(&a, "y").try_lock().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict, "{error}");
}
