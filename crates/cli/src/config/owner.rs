//! Which files of settings may count: only what this user or root wrote.
//!
//! A file of settings decides which compiler runs and which kernels are used. In a directory such as `/tmp`, or below a
//! directory of another user, that other user could decide it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use opkeep_fs::{FileStat, Fs};

use crate::ui::text::shell_quoted;

const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const OTHERS_READ: u32 = 0o044;
const STICKY: u32 = 0o1000;
const ROOT: u32 = 0;

/// This user.
#[derive(Clone, Copy, Debug)]
pub(super) struct User {
    user: u32,
    group: u32,
}

/// A problem of a file, and what to do.
pub(super) type Problem = (String, String);

impl User {
    pub(super) fn current() -> Self {
        Self { user: rustix::process::geteuid().as_raw(), group: rustix::process::getegid().as_raw() }
    }

    /// Returns why another user may have written the file at `path` with this `opened` metadata, or may replace it.
    pub(super) fn problem(self, fs: &Fs, path: &Path, opened: &Metadata) -> Option<Problem> {
        let found = self.problem_of(path, opened.uid(), opened.gid(), opened.mode());
        found.or_else(|| {
            // A link leads where its owner wants.
            let link = fs.look(path).ok().filter(|link| link.kind == opkeep_fs::FileKind::Link)?;
            self.problem_of_owner(path, link.user)
        })
    }

    /// Returns why another user may have created files in the directory, or may replace them.
    pub(super) fn problem_of_dir(self, dir: &Path, stat: &FileStat) -> Option<Problem> {
        // In a sticky directory, others can create files, but not replace this user's.
        let mode = if stat.mode & STICKY == 0 { stat.mode } else { 0 };
        let owner = if stat.mode & STICKY == 0 { stat.user } else { ROOT };
        self.problem_of(dir, owner, stat.group, mode)
    }

    fn problem_of(self, path: &Path, owner: u32, group: u32, mode: u32) -> Option<Problem> {
        self.problem_of_owner(path, owner).or_else(|| {
            let quoted = shell_quoted(&path.to_string_lossy());
            let mode_shown = mode & 0o7777;
            if mode & OTHERS_WRITE != 0 {
                let problem = format!("every user can write to `{}` (mode {mode_shown:04o})", path.display());
                return Some((problem, format!("`chmod go-w {quoted}` ends that")));
            }
            // Many systems give each user a group of the same number, and let it write.
            let is_private = group == self.group && group == self.user;
            (mode & GROUP_WRITES != 0 && !is_private).then(|| {
                let problem =
                    format!("group {group} can write to `{}` (mode {mode_shown:04o})", path.display());
                (problem, format!("`chmod g-w {quoted}` ends that"))
            })
        })
    }

    fn problem_of_owner(self, path: &Path, owner: u32) -> Option<Problem> {
        (owner != self.user && owner != ROOT).then(|| {
            let problem =
                format!("the owner of `{}` is user {owner}, expected {} or root", path.display(), self.user);
            let quoted = shell_quoted(&path.to_string_lossy());
            (problem, format!("if that user is trusted, `export OPKEEP_TRUSTED_PROJECTS={quoted}` says so"))
        })
    }
}

/// Whether users other than the owner can read the file, its group included.
pub(super) fn is_readable_by_others(opened: &Metadata) -> bool {
    opened.mode() & OTHERS_READ != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: User = User { user: 1000, group: 1000 };

    fn problem(user: User, owner: u32, group: u32, mode: u32) -> Option<String> {
        user.problem_of(Path::new("/p/opkeep.toml"), owner, group, mode).map(|(problem, _)| problem)
    }

    #[test]
    fn only_files_of_this_user_and_of_root_count() {
        assert_eq!(problem(ME, 1000, 1000, 0o644), None);
        assert_eq!(problem(ME, 0, 0, 0o644), None);
        let other = problem(ME, 1001, 1000, 0o600).unwrap();
        assert_eq!(other, "the owner of `/p/opkeep.toml` is user 1001, expected 1000 or root");
        assert!(problem(ME, 1000, 1000, 0o646).unwrap().starts_with("every user can write"));
    }

    #[test]
    fn a_group_may_write_if_it_is_this_users_alone() {
        assert_eq!(problem(ME, 1000, 1000, 0o664), None);
        assert!(problem(ME, 1000, 100, 0o664).unwrap().starts_with("group 100 can write"));
        let shared = User { user: 1000, group: 100 };
        assert!(problem(shared, 1000, 100, 0o664).unwrap().starts_with("group 100 can write"));
    }
}
