//! Ctrl-C and its kin: remembered in a flag, and acted upon where children can be ended in order.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::problem::Problem;

static CAUGHT: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// From now on these signals set a flag instead of ending the process at once, which would leave servers behind.
pub(crate) fn listen() -> Result<(), Problem> {
    let caught = CAUGHT.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let number = usize::try_from(signal).unwrap_or_default();
        signal_hook::flag::register_usize(signal, Arc::clone(caught), number)
            .map_err(|error| Problem::new("cannot listen for signals").because(error.to_string()))?;
    }
    Ok(())
}

/// The signal that asked us to end, if one did.
pub(crate) fn caught() -> Option<i32> {
    let number = CAUGHT.get()?.load(Ordering::Relaxed);
    i32::try_from(number).ok().filter(|&signal| signal != 0)
}

/// Fails once a signal asked us to end.
pub(crate) fn check() -> Result<(), Problem> {
    caught().map_or(Ok(()), |signal| Err(Problem::interrupted(signal)))
}
