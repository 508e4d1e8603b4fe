//! What `--version` says, and where the build script takes it from.
#![expect(clippy::disallowed_methods, reason = "tests make files")]

#[path = "../../build.rs"]
#[expect(dead_code, reason = "cargo calls its function main")]
mod build_script;

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::Place;

/// Runs git, as a user whose clock and zone are fixed.
fn git(dir: &Path, args: &[&str]) {
    let mut command = Command::new("git");
    command.arg("-C").arg(dir).args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0"]);
    command.env("GIT_AUTHOR_DATE", "1795910399 +0900").env("GIT_COMMITTER_DATE", "1795910399 +0900");
    let output = command.args(args).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn the_long_version_has_the_target() {
    let place = Place::new();
    let short = format!("opkeep {}", env!("CARGO_PKG_VERSION"));
    assert_eq!(place.run(&["-V"]).ended_with(0).stdout, format!("{short}\n"));
    let long = place.run(&["--version"]).ended_with(0).stdout;
    let details = long.strip_prefix(&format!("{short} (")).and_then(|rest| rest.strip_suffix(")\n"));
    let target = details.unwrap().rsplit(", ").next().unwrap();
    assert!(target.starts_with(std::env::consts::ARCH) && target.contains("-linux-"), "{long}");
}

#[test]
fn the_commit_is_that_of_the_projects_own_repository() {
    let place = Place::new();
    let root = place.path("project");
    let package = root.join("crates/cli");
    fs::create_dir_all(&package).unwrap();
    assert_eq!(build_script::repository(&package), None);

    git(&place.dir.path().join("project"), &["init", "--quiet", "--initial-branch=main"]);
    git(&root, &["commit", "--quiet", "--allow-empty", "--message=one"]);
    assert_eq!(build_script::repository(&package).as_deref(), Some(root.as_path()));
    let head = build_script::git(&root, &["rev-parse", "HEAD"]).unwrap();
    // Midnight has passed in the zone of the committer only.
    let commit = format!("{} 2026-11-28", &head[..9]);
    assert_eq!(build_script::commit(&root).as_ref(), Some(&commit));
    assert_eq!(build_script::details(Some(&commit), "t"), format!("{commit}, t"));
    assert_eq!(build_script::details(None, "t"), "t");

    // A copy in the repository of another project.
    let copy = root.join("vendor/opkeep-cli");
    fs::create_dir_all(&copy).unwrap();
    assert_eq!(build_script::repository(&copy), None);
}

/// Each commit changes a file that is watched, in a clone, on a packed branch, and in a work tree beside.
#[test]
fn a_commit_changes_a_watched_file() {
    let place = Place::new();
    let root = place.path("project");
    fs::create_dir_all(&root).unwrap();
    git(&root, &["init", "--quiet", "--initial-branch=main"]);
    git(&root, &["commit", "--quiet", "--allow-empty", "--message=one"]);
    let beside = place.path("beside");
    git(&root, &["worktree", "add", "--quiet", "-b", "other", beside.to_str().unwrap()]);
    let content = |root: &Path| -> Vec<Vec<u8>> {
        build_script::changed_by_commits(root).iter().map(|path| fs::read(path).unwrap()).collect()
    };
    for root in [&root, &beside] {
        for pack in [false, true] {
            if pack {
                git(root, &["pack-refs", "--all"]);
            }
            let before = content(root);
            assert!(!before.is_empty());
            git(root, &["commit", "--quiet", "--allow-empty", "--message=two"]);
            assert_ne!(content(root)[..before.len()], before, "{} {pack}", root.display());
        }
    }
}

#[test]
fn dates_are_those_of_the_calendar() {
    for (seconds, date) in [
        (0, "1970-01-01"),
        (951_782_399, "2000-02-28"),
        (951_782_400, "2000-02-29"),
        (951_868_800, "2000-03-01"),
        (1_795_910_399, "2026-11-28"),
        (4_107_542_400, "2100-03-01"),
    ] {
        assert_eq!(build_script::date(seconds), date);
    }
}
