//! Who is ahead of a claim, and whose leaving could let it in.
//!
//! A claim is granted when it and everyone ahead of it fit together: that is the one rule, since who fits behind others
//! leaves them room too. So the line is walked from the claim's own place towards its head, and the walk stops as soon
//! as there is no room left: those it has met stand in the way, and as long as all of them stay the claim cannot get
//! in. They are the nearest ones, which leave last: for a mutex or a writer the one just ahead, for a reader the last
//! writer, for a semaphore a few. So a release wakes only those whom it concerns, however many wait.

use lockhouse_core::line::Room;

use crate::stored::Stored;

/// Where a claim stands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stands<'a> {
    /// It fits beside everyone ahead.
    In,
    /// As long as all of these stay it cannot get in.
    Behind(Vec<&'a Stored>),
    /// Somebody ahead believes in this capacity.
    Conflict(u32),
}

/// Where a claim of this weight stands behind these, who are in the order of the line.
pub(crate) fn stands(weight: u32, capacity: u32, ahead: &[Stored]) -> Stands<'_> {
    if let Some(other) = ahead.iter().find(|other| other.capacity != capacity) {
        return Stands::Conflict(other.capacity);
    }
    let (mut room, mut met) = (Room::new(capacity), Vec::new());
    room.admit(weight);
    for other in ahead.iter().rev() {
        if is_in_the_way(other, weight) {
            return Stands::Behind(vec![other]);
        }
        met.push(other);
        if !room.admit(other.weight) {
            return Stands::Behind(met);
        }
    }
    Stands::In
}

/// Whether one alone keeps a claim of this weight out: nobody else matters until it is gone.
pub(crate) fn is_in_the_way(other: &Stored, weight: u32) -> bool {
    u64::from(other.weight) + u64::from(weight) > u64::from(other.capacity)
}

#[cfg(test)]
mod tests {
    use lockhouse_core::line::granted;

    use super::*;
    use crate::stored::Evicted;

    fn line(capacity: u32, weights: &[u32]) -> Vec<Stored> {
        let stored = |(at, weight): (usize, &u32)| Stored {
            key: at.to_string(),
            sole: false,
            segment: at.to_string(),
            id: "303132333435".parse().unwrap(),
            weight: *weight,
            capacity,
            evicted: Evicted::No,
            owner: String::new(),
            note: None,
            made: 0,
            written: 0,
        };
        weights.iter().enumerate().map(stored).collect()
    }

    /// Who stands in the way of the last of a line.
    fn in_the_way(capacity: u32, weights: &[u32]) -> Vec<String> {
        let (last, ahead) = weights.split_last().unwrap();
        match stands(*last, capacity, &line(capacity, ahead)) {
            Stands::In => Vec::new(),
            Stands::Behind(met) => met.into_iter().map(|other| other.key.clone()).collect(),
            Stands::Conflict(_) => panic!("they agree"),
        }
    }

    #[test]
    fn the_nearest_stand_in_the_way() {
        const ALL: u32 = u32::MAX;
        assert_eq!(in_the_way(1, &[1, 1, 1]), ["1"], "a mutex: the one just ahead");
        assert_eq!(in_the_way(ALL, &[1, 1, ALL]), ["1"], "a writer: the last reader");
        assert_eq!(in_the_way(ALL, &[ALL, 1, ALL, 1, 1]), ["2"], "a reader: the last writer");
        assert_eq!(in_the_way(2, &[1, 1, 1, 1]), ["2", "1"], "permits: the last ones that fill it");
        assert_eq!(in_the_way(ALL, &[1, 1, 1]), [""; 0]);
    }

    #[test]
    fn it_is_the_one_rule() {
        for capacity in 1..5u32 {
            for pattern in 0..4usize.pow(4) {
                let line: Vec<u32> =
                    (0..4).map(|at| 1 + u32::try_from(pattern / 4usize.pow(at) % 4).unwrap() % capacity).collect();
                let all = granted(capacity, line.iter().copied()) == line.len();
                assert_eq!(in_the_way(capacity, &line).is_empty(), all, "{line:?} in {capacity}");
            }
        }
    }

    #[test]
    fn who_disagrees_about_the_capacity_is_told() {
        assert_eq!(stands(1, 3, &line(1, &[1])), Stands::Conflict(1));
    }
}
