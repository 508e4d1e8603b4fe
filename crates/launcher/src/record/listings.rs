//! The directories that a run listed.
//!
//! All names count in it, as the run found them, unless the task's adapter states more: then those of results and logs do not, since other tasks of a
//! build write theirs into the same directory.
//!
//! A tool can also be known to look for modules only by their names ([`imports_by_name`](crate::ToolFacts::imports_by_name)). Then only the names count
//! that the texts mention, in a directory of modules outside of those of Python and of the tool, if each name in it that was used is mentioned
//! in another text, in the arguments or in the environment. Make lists the directory in which it runs, even if it looks for no file there: the same
//! applies, if `-f` names its makefile and no makefile has a pattern of names.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use opkeep_fs::Fs;
use opkeep_process::Program;

use super::makefile::{has_named_makefile, is_make, names_its_files};
use super::python::is_python;
use super::{MAX_TEXT, Run, is_byte_code};
use crate::manifest::{Listed, Words, stem};
use crate::reason::Reason;
use crate::result::Output;
use crate::state::{States, counted, names};

/// The extensions of texts in which a module can be mentioned. A text without an extension counts as well.
const TEXTS: [&str; 11] = ["py", "json", "ini", "cfg", "toml", "yaml", "yml", "txt", "pth", "sh", "mk"];
const MODULES: [&str; 4] = ["py", "so", "pyc", "pth"];
/// The largest number of bytes of all texts that are searched for words.
const MAX_TEXTS: u64 = 256 << 20;

