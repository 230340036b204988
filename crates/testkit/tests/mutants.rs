//! Engines with one flaw each, and the cases that must catch it: a case that cannot fail shows nothing.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};

use lockhouse_core::{
    Cell, Claim, Connector, Engine, Guarantees, Kind, Line, Memory, Name, Patience, PublicId, Renewal, Result, Side,
    Standing, Withdrawal, Write, Written,
};
use lockhouse_testkit::{Subject, async_trait, run};

/// What is wrong with the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    GrantsEverybody,
    TokenStandsStill,
    TryLeavesAPlace,
    ReleasesByName,
    RenewalRevives,
    RenewalDoesNothing,
    LeaseNeverEnds,
    LeaseEndsEarly,
    EvictionEndsAtOnce,
    EvictionIsForgotten,
    LastComeFirstServed,
    PriorityIsIgnored,
    WakesNobody,
    NamesLoseTheirCase,
    SurveyShowsEverything,
    ConflictIsARefusal,
    ReadersExcludeEachOther,
    DowngradeLetsGo,
    LingeringIsARelease,
    CellIgnoresVersions,
    CellIgnoresTokens,
    CellWritesTwice,
}
use Flaw::*;

#[derive(Debug)]
struct Flawed {
    memory: Memory,
    flaw: Flaw,
    arrivals: AtomicI32,
    claims: Mutex<HashMap<PublicId, Claim>>,
}

impl Flawed {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    /// The claim as the flawed engine understands it.
    fn understood(&self, claim: &Claim) -> Claim {
        let mut claim = claim.clone();
        match self.flaw {
            TryLeavesAPlace if claim.patience == Patience::None => claim.patience = Patience::Waits,
            LeaseNeverEnds => claim.ttl *= 100,
            LeaseEndsEarly => claim.ttl /= 2,
            LastComeFirstServed => claim.priority = self.arrivals.fetch_add(1, Ordering::SeqCst),
            PriorityIsIgnored => claim.priority = 0,
            NamesLoseTheirCase => claim.name = Name::new(claim.name.as_str().to_lowercase()).unwrap(),
            ReadersExcludeEachOther if claim.capacity == u32::MAX => claim.weight = u32::MAX,
            _ => {}
        }
        claim
    }
}

#[async_trait]
impl Engine for Flawed {
    fn guarantees(&self) -> Guarantees {
        self.memory.guarantees()
    }

    async fn claim(&self, claim: &Claim) -> Result<Standing> {
        let claim = self.understood(claim);
        self.claims.lock().unwrap().insert(claim.id.public(), claim.clone());
        if self.has(DowngradeLetsGo) && claim.weight == 1 {
            self.memory.withdraw(&claim).await?;
        }
        match self.memory.claim(&claim).await {
            Ok(Standing::Granted { .. }) if self.has(TokenStandsStill) => Ok(Standing::Granted { token: 7 }),
            Ok(_) if self.has(GrantsEverybody) => Ok(Standing::Granted { token: 7 }),
            Err(error) if self.has(ConflictIsARefusal) && error.kind() == Kind::Conflict => Ok(Standing::Refused),
            standing => standing,
        }
    }

    async fn moved(&self, claim: &Claim) -> Result<Option<Standing>> {
        if self.has(WakesNobody) {
            return std::future::pending().await;
        }
        self.memory.moved(&self.understood(claim)).await
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Renewal>> {
        if self.has(RenewalDoesNothing) {
            return Ok(vec![Renewal::Renewed; claims.len()]);
        }
        for claim in claims {
            if self.has(RenewalRevives) {
                self.memory.claim(claim).await?;
            }
            if self.has(LingeringIsARelease) && claim.lingers {
                self.memory.withdraw(claim).await?;
                return Ok(vec![Renewal::Renewed]);
            }
        }
        let claims: Vec<Claim> = claims.iter().map(|claim| self.understood(claim)).collect();
        self.memory.renew(&claims).await
    }

    async fn withdraw(&self, claim: &Claim) -> Result<Withdrawal> {
        if self.has(ReleasesByName) {
            self.memory.sabotage(&claim.name);
            return Ok(Withdrawal::Withdrawn);
        }
        self.memory.withdraw(&self.understood(claim)).await
    }

    async fn survey(&self, prefix: &str) -> Result<Vec<Line>> {
        self.memory.survey(if self.has(SurveyShowsEverything) { "" } else { prefix }).await
    }

    async fn evict(&self, name: &Name, claim: &PublicId) -> Result<bool> {
        let lines = self.memory.survey(name.as_str()).await?;
        let waits = lines.iter().flat_map(Line::waiters).any(|place| place.id == *claim);
        let known = self.claims.lock().unwrap().get(claim).cloned();
        match (self.flaw, known) {
            (EvictionEndsAtOnce, Some(known)) if !waits => drop(self.memory.withdraw(&known).await?),
            (EvictionIsForgotten, _) if waits => {}
            _ => return self.memory.evict(name, claim).await,
        }
        Ok(true)
    }

    async fn read(&self, name: &Name) -> Result<Cell> {
        self.memory.read(name).await
    }

    async fn write(&self, name: &Name, write: &Write) -> Result<Written> {
        let mut write = write.clone();
        match self.flaw {
            CellIgnoresVersions => write.if_version = None,
            CellIgnoresTokens => write.token = None,
            CellWritesTwice => {
                write.id[0] = write.id[0].wrapping_add(self.arrivals.fetch_add(1, Ordering::SeqCst) as u8)
            }
            _ => {}
        }
        self.memory.write(name, &write).await
    }
}

#[derive(Debug)]
struct Mutant(Arc<Flawed>);

#[async_trait]
impl Subject for Mutant {
    fn guarantees(&self) -> Guarantees {
        self.0.guarantees()
    }

