//! What the programs around a compiler look at without reading it: whether a file is there, its size, who may execute it.
//!
//! Programs that the driver runs look at the same paths for each source. A wrapper may decide by any look, for some kernels
//! only; so each look of a compile must be one that its key contains.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use opbuild_digest::{Digest, Hasher};
use opbuild_process::{Found, Observation, Program, Unkeyed};
use serde::{Deserialize, Serialize};

use super::made_up::Pattern;
use super::words::{self, command_of};

/// What [`Found::in_words`] says where nothing is.
const NOTHING: &str = "nothing";

/// The looks that a key contains.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Looks {
    paths: BTreeSet<PathBuf>,
    /// Directories whose names count: what they do not have shows in that.
    listed: BTreeSet<PathBuf>,
    /// Names that programs make up for each run, at which there is nothing.
    made_up: Vec<Pattern>,
    /// How often the driver runs each program.
    own: BTreeMap<String, usize>,
}

impl Looks {
    /// The looks of a compile that was `seen`, and the digest of what was found: by name, not by place. What was read
    /// counts by content, and the programs that the driver runs by its dry run (`steps`) look for nothing else. Names that
    /// are `made_up` are no looks.
    pub(crate) fn of(
        seen: &Observation,
        steps: &str,
        made_up: &BTreeSet<PathBuf>,
        patterns: &[Pattern],
    ) -> (Self, Digest) {
        let mut looks = Self { own: programs_of(steps), made_up: patterns.to_vec(), ..Self::default() };
        let mut hasher = Hasher::new("opbuild cpu looks 2");
        for program in foreign(seen, &looks.own) {
            add(program, seen, made_up, &mut hasher);
            looks.paths.extend(program.looked_at.difference(made_up).cloned());
            if !is_python(program) {
                looks.listed.extend(program.listed.iter().cloned());
            }
        }
        (looks, hasher.finish())
    }

    /// These and those of another compile, whose key contains both.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.paths.extend(other.paths);
        self.listed.extend(other.listed);
        self.made_up.extend(other.made_up);
        self
    }

    /// What a compile looked at that is not among these. `declared` are files and directories that users declare: of those
    /// all that a program can see counts, but for links.
    pub(crate) fn beyond<'o>(&self, seen: &'o Observation, declared: &[PathBuf]) -> BTreeSet<&'o Path> {
        let is_declared = |path: &Path, found: Option<&Found>| {
            declared.iter().any(|root| path.starts_with(root)) && !found.is_some_and(Found::is_link)
        };
        let is_known = |path: &Path| {
            let found = seen.looked_at.get(path);
            let is_listed = || path.parent().is_some_and(|parent| self.listed.contains(parent));
            let is_made_up = || self.made_up.iter().any(|pattern| pattern.matches(path));
            self.paths.contains(path)
                || Unkeyed::covering(path).is_some()
                // Its own, wherever it made it.
                || (found.is_none() && !seen.read.contains_key(path))
                || is_declared(path, found)
                || (found.is_some_and(Found::is_nothing) && (is_listed() || is_made_up()))
        };
        let mut beyond = BTreeSet::new();
        for program in foreign(seen, &self.own) {
            let looked_at = program.looked_at.iter().map(PathBuf::as_path);
            beyond.extend(looked_at.filter(|path| !is_known(path)));
            let listed = program.listed.iter().map(PathBuf::as_path).filter(|path| {
                let is_known = self.listed.contains(*path)
                    || Unkeyed::covering(path).is_some()
                    || !seen.listed.contains_key(*path)
                    || is_declared(path, None);
                !is_known && !is_python(program)
            });
            beyond.extend(listed);
        }
        beyond
    }
}

/// The programs that the driver does not run by its dry run: it runs each of its own so often, and no script.
fn foreign<'o>(seen: &'o Observation, own: &BTreeMap<String, usize>) -> Vec<&'o Program> {
    let name = |program: &Program| words::name_of(&program.path);
    let is_own = |program: &Program| {
        let runs = seen.programs.iter().filter(|other| name(other) == name(program)).count();
        !program.is_script && own.get(&name(program)).is_some_and(|shown| runs <= *shown)
    };
    seen.programs.iter().filter(|program| !is_own(program)).collect()
}

fn programs_of(steps: &str) -> BTreeMap<String, usize> {
    // collect2 runs ld, which a dry run does not show.
    let mut own = BTreeMap::from([("ld".to_owned(), 1)]);
    for step in steps.lines().filter_map(command_of) {
        let name = step.first().map(|program| words::name_of(Path::new(program))).unwrap_or_default();
        *own.entry(name).or_default() += 1;
    }
    own
}

fn add(program: &Program, seen: &Observation, made_up: &BTreeSet<PathBuf>, hasher: &mut Hasher) {
    let mut found: BTreeMap<&OsStr, OfName> = BTreeMap::new();
    for path in program.looked_at.difference(made_up) {
        let Some(name) = path.file_name().filter(|_| Unkeyed::covering(path).is_none()) else { continue };
        let Some(state) = seen.looked_at.get(path).or_else(|| seen.read.get(path)) else { continue };
        let of_name = found.entry(name).or_default();
        of_name.is_program |= state.is_executable();
        // Where directories are is a place; and a program that is run counts by content.
        let Some(words) = state.in_words() else { continue };
        if !(seen.read.contains_key(path) && state.is_executable()) && of_name.words.last() != Some(&words) {
            of_name.words.push(words);
        }
    }
    hasher.list(found.len());
    for (name, OfName { mut words, is_program }) in found {
        // In how many directories a program is missing is a matter of PATH.
        words.retain(|words| !is_program || words != NOTHING);
        hasher.bytes(name.as_encoded_bytes());
        hasher.list(words.len());
        words.iter().for_each(|words| hasher.str(words));
    }
    // Python lists directories to find modules, which count by content.
    let listed =
        program.listed.iter().filter(|path| Unkeyed::covering(path).is_none() && !is_python(program));
    let names: BTreeSet<&Digest> = listed.filter_map(|path| seen.listed.get(path)).collect();
    hasher.list(names.len());
    names.into_iter().for_each(|names| hasher.digest(names));
}

/// What a program found at the paths of one name, in the order of the paths.
#[derive(Default)]
struct OfName {
    words: Vec<String>,
    /// One of them can be executed.
    is_program: bool,
}

/// Whether a program, or the interpreter of a script, is Python.
fn is_python(program: &Program) -> bool {
    let interpreter = if program.is_script { program.read.get(1) } else { Some(&program.path) };
    let name = interpreter.and_then(|path| path.file_name());
    name.is_some_and(|name| name.as_encoded_bytes().starts_with(b"python"))
}
