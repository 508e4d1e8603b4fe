//! The paths that the programs of a compile look at without reading them: whether a file exists, its size, its permissions.
//!
//! Compilers without a wrapper are trusted to look at the same paths for each source. A wrapper may decide by any look,
//! for some kernels only, Landlock denies no look, and no name shows which program of a compile is a wrapper: it may be
//! called `as`. So with a wrapper, each look of a compile must be one that the kernel's key contains, whichever program
//! makes it. Any other is refused like a read.
//!
//! # What counts
//!
//! - What the probe found at a path: the path (relative to the driver's directory if it is below that), kind, size,
//!   permissions, owner, the target of a link, the names in a directory; of files that it also read, the permissions.
//!   Of programs along PATH the directory does not count.
//! - Declared inputs: their permissions and the names in their directories.
//! - The name by which the wrapper is called.
//!
//! # What does not count
//!
//! - Programs of the names that a dry run shows (`cc1`, `as`, `ld`) look for the way to a header or a library. What
//!   they find at directories and at files that they read does not count; of what they look for and do not find, the
//!   name counts and not the directory.
//! - What a compile made itself, wherever that is.
//! - Names of temporary files: those that differ between the two runs of the probe and at which nothing exists, and
//!   others of their form ([`made_up`](super::made_up)). They may be looked for and not found.
//! - The names in a directory that a Python wrapper lists: Python lists directories for each import.
//!
//! Where the two runs of the probe look at different paths, no kernel is stored.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use opkeep_digest::{Digest, Hasher};
use opkeep_fs::Fs;
use opkeep_process::{Found, Observation, Program, Unkeyed};
use serde::{Deserialize, Serialize};

use super::hex;
use super::made_up::Pattern;
use super::words::{self, command_of};

/// The looks of a compile, which a key contains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Looks {
    paths: BTreeSet<PathBuf>,
    /// Directories whose names count: what they do not have shows in that.
    listed: BTreeSet<PathBuf>,
    /// Names that programs make up for each run, at which there is nothing.
    made_up: Vec<Pattern>,
    /// A digest of what was found.
    #[serde(with = "hex::required")]
    found: Digest,
}

/// The directories of a toolchain.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places<'a> {
    /// The driver's directory: a toolchain may be moved with all that is below it.
    pub(crate) home: Option<&'a Path>,
    /// The directories of PATH: which of them a program is in does not matter.
    pub(crate) path: Vec<PathBuf>,
    /// The names of the programs that the driver runs by its dry run.
    pub(crate) parts: BTreeSet<String>,
}

impl Looks {
    /// The looks of a compile that was `seen`. Names that are `made_up` are no looks.
    pub(crate) fn of(
        seen: &Observation,
        places: Places<'_>,
        made_up: &BTreeSet<PathBuf>,
        patterns: &[Pattern],
    ) -> Self {
        let (mut paths, mut listed) = (BTreeSet::new(), BTreeSet::new());
        let mut hasher = Hasher::new("opkeep cpu looks 3");
        let read: BTreeSet<PathBuf> =
            opkeep_order::set(seen.read.keys().map(|path| Fs::new().resolved(path)));
        for program in &seen.programs {
            places.add(program, (seen, &read), made_up, &mut hasher);
            paths.extend(program.looked_at.difference(made_up).cloned());
            if !is_python(program) {
                listed.extend(program.listed.iter().cloned());
            }
        }
        Self { paths, listed, made_up: patterns.to_vec(), found: hasher.finish() }
    }

    /// A digest of what was found.
    pub(crate) const fn digest(&self) -> Digest {
        self.found
    }

    /// A path that only one of two compiles looked at.
    pub(crate) fn differing<'a>(&'a self, other: &'a Self) -> Option<&'a Path> {
        let paths = self.paths.symmetric_difference(&other.paths);
        paths.chain(self.listed.symmetric_difference(&other.listed)).next().map(PathBuf::as_path)
    }
}

/// Paths that a compile looked at and that are not among the `known` looks. `declared` are files and directories that
/// users declare: all that a program can see of those counts, except links.
pub(crate) fn beyond<'o>(
    known: &[&Looks],
    seen: &'o Observation,
    declared: &[PathBuf],
) -> BTreeSet<&'o Path> {
    let has_listed = |path: &Path| known.iter().any(|looks| looks.listed.contains(path));
    let is_known = |path: &Path| {
        let found = seen.looked_at.get(path);
        let is_missing = found.is_some_and(Found::is_nothing) || seen.temporary.contains(path);
        // Another program made it: it is the compile's own, wherever that is.
        let is_own = found.is_none() && !is_missing && !seen.read.contains_key(path);
        let is_listed = || path.parent().is_some_and(has_listed);
        let is_made_up =
            || known.iter().flat_map(|looks| &looks.made_up).any(|pattern| pattern.matches(path));
        known.iter().any(|looks| looks.paths.contains(path))
            || Unkeyed::covering(path).is_some()
            || is_own
            || (is_missing && (is_listed() || is_made_up()))
            || (is_below(path, declared) && !found.is_some_and(Found::is_link))
    };
    let is_known_list = |path: &Path| {
        has_listed(path)
            || Unkeyed::covering(path).is_some()
            || !seen.listed.contains_key(path)
            || is_below(path, declared)
    };
    let mut beyond = BTreeSet::new();
    for program in &seen.programs {
        beyond.extend(program.looked_at.iter().map(PathBuf::as_path).filter(|path| !is_known(path)));
        if !is_python(program) {
            beyond.extend(program.listed.iter().map(PathBuf::as_path).filter(|path| !is_known_list(path)));
        }
    }
    beyond
}

