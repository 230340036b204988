//! Which start of the machine this is: leases are kept in boot-clock time, which begins anew with every start.

use std::io;

use lockhouse_core::{Error, Kind};

/// One start of the machine, and the clock that processes see of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Boot {
    /// Another one after every start.
    start: String,
    /// How far the boot clock is shifted for this process: a Linux time namespace can do that.
    shift: String,
}

impl Boot {
    /// The one that this process lives in.
    pub(crate) fn current() -> io::Result<Self> {
        Ok(Self { start: start()?, shift: shift() })
    }

    /// How it is stored.
    pub(crate) fn stored(&self) -> String {
        format!("{} {}", self.start, self.shift)
    }

    /// Whether claims stored under this are of the same start of the machine.
    ///
    /// # Errors
    /// [`Kind::Unsupported`] when the clocks of both cannot be compared. To void the claims instead would take locks
    /// from processes that live and hold them.
    pub(crate) fn is(&self, stored: &str) -> Result<bool, Error> {
        match stored.split_once(' ') {
            Some((start, shift)) if start == self.start && shift != self.shift => Err(Error::new(
                Kind::Unsupported,
                "the file is in use in another time namespace, where the boot clock differs",
            )
            .help("share the file only between containers with the same clock")),
            Some((start, _)) => Ok(start == self.start),
            None => Ok(false),
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn start() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Elsewhere: the second in which the machine started, by its wall clock. When that clock is set, claims are voided as
/// if the machine had been started anew, which is why this is only the substitute.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn start() -> io::Result<String> {
    let wall = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec;
    let up = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic).tv_sec;
    // Both clocks are read one after the other and drift a little: half a minute is the same start.
    Ok(((wall - up) / 30).to_string())
}

/// Relative to the machine's own clock: `0 0` outside of any time namespace, and on kernels that have none.
fn shift() -> String {
    let offsets = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    let boot = offsets.lines().filter_map(|line| line.strip_prefix("boottime"));
    boot.map(|offset| offset.split_whitespace().collect::<Vec<_>>().join(" "))
        .next()
        .unwrap_or_else(|| "0 0".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_itself_and_no_other() {
        let boot = Boot::current().unwrap();
        assert!(boot.is(&boot.stored()).unwrap());
        assert!(!boot.is("").unwrap());
        assert!(!boot.is("6f1b8c52-0000-4000-8000-000000000000 0 0").unwrap());
    }

    #[test]
    fn a_shifted_clock_of_the_same_start_is_refused() {
        let boot = Boot { start: "a".into(), shift: "0 0".into() };
        assert_eq!(boot.is("a 86400 0").unwrap_err().kind(), Kind::Unsupported);
    }
}
