//! Installing Debian packages without starting the daemons in them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::children::Process;
use crate::environment;
use crate::interrupt;
use crate::problem::Problem;

/// Debian asks this program before a package starts its daemon; 101 means no.
const POLICY: &str = "/usr/sbin/policy-rc.d";
const POLICY_TEXT: &str =
    "#!/bin/sh\n# Placed while the packages for the tests are installed; removed afterwards.\nexit 101\n";

/// Two installations at once wait for one another instead of failing.
const LOCK_TIMEOUT: &str = "DPkg::Lock::Timeout=300";

/// Whether packages can be installed on this system at all.
pub(crate) fn is_debian() -> bool {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    names_debian(&release) && environment::program("apt-get").is_some()
}

fn names_debian(os_release: &str) -> bool {
    let mut fields = os_release.lines().filter_map(|line| line.split_once('='));
    fields.any(|(key, value)| {
        matches!(key, "ID" | "ID_LIKE") && value.trim_matches('"').split(' ').any(|id| id == "debian")
    })
}

/// Installs packages, as root or with sudo, and says so first.
pub(crate) fn install(packages: &[&str]) -> Result<(), Problem> {
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    if !is_debian() {
        return Err(Problem::new(format!("not installed: {list}"))
            .because("packages can be installed for you on Debian and its relatives only; these are Debian's names")
            .advise("install the same programs with your system's package manager"));
    }
    let rights = Rights::find(&list)?;
    println!("Installing {list} with apt-get ({}); their daemons are not started.", rights.described());
    let _policy = NoDaemons::place(rights, Path::new(POLICY))?;
    if !has_lists() {
        rights.apt(&["update"])?;
    }
    let install = ["install", "--yes", "--no-install-recommends"];
    let words: Vec<&str> = install.into_iter().chain(packages.iter().copied()).collect();
    if rights.apt(&words).is_err() {
        interrupt::check()?;
        println!("Once more with fresh package lists: the old ones may name versions that are gone.");
        rights.apt(&["update"])?;
        rights.apt(&words)?;
    }
    if Path::new("/run/systemd/system").exists() {
        println!(
            "Nothing of it runs now. At the next boot systemd would start the daemons: `systemctl disable` prevents it."
        );
    }
    Ok(())
}

fn has_lists() -> bool {
    let Ok(entries) = std::fs::read_dir("/var/lib/apt/lists") else { return false };
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().contains("_Packages"))
}

/// How we may change the system.
#[derive(Debug, Clone, Copy)]
enum Rights {
    Root,
    Sudo,
}

impl Rights {
    fn find(packages: &str) -> Result<Self, Problem> {
        if rustix::process::geteuid().is_root() {
            return Ok(Self::Root);
        }
        environment::program("sudo").map(|_| Self::Sudo).ok_or_else(|| {
            Problem::new(format!("cannot install {packages}"))
                .because("this is not root, and there is no sudo")
                .advise(format!("as root: apt-get install {packages}"))
        })
    }

    fn described(self) -> &'static str {
        match self {
            Self::Root => "as root",
            Self::Sudo => "with sudo, which may ask for your password",
        }
    }

    fn apt(self, words: &[&str]) -> Result<(), Problem> {
        let mut command =
            vec!["env", "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1", "apt-get", "-q", "-o", LOCK_TIMEOUT];
        command.extend(words);
        self.run(&command)
    }

    fn run(self, words: &[&str]) -> Result<(), Problem> {
        let mut command = match self {
            Self::Root => Command::new(words[0]),
            Self::Sudo => Command::new("sudo"),
        };
        command.args(if matches!(self, Self::Root) { &words[1..] } else { words });
        let status = Process::start_at_terminal(words[0], command)?.finish()?;
        if status.success() {
            return Ok(());
        }
        let why = format!("{status}; its own words are above");
        Err(Problem::new(format!("`{}` failed", words.join(" "))).because(why).advise("run it by hand to look closer"))
    }
}

/// While it lives, packages do not start their daemons.
#[derive(Debug)]
struct NoDaemons {
    policy: PathBuf,
    /// `None` when the system already has a policy of its own, which is left alone.
    rights: Option<Rights>,
}

impl NoDaemons {
    fn place(rights: Rights, policy: &Path) -> Result<Self, Problem> {
        if policy.exists() {
            return Ok(Self { policy: policy.to_path_buf(), rights: None });
        }
        let trouble = |error: std::io::Error| Problem::new("cannot write a temporary file").because(error.to_string());
        let mut file = tempfile::NamedTempFile::new().map_err(trouble)?;
        file.write_all(POLICY_TEXT.as_bytes()).map_err(trouble)?;
        rights.run(&["install", "-m", "755", &file.path().to_string_lossy(), &policy.to_string_lossy()])?;
        Ok(Self { policy: policy.to_path_buf(), rights: Some(rights) })
    }
}

impl Drop for NoDaemons {
    fn drop(&mut self) {
        match self.rights {
            // Not through `Process`, which starts nothing once we were interrupted: this has to happen then, too.
            Some(Rights::Root) => drop(std::fs::remove_file(&self.policy)),
            Some(Rights::Sudo) => drop(Command::new("sudo").args(["rm", "-f"]).arg(&self.policy).status()),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_debian_and_its_relatives() {
        assert!(names_debian("NAME=\"Debian GNU/Linux\"\nID=debian\n"));
        assert!(names_debian("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n"));
        assert!(!names_debian("ID=fedora\nHOME_URL=debian\n"));
        assert!(!names_debian(""));
    }

    #[test]
    fn the_policy_says_no_while_packages_are_installed_and_goes_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path().join("policy-rc.d");
        let placed = NoDaemons::place(Rights::Root, &policy).unwrap();
        assert_eq!(Command::new(&policy).status().unwrap().code(), Some(101));
        drop(placed);
        assert!(!policy.exists());
    }

    #[test]
    fn a_policy_of_the_system_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path().join("policy-rc.d");
        std::fs::write(&policy, "its own").unwrap();
        drop(NoDaemons::place(Rights::Root, &policy).unwrap());
        assert_eq!(std::fs::read_to_string(&policy).unwrap(), "its own");
    }
}
