//! What several members of a quorum see, as one picture for people.

use std::collections::{BTreeMap, HashMap};

use crate::claim::PublicId;
use crate::name::Name;
use crate::survey::{Line, Place};

/// One picture of what several members see: a claim holds when a majority says so.
pub(crate) fn merge(surveys: Vec<Vec<Line>>, majority: usize) -> Vec<Line> {
    let mut lines: BTreeMap<Name, (u32, Vec<Place>)> = BTreeMap::new();
    let mut grants: HashMap<(Name, PublicId), usize> = HashMap::new();
    for line in surveys.into_iter().flatten() {
        let (_, places) = lines.entry(line.name.clone()).or_insert((line.capacity, Vec::new()));
        for place in line.places {
            *grants.entry((line.name.clone(), place.id)).or_default() += usize::from(place.token.is_some());
            match places.iter_mut().find(|known| known.id == place.id) {
                Some(known) => known.token = known.token.max(place.token),
                None => places.push(place),
            }
        }
    }
    let merged = lines.into_iter().map(|(name, (capacity, mut places))| {
        for place in &mut places {
            let holds = grants.get(&(name.clone(), place.id)).is_some_and(|grants| *grants >= majority);
            place.token = place.token.filter(|_| holds);
        }
        places.sort_by_key(|place| place.token.is_none());
        Line { name, capacity, places }
    });
    merged.collect()
}
