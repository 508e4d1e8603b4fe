//! The judgement of a kernel in a framework's cache.

use std::mem;

use opkeep_artifact::is_plain_file_name;
use opkeep_cann_meta::{KernelMeta, MetaError};
use opkeep_descriptor::{name_matches, read_info};
use opkeep_validator::{Code, Finding, Report, sub_kernel_files, validate_object, validate_parsed};

use crate::scan::behavior;
use crate::scan::cache_dir::Kind;
use crate::scan::chip::Chip;
use crate::scan::file_set::is_skipped;
use crate::scan::item::{Item, ItemKind, ItemProblem, ItemState, Kernel, Note, Orphan, UNSAFE_NAME};
use opkeep_cann_meta::file_names::FileSet;
use opkeep_fs::{Dir, FileRead, FileState};
use opkeep_kernel_meta::manifest::MAX_TEXT;

/// The maximum size of an object that CANN loads, in bytes.
pub(crate) const MAX_OBJECT: u64 = i32::MAX as u64;
/// The problem of a link in the place of a file.
pub(crate) const IS_LINK: &str = "it is a link, and links are not followed";
/// The maximum number of times that a kernel is judged if it is replaced meanwhile.
const TRIES: usize = 3;

/// The buffers of one thread, reused for each kernel.
#[derive(Debug, Default)]
pub(crate) struct JudgeBuffers {
    json: Vec<u8>,
    object: Vec<u8>,
    other: Vec<u8>,
    text: Vec<u8>,
    /// Notes about the fields of the `.json`.
    lints: Vec<Note>,
}

/// The directory whose kernels are judged.
#[derive(Debug)]
pub(crate) struct JudgedDir<'a> {
    pub(crate) dir: &'a Dir,
    pub(crate) kind: Kind,
}

/// The findings about a kernel's files.
pub(crate) struct Judgement {
    state: ItemState,
    kind: ItemKind,
    notes: Vec<Note>,
    kernel: Option<Kernel>,
    chip: Option<Chip>,
    /// The name of the object, if it is not the stem with a suffix.
    object: Option<Box<str>>,
    /// All files, existing or not, that the `.json` names and whose names are not the stem with a suffix.
    named: Vec<Box<str>>,
    /// The state of the `.json`, if it was read.
    json: Option<FileState>,
}

impl Judgement {
    fn new(state: ItemState) -> Self {
        Self::of(ItemKind::Kernel, state)
    }

    pub(crate) fn of(kind: ItemKind, state: ItemState) -> Self {
        let (notes, named) = (Vec::new(), Vec::new());
        Self { state, kind, notes, kernel: None, chip: None, object: None, named, json: None }
    }

    pub(crate) fn named(self, object: &str) -> Self {
        Self { object: Some(object.into()), ..self }
    }

    fn damaged(problem: ItemProblem) -> Self {
        Self::new(ItemState::Damaged(vec![problem]))
    }
}

/// Returns the names of the objects that a damaged kernel lacks.
fn missing(state: &ItemState) -> impl Iterator<Item = &str> {
    let problems: &[ItemProblem] = if let ItemState::Damaged(problems) = state { problems } else { &[] };
    let expected = problems.iter().filter_map(|problem| match problem {
        ItemProblem::NoObject { expected } => Some(expected.split(" or ")),
        _ => None,
    });
    expected.flatten()
}

