//! What several members of a quorum see, as one picture for people.

use std::collections::{BTreeMap, HashMap};

use crate::claim::PublicId;
use crate::name::Name;
use crate::survey::{Line, Place};

/// One picture of what several members see: a claim holds when a majority says so.
///
/// The token of a hold is one that a majority has reached: a member that was late may count on from a larger number of
/// its own, which its client never heard.
pub(crate) fn merge(surveys: Vec<Vec<Line>>, majority: usize) -> Vec<Line> {
    let mut lines: BTreeMap<Name, (u32, Vec<Place>)> = BTreeMap::new();
    let mut grants: HashMap<(Name, PublicId), Vec<u64>> = HashMap::new();
    for line in surveys.into_iter().flatten() {
        let (_, places) = lines.entry(line.name.clone()).or_insert((line.capacity, Vec::new()));
        for place in line.places {
            grants.entry((line.name.clone(), place.id)).or_default().extend(place.token);
            if places.iter().all(|known| known.id != place.id) {
                places.push(place);
            }
        }
    }
    let merged = lines.into_iter().map(|(name, (capacity, mut places))| {
        for place in &mut places {
            let tokens = grants.get_mut(&(name.clone(), place.id)).map(std::mem::take).unwrap_or_default();
            place.token = reached(tokens, majority);
        }
        places.sort_by_key(|place| place.token.is_none());
        Line { name, capacity, places }
    });
    merged.collect()
}

/// The largest token that so many have reached.
fn reached(mut tokens: Vec<u64>, many: usize) -> Option<u64> {
    tokens.sort_unstable_by(|a, b| b.cmp(a));
    tokens.get(many - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_has_the_token_that_a_majority_has_reached() {
        assert_eq!(reached(vec![7, 8, 7, 7, 8], 3), Some(7));
        assert_eq!(reached(vec![6, 7, 7, 7], 3), Some(7));
        assert_eq!(reached(vec![7, 7], 3), None);
    }
}
