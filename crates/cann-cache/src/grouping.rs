//! The grouping of a directory's files.
//!
//! The files of a kernel are those that its description names, and those with its stem. A file that two descriptions
//! name stays while one of them exists. A file is an orphan if CANN uses such names, no description names the file, and
//! no description has its stem.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, SystemTime};

use opkeep_cann_meta::file_names::{FileSet, NameClass, is_cann_kernel};
use opkeep_fs::Dir;

use crate::describe::{Description, read_descriptions};
use crate::disk::{ListedState, idle};
use crate::file_group::{FileGroup, GroupFile};
use crate::list::{FilesByStem, ListedDir, UnknownFiles};
use crate::usage::{FileGroupKind, Usage};

/// The suffixes that the two parts of an old multi-part kernel add to its stem.
const PART_SUFFIXES: [&str; 2] = ["_mix_aic", "_mix_aiv"];

/// The options of the grouping.
pub(crate) struct Grouping<'a> {
    pub(crate) now: SystemTime,
    /// Whether to read descriptions even if names alone show which files belong together.
    pub(crate) reads_all: bool,
    /// The idle time after which a kernel or a precompile may be deleted; if unset, none may.
    pub(crate) kernel_idle_for: Option<Duration>,
    /// The time since the last write after which any other group may be deleted.
    pub(crate) other_idle_for: Duration,
    pub(crate) is_cancelled: &'a dyn Fn() -> bool,
}

/// The groups of all directories, and their total size.
#[derive(Debug, Default)]
pub(crate) struct FileGroups {
    pub(crate) usage: Usage,
    /// Groups that may be deleted.
    pub(crate) removable: Vec<FileGroup>,
    /// The number of descriptions that were not read. In their directories, no orphan may be deleted.
    pub(crate) unread: u64,
}

impl FileGroups {
    /// Adds the files of one directory.
    pub(crate) fn add_dir(
        &mut self,
        dir: &Dir,
        index: usize,
        listed: ListedDir,
        grouping: &Grouping<'_>,
        unknown: &mut UnknownFiles,
    ) {
        let ListedDir { path, files: all, temps, is_linked } = listed;
        for (name, state) in temps {
            let mut temp = FileGroup::new(FileGroupKind::Temp, index, &name);
            temp.files.push((GroupFile::Other(name), state));
            self.add(temp, grouping);
        }
        let descriptions = match grouping.reads_all || needs_descriptions(&all) {
            true => read_descriptions(dir, &all, grouping.is_cancelled),
            false => HashMap::new(),
        };
        let unread = descriptions.values().filter(|it| matches!(it, Description::Unread)).count() as u64;
        self.unread += unread;
        let described = DescribedDir::new(&all, &descriptions);
        let mut grouped = GroupedFiles::default();
        for (stem, files) in &all {
            if has(files, FileSet::JSON) && !described.is_part(stem) && described.is_kernel(stem) {
                let kernel = described.kernel(index, stem);
                grouped.add(stem, &kernel);
                self.add(kernel, grouping);
            }
        }
        for (stem, files) in &all {
            let left: Vec<(FileSet, ListedState)> =
                files.iter().filter(|(member, _)| !grouped.has(stem, *member)).copied().collect();
            if left.is_empty() {
                continue;
            }
            if is_cann_kernel(stem) {
                self.add_remains(&described, index, stem, &left, grouping, unread > 0 || is_linked);
            } else {
                self.add_unknown(&path, stem, &left, unknown);
            }
        }
    }