    fn connector(&self) -> Arc<dyn Connector> {
        Arc::new(One(Arc::clone(&self.0)))
    }
}

#[derive(Debug)]
struct One(Arc<Flawed>);

#[async_trait]
impl Connector for One {
    async fn connect(&self, _side: Side) -> Result<Arc<dyn Engine>> {
        Ok(Arc::clone(&self.0) as _)
    }
}

/// The case fails on an engine with that flaw.
fn caught(flaw: Flaw, section: &str, case: &str) {
    let flawed = Flawed { memory: Memory::new(), flaw, arrivals: AtomicI32::new(0), claims: Mutex::default() };
    let mutant = Mutant(Arc::new(flawed));
    let judged = catch_unwind(AssertUnwindSafe(|| run(Arc::new(mutant), section, case, "", None)));
    assert!(judged.is_err(), "{section}::{case} does not notice that {flaw:?}");
}

macro_rules! mutants {
    ($($test:ident: $flaw:ident $section:ident::$case:ident;)+) => {
        $(#[test]
        fn $test() {
            caught($flaw, stringify!($section), stringify!($case));
        })+
    };
}

mutants! {
    two_holders: GrantsEverybody exclusion::a_second_try_is_refused_and_changes_nothing;
    two_inside: GrantsEverybody exclusion::a_hundred_tasks_are_never_two_inside;
    lost_updates: GrantsEverybody exclusion::no_update_of_a_counter_is_lost;
    a_history_with_two_holders: GrantsEverybody exclusion::a_history_fits_a_mutex_that_knows_its_owner;
    tokens: TokenStandsStill exclusion::tokens_grow_across_owners_and_clients;
    tokens_in_a_row: TokenStandsStill exclusion::take_and_give_back_many_times;
    tries: TryLeavesAPlace waiting::no_patience_returns_at_once;
    strangers: ReleasesByName release::nobody_can_release_the_claim_of_another;
    successors: ReleasesByName release::a_second_release_does_not_harm_the_successor;
    lost_replies: ReleasesByName release::a_release_whose_reply_is_lost_can_be_repeated;
    revived: RenewalRevives release::a_renewal_never_revives_what_was_released;
    not_kept: RenewalDoesNothing expiry::a_kept_lock_survives_three_leases;
    not_kept_in_line: RenewalDoesNothing expiry::a_waiter_is_kept_in_line;
    endless: LeaseNeverEnds expiry::a_claim_that_nobody_renews_frees_itself;
    endless_permits: LeaseNeverEnds semaphore::a_vanished_holders_permits_come_back;
    early: LeaseEndsEarly expiry::a_claim_that_nobody_renews_frees_itself;
    early_grant: LeaseEndsEarly expiry::a_loss_is_told_before_anybody_else_gets_in;
    evicted_at_once: EvictionEndsAtOnce holder::an_evicted_holder_is_told_before_anybody_gets_in;
    eviction_forgotten: EvictionIsForgotten holder::an_evicted_waiter_is_told;
    last_first: LastComeFirstServed fairness::first_come_first_served;
    last_first_after_all: LastComeFirstServed fairness::who_comes_back_stands_behind_those_who_wait;
    no_priority: PriorityIsIgnored fairness::a_higher_priority_goes_ahead_of_waiters_and_not_of_holders;
    not_told: WakesNobody waiting::a_waiter_is_told_of_its_turn;
    letters: NamesLoseTheirCase names::names_that_look_alike_are_different_locks;
    prefixes: SurveyShowsEverything names::a_survey_shows_what_is_under_a_prefix_and_nothing_else;
    conflicts: ConflictIsARefusal semaphore::clients_that_disagree_about_its_size_are_told;
    kinds: ConflictIsARefusal names::a_name_in_use_as_a_mutex_is_a_conflict_as_a_semaphore;
    readers: ReadersExcludeEachOther readwrite::tries_are_refused_beside_a_writer;
    downgrades: DowngradeLetsGo readwrite::a_downgrade_leaves_no_gap;
    lingering: LingeringIsARelease linger::a_name_stays_taken_after_its_release;
    versions: CellIgnoresVersions cells::a_cell_is_written_only_at_the_version_that_was_read;
    updates: CellIgnoresVersions cells::no_concurrent_update_is_lost;
    stale_tokens: CellIgnoresTokens cells::an_older_token_is_refused_once_a_newer_one_was_seen;
    stale_holders: CellIgnoresTokens holder::a_stale_token_is_refused_by_a_cell;
    written_twice: CellWritesTwice cells::a_write_whose_reply_is_lost_is_written_once;
}
