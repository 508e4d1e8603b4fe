//! What `opkeep --version` says about the build beside the version: the commit and the target.
//!
//! Both follow from the sources and the target alone, so two builds of one commit are equal at any time. The commit is that
//! of the project's own repository: a package in a registry, a copy in another project's repository and an archive have
//! none, and neither have builds without optimization, which would otherwise be linked again after every commit.
#![expect(clippy::disallowed_methods, reason = "cargo passes values in the environment")]

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let is_optimized = variable("OPT_LEVEL") != "0";
    let root = repository(Path::new(&variable("CARGO_MANIFEST_DIR"))).filter(|_| is_optimized);
    let commit = root.as_deref().and_then(commit);
    root.iter().flat_map(|root| changed_by_commits(root)).for_each(|path| {
        println!("cargo::rerun-if-changed={}", path.display());
    });
    println!("cargo::rustc-env=BUILD_DETAILS={}", details(commit.as_deref(), &variable("TARGET")));
}

/// Returns the root of the project's repository, if the package is in one.
pub(crate) fn repository(package: &Path) -> Option<PathBuf> {
    let root = package.parent()?.parent()?;
    (root.join("crates/cli") == package && root.join(".git").exists()).then(|| root.to_owned())
}

pub(crate) fn details(commit: Option<&str>, target: &str) -> String {
    commit.into_iter().chain([target]).collect::<Vec<_>>().join(", ")
}

/// Returns the short name of the present commit, and its date in UTC.
pub(crate) fn commit(root: &Path) -> Option<String> {
    let shown = git(root, &["show", "--no-patch", "--no-show-signature", "--format=%H %ct", "HEAD"])?;
    let (name, time) = shown.split_once(' ')?;
    Some(format!("{} {}", name.get(..9)?, date(time.parse().ok()?)))
}

/// Returns the files of the repository of which each commit changes one.
pub(crate) fn changed_by_commits(root: &Path) -> Vec<PathBuf> {
    let branch = git(root, &["symbolic-ref", "--quiet", "HEAD"]);
    // A branch may be in `packed-refs` only, until its next commit, which the log has.
    let names = ["HEAD", "packed-refs", "logs/HEAD"].map(str::to_owned).into_iter().chain(branch);
    let path = |name: String| Some(root.join(git(root, &["rev-parse", "--git-path", &name])?));
    names.filter_map(path).filter(|path| path.exists()).collect()
}

/// Returns what git prints about the repository at `root`.
pub(crate) fn git(root: &Path, args: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    command.arg("-C").arg(root).args(args);
    // A hook of another repository sets these.
    ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"].iter().for_each(|name| {
        command.env_remove(name);
    });
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

/// Returns the date of a time in seconds since 1970, in UTC.
pub(crate) fn date(seconds: i64) -> String {
    // Years begin in March, so that the day of a leap year is its last one; an era has 400 years.
    let days = seconds.div_euclid(86_400) + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    format!("{:04}-{month:02}-{day:02}", year + era * 400 + i64::from(month <= 2))
}
