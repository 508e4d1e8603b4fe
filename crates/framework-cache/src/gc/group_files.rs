//! Which files of a folder go together.
//!
//! A kernel's files are those that its description names, and those that are called after it. What two descriptions name
//! stays as long as one of them does. What none names and none is called after is an orphan, if CANN gives such names.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::gc::describe::{DescribedFiles, describe};
use crate::gc::disk::{Stamp, idle};
use crate::gc::file_group::{File, FileGroup};
use crate::gc::list::{Groups, ListedDir, UnknownFiles, is_kernel};
use crate::gc::usage::{FileGroupKind, Usage};
use crate::scan::cache_dir::Kind;
use crate::scan::file_set::{FileSet, NameClass, class};
use opkeep_fs::Dir;

/// How the two sides of an old kernel are called behind its own name.
const SIDES: [&str; 2] = ["_mix_aic", "_mix_aiv"];

/// What is to be known to sort a folder.
pub(crate) struct Grouping<'a> {
    pub(crate) now: SystemTime,
    /// Whether descriptions are read although all names fit together.
    pub(crate) read: bool,
    /// Kernels and trial compiles that were not used for so long are listed; none if that is not said.
    pub(crate) list_idle_for: Option<Duration>,
    /// What was not written for so long is left over.
    pub(crate) rest_idle_for: Duration,
    pub(crate) cancelled: &'a dyn Fn() -> bool,
}

/// What all folders hold.
#[derive(Debug, Default)]
pub(crate) struct FileGroups {
    pub(crate) usage: Usage,
    /// What may go.
    pub(crate) listed: Vec<FileGroup>,
    /// Descriptions that could not be read; nothing beside them is taken for an orphan.
    pub(crate) unread: u64,
}

impl FileGroups {
    /// Adds what is in one folder.
    pub(crate) fn add(
        &mut self,
        dir: &Dir,
        index: usize,
        shelf: ListedDir,
        sorting: &Grouping<'_>,
        unknown: &mut UnknownFiles,
    ) {
        let ListedDir { below, groups, temps, is_linked } = shelf;
        for (name, stamp) in temps {
            let mut temp = FileGroup::new(FileGroupKind::Temp, index, &name);
            temp.files.push((File::Other(name), stamp));
            self.keep(temp, sorting);
        }
        let told = match sorting.read || is_odd(&groups) {
            true => describe(dir, &groups, sorting.cancelled),
            false => HashMap::new(),
        };
        let unread = told.values().filter(|told| matches!(told, DescribedFiles::Unread)).count() as u64;
        self.unread += unread;
        let desk = Desk::new(&groups, &told);
        let mut taken = Taken::default();
        for (stem, files) in &groups {
            if has(files, FileSet::JSON) && !desk.is_part(stem) && desk.is_recognised(stem) {
                let kernel = desk.kernel(index, stem);
                taken.add(stem, &kernel);
                self.keep(kernel, sorting);
            }
        }
        for (stem, files) in &groups {
            let left: Vec<(FileSet, Stamp)> =
                files.iter().filter(|(member, _)| !taken.has(stem, *member)).copied().collect();
            if left.is_empty() {
                continue;
            }
            if is_kernel(stem) {
                self.rests(&desk, index, stem, &left, sorting, unread > 0 || is_linked);
            } else {
                self.add_strange(&below, stem, &left, unknown);
            }
        }
    }