impl Run<'_> {
    /// The directories that were listed, and the words of all texts. `states` remember the names that the run found.
    pub(super) fn listings(
        &self,
        outputs: &[Output],
        states: &States<'_>,
    ) -> Result<(Vec<Listed>, Words), Reason> {
        let dirs: Vec<_> = self.seen.names.iter().filter(|(path, _)| !self.is_ignored(path)).collect();
        let by = self.listed_by();
        let lister = |dir: &Path| by.get(dir).copied().unwrap_or_default();
        let is_candidate = |dir: &Path| match lister(dir) {
            Listers { other: true, .. } => false,
            Listers { python: true, .. } => self.imports_from(dir) && !self.is_of_python(dir),
            Listers { make, .. } => make,
        };
        let are_named = dirs.iter().any(|(dir, _)| is_candidate(dir)) && self.imports_by_name();
        let read: Vec<&PathBuf> = self.seen.read.keys().collect();
        let words = if are_named { self.words(&read) } else { None };
        let filter = words.as_ref().map(Words::filter).unwrap_or_default();
        let mut listed = Vec::new();
        for (dir, before) in dirs {
            let by_mention = words.as_ref().is_some_and(|words| {
                is_candidate(dir) && (!lister(dir).python || self.uses_mentioned(dir, words, &read))
            });
            let by_python = lister(dir) == Listers { python: true, ..Listers::default() };
            let own = self.own_names(dir, outputs);
            let entry = |ignored| Listed { dir: self.roots.name(dir), by_mention, by_python, ignored };
            let Some(now) = names(dir) else { return Err(Reason::Changed(dir.clone())) };
            let is_result = self.task.results_in(dir);
            // Apart from what the run itself wrote, no hand may have changed them.
            let others = entry(own.clone());
            if counted(&others, before, &filter, &is_result) != counted(&others, &now, &filter, &is_result) {
                return Err(Reason::Changed(dir.clone()));
            }
            let replaces = self.task.facts.replaces_outputs;
            if !replaces {
                states.remember_names(dir, before.clone());
            }
            listed.push(entry(if replaces { own } else { Vec::new() }));
        }
        listed.sort_by(|one, other| one.dir.cmp(&other.dir));
        listed.dedup_by(|one, other| one.dir == other.dir);
        Ok((listed, words.unwrap_or_default()))
    }

    /// The programs that listed each directory.
    fn listed_by(&self) -> BTreeMap<&Path, Listers> {
        let mut by: BTreeMap<&Path, Listers> = BTreeMap::new();
        for program in &self.seen.programs {
            let by_python = is_python(program);
            let by_make = is_make(program) && self.has_plain_makefiles(program);
            for dir in &program.listed {
                let known = by.entry(dir.as_path()).or_default();
                known.python |= by_python;
                known.make |= by_make;
                known.other |= !by_python && !by_make;
            }
        }
        by
    }

    /// Whether the makefiles of a program are named and can be read, and name each file that they mean. One that came through a pipe is not
    /// known.
    fn has_plain_makefiles(&self, program: &Program) -> bool {
        if !has_named_makefile(program) {
            return false;
        }
        let outside = program.read.iter().skip(1).filter(|path| !self.is_ignored(path)).filter_map(|path| {
            let is_large = Fs::new().metadata(path).is_ok_and(|found| found.len() > MAX_TEXT);
            (!is_large).then(|| Fs::new().read(path, MAX_TEXT).ok())
        });
        let texts: Option<Vec<Vec<u8>>> = outside.chain(program.own_texts.iter().cloned()).collect();
        texts.is_some_and(|texts| {
            // Not libraries.
            let mut makefiles = texts.iter().filter(|text| !text.contains(&0)).peekable();
            makefiles.peek().is_some() && makefiles.all(|text| names_its_files(text))
        })
    }

    /// Whether a module in a directory was read.
    fn imports_from(&self, dir: &Path) -> bool {
        let is_module =
            |path: &Path| MODULES.iter().any(|module| path.extension() == Some(OsStr::new(module)));
        self.seen.read.keys().any(|path| {
            path.strip_prefix(dir).is_ok_and(|rest| match rest.components().count() {
                1 => is_module(path),
                2 => path.file_name() == Some(OsStr::new("__init__.py")),
                _ => false,
            })
        })
    }

    /// Whether each name in a directory that the run used is mentioned in a text that is not that file, nor below it.
    fn uses_mentioned(&self, dir: &Path, words: &Words, texts: &[&PathBuf]) -> bool {
        let looked =
            self.seen.looked_at.iter().filter(|(_, found)| !found.is_nothing()).map(|(path, _)| path);
        let used: BTreeSet<&OsStr> = (self.seen.read.keys().chain(looked))
            .filter(|path| !is_byte_code(path))
            .filter_map(|path| path.strip_prefix(dir).ok()?.components().next())
            .map(|part| part.as_os_str())
            .collect();
        used.into_iter().all(|name| {
            let own = dir.join(name);
            words.mention(stem(name.as_bytes()), |text| {
                texts.get(text).is_none_or(|path| !path.starts_with(&own))
            })
        })
    }

    /// The words of all texts that were read, of the arguments and of the environment. `None`: there are too many.
    fn words(&self, read: &[&PathBuf]) -> Option<Words> {
        let (mut words, mut total) = (Words::default(), 0);
        let by_make: BTreeSet<&PathBuf> = self
            .seen
            .programs
            .iter()
            .filter(|program| is_make(program))
            .flat_map(|program| &program.read)
            .collect();
        for (number, path) in read.iter().enumerate() {
            let is_text = path.extension().is_none_or(|found| TEXTS.iter().any(|text| found == *text));
            if !is_text && !by_make.contains(path) || self.is_ignored(path) {
                continue;
            }
            let found = Fs::new().metadata(path).ok()?;
            if found.len() > MAX_TEXT && !TEXTS.iter().any(|text| path.extension() == Some(OsStr::new(text)))
            {
                // A program or a library.
                continue;
            }
            let text = Fs::new().read(path, MAX_TEXT).ok()?;
            total += text.len() as u64;
            if total > MAX_TEXTS {
                return None;
            }
            if !text.contains(&0) {
                words.add(number, &text);
            }
        }
        let own = self.seen.programs.iter().flat_map(|program| program.own_texts.iter().flatten());
        own.for_each(|text| words.add(read.len(), text));
        let run = &self.task.run;
        run.args.iter().for_each(|arg| words.add(read.len(), arg.as_bytes()));
        self.env.iter().for_each(|(_, value)| words.add(read.len(), value.as_bytes()));
        Some(words)
    }

    /// The names in a directory that the run itself wrote.
    fn own_names(&self, dir: &Path, outputs: &[Output]) -> Vec<Vec<u8>> {
        let paths = outputs.iter().filter_map(|output| self.roots.locate(&output.name));
        let mut names: Vec<_> = paths
            .filter(|path| path.parent() == Some(dir))
            .filter_map(|path| path.file_name().map(|name| name.as_bytes().to_vec()))
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// The programs that listed a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Listers {
    python: bool,
    /// Make, of which all makefiles name their files.
    make: bool,
    other: bool,
}