impl JudgedDir<'_> {
    /// Judges the kernel called `stem`, of which the files `members` were listed. Returns `None` if all of them are
    /// missing now.
    pub(crate) fn judge(&self, stem: &str, mut members: FileSet, buffers: &mut JudgeBuffers) -> Option<Item> {
        let mut tries = 0;
        loop {
            tries += 1;
            let judgement = self.judge_once(stem, members, buffers);
            let is_damaged = matches!(judgement.state, ItemState::Damaged(_));
            let mut has_reappeared = false;
            if is_damaged || matches!(judgement.state, ItemState::Orphan(_)) {
                // The kernel may have been completed or evicted after the listing.
                let current = self.existing_files(stem, members);
                if current.without(FileSet::LOCK).is_empty() {
                    return None;
                }
                if current != members && tries < TRIES {
                    members = current;
                    continue;
                }
                if current != members {
                    return Some(self.item(stem, current, Judgement::new(ItemState::Changing)));
                }
                has_reappeared = missing(&judgement.state)
                    .any(|file| current.has_name(stem, file) || self.dir.is_file_or_link(file));
            }
            let json = format!("{stem}.json");
            // The framework may have replaced both files between the two reads, or a file was missing only for a
            // moment.
            let replaced = || judgement.json.is_some() && self.dir.file_state(&json) != judgement.json;
            if is_damaged && (has_reappeared || replaced()) {
                if tries < TRIES {
                    continue;
                }
                return Some(self.item(stem, members, Judgement::new(ItemState::Changing)));
            }
            return Some(self.item(stem, members, judgement));
        }
    }

    /// Returns the files among `members` that exist now, and the `.json` if it exists now.
    fn existing_files(&self, stem: &str, members: FileSet) -> FileSet {
        members.with(FileSet::JSON).filter(|member| self.dir.is_file_or_link(member.name(stem)))
    }

    /// Returns the item of a judgement, with the states of all files if it is not intact.
    pub(crate) fn item(&self, stem: &str, members: FileSet, judgement: Judgement) -> Item {
        let Judgement { state, kind, notes, kernel, chip, object, named, json } = judgement;
        let mut item = Item {
            kind,
            name: stem.to_owned(),
            below: None,
            behavior: behavior::of(self.kind, kind, stem, &state, &notes, members),
            state,
            in_use: None,
            notes,
            kernel,
            chip,
            members,
            object,
            named,
            is_read: json.is_some(),
            judged: Vec::new(),
        };
        if !matches!(item.state, ItemState::Intact) {
            item.record_states(self.dir);
        }
        item
    }

    fn judge_once(&self, stem: &str, members: FileSet, buffers: &mut JudgeBuffers) -> Judgement {
        if !members.has(FileSet::JSON) {
            return Judgement::new(ItemState::Orphan(match () {
                () if members.has(FileSet::OBJECTS) => Orphan::ObjectOnly,
                () if members.has(FileSet::INFO) => Orphan::InfoOnly,
                () if members.has(FileSet::HEADER) => Orphan::HeaderOnly,
                () => Orphan::StaleLock,
            }));
        }
        let file = format!("{stem}.json");
        let json = match self.read(&file, MAX_TEXT, &mut buffers.json) {
            Ok(json) => json,
            Err(state) => return Judgement::new(state),
        };
        let meta = self.parse(buffers);
        let judgement = match meta {
            Ok(meta) => self.judge_json(stem, members, meta, buffers),
            // Compilers write reports beside kernels, which are JSON lists.
            Err(_) if members == FileSet::JSON && is_list(&buffers.json) => other_json(),
            Err(error) => Judgement {
                notes: mem::take(&mut buffers.lints),
                ..Judgement::damaged(parse_problem(stem, &buffers.json, error))
            },
        };
        Judgement { json: Some(json), ..judgement }
    }

    /// Parses the `.json`. In the caches of MindSpore and AKG, the notes also have the reactions of MindSpore's reader.
    fn parse(&self, buffers: &mut JudgeBuffers) -> Result<KernelMeta, MetaError> {
        let (meta, lints) = match self.kind {
            Kind::MindSpore | Kind::Akg => KernelMeta::parse_linted(&buffers.json),
            Kind::Cann | Kind::Package | Kind::Work => (KernelMeta::parse(&buffers.json), Vec::new()),
        };
        buffers.lints = lints.into_iter().map(Note::Lint).collect();
        meta
    }

    /// Judges the kernel of a readable `.json`.
    fn judge_json(
        &self,
        stem: &str,
        members: FileSet,
        meta: KernelMeta,
        buffers: &mut JudgeBuffers,
    ) -> Judgement {
        if let Some(parts) = sub_kernel_files(&meta) {
            return self.judge_multi_part(&parts, buffers);
        }
        if !meta.describes_kernel() {
            return other_json();
        }
        let names = match self.object_names(stem, &meta) {
            Ok(names) => names,
            Err(name) => return Judgement::damaged(ItemProblem::UnsafeName { name }),
        };
        let named = self.named(stem, &names, &meta);
        let judgement = self.judge_with_object(stem, members, meta, &names, buffers);
        Judgement { named, ..judgement }
    }

    /// Judges a `.json` with the first existing object of `names`.
    fn judge_with_object(
        &self,
        stem: &str,
        members: FileSet,
        meta: KernelMeta,
        names: &[String],
        buffers: &mut JudgeBuffers,
    ) -> Judgement {
        let mut found = None;
        for name in names {
            match self.read(name, MAX_OBJECT, &mut buffers.object) {
                Ok(identity) => {
                    found = Some((name, identity));
                    break;
                }
                Err(ItemState::Damaged(problems))
                    if matches!(problems[..], [ItemProblem::NoObject { .. }]) => {}
                Err(state) => return Judgement::new(state),
            }
        }
        let Some((name, identity)) = found else {
            return Judgement::damaged(ItemProblem::NoObject { expected: names.join(" or ") });
        };
        let object = (!members.has_name(stem, name)).then(|| name.as_str().into());
        let judgement = match self.kind {
            Kind::Cann | Kind::Package | Kind::Work if name.ends_with(".so") => {
                judge_library(&meta, buffers, identity.len)
            }
            _ => self.judge_pair(stem, members, meta, buffers, identity.len),
        };
        Judgement { object, ..judgement }
    }

    /// Judges the `.json` and the object in the buffers.
    fn judge_pair(
        &self,
        stem: &str,
        members: FileSet,
        meta: KernelMeta,
        buffers: &mut JudgeBuffers,
        bytes: u64,
    ) -> Judgement {
        let JudgeBuffers { json, object, other, text, lints } = buffers;
        // The chip is compared later: a kernel for another chip is not damaged.
        let report = validate_parsed(meta, object, None);
        let mut chip = Chip::of(&report);
        let problems: Vec<ItemProblem> = report.errors().cloned().map(ItemProblem::Invalid).collect();
        let mut notes: Vec<Note> = other_findings(&report).map(Note::Finding).collect();
        notes.append(lints);
        notes.extend(self.notes_of(stem, members, &report, (other, text), chip.as_mut()));
        let kernel = report.sha256.map(|sha256| Kernel { sha256, bytes: bytes + json.len() as u64 });
        let state = if problems.is_empty() { ItemState::Intact } else { ItemState::Damaged(problems) };
        let is_intact = matches!(state, ItemState::Intact);
        let (kernel, chip) = (kernel.filter(|_| is_intact), chip.filter(|_| is_intact));
        Judgement { notes, kernel, chip, ..Judgement::new(state) }
    }

    /// Returns the notes about a kernel's names, and about files beside it that no framework reads.
    fn notes_of(
        &self,
        stem: &str,
        members: FileSet,
        report: &Report,
        (buffer, text): (&mut Vec<u8>, &mut Vec<u8>),
        chip: Option<&mut Chip>,
    ) -> Vec<Note> {
        let mut notes = Vec::new();
        let meta = report.meta.as_ref();
        let named = meta.and_then(|meta| meta.kernel_name.as_deref()).unwrap_or_default();
        // The kernel's name is the stem with `__kernel0` or a tiling key.
        let is_own = named.strip_prefix(stem).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'));
        if !named.is_empty() && !is_own {
            notes.push(Note::KernelName { kernel_name: named.to_owned() });
        }
        if self.kind == Kind::MindSpore && is_skipped(stem) {
            notes.push(Note::Skipped);
        }
        if members.has(FileSet::INFO) && self.read(&format!("{stem}.info"), MAX_TEXT, buffer).is_ok() {
            notes.extend(descriptor_note(stem, buffer, text));
            if let Some(chip) = chip {
                chip.set_claim(buffer);
            }
        }
        let linked_from = meta.and_then(|meta| meta.obj_sha256.as_deref());
        if let (true, Some(digest)) = (members.has(FileSet::O), linked_from) {
            let read = self.read(&format!("{stem}.o"), MAX_OBJECT, buffer);
            let same = || opkeep_digest::Digest::of(buffer).to_string() == digest;
            if read.is_ok() && members.has(FileSet::SO) && !same() {
                notes.push(Note::OtherObject);
            }
        }
        notes
    }

    /// Judges an old multi-part kernel, whose two parts are kernels of their own.
    fn judge_multi_part(&self, parts: &[&str], buffers: &mut JudgeBuffers) -> Judgement {
        let mut problems = Vec::new();
        for part in parts {
            let stem = part.strip_suffix(".json").unwrap_or(part);
            let problem = match () {
                () if !is_plain_file_name(stem) => Some(UNSAFE_NAME.to_owned()),
                () => self.part_problem(stem, buffers),
            };
            problems.extend(problem.map(|problem| ItemProblem::Part { part: (*part).to_owned(), problem }));
        }
        let state = if problems.is_empty() { ItemState::Intact } else { ItemState::Damaged(problems) };
        Judgement::new(state)
    }

    fn part_problem(&self, stem: &str, buffers: &mut JudgeBuffers) -> Option<String> {
        let json = format!("{stem}.json");
        if self.dir.file_state(&json).is_none() {
            return Some("it is missing".to_owned());
        }
        if self.read(&json, MAX_TEXT, &mut buffers.json).is_err() {
            return Some("it cannot be read".to_owned());
        }
        if KernelMeta::parse(&buffers.json).is_ok_and(|meta| sub_kernel_files(&meta).is_some()) {
            return Some("it is a multi-part kernel itself".to_owned());
        }
        match self.judge_once(stem, FileSet::JSON, buffers).state {
            ItemState::Intact => None,
            ItemState::Damaged(problems) => problems.first().map(ItemProblem::to_string),
            _ => Some("it cannot be judged now".to_owned()),
        }
    }

    /// Returns the names that the framework tries for the object.
    ///
    /// # Errors
    /// A name in the `.json` that may lead out of the directory. The stem cannot, since the directory has a file with
    /// that name.
    fn object_names(&self, stem: &str, meta: &KernelMeta) -> Result<Vec<String>, String> {
        let suffix = meta.bin_file_suffix.as_deref().filter(|suffix| !suffix.is_empty());
        let is_by_bin = matches!(self.kind, Kind::Cann | Kind::Package | Kind::Work);
        let bin = meta.bin_file_name.as_deref().filter(|bin| is_by_bin && *bin != stem);
        if let Some(name) = bin.into_iter().chain(suffix).find(|name| !is_plain_file_name(name)) {
            return Err(name.chars().take(80).collect());
        }
        let by_bin_name = |bin: &str| match suffix.unwrap_or(".o") {
            ".so" => vec![format!("{bin}.so"), format!("lib{bin}.so"), format!("{bin}_native.so")],
            suffix => vec![format!("{bin}{suffix}")],
        };
        let names = match (self.kind, suffix) {
            // MindSpore uses the name of the .json and ignores binFileName.
            (Kind::MindSpore, Some(".so")) => vec![format!("lib{stem}.so"), format!("{stem}.so")],
            (Kind::MindSpore, suffix) => vec![format!("{stem}{}", suffix.unwrap_or(".o"))],
            (Kind::Akg, Some(suffix)) => vec![format!("{stem}{suffix}")],
            // A kernel for the host is a library, which was linked from the object.
            (Kind::Akg, None) if meta.obj_sha256.is_some() => vec![format!("{stem}.so")],
            (Kind::Akg, None) => vec![format!("{stem}.so"), format!("{stem}.ptx"), format!("{stem}.o")],
            (Kind::Cann | Kind::Package | Kind::Work, _) => {
                by_bin_name(meta.bin_file_name.as_deref().unwrap_or(stem))
            }
        };
        Ok(names)
    }

    /// Returns the objects and the header that a `.json` names, except for names that are the stem with a suffix.
    fn named(&self, stem: &str, objects: &[String], meta: &KernelMeta) -> Vec<Box<str>> {
        let is_cann = matches!(self.kind, Kind::Cann | Kind::Package | Kind::Work);
        let suffix = meta.header_file_suffix.as_deref().filter(|suffix| is_cann && !suffix.is_empty());
        let header =
            suffix.map(|suffix| format!("{}{suffix}", meta.bin_file_name.as_deref().unwrap_or(stem)));
        let own = FileSet::OBJECTS.with(FileSet::HEADER);
        let names = objects.iter().chain(&header).filter(|name| !own.has_name(stem, name));
        names.map(|name| name.as_str().into()).collect()
    }

    /// Reads a file of a kernel, or returns the state that results from the failure.
    fn read(&self, file: &str, limit: u64, buffer: &mut Vec<u8>) -> Result<FileState, ItemState> {
        let read = self.dir.read(file, limit, buffer);
        let file = || file.to_owned();
        let damaged = |problem| Err(ItemState::Damaged(vec![problem]));
        match read {
            FileRead::Complete(identity) => Ok(identity),
            FileRead::TooLarge(FileState { len: size, .. }) => {
                damaged(ItemProblem::TooLarge { file: file(), bytes: size })
            }
            FileRead::Changing => Err(ItemState::Changing),
            FileRead::Missing => damaged(ItemProblem::NoObject { expected: file() }),
            FileRead::Link => Err(ItemState::Unreadable { file: file(), problem: IS_LINK.to_owned() }),
            FileRead::NotAFile => damaged(ItemProblem::NotAFile { file: file() }),
            FileRead::Failed(error) => {
                Err(ItemState::Unreadable { file: file(), problem: error.to_string() })
            }
        }
    }
}

