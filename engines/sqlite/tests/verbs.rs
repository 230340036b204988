//! The verbs of the contract on one file, as far as they have rules of their own.

mod clients;

use std::sync::Arc;
use std::time::Duration;

use clients::{claim, client, eager, token};
use lockhouse_core::{Claim, Engine, Kind, Name, Patience, Renewal, Standing, Withdrawal, Write, Written};

/// A client on a new file that lives as long as the test.
struct File {
    client: clients::Client,
    _folder: tempfile::TempDir,
}

impl File {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { client: client(&folder.path().join("locks.db")).await, _folder: folder }
    }

    fn engine(&self) -> &Arc<dyn Engine> {
        &self.client.front
    }

    async fn claim(&self, claim: &Claim) -> Standing {
        self.engine().claim(claim).await.unwrap()
    }

    async fn renew(&self, claim: &Claim) -> Renewal {
        self.client.keeper.renew(std::slice::from_ref(claim)).await.unwrap()[0]
    }

    async fn withdraw(&self, claim: &Claim) -> Withdrawal {
        self.engine().withdraw(claim).await.unwrap()
    }
}

fn weighs(weight: u32, capacity: u32) -> Claim {
    Claim { weight, capacity, ..claim("a") }
}

#[tokio::test]
async fn repeating_takes_no_second_place_and_keeps_the_token() {
    let file = File::new().await;
    let (one, two) = (claim("a"), claim("a"));
    let first = token(file.claim(&one).await);
    assert_eq!(first, 1, "tokens are small numbers for people");
    assert_eq!(token(file.claim(&one).await), first);
    for _ in 0..3 {
        assert_eq!(file.claim(&two).await, Standing::Queued { ahead: 1 });
    }
    assert_eq!(file.withdraw(&one).await, Withdrawal::Withdrawn);
    assert_eq!(file.withdraw(&one).await, Withdrawal::NotThere);
    assert!(token(file.claim(&two).await) > first);
}

#[tokio::test]
async fn a_smaller_weight_downgrades_and_a_larger_one_is_refused() {
    let file = File::new().await;
    let mut writer = weighs(u32::MAX, u32::MAX);
    let reader = weighs(1, u32::MAX);
    let held = token(file.claim(&writer).await);
    assert_eq!(file.claim(&reader).await, Standing::Queued { ahead: 1 });
    writer.weight = 1;
    assert_eq!(token(file.claim(&writer).await), held);
    token(file.claim(&reader).await);
    writer.weight = 2;
    assert_eq!(file.engine().claim(&writer).await.unwrap_err().kind(), Kind::Invalid);
}

#[tokio::test]
async fn another_capacity_is_a_conflict_until_the_line_is_empty() {
    let file = File::new().await;
    let one = weighs(1, 1);
    token(file.claim(&one).await);
    let error = file.engine().claim(&weighs(1, 2)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict);
    assert!(error.to_string().starts_with("sqlite: claim \"a\""), "{error}");
    file.withdraw(&one).await;
    token(file.claim(&weighs(1, 2)).await);
}

#[tokio::test]
async fn what_never_fits_is_invalid() {
    let file = File::new().await;
    for wrong in [weighs(0, 1), weighs(2, 1), Claim { ttl: Duration::ZERO, ..claim("a") }] {
        assert_eq!(file.engine().claim(&wrong).await.unwrap_err().kind(), Kind::Invalid);
    }
    token(file.claim(&Claim { ttl: Duration::MAX, ..claim("a") }).await);
}

#[tokio::test]
async fn a_higher_priority_passes_waiters_but_not_holders() {
    let file = File::new().await;
    let (holder, low) = (claim("a"), claim("a"));
    let high = Claim { priority: 5, ..claim("a") };
    token(file.claim(&holder).await);
    assert_eq!(file.claim(&low).await, Standing::Queued { ahead: 1 });
    assert_eq!(file.claim(&high).await, Standing::Queued { ahead: 1 });
    assert_eq!(file.claim(&low).await, Standing::Queued { ahead: 2 });
    file.withdraw(&holder).await;
    token(file.claim(&high).await);
}

#[tokio::test]
async fn who_has_no_patience_does_not_pass_waiters_and_who_barges_does() {
    let file = File::new().await;
    token(file.claim(&weighs(2, 3)).await);
    assert_eq!(file.claim(&weighs(2, 3)).await, Standing::Queued { ahead: 1 });
    assert_eq!(file.claim(&Claim { patience: Patience::None, ..weighs(1, 3) }).await, Standing::Refused);
    token(file.claim(&Claim { patience: Patience::Barges, ..weighs(1, 3) }).await);
}

