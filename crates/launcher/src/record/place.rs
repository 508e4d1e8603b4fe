//! Whether a result depends on where the roots lie, although its tool only takes them for places of files.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use opkeep_fs::Fs;

use super::Run;
use crate::reason::Reason;
use crate::result::Output;
use crate::roots::contains;

/// The extensions of texts for C and C++ compilers. A text without an extension counts as well.
const C_TEXTS: [&str; 16] =
    ["c", "cc", "cpp", "cxx", "c++", "C", "h", "hh", "hpp", "hxx", "h++", "H", "inc", "inl", "ipp", "cce"];

/// The words by which a C or C++ text takes the path of a file for a value: its length shows nothing of it in an output.
const PATHS_AS_VALUES: [&[u8]; 4] = [b"__FILE__", b"__BASE_FILE__", b"__builtin_FILE", b"source_location"];

/// The largest text that is searched.
const MAX_TEXT: u64 = 16 << 20;

impl Run<'_> {
    /// Whether the result is that of this place only.
    ///
    /// # Errors
    /// As of [`outputs_show_paths`](Self::outputs_show_paths); or a text that was read cannot be read.
    pub(super) fn depends_on_place(&self, outputs: &[Output]) -> Result<bool, Reason> {
        Ok(self.outputs_show_paths(outputs)?
            || self.texts_show_paths()
            || self.leaves_roots(outputs)
            || self.compiles_paths()?)
    }

    /// Whether the run used a path that a relative one leads to from a root: in a tree that lies elsewhere, that leads elsewhere. The
    /// directories above a root are there for each root. That the run looked at one of them is no use of it: this is how links are resolved.
    fn leaves_roots(&self, outputs: &[Output]) -> bool {
        let is_counted =
            |path: &&Path| !self.is_ignored(path) && !self.is_job_pipe(path) && !self.is_ignored_write(path);
        let looked = self.seen.looked_at.keys().map(AsRef::as_ref);
        let looked = looked.filter(|path: &&Path| !self.is_passed(path) || self.seen.entered.contains(*path));
        let mut used = looked
            .chain(self.seen.read.keys().map(AsRef::as_ref))
            .chain(self.seen.names.keys().map(AsRef::as_ref))
            .chain(self.seen.temporary.iter().map(AsRef::as_ref))
            .chain(self.seen.before.keys().map(AsRef::as_ref))
            .filter(is_counted)
            .chain(outputs.iter().filter(|it| it.name.root.is_empty()).map(|it| it.name.rest.as_path()));
        let is_dir = |path: &Path| {
            self.seen.names.contains_key(path)
                || self.seen.looked_at.get(path).is_some_and(|found| found.is_directory())
        };
        // Behind a directory outside of a root, a name can lead back into it.
        used.any(|path| self.roots.are_beside(path) || self.roots.are_left_by(path) && is_dir(path))
    }

    /// Whether a path is a directory above a root that the run only looked at.
    pub(super) fn is_passed(&self, path: &Path) -> bool {
        self.roots.are_below(path)
            && self.seen.looked_at.get(path).is_some_and(|found| found.is_directory() && !found.is_link())
            && !self.seen.names.contains_key(path)
    }

    /// Whether a C or C++ text, or an option of a compiler, has the path of a root, or takes that of a file for a value.
    fn compiles_paths(&self) -> Result<bool, Reason> {
        let has_path = |text: &[u8]| {
            self.roots.appear_in(text) || PATHS_AS_VALUES.iter().any(|word| contains(text, word))
        };
        let mut args = self.seen.programs.iter().flat_map(|program| &program.args);
        if args.any(|arg| arg.as_bytes().starts_with(b"-D") && has_path(arg.as_bytes())) {
            return Ok(true);
        }
        let is_text = |path: &Path| {
            self.roots.cover(path)
                && path.extension().is_none_or(|found| C_TEXTS.iter().any(|it| found == *it))
        };
        for (path, _) in self.seen.read.iter().filter(|(path, found)| found.is_file() && is_text(path)) {
            // A larger one is a library or a program, which is not compiled.
            if Fs::new().metadata(path).is_ok_and(|found| found.len() > MAX_TEXT) {
                continue;
            }
            let text = Fs::new().read(path, MAX_TEXT).map_err(|_| Reason::Unreadable(path.clone()))?;
            if has_path(&text) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
