//! The directories that a run listed.
//!
//! All names count in it, as the run found them. Of a tool that is known to replace its outputs, those of results do not, since other tasks of a
//! build write theirs into the same directory; those of logs never do. Of Python programs that are known to take no notice of them, the directories of
//! compiled modules do not.
//!
//! Python lists each directory in which it looks for a module, and takes few names of it. Which ones is not known: a program can list a directory
//! by a dozen functions, and import modules whose names it computes.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use opkeep_process::Program;

use super::Run;
use crate::manifest::Listed;
use crate::reason::Reason;
use crate::result::Output;
use crate::state::{States, counted, names};

impl Run<'_> {
    /// The directories that were listed. `states` remember the names that the run found.
    pub(super) fn listings(&self, outputs: &[Output], states: &States<'_>) -> Result<Vec<Listed>, Reason> {
        let facts = self.task.facts;
        let by_others = self.seen.programs.iter().filter(|program| !is_python(program));
        let by_others: BTreeSet<&Path> =
            opkeep_order::set(by_others.flat_map(|program| &program.listed).map(AsRef::as_ref));
        let mut listed = Vec::new();
        for (dir, before) in self.seen.names.iter().filter(|(path, _)| !self.is_ignored(path)) {
            let by_python = facts.ignores_byte_code && !by_others.contains(dir.as_path());
            let own = self.own_names(dir, outputs);
            let entry = |ignored| Listed { dir: self.roots.name(dir), by_python, ignored };
            let Some(now) = names(dir) else { return Err(Reason::Changed(dir.clone())) };
            let is_result = self.task.results_in(dir);
            // Apart from what the run itself wrote, no hand may have changed them.
            let others = entry(own.clone());
            if counted(&others, before, &is_result) != counted(&others, &now, &is_result) {
                return Err(Reason::Changed(dir.clone()));
            }
            if !facts.replaces_outputs {
                states.remember_names(dir, before.clone());
            }
            listed.push(entry(if facts.replaces_outputs { own } else { Vec::new() }));
        }
        opkeep_order::by(&mut listed, |one, other| one.dir.cmp(&other.dir));
        listed.dedup_by(|one, other| one.dir == other.dir);
        Ok(listed)
    }

    /// The names in a directory that the run itself wrote.
    fn own_names(&self, dir: &Path, outputs: &[Output]) -> Vec<Vec<u8>> {
        let paths = outputs.iter().filter_map(|output| self.roots.locate(&output.name));
        let mut names: Vec<_> = paths
            .filter(|path| path.parent() == Some(dir))
            .filter_map(|path| path.file_name().map(|name| name.as_bytes().to_vec()))
            .collect();
        opkeep_order::sort(&mut names);
        names.dedup();
        names
    }
}

/// Whether a program, or the interpreter of a script, is Python. A process that was forked and executed nothing is not known to be.
fn is_python(program: &Program) -> bool {
    const INTERPRETERS: usize = 3;
    let is_python = |path: &Path| path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"python"));
    let scripts = program.read.iter().take(if program.is_script { INTERPRETERS } else { 0 });
    std::iter::once(&program.path).chain(scripts).any(|path| is_python(path))
}