    /// Groups the files of a stem that belong to no kernel. If `is_uncertain`, orphans are only counted: an unread
    /// description may name them.
    fn add_remains(
        &mut self,
        described: &DescribedDir<'_>,
        index: usize,
        stem: &str,
        left: &[(FileSet, ListedState)],
        grouping: &Grouping<'_>,
        is_uncertain: bool,
    ) {
        let group = |kind, files: FileSet, locks: FileSet| {
            let mut group = FileGroup::new(kind, index, stem);
            for (member, state) in left {
                let file = (GroupFile::Own(*member), *state);
                if files.has(*member) {
                    group.files.push(file);
                } else if locks.has(*member) {
                    group.locks.push(file);
                }
            }
            group
        };
        let body = FileSet::JSON.with(FileSet::HEADER).with(FileSet::OBJECTS);
        let mut orphan = group(FileGroupKind::Orphan, body, FileSet::LOCK);
        let all = orphan.files.len();
        orphan.files.retain(|(file, _)| described.is_unclaimed(stem, &file.name(stem)));
        let has_kernel = orphan.files.len() < all || described.owners.contains_key(stem);
        for (member, state) in left.iter().filter(|(member, _)| body.has(*member)) {
            if !orphan.files.iter().any(|(file, _)| *file == GroupFile::Own(*member)) {
                // Several kernels share the file, so it is in no group.
                self.usage.add_files(FileGroupKind::Kernel, 1, state.size);
            }
        }
        if !orphan.files.is_empty() {
            if !has(left, FileSet::JSON) {
                orphan.missing.push(GroupFile::Own(FileSet::JSON));
            }
            if is_uncertain { orphan.count(&mut self.usage) } else { self.add(orphan, grouping) }
        } else if !orphan.locks.is_empty() {
            orphan.kind = FileGroupKind::Lock;
            orphan.missing.extend([FileSet::JSON, FileSet::O, FileSet::SO].map(GroupFile::Own));
            if has_kernel { orphan.count(&mut self.usage) } else { self.add(orphan, grouping) }
        }
        let mut precompile = group(FileGroupKind::Precompile, FileSet::PRE, FileSet::PRE_LOCK);
        if precompile.files.is_empty() {
            precompile.kind = FileGroupKind::Lock;
            precompile.missing.push(GroupFile::Own(FileSet::PRE));
        }
        if !(precompile.files.is_empty() && precompile.locks.is_empty()) {
            self.add(precompile, grouping);
        }
    }

    fn add_unknown(
        &mut self,
        path: &Path,
        stem: &str,
        left: &[(FileSet, ListedState)],
        unknown: &mut UnknownFiles,
    ) {
        for (member, state) in left {
            self.usage.other.add(1, state.size);
            unknown.add(path, OsStr::new(&member.name(stem)));
        }
    }

    /// Counts a group, and adds it to `removable` if it may be deleted.
    fn add(&mut self, mut group: FileGroup, grouping: &Grouping<'_>) {
        group.count(&mut self.usage);
        let idle_for = match group.kind {
            FileGroupKind::Kernel | FileGroupKind::Precompile => grouping.kernel_idle_for,
            FileGroupKind::Orphan | FileGroupKind::Temp | FileGroupKind::Lock => {
                Some(grouping.other_idle_for)
            }
        };
        if idle_for.is_some_and(|time| idle(group.used(), grouping.now) >= time) {
            group.order();
            self.removable.push(group);
        }
    }
}

/// The names of the files that are in the groups of kernels.
#[derive(Default)]
struct GroupedFiles<'a> {
    own: HashMap<&'a str, FileSet>,
    others: HashSet<Box<str>>,
}

impl<'a> GroupedFiles<'a> {
    fn add(&mut self, stem: &'a str, kernel: &FileGroup) {
        for (file, _) in kernel.files.iter().chain(&kernel.locks) {
            match file {
                GroupFile::Own(member) => {
                    let own = self.own.entry(stem).or_default();
                    *own = own.with(*member);
                }
                GroupFile::Other(name) => drop(self.others.insert(name.clone())),
            }
        }
    }

    fn has(&self, stem: &str, member: FileSet) -> bool {
        self.own.get(stem).is_some_and(|own| own.has(member))
            || !self.others.is_empty() && self.others.contains(member.name(stem).as_str())
    }
}

/// Returns whether descriptions are needed to find out which files belong together.
fn needs_descriptions(all: &FilesByStem) -> bool {
    all.iter().any(|(stem, files)| {
        let has_json = has(files, FileSet::JSON);
        let has_object = has(files, FileSet::OBJECTS);
        let is_incomplete = has_json != has_object || !has_json && has(files, FileSet::HEADER);
        is_incomplete || has_json && !is_cann_kernel(stem) || base_of(stem).is_some()
    })
}

fn has(files: &[(FileSet, ListedState)], any: FileSet) -> bool {
    files.iter().any(|(member, _)| any.has(*member))
}

