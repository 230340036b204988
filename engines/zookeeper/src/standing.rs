//! Where a claim stands, from the names of the nodes in its line: pure.

use lockhouse_core::line::Room;

use crate::node::Node;

/// One claim in a line, as heavy as it is known to be.
#[derive(Debug, Clone)]
pub(crate) struct Weighed {
    pub(crate) node: Node,
    pub(crate) weight: u32,
}

/// Where a claim stands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stands {
    Granted,
    /// So many are ahead.
    Queued(u32),
}

/// The claims ahead of a newcomer or of a claim that is in line.
#[derive(Debug)]
pub(crate) struct Ahead {
    pub(crate) claims: Vec<Weighed>,
    capacity: u32,
}

impl Ahead {
    /// Everyone ahead of that node, or the whole line when there is none. The capacity that somebody ahead believes in,
    /// when it is another.
    pub(crate) fn of(mut line: Vec<Node>, own: Option<&Node>, capacity: u32) -> Result<Self, u32> {
        if let Some(own) = own {
            line.retain(|node| node.order(own).is_lt());
        }
        let weigh = |node: Node| Ok(Weighed { weight: node.weight.within(capacity)?, node });
        Ok(Self { claims: line.into_iter().map(weigh).collect::<Result<_, u32>>()?, capacity })
    }

    /// Where a claim of this weight stands behind them.
    pub(crate) fn stands(&self, weight: u32) -> Stands {
        let mut room = Room::new(self.capacity);
        let fits = self.claims.iter().all(|ahead| room.admit(ahead.weight)) && room.admit(weight);
        if fits { Stands::Granted } else { Stands::Queued(u32::try_from(self.claims.len()).unwrap_or(u32::MAX)) }
    }

    /// Whose weight may be less than their names say: only a claim of ours that is granted, and has more than the
    /// least, can have been downgraded.
    pub(crate) fn doubtful(&self) -> impl Iterator<Item = usize> {
        let mut room = Room::new(self.capacity);
        let granted = self.claims.iter().take_while(move |ahead| room.admit(ahead.weight));
        granted.enumerate().filter(|(_, ahead)| ahead.weight > 1 && ahead.node.claim.is_some()).map(|(at, _)| at)
    }

    /// The fewest claims of which one has to leave, or to become lighter, before a claim of this weight can be granted:
    /// as long as all of them are there, the others do not matter. In a mutex it is the one just ahead; for a reader
    /// the last writer ahead; in a semaphore as many as fill it.
    pub(crate) fn blockers(&self, weight: u32) -> Vec<&Weighed> {
        let room = u64::from(self.capacity.saturating_sub(weight));
        let mut heaviest: Vec<&Weighed> = self.claims.iter().rev().collect();
        // A stable sort: among equals the nearest stays first, so that each has few who watch it.
        heaviest.sort_by_key(|ahead| std::cmp::Reverse(ahead.weight));
        let mut sum = 0;
        let enough = heaviest.iter().position(|ahead| {
            sum += u64::from(ahead.weight);
            sum > room
        });
        heaviest.truncate(enough.map_or(usize::MAX, |last| last + 1));
        heaviest
    }
}

#[cfg(test)]
mod tests {
    use lockhouse_core::line::granted;
    use proptest::prelude::*;

    use super::*;
    use crate::node::claims;

    fn line(weights: &[u32], capacity: u32) -> Vec<Node> {
        let name = |(at, weight): (usize, &u32)| format!("x-permits-{weight}-of-{capacity}-{at:010}");
        claims(&weights.iter().enumerate().map(name).collect::<Vec<_>>())
    }

    fn ahead(weights: &[u32], capacity: u32) -> Ahead {
        Ahead::of(line(weights, capacity), None, capacity).unwrap()
    }

    fn watched(ahead: &Ahead, weight: u32) -> Vec<i32> {
        ahead.blockers(weight).iter().map(|blocker| blocker.node.sequence).collect()
    }

    #[test]
    fn each_watches_only_those_who_decide() {
        let all = u32::MAX;
        assert_eq!(watched(&ahead(&[1, 1, 1], 1), 1), [2], "a mutex: the one just ahead");
        assert_eq!(watched(&ahead(&[1, 1], all), all), [1], "a writer: the one just ahead");
        assert_eq!(watched(&ahead(&[all, 1, all, 1], all), 1), [2], "a reader: the last writer");
        assert_eq!(watched(&ahead(&[1, 1, 1, 1], 3), 1), [3, 2, 1], "a semaphore: as many as fill it");
        assert_eq!(watched(&ahead(&[1, 2, 1], 2), 1), [1], "a heavy one alone");
    }

    #[test]
    fn only_a_granted_claim_can_have_become_lighter() {
        let names = ["_c_30313233-3435-8c68-1000-000000000007-__WRIT__0000000001", "x-__WRIT__0000000002"];
        let line = claims(&names.map(str::to_owned));
        let ahead = Ahead::of(line, None, u32::MAX).unwrap();
        assert_eq!(ahead.doubtful().collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn another_capacity_is_told_and_only_of_those_ahead() {
        let mut mixed = line(&[1], 1);
        mixed.extend(claims(&["x-permits-1-of-2-0000000005".to_owned()]));
        assert_eq!(Ahead::of(mixed.clone(), None, 1).unwrap_err(), 2);
        let own = mixed[0].clone();
        assert!(Ahead::of(mixed, Some(&own), 1).unwrap().claims.is_empty());
    }

    proptest! {
        #[test]
        fn the_rule_is_the_one_rule(capacity in 1u32..6, weights in prop::collection::vec(1u32..6, 1..9)) {
            let weights: Vec<u32> = weights.into_iter().map(|weight| weight.min(capacity)).collect();
            let expected = granted(capacity, weights.iter().copied());
            let line = line(&weights, capacity);
            for (at, own) in line.iter().enumerate() {
                let ahead = Ahead::of(line.clone(), Some(own), capacity).unwrap();
                prop_assert_eq!(ahead.stands(weights[at]) == Stands::Granted, at < expected);
            }
        }

        #[test]
        fn nothing_changes_while_the_blockers_stay(
            capacity in 1u32..6,
            weights in prop::collection::vec(1u32..6, 1..9),
            weight in 1u32..6,
            leave in any::<u16>(),
        ) {
            let (weight, mut ahead) = (weight.min(capacity), ahead(
                &weights.into_iter().map(|weight| weight.min(capacity)).collect::<Vec<_>>(),
                capacity,
            ));
            prop_assume!(ahead.stands(weight) != Stands::Granted);
            let blockers = watched(&ahead, weight);
            let mut at = 0;
            ahead.claims.retain(|claim| {
                at += 1;
                blockers.contains(&claim.node.sequence) || leave & (1 << at) == 0
            });
            prop_assert!(ahead.stands(weight) != Stands::Granted);
        }
    }
}