/// Returns the state of a text that must be JSON, if it is not.
pub(crate) fn json_problem(json: &[u8]) -> Option<ItemState> {
    if json.iter().all(u8::is_ascii_whitespace) {
        return Some(ItemState::Damaged(vec![ItemProblem::EmptyJson]));
    }
    let error = serde_json::from_slice::<serde::de::IgnoredAny>(json).err()?;
    Some(ItemState::Damaged(vec![ItemProblem::InvalidJson { problem: error.to_string() }]))
}

/// Returns the problem of a `.json` that could not be parsed as that of a kernel.
fn parse_problem(stem: &str, json: &[u8], error: MetaError) -> ItemProblem {
    let problem = error.to_string();
    match error {
        _ if json.iter().all(|byte| byte.is_ascii_whitespace() || *byte == 0) => ItemProblem::EmptyJson,
        MetaError::Field { field, .. } => ItemProblem::Field { field, problem },
        MetaError::TooLarge { bytes, .. } => {
            ItemProblem::TooLarge { file: format!("{stem}.json"), bytes: bytes as u64 }
        }
        _ => ItemProblem::InvalidJson { problem },
    }
}

/// Returns the judgement of a valid `.json` that does not describe a kernel.
fn other_json() -> Judgement {
    Judgement { kind: ItemKind::OtherJson, ..Judgement::new(ItemState::Intact) }
}

