//! Names that nobody else seems to want: a hint for engines that can do more at once then.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::claim::{Claim, Patience};
use crate::name::Name;

/// So many names are remembered.
const MOST: usize = 1024;

/// The names of which a client's last claim had its turn at once.
///
/// An engine that holds by more than its line takes both together for such a name, and gives the other back when it is
/// not the claim's turn. It is a guess, and nothing depends on it but speed. One claim of a name makes it at a time.
#[derive(Debug, Default)]
pub struct QuietNames {
    names: Mutex<HashSet<Name>>,
}

impl QuietNames {
    /// Whether a claim is likely to have its turn at once, and alone. The next one is not, until its name is said to be
    /// [`quiet`](Self::quiet) again. Nor is ever one that does not wait: whoever meets what it took in advance would be
    /// turned away, and it may be turned away as well.
    pub fn expect(&self, claim: &Claim) -> bool {
        claim.patience != Patience::None && claim.weight == claim.capacity && self.names().remove(&claim.name)
    }

    /// A claim of this name had its turn at once.
    pub fn quiet(&self, name: &Name) {
        let mut names = self.names();
        if names.contains(name) {
            return;
        }
        if names.len() >= MOST {
            names.clear();
        }
        names.insert(name.clone());
    }

    fn names(&self) -> MutexGuard<'_, HashSet<Name>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::owner::Owner;

    #[test]
    fn only_who_waits_for_a_quiet_name_alone_is_expected_to_get_in() {
        let quiet = QuietNames::default();
        let name = Name::new("orders/42").unwrap();
        let claim = Claim::on(name.clone(), Owner::process(), Duration::from_secs(1));
        assert!(!quiet.expect(&claim));
        quiet.quiet(&name);
        assert!(!quiet.expect(&Claim { patience: Patience::None, ..claim.clone() }));
        assert!(!quiet.expect(&Claim { capacity: 2, ..claim.clone() }));
        assert!(quiet.expect(&claim));
        assert!(!quiet.expect(&claim), "one at a time");
        quiet.quiet(&name);
        assert!(quiet.expect(&claim));
    }

    #[test]
    fn it_does_not_grow_for_ever() {
        let quiet = QuietNames::default();
        for number in 0..10 * MOST {
            quiet.quiet(&Name::new(format!("orders/{number}")).unwrap());
        }
        assert!(quiet.names().len() <= MOST);
    }
}
