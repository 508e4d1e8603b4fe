//! Programs that run the compiler: scripts, and others that hand their arguments on.
//!
//! A compiler's own programs do the same for each source but for what they read, which is enforced. A wrapper can decide
//! by anything: that a file is there, a host's name, the source itself.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use opbuild_digest::{Digest, Hasher};
use opbuild_process::{Observation, Program, Unkeyed};

use super::words::{self, command_of};

/// What [`opbuild_process::Found::in_words`] says where nothing is.
const NOTHING: &str = "nothing";

/// One of our flags that only drivers know. The programs that a driver runs get what follows from it.
const OF_DRIVERS: &str = "-Wl,--build-id=none";

/// Whether a script took part, or a program that the compiler's driver does not run by what its dry run shows.
pub(crate) fn takes_part(seen: &Observation, steps: &str) -> bool {
    let programs = seen.programs.iter().filter(|program| !program.path.as_os_str().is_empty());
    let shown = steps.lines().filter_map(command_of).map(|step| step.first().cloned().unwrap_or_default());
    // collect2 runs ld, which a dry run does not show; clang may compile in its own process.
    let run = |step: String| if step.ends_with("collect2") { 2 } else { 1 };
    let in_process = usize::from(steps.lines().any(|line| line.trim() == "(in-process)"));
    programs.clone().count() + in_process > 1 + shown.map(run).sum::<usize>()
        || seen.programs.iter().any(|program| program.is_script)
        || programs.skip(1).any(is_run_by_wrapper)
}

/// Whether a program that is not the first is one that a driver does not run: a driver itself, a program in the place of
/// another, one whose arguments are in a file.
fn is_run_by_wrapper(program: &Program) -> bool {
    let mut args = program.args.iter().skip(1);
    program.replaces_program || args.any(|arg| arg == OF_DRIVERS || arg.as_encoded_bytes().starts_with(b"@"))
}

/// Adds what the programs of a compile found where they looked: by name, not by place. What they read counts by content,
/// and those that the driver runs by its dry run (`steps`) look for nothing else.
pub(crate) fn add_looks(seen: &Observation, steps: &str, made_up: &BTreeSet<PathBuf>, hasher: &mut Hasher) {
    let own = programs_of(steps);
    let name = |program: &Program| words::name_of(&program.path);
    let is_own = |program: &Program| {
        let runs = seen.programs.iter().filter(|other| name(other) == name(program)).count();
        own.get(&name(program)).is_some_and(|shown| runs <= *shown)
    };
    for program in seen.programs.iter().filter(|program| !is_own(program)) {
        add_looks_of(program, seen, made_up, hasher);
    }
}

/// How often the driver runs each program.
fn programs_of(steps: &str) -> BTreeMap<String, usize> {
    // collect2 runs ld, which a dry run does not show.
    let mut own = BTreeMap::from([("ld".to_owned(), 1)]);
    for step in steps.lines().filter_map(command_of) {
        let name = step.first().map(|program| words::name_of(Path::new(program))).unwrap_or_default();
        *own.entry(name).or_default() += 1;
    }
    own
}

fn add_looks_of(program: &Program, seen: &Observation, made_up: &BTreeSet<PathBuf>, hasher: &mut Hasher) {
    let mut found: BTreeMap<&OsStr, Looks> = BTreeMap::new();
    for path in program.looked_at.difference(made_up) {
        let Some(name) = path.file_name().filter(|_| Unkeyed::covering(path).is_none()) else { continue };
        if seen.read.contains_key(path) {
            found.entry(name).or_default().is_program = true;
            continue;
        }
        let Some(state) = seen.looked_at.get(path) else { continue };
        // Where directories are is a place.
        let Some(words) = state.in_words() else { continue };
        let looks = found.entry(name).or_default();
        looks.is_program |= state.is_executable();
        if looks.words.last() != Some(&words) {
            looks.words.push(words);
        }
    }
    hasher.list(found.len());
    for (name, Looks { mut words, is_program }) in found {
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
struct Looks {
    words: Vec<String>,
    /// One of them was read, or can be executed.
    is_program: bool,
}

/// Whether a program, or the interpreter of a script, is Python.
fn is_python(program: &Program) -> bool {
    let interpreter = if program.is_script { program.read.get(1) } else { Some(&program.path) };
    let name = interpreter.and_then(|path| path.file_name());
    name.is_some_and(|name| name.as_encoded_bytes().starts_with(b"python"))
}