/// Returns whether the text is a complete JSON list. The `.json` of a kernel never is one, even if truncated.
fn is_list(json: &[u8]) -> bool {
    json.trim_ascii_start().starts_with(b"[") && json_problem(json).is_none()
}

/// Judges a library of the host that CANN loads for the kernel. The digest may be that of the library's content, so
/// only the completeness of the library is judged.
fn judge_library(meta: &KernelMeta, buffers: &JudgeBuffers, bytes: u64) -> Judgement {
    let mut problems: Vec<ItemProblem> = validate_object(&buffers.object, None)
        .errors()
        .map(|error| ItemProblem::BrokenLibrary { problem: error.to_string() })
        .collect();
    let stated = meta.sha256.as_deref().unwrap_or_default();
    if stated.is_empty() {
        problems.push(ItemProblem::NoDigest);
    }
    if !problems.is_empty() {
        return Judgement::new(ItemState::Damaged(problems));
    }
    let sha256 = opkeep_digest::Digest::of(&buffers.object);
    let is_its_own = sha256.to_string() == stated;
    let bytes = bytes + buffers.json.len() as u64;
    Judgement {
        notes: vec![Note::Library { is_its_own }],
        kernel: is_its_own.then_some(Kernel { sha256, bytes }),
        ..Judgement::new(ItemState::Intact)
    }
}

/// Returns the validator's findings that are not errors, without those that every genuine kernel has.
fn other_findings(report: &Report) -> impl Iterator<Item = Finding> {
    let reported = [Code::MINDSPORE_LINT, Code::BIN_NAME];
    let others = |finding: &&Finding| !report.errors().any(|error| std::ptr::eq(error, *finding));
    report.findings.iter().filter(others).filter(move |finding| !reported.contains(&finding.code())).cloned()
}

/// Returns a note if a kernel's name does not follow from its descriptor, or if the descriptor is damaged.
fn descriptor_note(stem: &str, info: &[u8], buffer: &mut Vec<u8>) -> Option<Note> {
    if name_matches(info, stem, buffer) {
        return None;
    }
    match read_info(info) {
        Err(error) => Some(Note::DamagedDescriptor { problem: error.to_string() }),
        Ok(descriptor) if descriptor.named_by(stem).is_some() => None,
        Ok(descriptor) => {
            let expected = descriptor.kernel_meta_stem().ok().map(|name| name.to_string());
            Some(Note::DescriptorName { expected })
        }
    }
}