/// The names of the programs that `steps`, a dry run, shows.
pub(crate) fn parts_of(steps: &str) -> BTreeSet<String> {
    let first = |step: Vec<String>| step.first().map(|program| words::name_of(Path::new(program)));
    // collect2 runs ld, which a dry run does not show.
    opkeep_order::set(steps.lines().filter_map(command_of).filter_map(first).chain(["ld".to_owned()]))
}

impl Places<'_> {
    /// Adds the looks of a program in a compile that was seen, with the real paths of all files that were read.
    fn add(
        &self,
        program: &Program,
        (seen, read): (&Observation, &BTreeSet<PathBuf>),
        made_up: &BTreeSet<PathBuf>,
        hasher: &mut Hasher,
    ) {
        let is_part = self.parts.contains(&words::name_of(&program.path));
        let is_way_to_a_file = |path: &Path, found: &Found| {
            is_part && (found.is_directory() || read.contains(&Fs::new().resolved(path)))
        };
        let mut found = BTreeSet::new();
        let mut along_path: BTreeMap<&OsStr, BTreeMap<usize, String>> = BTreeMap::new();
        for path in program.looked_at.difference(made_up).filter(|path| Unkeyed::covering(path).is_none()) {
            let words = match seen.looked_at.get(path) {
                Some(found) if is_way_to_a_file(path, found) => continue,
                Some(found) => found.in_words(),
                None if seen.temporary.contains(path) => Found::nothing().in_words(),
                None => continue,
            };
            let at = path.parent().and_then(|parent| self.path.iter().position(|one| one == parent));
            match (at, path.file_name()) {
                (Some(_), Some(_)) if seen.looked_at.get(path).is_none_or(Found::is_nothing) => {}
                (Some(at), Some(name)) => {
                    along_path.entry(name).or_default().insert(at, words);
                }
                (_, Some(name)) if is_part => {
                    found.insert((PathBuf::from(name), words));
                }
                _ => {
                    found.insert((self.name(path), words));
                }
            }
        }
        hasher.list(found.len());
        for (name, words) in found {
            hasher.bytes(name.as_os_str().as_encoded_bytes());
            hasher.str(&words);
        }
        hasher.list(along_path.len());
        for (name, found) in along_path {
            hasher.bytes(name.as_encoded_bytes());
            hasher.list(found.len());
            found.values().for_each(|words| hasher.str(words));
        }
        // Python lists directories to find modules, which count by content.
        let is_counted = |path: &&PathBuf| Unkeyed::covering(path).is_none() && !is_python(program);
        let listed: Vec<_> = program.listed.iter().filter(is_counted).collect();
        hasher.list(listed.len());
        for path in listed {
            hasher.bytes(self.name(path).as_os_str().as_encoded_bytes());
            hasher.option(seen.listed.contains_key(path));
            seen.listed.get(path).into_iter().for_each(|names| hasher.digest(names));
        }
    }

    fn name(&self, path: &Path) -> PathBuf {
        let below = self.home.and_then(|home| path.strip_prefix(home).ok());
        below.map_or_else(|| path.to_owned(), |below| Path::new(".").join(below))
    }
}

/// Whether a path is one of `roots` or below one, without a link on the way.
fn is_below(path: &Path, roots: &[PathBuf]) -> bool {
    let is_plain = path.components().all(|part| part != Component::ParentDir);
    let is_below = |root: &PathBuf| {
        let Ok(below) = path.strip_prefix(root) else { return false };
        let Some(parent) = below.parent() else { return true };
        Fs::new().resolved(&root.join(parent)) == Fs::new().resolved(root).join(parent)
    };
    is_plain && roots.iter().any(is_below)
}

/// Whether a program, or the interpreter of a script, is Python.
fn is_python(program: &Program) -> bool {
    let interpreter = if program.is_script { program.read.get(1) } else { Some(&program.path) };
    let name = interpreter.and_then(|path| path.file_name());
    name.is_some_and(|name| name.as_encoded_bytes().starts_with(b"python"))
}
