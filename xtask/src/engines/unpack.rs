//! A package of another Debian release, unpacked into a folder: nothing of the system is changed.
//!
//! apt is pointed at package lists of its own, made from the system's own sources with the release replaced. So mirrors
//! and keys are the system's, and apt checks the signatures as always.

use std::path::Path;
use std::process::Command;

use crate::apt;
use crate::children::Process;
use crate::problem::Problem;

pub(crate) fn package(package: &str, suite: &str, into: &Path) -> Result<(), Problem> {
    let by_hand = format!("install {package} so that it is in PATH");
    if !apt::is_debian() {
        return Err(Problem::new(format!("{package} is missing"))
            .because("it can be fetched for you on Debian only")
            .advise(by_hand));
    }
    println!("Fetching {package} of Debian {suite} into {}; the system stays as it is.", into.display());
    let source = system_sources().iter().find_map(|(name, text)| source_for(name, text, suite)).ok_or_else(|| {
        Problem::new(format!("cannot fetch {package}"))
            .because("/etc/apt names no Debian archive to take it from")
            .advise(by_hand)
    })?;
    let work = into.join("apt");
    for folder in ["sources", "lists/partial", "cache/archives/partial"] {
        let folder = work.join(folder);
        std::fs::create_dir_all(&folder).map_err(|error| Problem::file("create", &folder, &error))?;
    }
    let file = work.join("sources").join(source.0);
    std::fs::write(&file, source.1).map_err(|error| Problem::file("write", &file, &error))?;
    let settings = [
        "Dir::Etc::sourcelist=/dev/null".to_owned(),
        format!("Dir::Etc::sourceparts={}", work.join("sources").display()),
        format!("Dir::State::lists={}", work.join("lists").display()),
        format!("Dir::Cache={}", work.join("cache").display()),
        // The folder belongs to whoever works here; apt's own account may not look into it.
        "APT::Sandbox::User=root".to_owned(),
    ];
    let get = |words: &[&str]| {
        let mut command = Command::new("apt-get");
        command.arg("-q").args(settings.iter().flat_map(|setting| ["-o", setting])).args(words).current_dir(&work);
        complete("apt-get", command, package)
    };
    get(&["update"])?;
    get(&["download", package])?;
    let archive = downloaded(&work, package)?;
    let mut command = Command::new("dpkg-deb");
    command.arg("-x").args([&archive, into]);
    complete("dpkg-deb", command, package)?;
    std::fs::remove_dir_all(&work).map_err(|error| Problem::file("remove", &work, &error))
}

fn complete(name: &str, command: Command, package: &str) -> Result<(), Problem> {
    let status = Process::start_at_terminal(name, command)?.finish()?;
    if status.success() {
        return Ok(());
    }
    Err(Problem::new(format!("cannot fetch {package}"))
        .because(format!("{name} ended with {status}; its own words are above"))
        .advise(format!("install {package} so that it is in PATH")))
}

fn downloaded(folder: &Path, package: &str) -> Result<std::path::PathBuf, Problem> {
    let files = std::fs::read_dir(folder).map_err(|error| Problem::file("read", folder, &error))?;
    let is_archive = |name: &str| name.starts_with(&format!("{package}_")) && name.ends_with(".deb");
    files
        .flatten()
        .find(|file| is_archive(&file.file_name().to_string_lossy()))
        .map(|file| file.path())
        .ok_or_else(|| Problem::new(format!("apt-get downloaded no archive of {package}")))
}

/// The system's package sources: names and texts.
fn system_sources() -> Vec<(String, String)> {
    let parts = std::fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten().map(|entry| entry.path());
    let all = std::iter::once("/etc/apt/sources.list".into()).chain(parts);
    all.filter_map(|path| Some((path.to_str()?.to_owned(), std::fs::read_to_string(&path).ok()?))).collect()
}

/// The file name and text of a source for another release, from the first Debian archive in one of the system's.
fn source_for(name: &str, text: &str, suite: &str) -> Option<(&'static str, String)> {
    if name.ends_with(".sources") {
        return Some(("other.sources", stanza_for(text, suite)?));
    }
    if name.ends_with(".list") {
        return Some(("other.list", line_for(text, suite)?));
    }
    None
}

/// The newer form: a field on each line, and an empty line between two archives.
fn stanza_for(text: &str, suite: &str) -> Option<String> {
    let names_archive = |line: &str| line.starts_with("URIs:") && line.split(' ').any(is_archive);
    let mut stanzas = text.split("\n\n").filter(|stanza| !stanza.contains("Enabled: no"));
    let stanza = stanzas.find(|stanza| stanza.lines().any(names_archive))?;
    let replaced = |line: &str| match line.starts_with("Suites:") {
        true => format!("Suites: {suite}\n"),
        false => format!("{line}\n"),
    };
    Some(stanza.lines().map(replaced).collect())
}

/// The older form: `deb [options] address release component…`.
fn line_for(text: &str, suite: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("deb ") && line.split(' ').any(is_archive))?;
    let (before, after) = line.split_at(line.find("://")?);
    let mut words: Vec<&str> = after.split_whitespace().collect();
    *words.get_mut(1)? = suite;
    Some(format!("{before}{}\n", words.join(" ")))
}

fn is_archive(word: &str) -> bool {
    word.contains("://") && word.trim_end_matches('/').ends_with("/debian")
}

#[cfg(test)]
mod tests {
    use super::*;

    const STANZAS: &str = "Types: deb\nURIs: http://mirror.example/debian-security\nSuites: bookworm-security\n\n\
                           Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm bookworm-updates\nSigned-By: /key\n";

    #[test]
    fn the_archive_is_kept_and_the_release_replaced() {
        let (file, text) = source_for("debian.sources", STANZAS, "bullseye").unwrap();
        assert_eq!(file, "other.sources");
        assert_eq!(text, "Types: deb\nURIs: http://mirror.example/debian\nSuites: bullseye\nSigned-By: /key\n");
    }

    #[test]
    fn the_older_form_is_understood_with_and_without_options() {
        let line = "# deb http://a.example/debian x main\ndeb [arch=amd64] http://mirror.example/debian/ bookworm main contrib\n";
        let (file, text) = source_for("/etc/apt/sources.list", line, "bullseye").unwrap();
        assert_eq!(
            (file, text.as_str()),
            ("other.list", "deb [arch=amd64] http://mirror.example/debian/ bullseye main contrib\n")
        );
    }

    #[test]
    fn other_archives_and_disabled_files_are_not_taken() {
        assert_eq!(source_for("x.list", "deb https://packages.example/apt stable main\n", "bullseye"), None);
        assert_eq!(source_for("debian.sources.off", STANZAS, "bullseye"), None);
        assert_eq!(
            source_for("x.sources", "Types: deb\nEnabled: no\nURIs: http://m.example/debian\n", "bullseye"),
            None
        );
    }
}