    /// Sorts the files of a stem that are no kernel's. Where it is not known what all descriptions name, none of them
    /// is taken for an orphan.
    fn rests(
        &mut self,
        desk: &Desk<'_>,
        index: usize,
        stem: &str,
        left: &[(FileSet, Stamp)],
        sorting: &Grouping<'_>,
        unsure: bool,
    ) {
        let thing = |what, picked: FileSet, locks: FileSet| {
            let mut thing = FileGroup::new(what, index, stem);
            for (member, stamp) in left {
                let file = (File::Own(*member), *stamp);
                match () {
                    () if picked.has(*member) => thing.files.push(file),
                    () if locks.has(*member) => thing.locks.push(file),
                    () => {}
                }
            }
            thing
        };
        let body = FileSet::JSON.with(FileSet::HEADER).with(FileSet::OBJECTS);
        let mut rest = thing(FileGroupKind::Orphan, body, FileSet::LOCK);
        let all = rest.files.len();
        rest.files.retain(|(file, _)| desk.is_nobodys(stem, &file.name(stem)));
        let is_kernel_there = rest.files.len() < all || desk.owners.contains_key(stem);
        for (member, stamp) in left.iter().filter(|(member, _)| body.has(*member)) {
            if !rest.files.iter().any(|(file, _)| *file == File::Own(*member)) {
                // It belongs to several kernels.
                self.usage.add_files(FileGroupKind::Kernel, 1, stamp.size);
            }
        }
        if !rest.files.is_empty() {
            if !has(left, FileSet::JSON) {
                rest.missing.push(File::Own(FileSet::JSON));
            }
            if unsure { rest.count(&mut self.usage) } else { self.keep(rest, sorting) }
        } else if !rest.locks.is_empty() {
            rest.what = FileGroupKind::Lock;
            rest.missing.extend([FileSet::JSON, FileSet::O, FileSet::SO].map(File::Own));
            if is_kernel_there { rest.count(&mut self.usage) } else { self.keep(rest, sorting) }
        }
        let mut trial = thing(FileGroupKind::Trial, FileSet::PRE, FileSet::PRE_LOCK);
        if trial.files.is_empty() {
            trial.what = FileGroupKind::Lock;
            trial.missing.push(File::Own(FileSet::PRE));
        }
        if !(trial.files.is_empty() && trial.locks.is_empty()) {
            self.keep(trial, sorting);
        }
    }

    fn add_strange(
        &mut self,
        below: &Path,
        stem: &str,
        left: &[(FileSet, Stamp)],
        unknown: &mut UnknownFiles,
    ) {
        for (member, stamp) in left {
            self.usage.other.add(1, stamp.size);
            unknown.add(below, OsStr::new(&File::Own(*member).name(stem)));
        }
    }

    /// Counts a thing, and lists it if it may go.
    fn keep(&mut self, mut thing: FileGroup, sorting: &Grouping<'_>) {
        thing.count(&mut self.usage);
        let idle_for = match thing.what {
            FileGroupKind::Kernel | FileGroupKind::Trial => sorting.list_idle_for,
            FileGroupKind::Orphan | FileGroupKind::Temp | FileGroupKind::Lock => Some(sorting.rest_idle_for),
        };
        if idle_for.is_some_and(|time| idle(thing.used(), sorting.now) >= time) {
            thing.order();
            self.listed.push(thing);
        }
    }
}

/// The files that belong to kernels.
#[derive(Default)]
struct Taken<'a> {
    own: HashMap<&'a str, FileSet>,
    others: HashSet<Box<str>>,
}

impl<'a> Taken<'a> {
    fn add(&mut self, stem: &'a str, kernel: &FileGroup) {
        for (file, _) in kernel.files.iter().chain(&kernel.locks) {
            match file {
                File::Own(member) => {
                    let own = self.own.entry(stem).or_default();
                    *own = own.with(*member);
                }
                File::Other(name) => drop(self.others.insert(name.clone())),
            }
        }
    }

    fn has(&self, stem: &str, member: FileSet) -> bool {
        self.own.get(stem).is_some_and(|own| own.has(member))
            || !self.others.is_empty() && self.others.contains(File::Own(member).name(stem).as_str())
    }
}

/// Whether names alone do not tell which files go together.
fn is_odd(groups: &Groups) -> bool {
    groups.iter().any(|(stem, files)| {
        let has_json = has(files, FileSet::JSON);
        let has_object = has(files, FileSet::OBJECTS);
        let alone = has_json != has_object || !has_json && has(files, FileSet::HEADER);
        alone || has_json && !is_kernel(stem) || base_of(stem).is_some()
    })
}

fn has(files: &[(FileSet, Stamp)], any: FileSet) -> bool {
    files.iter().any(|(member, _)| any.has(*member))
}

fn is_lock(member: FileSet) -> bool {
    FileSet::LOCK.with(FileSet::PRE_LOCK).has(member)
}

