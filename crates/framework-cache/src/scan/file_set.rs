//! The classes of the file names in a cache, by the rules of its framework.

use std::collections::HashMap;
use std::mem;

use opkeep_cann_meta::file_names::{FileSet, NameClass};

use crate::scan::cache_dir::Kind;

/// Returns the class of the file `name` in a cache of `kind`.
pub(crate) fn class(name: &str, kind: Kind) -> NameClass<'_> {
    const MIND_SPORE: [FileSet; 6] =
        [FileSet::JSON, FileSet::INFO, FileSet::O, FileSet::PTX, FileSet::LIB_SO, FileSet::SO];
    // AKG's libraries have no prefix `lib`; MindSpore's libraries have it.
    const AKG: [FileSet; 5] = [FileSet::JSON, FileSet::INFO, FileSet::O, FileSet::PTX, FileSet::SO];
    // Compilers leave sources and logs in this directory, too.
    const WORK: [FileSet; 3] = [FileSet::JSON, FileSet::O, FileSet::SO];
    let members: &[FileSet] = match kind {
        Kind::MindSpore => &MIND_SPORE,
        Kind::Akg => &AKG,
        Kind::Work => &WORK,
        Kind::Cann => return NameClass::in_kernel_cache(name),
        Kind::Package => return NameClass::in_cann_cache(name),
    };
    match NameClass::of(name, members) {
        NameClass::Kernel(_, FileSet::JSON) if is_skipped(name) => NameClass::Skipped,
        class => class,
    }
}

/// Returns whether MindSpore ignores a `.json` with this name, which it treats as a debugging aid.
pub(crate) fn is_skipped(name: &str) -> bool {
    name.contains("_loc") || name.contains("_compute")
}

/// The file names in one directory, by class.
#[derive(Debug, Default)]
pub(crate) struct ClassifiedNames {
    /// The stems of kernels with their files, in the order of the stems.
    pub(crate) kernels: Vec<(String, FileSet)>,
    pub(crate) temps: Vec<String>,
    /// The number of debugging aids.
    pub(crate) skipped: u64,
    /// The number of known files that belong to no kernel.
    pub(crate) known: u64,
    /// The first hundred names of files of unknown programs.
    pub(crate) foreign: Vec<String>,
    pub(crate) foreign_count: u64,
}

/// The maximum number of foreign names that are kept.
const LISTED: usize = 100;

/// Classifies the names of regular files.
pub(crate) fn classify<'a>(names: impl Iterator<Item = &'a str>, kind: Kind) -> ClassifiedNames {
    let (mut classified, mut kernels) = (ClassifiedNames::default(), HashMap::<&str, FileSet>::new());
    let mut add = |stem, members: FileSet| {
        let all = kernels.entry(stem).or_default();
        *all = all.with(members);
    };
    let mut skipped = Vec::new();
    // Files of one kernel are created one after the other, and many file systems list them in that order, so most files
    // need no look-up of their stem.
    let mut run = ("", FileSet::default());
    for name in names {
        match class(name, kind) {
            NameClass::Kernel(stem, member) if stem == run.0 => run.1 = run.1.with(member),
            NameClass::Kernel(stem, member) => {
                let (stem, members) = mem::replace(&mut run, (stem, member));
                if !members.is_empty() {
                    add(stem, members);
                }
            }
            NameClass::Temp => classified.temps.push(name.to_owned()),
            NameClass::Known => classified.known += 1,
            NameClass::Skipped => skipped.push(name.strip_suffix(".json").unwrap_or(name)),
            NameClass::Foreign => classified.add_foreign(name),
        }
    }
    if !run.1.is_empty() {
        add(run.0, run.1);
    }
    for stem in skipped {
        // A `.json` with an object or a descriptor beside it is that of a kernel, whose name happens to be one of a
        // debugging aid.
        match kernels.get_mut(stem).filter(|members| members.has(FileSet::OBJECTS.with(FileSet::INFO))) {
            Some(members) => *members = members.with(FileSet::JSON),
            None => classified.skipped += 1,
        }
    }
    if matches!(kind, Kind::MindSpore | Kind::Akg | Kind::Work) {
        // A library alone is an operator that a user compiled ahead of time: a kernel would have a `.json`.
        kernels.retain(|stem, members| {
            let is_alone = members.without(FileSet::SO.with(FileSet::LIB_SO)).is_empty();
            if is_alone {
                members.names(stem).for_each(|name| classified.add_foreign(&name));
            }
            !is_alone
        });
    }
    classified.kernels = kernels.into_iter().map(|(stem, members)| (stem.to_owned(), members)).collect();
    opkeep_order::by(&mut classified.kernels, |a, b| a.0.cmp(&b.0));
    opkeep_order::sort(&mut classified.temps);
    opkeep_order::sort(&mut classified.foreign);
    classified
}

impl ClassifiedNames {
    /// Adds a link to the kernel with its stem. Returns false if that kernel has no other file.
    pub(crate) fn add_link(&mut self, name: &str, kind: Kind) -> bool {
        let NameClass::Kernel(stem, member) = class(name, kind) else { return false };
        let at = self.kernels.binary_search_by(|(known, _)| known.as_str().cmp(stem));
        let Some((_, members)) = at.ok().and_then(|at| self.kernels.get_mut(at)) else { return false };
        *members = members.with(member);
        true
    }

    fn add_foreign(&mut self, name: &str) {
        add_foreign(name, &mut self.foreign, &mut self.foreign_count);
    }
}

/// Counts a foreign name, and adds it to `listed` if that has space.
pub(crate) fn add_foreign(name: &str, listed: &mut Vec<String>, count: &mut u64) {
    *count += 1;
    if listed.len() < LISTED {
        listed.push(name.to_owned());
    }
}
