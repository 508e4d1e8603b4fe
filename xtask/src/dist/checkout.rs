//! The sources of an archive: those of a commit, in a directory of their own, so that no file of this machine gets in.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::environment::kept;
use crate::disk;
use crate::release::places::workspace_version;

/// The commit that archives are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Commit {
    pub(super) name: String,
    /// Its time, in seconds since 1970.
    pub(super) seconds: u64,
    /// Its time, as `2026-11-28T15:34:00Z`.
    pub(super) time: String,
}

impl Commit {
    /// Returns the present commit of the repository at `root`.
    pub(super) fn head(root: &Path) -> Result<Self, String> {
        let format = "--format=%H %ct %cd";
        let date = "--date=format-local:%Y-%m-%dT%H:%M:%SZ";
        let shown = git(root, &["show", "--no-patch", "--no-show-signature", format, date, "HEAD"])?;
        Self::parse(shown.trim()).ok_or_else(|| format!("git shows `HEAD` as `{}`", shown.trim()))
    }

    fn parse(shown: &str) -> Option<Self> {
        let mut words = shown.split(' ').map(str::to_owned);
        let (name, seconds, time) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
        Some(Self { name, seconds, time })
    }
}

/// Returns whether tracked files differ from the present commit.
pub(super) fn is_changed(root: &Path) -> Result<bool, String> {
    Ok(!git(root, &["status", "--porcelain", "--untracked-files=no"])?.trim().is_empty())
}

/// The sources of a commit.
pub(super) struct Checkout {
    pub(super) root: PathBuf,
    pub(super) version: String,
}

impl Checkout {
    /// Copies a commit of the repository at `root` to the directory `to`, and removes all else from it. It is a
    /// repository, since the command's build script asks git for the commit. Files of an earlier commit that are the same
    /// stay as they are, so that cargo does not build them again.
    pub(super) fn new(root: &Path, commit: &Commit, to: &Path) -> Result<Self, String> {
        let (root, to) = (absolute(root)?, absolute(to)?);
        if !to.join(".git").exists() {
            disk::empty_directory(&to)?;
            git(&to, &["init", "--quiet", "--template=", "--initial-branch", "archive"])?;
        }
        // Of a shallow repository, too.
        git(&to, &["fetch", "--quiet", "--depth", "1", &format!("file://{}", root.display()), &commit.name])?;
        git(&to, &["checkout", "--quiet", "--force", "--detach", "FETCH_HEAD"])?;
        git(&to, &["clean", "--quiet", "-ffdx"])?;
        let manifest = disk::bytes(&to, "Cargo.toml")?;
        Ok(Self { version: workspace_version(&String::from_utf8_lossy(&manifest))?, root: to })
    }
}

pub(super) fn absolute(path: &Path) -> Result<PathBuf, String> {
    std::path::absolute(path).map_err(|error| format!("`{}`: {error}", path.display()))
}

/// Runs git without the settings of the user and of the machine, which could change what is in files, and run programs.
fn git(root: &Path, args: &[&str]) -> Result<String, String> {
    let mut command = Command::new("git");
    command.env_clear().envs(kept(&["PATH", "TMPDIR"])).env("TZ", "UTC0").env("LC_ALL", "C");
    command.envs([
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_ATTR_NOSYSTEM", "1"),
    ]);
    command
        .arg("-C")
        .arg(root)
        .args(["-c", "core.hooksPath=/dev/null", "-c", "core.autocrlf=false"])
        .args(args);
    disk::printed(&mut command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_has_its_time_in_utc() {
        let commit = Commit::parse("0123abcd 1700000000 2023-11-14T22:13:20Z").unwrap();
        assert_eq!((commit.name.as_str(), commit.seconds), ("0123abcd", 1_700_000_000));
        assert_eq!(commit.time, "2023-11-14T22:13:20Z");
        assert_eq!(Commit::parse("0123abcd soon 2023-11-14T22:13:20Z"), None);
    }

    #[test]
    fn a_checkout_has_the_files_of_the_commit_and_no_others() {
        let directory = std::env::temp_dir().join(format!("opkeep-checkout-{}", std::process::id()));
        let (root, to) = (directory.join("root"), directory.join("to"));
        let manifest = |version: &str| format!("[workspace.package]\nversion = \"{version}\"\n");
        let commit = |version: &str| {
            disk::write_bytes(&root.join("Cargo.toml"), manifest(version).as_bytes()).unwrap();
            git(&root, &["add", "--all"]).unwrap();
            let author = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
            git(&root, &[&author[..], &["commit", "--quiet", "--message", version]].concat()).unwrap();
        };
        disk::empty_directory(&root).unwrap();
        git(&root, &["init", "--quiet"]).unwrap();
        commit("1.0.0");
        disk::write(&root.join("untracked"), "").unwrap();
        assert_eq!(Checkout::new(&root, &Commit::head(&root).unwrap(), &to).unwrap().version, "1.0.0");
        assert_eq!(disk::names(&to).unwrap(), [".git", "Cargo.toml"]);
        disk::write(&to.join("left"), "").unwrap();
        disk::write(&to.join("Cargo.toml"), "changed").unwrap();
        commit("1.1.0");
        disk::write(&root.join("Cargo.toml"), "not committed").unwrap();
        assert!(is_changed(&root).unwrap());
        let checkout = Checkout::new(&root, &Commit::head(&root).unwrap(), &to).unwrap();
        assert_eq!((checkout.version.as_str(), Commit::head(&root)), ("1.1.0", Commit::head(&to)));
        assert_eq!(disk::names(&to).unwrap(), [".git", "Cargo.toml", "untracked"]);
        // Also where the user's git writes other line ends.
        assert_eq!(disk::bytes(&to, "Cargo.toml").unwrap(), manifest("1.1.0").as_bytes());
        disk::remove(&directory).unwrap();
    }
}
