//! Which files of settings may count: only what this user or root wrote.
//!
//! A file of settings decides which compiler runs and which kernels are used. In a directory such as `/tmp`, or below a
//! directory of another user, that other user could decide it.

use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use opkeep_fs::{FileStat, Fs};

use super::value::Layer;
use crate::ui::text::quoted_path;

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

    /// Returns why another user may have written the file of `layer` at `path` with this `opened` metadata, or may replace it.
    pub(super) fn problem(self, fs: &Fs, layer: Layer, path: &Path, opened: &Metadata) -> Option<Problem> {
        let found = self.problem_of_file(layer, path, opened.uid(), opened.gid(), opened.mode());
        found.or_else(|| {
            // A link leads where its owner wants.
            let link = fs.look(path).ok().filter(|link| link.kind == opkeep_fs::FileKind::Link)?;
            let problem = self.problem_of_owner(path, link.user)?;
            Some((problem, self.help_for_owner(layer, path, path.parent(), "chown -h")))
        })
    }

    /// Returns why another user may have created files in the directory, or may replace them.
    pub(super) fn problem_of_dir(self, layer: Layer, dir: &Path, stat: &FileStat) -> Option<Problem> {
        match self.problem_of_owner(dir, stat.user) {
            Some(problem) => Some((problem, self.help_for_owner(layer, dir, Some(dir), "chown"))),
            // In a sticky directory, others can create files, but not replace this user's. Its owner can.
            None if stat.mode & STICKY != 0 => None,
            None => self.problem_of_mode(dir, stat.group, stat.mode),
        }
    }

    fn problem_of_file(
        self,
        layer: Layer,
        path: &Path,
        owner: u32,
        group: u32,
        mode: u32,
    ) -> Option<Problem> {
        match self.problem_of_owner(path, owner) {
            Some(problem) => Some((problem, self.help_for_owner(layer, path, path.parent(), "chown"))),
            None => self.problem_of_mode(path, group, mode),
        }
    }

    fn problem_of_owner(self, path: &Path, owner: u32) -> Option<String> {
        (owner != self.user && owner != ROOT).then(|| {
            format!("the owner of `{}` is user {owner}, expected {} or root", path.display(), self.user)
        })
    }

    /// Returns what helps if another user owns `path`. Only projects, which are directories, can be trusted.
    fn help_for_owner(self, layer: Layer, path: &Path, project: Option<&Path>, chown: &str) -> String {
        let owner = if layer == Layer::System { ROOT } else { self.user };
        match (layer, project) {
            (Layer::Project, Some(project)) => format!("if that user is trusted, {}", trusting(project)),
            _ => {
                let quoted = quoted_path(path);
                format!("if its content is yours, `{chown} {owner} {quoted}`, run by root, says so")
            }
        }
    }

    fn problem_of_mode(self, path: &Path, group: u32, mode: u32) -> Option<Problem> {
        let quoted = quoted_path(path);
        let mode_shown = mode & 0o7777;
        if mode & OTHERS_WRITE != 0 {
            let problem = format!("every user can write to `{}` (mode {mode_shown:04o})", path.display());
            return Some((problem, format!("`chmod go-w {quoted}` ends that")));
        }
        // Many systems give each user a group of the same number, and let it write.
        let is_private = group == self.group && group == self.user;
        (mode & GROUP_WRITES != 0 && !is_private).then(|| {
            let problem = format!("group {group} can write to `{}` (mode {mode_shown:04o})", path.display());
            (problem, format!("`chmod g-w {quoted}` ends that"))
        })
    }
}

/// Returns how the project in `dir` becomes a trusted one.
pub(super) fn trusting(dir: &Path) -> String {
    let line =
        dir.to_str().map(|dir| format!("the line trusted-projects = [{dir:?}] in your own configuration"));
    // The variable separates directories by colons.
    let has_colon = dir.as_os_str().as_bytes().contains(&b':');
    let variable = (!has_colon).then(|| format!("`export OPKEEP_TRUSTED_PROJECTS={}`", quoted_path(dir)));
    match (variable, line) {
        (Some(variable), Some(line)) => format!("{variable} says so, or {line}"),
        (Some(variable), None) => format!("{variable} says so"),
        (None, Some(line)) => format!("{line} says so"),
        // In no list of directories.
        (None, None) => "rename its directory to UTF-8 without a colon".to_owned(),
    }
}