/// Returns the stem of the multi-part kernel that `stem` is a part of, by its suffix.
fn base_of(stem: &str) -> Option<&str> {
    PART_SUFFIXES.into_iter().find_map(|suffix| stem.strip_suffix(suffix))
}

/// The files of a directory, and their relations to its descriptions.
struct DescribedDir<'a> {
    files: &'a FilesByStem,
    descriptions: &'a HashMap<Box<str>, Description>,
    /// For each file, the number of descriptions that name it. Files that only a plain description names are omitted.
    claims: HashMap<String, u32>,
    /// For each part, the kernel that it belongs to; `None` if there are several.
    owners: HashMap<&'a str, Option<&'a str>>,
    /// For each kernel, the parts that belong to no other kernel.
    parts: HashMap<&'a str, Vec<&'a str>>,
}

impl<'a> DescribedDir<'a> {
    fn new(files: &'a FilesByStem, descriptions: &'a HashMap<Box<str>, Description>) -> Self {
        let (claims, owners, parts) = (HashMap::new(), HashMap::new(), HashMap::new());
        let mut dir = Self { files, descriptions, claims, owners, parts };
        if descriptions.is_empty() {
            return dir;
        }
        for (stem, description) in descriptions {
            if let Description::Kernel { parts, .. } = description {
                for part in parts {
                    let owner = dir.owners.entry(part.as_str()).or_insert(Some(stem));
                    *owner = owner.filter(|owner| *owner == &**stem);
                }
            }
        }
        for stem in files.keys() {
            let base =
                base_of(stem).filter(|base| files.get(*base).is_some_and(|files| has(files, FileSet::JSON)));
            if let Some(base) = base {
                dir.owners.entry(stem).or_insert(Some(base));
            }
        }
        for (part, owner) in &dir.owners {
            if let Some(owner) = owner {
                dir.parts.entry(owner).or_default().push(part);
            }
        }
        dir.parts.values_mut().for_each(|parts| opkeep_order::sort(parts));
        for (stem, description) in descriptions {
            if !matches!(description, Description::Plain) {
                for name in dir.named_by(stem) {
                    *dir.claims.entry(name).or_default() += 1;
                }
            }
        }
        // Most descriptions are plain, so a plain one counts only if another description names the same file.
        for (name, claims) in &mut dir.claims {
            let stem = name.strip_suffix(".o").unwrap_or_default();
            *claims += u32::from(matches!(descriptions.get(stem), Some(Description::Plain)));
        }
        dir
    }

    /// Returns the objects and headers that the description called `stem` names, as far as they exist under names that
    /// CANN uses.
    fn named_by(&self, stem: &str) -> Vec<String> {
        match self.descriptions.get(stem) {
            Some(Description::Kernel { objects, header, .. }) => {
                objects.iter().chain(header).filter(|name| self.state_of(name).is_some()).cloned().collect()
            }
            Some(Description::Plain) => vec![FileSet::O.name(stem)],
            // The content is unknown, so the files with the stem count as those of the kernel.
            Some(Description::Invalid | Description::Unread) | None => {
                let wanted = FileSet::OBJECTS.with(FileSet::HEADER);
                let files = self.files.get(stem).into_iter().flatten();
                let named = files.filter(|(member, _)| wanted.has(*member));
                named.map(|(member, _)| member.name(stem)).collect()
            }
        }
    }

    fn state_of(&self, name: &str) -> Option<ListedState> {
        let NameClass::Kernel(stem, member) = NameClass::in_cann_cache(name) else { return None };
        self.files.get(stem)?.iter().find(|(listed, _)| *listed == member).map(|(_, state)| *state)
    }

    fn is_part(&self, stem: &str) -> bool {
        base_of(stem).is_some() || self.owners.contains_key(stem)
    }

    /// Returns whether a description is that of a kernel: by its name, or because it describes a complete kernel.
    fn is_kernel(&self, stem: &str) -> bool {
        let is_description =
            matches!(self.descriptions.get(stem), Some(Description::Plain | Description::Kernel { .. }));
        is_cann_kernel(stem) || is_description && self.is_complete(stem)
    }