/// The kernel of which `stem` is a side, by its name.
fn base_of(stem: &str) -> Option<&str> {
    SIDES.into_iter().find_map(|side| stem.strip_suffix(side))
}

/// A folder whose descriptions are read.
struct Desk<'a> {
    groups: &'a Groups,
    told: &'a HashMap<Box<str>, DescribedFiles>,
    /// How many descriptions name a file; of what only a plain one names, nothing.
    claims: HashMap<String, u32>,
    /// To which kernel a part belongs; nothing inside if to several.
    owners: HashMap<&'a str, Option<&'a str>>,
    /// The parts that belong to a kernel, and to no other.
    parts: HashMap<&'a str, Vec<&'a str>>,
}

impl<'a> Desk<'a> {
    fn new(groups: &'a Groups, told: &'a HashMap<Box<str>, DescribedFiles>) -> Self {
        let mut desk =
            Self { groups, told, claims: HashMap::new(), owners: HashMap::new(), parts: HashMap::new() };
        if told.is_empty() {
            return desk;
        }
        for (stem, told) in told {
            if let DescribedFiles::Kernel { parts, .. } = told {
                for part in parts {
                    let owner = desk.owners.entry(part.as_str()).or_insert(Some(stem));
                    *owner = owner.filter(|owner| *owner == &**stem);
                }
            }
        }
        for stem in groups.keys() {
            let base =
                base_of(stem).filter(|base| groups.get(*base).is_some_and(|files| has(files, FileSet::JSON)));
            if let Some(base) = base {
                desk.owners.entry(stem).or_insert(Some(base));
            }
        }
        for (part, owner) in &desk.owners {
            if let Some(owner) = owner {
                desk.parts.entry(owner).or_default().push(part);
            }
        }
        desk.parts.values_mut().for_each(|parts| parts.sort_unstable());
        for (stem, told) in told {
            if !matches!(told, DescribedFiles::Plain) {
                for name in desk.named_by(stem) {
                    *desk.claims.entry(name).or_default() += 1;
                }
            }
        }
        // The plain ones are so many that only those count which name what others name, too.
        for (name, claims) in &mut desk.claims {
            let stem = name.strip_suffix(".o").unwrap_or_default();
            *claims += u32::from(matches!(told.get(stem), Some(DescribedFiles::Plain)));
        }
        desk
    }

    /// The objects and the header of the description called `stem`, as far as they are there and CANN gives such names.
    fn named_by(&self, stem: &str) -> Vec<String> {
        match self.told.get(stem) {
            Some(DescribedFiles::Kernel { objects, header, .. }) => {
                objects.iter().chain(header).filter(|name| self.stamp(name).is_some()).cloned().collect()
            }
            Some(DescribedFiles::Plain) => vec![File::Own(FileSet::O).name(stem)],
            // Its files are those of its name.
            Some(DescribedFiles::Nothing | DescribedFiles::Unread) | None => {
                let wanted = FileSet::OBJECTS.with(FileSet::HEADER);
                let files = self.groups.get(stem).into_iter().flatten();
                files
                    .filter(|(member, _)| wanted.has(*member))
                    .map(|(member, _)| File::Own(*member).name(stem))
                    .collect()
            }
        }
    }

    fn stamp(&self, name: &str) -> Option<Stamp> {
        let NameClass::Of(stem, member) = class(name, Kind::Cann) else { return None };
        self.groups.get(stem)?.iter().find(|(there, _)| *there == member).map(|(_, stamp)| *stamp)
    }

    fn is_part(&self, stem: &str) -> bool {
        base_of(stem).is_some() || self.owners.contains_key(stem)
    }

    /// Whether a description is one of CANN's: by its name, or by what is in it.
    fn is_recognised(&self, stem: &str) -> bool {
        is_kernel(stem)
            || matches!(self.told.get(stem), Some(DescribedFiles::Plain | DescribedFiles::Kernel { .. }))
    }