#[tokio::test]
async fn a_lease_that_is_over_frees_the_name_and_is_not_renewed() {
    let file = File::new().await;
    let short = Claim { ttl: Duration::from_millis(30), ..claim("a") };
    let next = claim("a");
    let first = token(file.claim(&short).await);
    assert!(matches!(file.claim(&next).await, Standing::Queued { .. }));
    let moved = tokio::time::timeout(Duration::from_secs(10), file.engine().moved(&next)).await;
    assert!(token(moved.unwrap().unwrap().unwrap()) > first);
    assert_eq!(file.renew(&short).await, Renewal::Gone);
    assert_eq!(file.withdraw(&short).await, Withdrawal::NotThere);
    assert_eq!(file.renew(&next).await, Renewal::Renewed);
}

#[tokio::test]
async fn a_claim_that_expired_alone_is_gone_and_comes_back_with_a_new_token() {
    let file = File::new().await;
    let short = Claim { ttl: Duration::from_millis(10), ..claim("a") };
    let first = token(file.claim(&short).await);
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert!(file.engine().survey("").await.unwrap().is_empty());
    assert_eq!(file.renew(&short).await, Renewal::Gone);
    assert!(token(file.claim(&short).await) > first);
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert_eq!(file.withdraw(&short).await, Withdrawal::NotThere);
}

#[tokio::test]
async fn a_floor_raises_the_token_and_all_that_come_after() {
    let file = File::new().await;
    let mut held = claim("a");
    assert!(token(file.claim(&held).await) < 1000);
    held.floor = 1000;
    assert_eq!(token(file.claim(&held).await), 1000);
    assert_eq!(token(file.claim(&held).await), 1000);
    let high = Claim { floor: 5000, ..claim("b") };
    assert_eq!(token(file.claim(&high).await), 5000);
    let waiter = Claim { floor: 9000, ..claim("a") };
    assert!(matches!(file.claim(&waiter).await, Standing::Queued { .. }));
    file.withdraw(&held).await;
    assert!(token(file.claim(&waiter).await) >= 9000);
    assert_eq!(file.engine().claim(&Claim { floor: u64::MAX, ..claim("c") }).await.unwrap_err().kind(), Kind::Invalid);
    assert!(file.engine().survey("c").await.unwrap().is_empty());
}

#[tokio::test]
async fn an_evicted_holder_keeps_its_place_and_an_evicted_waiter_does_not() {
    let file = File::new().await;
    let (holder, first, second) = (claim("a"), claim("a"), claim("a"));
    let held = token(file.claim(&holder).await);
    file.claim(&first).await;
    file.claim(&second).await;
    let evict = async |claim: &Claim| file.engine().evict(&claim.name, &claim.id.public()).await.unwrap();
    assert!(!file.engine().evict(&holder.name, &claim("a").id.public()).await.unwrap());

    let moved = file.engine().moved(&first);
    tokio::pin!(moved);
    assert!(tokio::time::timeout(Duration::from_millis(20), &mut moved).await.is_err());
    assert!(evict(&first).await);
    assert_eq!(tokio::time::timeout(Duration::from_secs(10), moved).await.unwrap().unwrap(), None);
    assert_eq!(file.claim(&first).await, Standing::Refused);
    assert_eq!(file.renew(&first).await, Renewal::Gone);
    assert_eq!(file.claim(&second).await, Standing::Queued { ahead: 1 });

    assert!(evict(&holder).await);
    assert_eq!(file.renew(&holder).await, Renewal::Gone);
    assert_eq!(token(file.claim(&holder).await), held);
    assert!(file.engine().survey("a").await.unwrap()[0].places[0].evicted);
    assert_eq!(file.claim(&second).await, Standing::Queued { ahead: 1 });
    assert_eq!(file.withdraw(&holder).await, Withdrawal::Withdrawn);
    token(file.claim(&second).await);
}

#[tokio::test]
async fn a_claim_that_lingers_is_left_as_it_is() {
    let file = File::new().await;
    let mut held = claim("a");
    let first = token(file.claim(&held).await);
    held.lingers = true;
    held.ttl = Duration::from_secs(60);
    assert_eq!(file.renew(&held).await, Renewal::Renewed);
    held.lingers = false;
    held.ttl = Duration::from_secs(600);
    assert_eq!(file.renew(&held).await, Renewal::Renewed);
    assert_eq!(token(file.claim(&held).await), first);
    let place = &file.engine().survey("a").await.unwrap()[0].places[0];
    assert!(place.lease_left <= Duration::from_secs(60), "{place:?}");
}