/// Whether users other than the owner can read the file, its group included.
pub(super) fn is_readable_by_others(opened: &Metadata) -> bool {
    opened.mode() & OTHERS_READ != 0
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::load::is_below;
    use super::super::table::TRUSTED_PROJECTS;
    use super::super::value::Value;
    use super::*;

    const ME: User = User { user: 1000, group: 1000 };

    fn problem(user: User, owner: u32, group: u32, mode: u32) -> Option<String> {
        let path = Path::new("/p/opkeep.toml");
        user.problem_of_file(Layer::Project, path, owner, group, mode).map(|(problem, _)| problem)
    }

    #[test]
    fn only_files_of_this_user_and_of_root_count() {
        assert_eq!(problem(ME, 1000, 1000, 0o644), None);
        assert_eq!(problem(ME, 0, 0, 0o644), None);
        let other = problem(ME, 1001, 1000, 0o600).unwrap();
        assert_eq!(other, "the owner of `/p/opkeep.toml` is user 1001, expected 1000 or root");
        assert!(problem(ME, 1000, 1000, 0o646).unwrap().starts_with("every user can write"));
    }

    /// Returns what helps if another user owns the file.
    fn help(layer: Layer, path: &Path) -> String {
        ME.problem_of_file(layer, path, 1001, 1000, 0o600).unwrap().1
    }

    #[test]
    fn the_suggested_directory_is_that_of_the_project() {
        let fs = Fs::new();
        for dir in ["/p", "/p q/it's"] {
            let path = Path::new(dir).join("opkeep.toml");
            let mut stat = fs.open_dir(Path::new("/")).and_then(|root| root.stat()).unwrap();
            (stat.user, stat.mode) = (1001, 0o755);
            for help in [
                help(Layer::Project, &path),
                ME.problem_of_dir(Layer::Project, Path::new(dir), &stat).unwrap().1,
            ] {
                let (_, rest) = help.split_once("OPKEEP_TRUSTED_PROJECTS=").unwrap();
                let suggested = rest.split_once("` says so").unwrap().0;
                assert_eq!(suggested, quoted_path(Path::new(dir)), "{help}");
                // As the variable is read.
                let text = OsString::from(dir);
                let value = Value::of_variable(&TRUSTED_PROJECTS, "OPKEEP_TRUSTED_PROJECTS", text);
                assert!(value.paths().any(|trusted| is_below(&fs, Path::new(dir), &trusted)), "{help}");
            }
        }
        let help = help(Layer::Project, Path::new("/a:b/opkeep.toml"));
        assert!(!help.contains("export") && help.contains("trusted-projects = [\"/a:b\"]"), "{help}");
    }

    #[test]
    fn the_own_file_gets_another_owner() {
        let path = Path::new("/c/opkeep.toml");
        assert!(help(Layer::User, path).contains("`chown 1000 /c/opkeep.toml`"));
        assert!(help(Layer::System, path).contains("`chown 0 /c/opkeep.toml`"));
        for layer in [Layer::User, Layer::System] {
            assert!(!help(layer, path).contains("OPKEEP_TRUSTED_PROJECTS"));
        }
    }

    #[test]
    fn a_group_may_write_if_it_is_this_users_alone() {
        assert_eq!(problem(ME, 1000, 1000, 0o664), None);
        assert!(problem(ME, 1000, 100, 0o664).unwrap().starts_with("group 100 can write"));
        let shared = User { user: 1000, group: 100 };
        assert!(problem(shared, 1000, 100, 0o664).unwrap().starts_with("group 100 can write"));
    }
}