    /// Whether no description names the file of this stem, and none is called after it.
    fn is_nobodys(&self, stem: &str, name: &str) -> bool {
        let own =
            u32::from(self.named_by(stem).iter().any(|own| own == name && self.told.contains_key(stem)));
        let claims = self.claims.get(name).copied().unwrap_or(0);
        match base_of(stem) {
            // The parts of a kernel that is not there name only themselves.
            Some(_) => !self.owners.contains_key(stem) && claims <= own,
            None => !self.owners.contains_key(stem) && claims == 0,
        }
    }

    /// The kernel whose description is called `stem`, or what is left of it.
    fn kernel(&self, index: usize, stem: &str) -> FileGroup {
        let mut kernel = FileGroup::new(FileGroupKind::Kernel, index, stem);
        let parts = self.parts.get(stem).map_or(&[][..], Vec::as_slice);
        let is_whole = self.is_whole(stem);
        if !is_whole {
            kernel.what = FileGroupKind::Orphan;
            kernel.missing = self.missing(stem);
        }
        let named = self.named_by(stem);
        for (member, stamp) in &self.groups[stem] {
            let file = File::Own(*member);
            let name = file.name(stem);
            match *member {
                FileSet::JSON => kernel.files.push((file, *stamp)),
                // A trial compile is in order without the kernel.
                FileSet::PRE | FileSet::PRE_LOCK if !is_whole => {}
                FileSet::PRE => kernel.files.push((file, *stamp)),
                FileSet::LOCK | FileSet::PRE_LOCK => kernel.locks.push((file, *stamp)),
                _ if self.is_free(&name, &named) => kernel.files.push((file, *stamp)),
                _ => {}
            }
        }
        self.take_named(&mut kernel, &named, stem);
        for part in parts {
            let named = self.named_by(part);
            for (member, stamp) in self.groups.get(*part).into_iter().flatten() {
                let name = File::Own(*member).name(part);
                let is_object = FileSet::OBJECTS.with(FileSet::HEADER).has(*member);
                if is_lock(*member) {
                    kernel.locks.push((File::Other(name.into()), *stamp));
                } else if !is_object || self.is_free(&name, &named) {
                    push_new(&mut kernel, &name, *stamp, stem);
                }
            }
            self.take_named(&mut kernel, &named, stem);
        }
        kernel
    }

    /// Adds the files that are `named` and that no other description names.
    fn take_named(&self, kernel: &mut FileGroup, named: &[String], stem: &str) {
        for name in named {
            if let Some(stamp) = self.stamp(name).filter(|_| self.is_free(name, named)) {
                push_new(kernel, name, stamp, stem);
            }
        }
    }

    /// Whether nobody but who has `named` names the file.
    fn is_free(&self, name: &str, named: &[String]) -> bool {
        let own = u32::from(named.iter().any(|own| own == name));
        self.claims.get(name).is_none_or(|claims| *claims <= own)
    }

    /// Whether the object of a description is there, or the parts of a master; true if that cannot be told.
    fn is_whole(&self, stem: &str) -> bool {
        let is_there =
            |part: &String| self.groups.get(part.as_str()).is_some_and(|files| has(files, FileSet::JSON));
        match self.told.get(stem) {
            Some(DescribedFiles::Kernel { parts, .. }) if !parts.is_empty() => parts.iter().any(is_there),
            Some(DescribedFiles::Kernel { is_whole, .. }) => *is_whole,
            Some(DescribedFiles::Nothing) => has(&self.groups[stem], FileSet::OBJECTS),
            Some(DescribedFiles::Plain | DescribedFiles::Unread) | None => true,
        }
    }

    /// The files that would make a whole of the description called `stem`.
    fn missing(&self, stem: &str) -> Vec<File> {
        match self.told.get(stem) {
            Some(DescribedFiles::Kernel { objects, parts, .. }) => {
                let parts = parts.iter().map(|part| format!("{part}.json"));
                objects.iter().cloned().chain(parts).map(|name| File::Other(name.into())).collect()
            }
            _ => vec![File::Own(FileSet::O), File::Own(FileSet::SO)],
        }
    }
}

fn push_new(kernel: &mut FileGroup, name: &str, stamp: Stamp, stem: &str) {
    if !kernel.files.iter().any(|(file, _)| file.name(stem) == name) {
        kernel.files.push((File::Other(name.into()), stamp));
    }
}
