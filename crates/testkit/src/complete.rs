//! The suite fails when an engine promises what is not tested, or tests what is not promised.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockhouse_core::{Exclusion, Guarantees, Locks};

use crate::case::Case;
use crate::conformance::{block_on, left_out};
use crate::need::{Means, Need};
use crate::subject::{Shared, Subject};
use crate::table::CASES;

/// Fails when the subject's promises and the cases that run for it disagree, and prints what is left out.
///
/// # Panics
/// With every disagreement.
pub fn complete(subject: Arc<dyn Subject>, has_taker: bool) {
    let guarantees = subject.guarantees();
    let means = Means::of(&*subject, has_taker);
    for case in CASES {
        if let Some(reason) = left_out(case, &case.missing(&guarantees, &means)) {
            eprintln!("{}: {reason}", guarantees.engine);
        }
    }
    let locks = block_on(Locks::new(Shared(subject.connector()))).expect("the subject can be connected to");
    assert_eq!(*locks.guarantees(), guarantees, "the subject and its engine promise different things");
    let complaints = complaints(&guarantees, &means, CASES);
    assert!(complaints.is_empty(), "{}: {}", guarantees.engine, complaints.join("; "));
}

/// Where promises and cases disagree.
#[must_use]
pub fn complaints(guarantees: &Guarantees, means: &Means, cases: &[Case]) -> Vec<String> {
    let mut complaints = Vec::new();
    let promised = Need::promised(guarantees);
    let running: Vec<&Case> = cases.iter().filter(|case| case.missing(guarantees, means).is_empty()).collect();
    for promise in &promised {
        if !running.iter().any(|case| case.needs.contains(promise)) {
            match means.borrowed {
                Some(why) => eprintln!("{}: not exercised, since {why}: {promise}", guarantees.engine),
                None => complaints.push(format!("it promises {promise}, which no case that runs exercises")),
            }
        }
    }
    if guarantees.exclusion > Exclusion::Process && !means.processes {
        complaints
            .push("it excludes other processes, and the suite cannot start any: give it a url and a taker".into());
    }
    if guarantees.exclusion == Exclusion::Process && means.processes {
        complaints.push("its subject has a url for other processes, and it does not promise to exclude them".into());
    }
    if guarantees.exclusion >= Exclusion::Server && !means.server && means.borrowed.is_none() {
        complaints.push("it rests on a server, and the suite cannot stop it: give the subject a server".into());
    }
    let mut names = BTreeSet::new();
    complaints.extend(
        cases
            .iter()
            .filter(|case| !names.insert((case.section, case.name)))
            .map(|case| format!("the case {case:?} is listed twice")),
    );
    complaints
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockhouse_core::{CrashFrees, Engine, Memory, TokenSurvives};

    use super::*;

    fn memory() -> Guarantees {
        Memory::new().guarantees()
    }

    const SOME: Means = Means { sabotage: true, server: false, members: false, processes: false, borrowed: None };

    #[test]
    fn the_memory_engine_and_the_table_agree() {
        assert_eq!(complaints(&memory(), &SOME, CASES), [""; 0]);
    }

    #[test]
    fn a_promise_that_no_case_exercises_is_complained_about() {
        let without =
            |need: Need| -> Vec<Case> { CASES.iter().filter(|case| !case.needs.contains(&need)).copied().collect() };
        for promise in Need::promised(&memory()) {
            let complaints = complaints(&memory(), &SOME, &without(promise));
            assert!(complaints[0].contains(&promise.to_string()), "{promise}: {complaints:?}");
        }
    }

    #[test]
    fn a_promise_whose_only_cases_lack_their_means_is_complained_about() {
        let boastful = Guarantees { token: TokenSurvives::Members, ..memory() };
        let complaints = complaints(&boastful, &SOME, CASES).join("; ");
        assert!(complaints.contains("tokens that survive the loss of members"), "{complaints}");
        let boastful = Guarantees { crash_frees: CrashFrees::Within(Duration::ZERO), ..memory() };
        let complaints = super::complaints(&boastful, &SOME, CASES).join("; ");
        assert!(complaints.contains("at once"), "{complaints}");
    }

    #[test]
    fn what_is_not_promised_does_not_run_and_its_refusal_does() {
        let modest = Guarantees {
            fair: false,
            shared: false,
            permits: false,
            priority: false,
            cells: false,
            outlives_process: false,
            ..memory()
        };
        assert_eq!(complaints(&modest, &SOME, CASES), [""; 0]);
        let missing = [Need::Fair, Need::Shared, Need::Permits, Need::Priority, Need::Cells, Need::Lingers];
        for case in CASES {
            let runs = case.missing(&modest, &SOME).is_empty();
            assert!(
                !runs || !case.needs.iter().any(|need| missing.contains(need)),
                "{case:?} tests what is not promised"
            );
        }
        let refusals = [Need::NoShared, Need::NoPermits, Need::NoPriority, Need::NoCells, Need::NoLingers];
        for refusal in refusals {
            let runs = |case: &Case| case.needs.contains(&refusal) && case.missing(&modest, &SOME).is_empty();
            assert!(CASES.iter().any(runs), "{refusal} is refused by no case");
            let runs = |case: &Case| case.needs.contains(&refusal) && case.missing(&memory(), &SOME).is_empty();
            assert!(!CASES.iter().any(runs), "{refusal} is tested although it is promised");
        }
    }

    #[test]
    fn exclusion_among_processes_needs_processes() {
        let machine = Guarantees { exclusion: Exclusion::Machine, ..memory() };
        let complaint = complaints(&machine, &SOME, CASES).join("; ");
        assert!(complaint.contains("cannot start any"), "{complaint}");
        let processes = Means { processes: true, ..SOME };
        assert_eq!(complaints(&machine, &processes, CASES), [""; 0]);
        assert!(complaints(&memory(), &processes, CASES)[0].contains("does not promise to exclude them"));
    }

    #[test]
    fn a_borrowed_server_is_no_reason_to_fail() {
        let server = Guarantees { exclusion: Exclusion::Server, token: TokenSurvives::Crash, ..memory() };
        let lent = Means { processes: true, borrowed: Some("a server was given"), ..SOME };
        assert_eq!(complaints(&server, &lent, CASES), [""; 0]);
        let owned = Means { borrowed: None, ..lent };
        assert!(!complaints(&server, &owned, CASES).is_empty());
    }

    #[test]
    fn a_case_is_listed_once() {
        let twice = [CASES, &CASES[..1]].concat();
        assert!(complaints(&memory(), &SOME, &twice)[0].contains("listed twice"));
    }
}
