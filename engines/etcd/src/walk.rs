//! Who is ahead of a claim, and whose leaving could let it in.
//!
//! A claim is granted when it and everyone ahead of it fit together: that is the one rule, since who fits behind others
//! leaves them room too. So the line is walked from the claim's own place towards its head, and the walk stops as soon
//! as there is no room left: those it has met stand in the way, and as long as all of them stay the claim cannot get
//! in. They are the nearest ones, which leave last: for a mutex or a writer the one just ahead, for a reader the last
//! writer, for a semaphore a few. So a release wakes only those whom it concerns, however many wait.

use lockhouse_core::line::Room;
use lockhouse_core::{Claim, Error, Kind, Result};

use crate::stored::Stored;

/// A walk towards the head of the line.
#[derive(Debug)]
pub(crate) struct Walk {
    weight: u32,
    capacity: u32,
    room: Room,
    met: Vec<Vec<u8>>,
}

impl Walk {
    /// Begins at a claim, which always fits when it is alone.
    pub(crate) fn from(claim: &Claim) -> Self {
        let mut room = Room::new(claim.capacity);
        room.admit(claim.weight);
        Self { weight: claim.weight, capacity: claim.capacity, room, met: Vec::new() }
    }

    /// Meets the next one ahead: the keys that stand in the way, once it is clear that they do.
    pub(crate) fn meet(&mut self, ahead: Stored) -> Result<Option<Vec<Vec<u8>>>> {
        if ahead.capacity != self.capacity {
            let what = format!("the name is in use with capacity {}, not {}", ahead.capacity, self.capacity);
            let help = "use one kind of lock, and one number of permits, for a name";
            return Err(Error::new(Kind::Conflict, what).help(help));
        }
        // Alone it stands in the way already: the others do not matter until it is gone.
        if u64::from(ahead.weight) + u64::from(self.weight) > u64::from(self.capacity) {
            return Ok(Some(vec![ahead.key]));
        }
        self.met.push(ahead.key);
        Ok(if self.room.admit(ahead.weight) { None } else { Some(std::mem::take(&mut self.met)) })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockhouse_core::line::granted;
    use lockhouse_core::{ClaimId, Name, Owner, Patience};

    use super::*;

    fn claim(weight: u32, capacity: u32) -> Claim {
        Claim {
            id: ClaimId::random(),
            name: Name::new("a").unwrap(),
            owner: Owner::new("x"),
            weight,
            capacity,
            priority: 0,
            patience: Patience::Waits,
            ttl: Duration::from_secs(2),
            note: None,
            floor: 0,
            lingers: false,
        }
    }

    fn stored(at: usize, weight: u32, capacity: u32) -> Stored {
        Stored {
            key: vec![u8::try_from(at).unwrap()],
            id: None,
            weight,
            capacity,
            evicted: false,
            lingers: false,
            owner: String::new(),
            note: None,
            lease: 0,
            made: 0,
            written: 0,
        }
    }

    /// Who stands in the way of the last of a line.
    fn in_the_way(capacity: u32, line: &[u32]) -> Option<Vec<usize>> {
        let (last, ahead) = line.split_last().unwrap();
        let mut walk = Walk::from(&claim(*last, capacity));
        for (at, weight) in ahead.iter().enumerate().rev() {
            if let Some(keys) = walk.meet(stored(at, *weight, capacity)).unwrap() {
                return Some(keys.iter().map(|key| usize::from(key[0])).collect());
            }
        }
        None
    }

    #[test]
    fn the_nearest_stand_in_the_way() {
        const ALL: u32 = u32::MAX;
        assert_eq!(in_the_way(1, &[1, 1, 1]), Some(vec![1]), "a mutex: the one just ahead");
        assert_eq!(in_the_way(ALL, &[1, 1, ALL]), Some(vec![1]), "a writer: the last reader");
        assert_eq!(in_the_way(ALL, &[ALL, 1, ALL, 1, 1]), Some(vec![2]), "a reader: the last writer");
        assert_eq!(in_the_way(2, &[1, 1, 1, 1]), Some(vec![2, 1]), "permits: the last ones that fill it");
        assert_eq!(in_the_way(ALL, &[1, 1, 1]), None);
    }

    #[test]
    fn it_is_the_one_rule() {
        for capacity in 1..5u32 {
            for pattern in 0..4usize.pow(4) {
                let line: Vec<u32> =
                    (0..4).map(|at| 1 + u32::try_from(pattern / 4usize.pow(at) % 4).unwrap() % capacity).collect();
                let all = granted(capacity, line.iter().copied()) == line.len();
                assert_eq!(in_the_way(capacity, &line).is_none(), all, "{line:?} in {capacity}");
            }
        }
    }

    #[test]
    fn who_disagrees_about_the_capacity_is_told() {
        let error = Walk::from(&claim(1, 3)).meet(stored(0, 1, 1)).unwrap_err();
        assert_eq!(error.kind(), Kind::Conflict);
    }
}