#[tokio::test]
async fn many_leases_are_renewed_in_one_call_and_in_their_order() {
    let file = File::new().await;
    let claims: Vec<_> = (0..2500).map(|number| claim(&number.to_string())).collect();
    for claim in claims.iter().step_by(2) {
        token(file.claim(claim).await);
    }
    let answers = file.client.keeper.renew(&claims).await.unwrap();
    assert_eq!(answers.len(), claims.len());
    for (at, answer) in answers.iter().enumerate() {
        assert_eq!(*answer, if at % 2 == 0 { Renewal::Renewed } else { Renewal::Gone });
    }
    assert!(file.engine().renew(&[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_survey_shows_names_with_the_prefix_and_no_others() {
    let file = File::new().await;
    let names = ["a", "a%", "a/b", "a/b/c", "a_b", "ab", "A", "a'; DROP TABLE claims; --", "é", "a\u{10ffff}", "b"];
    for name in names {
        token(file.claim(&claim(name)).await);
        assert_eq!(file.claim(&eager(name)).await, Standing::Refused);
    }
    for prefix in ["", "a", "a/", "a%", "a_", "%", "é", "zz", "a\u{10ffff}"] {
        let mut expected: Vec<_> = names.iter().filter(|name| name.starts_with(prefix)).collect();
        expected.sort();
        let lines = file.engine().survey(prefix).await.unwrap();
        assert_eq!(
            lines.iter().map(|line| line.name.as_str()).collect::<Vec<_>>(),
            expected.into_iter().copied().collect::<Vec<_>>()
        );
    }
}

#[tokio::test]
async fn a_survey_shows_the_line_in_order() {
    let file = File::new().await;
    let mut claims = [weighs(1, 2), weighs(1, 2), weighs(2, 2), weighs(1, 2)];
    claims[3].priority = 1;
    claims[3].note = Some("nightly".into());
    for claim in &claims {
        file.claim(claim).await;
    }
    let line = &file.engine().survey("a").await.unwrap()[0];
    assert_eq!(line.capacity, 2);
    let order: Vec<_> = line.places.iter().map(|place| place.id).collect();
    assert_eq!(order, [0, 1, 3, 2].map(|at| claims[at].id.public()));
    assert_eq!((line.holders().count(), line.waiters().count()), (2, 2));
    let place = &line.places[2];
    assert_eq!((place.owner.as_str(), place.note.as_deref(), place.priority), ("tester", Some("nightly"), 1));
    assert!(place.since < Duration::from_secs(60) && place.lease_left > Duration::from_secs(500), "{place:?}");
}

#[tokio::test]
async fn a_cell_checks_repetition_then_token_then_version() {
    let file = File::new().await;
    let name = Name::new("a").unwrap();
    let write = |id: u8, if_version, token| Write { id: [id; 16], value: vec![id], if_version, token };
    let put = async |write: &Write| file.engine().write(&name, write).await.unwrap();
    assert_eq!(file.engine().read(&name).await.unwrap(), lockhouse_core::Cell::default());
    assert_eq!(put(&write(1, Some(0), Some(7))).await, Written::Yes { version: 1 });
    assert_eq!(put(&write(1, Some(0), Some(7))).await, Written::Yes { version: 1 });
    assert_eq!(put(&write(2, Some(0), Some(6))).await, Written::Stale { newest: 7 });
    assert_eq!(put(&write(2, Some(0), Some(7))).await, Written::Changed { version: 1 });
    assert_eq!(put(&write(3, None, None)).await, Written::Yes { version: 2 });
    let cell = file.engine().read(&name).await.unwrap();
    assert_eq!((cell.version, cell.token, cell.value), (2, 7, vec![3]));
}

#[tokio::test]
async fn nothing_is_left_of_a_name_after_its_release() {
    let file = File::new().await;
    for number in 0..200 {
        let claim = claim(&number.to_string());
        token(file.claim(&claim).await);
        file.withdraw(&claim).await;
    }
    let path = file._folder.path().join("locks.db");
    let rows = rusqlite::Connection::open(path).unwrap();
    let rows: i64 = rows.query_row("SELECT count(*) FROM claims", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 1, "the counter alone");
}