    /// Returns whether no description names the file `name` of `stem`, and `stem` is a part of no kernel.
    fn is_unclaimed(&self, stem: &str, name: &str) -> bool {
        let own = u32::from(
            self.named_by(stem).iter().any(|own| own == name && self.descriptions.contains_key(stem)),
        );
        let claims = self.claims.get(name).copied().unwrap_or(0);
        match base_of(stem) {
            // If the kernel is missing, only the part's own description names the file.
            Some(_) => !self.owners.contains_key(stem) && claims <= own,
            None => !self.owners.contains_key(stem) && claims == 0,
        }
    }

    /// Returns the group of the kernel with the description `stem`; an orphan if the kernel is incomplete.
    fn kernel(&self, index: usize, stem: &str) -> FileGroup {
        let mut kernel = FileGroup::new(FileGroupKind::Kernel, index, stem);
        let parts = self.parts.get(stem).map_or(&[][..], Vec::as_slice);
        let is_complete = self.is_complete(stem);
        if !is_complete {
            kernel.kind = FileGroupKind::Orphan;
            kernel.missing = self.missing(stem);
        }
        let named = self.named_by(stem);
        for (member, state) in &self.files[stem] {
            let file = GroupFile::Own(*member);
            match *member {
                FileSet::JSON => kernel.files.push((file, *state)),
                // A precompile is useful without the kernel.
                FileSet::PRE | FileSet::PRE_LOCK if !is_complete => {}
                FileSet::PRE => kernel.files.push((file, *state)),
                FileSet::LOCK | FileSet::PRE_LOCK => kernel.locks.push((file, *state)),
                _ if self.is_exclusive(&member.name(stem), &named) => kernel.files.push((file, *state)),
                _ => {}
            }
        }
        self.add_named(&mut kernel, &named, stem);
        for part in parts {
            let named = self.named_by(part);
            for (member, state) in self.files.get(*part).into_iter().flatten() {
                let name = member.name(part);
                let is_object = FileSet::OBJECTS.with(FileSet::HEADER).has(*member);
                if FileSet::LOCK.with(FileSet::PRE_LOCK).has(*member) {
                    kernel.locks.push((GroupFile::Other(name.into()), *state));
                } else if !is_object || self.is_exclusive(&name, &named) {
                    add_new(&mut kernel, &name, *state, stem);
                }
            }
            self.add_named(&mut kernel, &named, stem);
        }
        kernel
    }

    /// Adds those files of `named` that no other description names.
    fn add_named(&self, kernel: &mut FileGroup, named: &[String], stem: &str) {
        for name in named {
            if let Some(state) = self.state_of(name).filter(|_| self.is_exclusive(name, named)) {
                add_new(kernel, name, state, stem);
            }
        }
    }

    /// Returns whether no description names the file `name`, except the one that names the files `named`.
    fn is_exclusive(&self, name: &str, named: &[String]) -> bool {
        let own = u32::from(named.iter().any(|own| own == name));
        self.claims.get(name).is_none_or(|claims| *claims <= own)
    }

    /// Returns whether the object of a description exists, or at least one part of a multi-part kernel; true if that is
    /// unknown.
    fn is_complete(&self, stem: &str) -> bool {
        let exists =
            |part: &String| self.files.get(part.as_str()).is_some_and(|files| has(files, FileSet::JSON));
        match self.descriptions.get(stem) {
            Some(Description::Kernel { parts, .. }) if !parts.is_empty() => parts.iter().any(exists),
            Some(Description::Kernel { has_object, .. }) => *has_object,
            Some(Description::Invalid) => has(&self.files[stem], FileSet::OBJECTS),
            Some(Description::Plain | Description::Unread) | None => true,
        }
    }

    /// Returns the files of which one would complete the kernel with the description `stem`.
    fn missing(&self, stem: &str) -> Vec<GroupFile> {
        match self.descriptions.get(stem) {
            Some(Description::Kernel { objects, parts, .. }) => {
                let parts = parts.iter().map(|part| format!("{part}.json"));
                objects.iter().cloned().chain(parts).map(|name| GroupFile::Other(name.into())).collect()
            }
            _ => vec![GroupFile::Own(FileSet::O), GroupFile::Own(FileSet::SO)],
        }
    }
}

fn add_new(kernel: &mut FileGroup, name: &str, state: ListedState, stem: &str) {
    if !kernel.files.iter().any(|(file, _)| file.name(stem) == name) {
        kernel.files.push((GroupFile::Other(name.into()), state));
    }
}
