//! Programs that run the compiler: scripts, and others that hand their arguments on.
//!
//! A compiler's own programs do the same for each source but for what they read, which is enforced. A wrapper can decide
//! by anything: that a file is there, a host's name, the source itself.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::PathBuf;

use opbuild_digest::{Digest, Hasher};
use opbuild_process::{Found, Observation, Program, Unkeyed};

/// One of our flags that only drivers know. The programs that a driver runs get what follows from it.
const OF_DRIVERS: &str = "-Wl,--build-id=none";

/// Whether a script took part, or a program that the compiler's driver does not run.
pub(crate) fn takes_part(seen: &Observation) -> bool {
    seen.programs.iter().any(|program| program.is_script)
        || seen.programs.iter().skip(1).any(is_run_by_wrapper)
}

/// Whether a program that is not the first is one that a driver does not run: a driver itself, a program in the place of
/// another, one whose arguments are in a file.
fn is_run_by_wrapper(program: &Program) -> bool {
    let mut args = program.args.iter().skip(1);
    program.replaces_program || args.any(|arg| arg == OF_DRIVERS || arg.as_encoded_bytes().starts_with(b"@"))
}

/// Adds what a program found where it looked: by name, not by place. What it read counts by content.
pub(crate) fn add_looks(program: &Program, seen: &Observation, hasher: &mut Hasher) {
    let mut found: BTreeMap<&OsStr, BTreeSet<String>> = BTreeMap::new();
    for path in &program.looked_at {
        let Some(name) = path.file_name().filter(|_| Unkeyed::covering(path).is_none()) else { continue };
        let words = match seen.read.contains_key(path) {
            true => Some("read".to_owned()),
            false => seen.looked_at.get(path).and_then(Found::in_words),
        };
        // Where directories are is a place.
        if let Some(words) = words {
            found.entry(name).or_default().insert(words);
        }
    }
    hasher.list(found.len());
    for (name, words) in found {
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

/// Whether a program, or the interpreter of a script, is Python.
fn is_python(program: &Program) -> bool {
    let is =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"python"));
    is(&program.path) || (program.is_script && program.read.get(1).is_some_and(is))
}
