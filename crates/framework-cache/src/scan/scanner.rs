//! The scan of one cache.

use std::ffi::OsStr;
use std::io;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::{Builder, scope};
use std::time::SystemTime;

use crate::scan::cache_dir::{CacheDir, Kind, PREBUILT, SUBDIRS};
use crate::scan::file_set::{self, ClassifiedNames};
use crate::scan::in_use::InUseCheck;
use crate::scan::item::{Item, ItemKind, ItemProblem, ItemState, Orphan};
use crate::scan::judge::{self, JudgeBuffers, JudgedDir};
use crate::scan::{chip_comparison, own_notes, shared_files};
use opkeep_cann_meta::file_names::{FileSet, is_cann_kernel};
use opkeep_fs::{Dir, FileKind, FileRead};
use opkeep_kernel_meta::manifest::MAX_TEXT;

/// The options of [`scan`].
#[non_exhaustive]
pub struct ScanOptions<'a> {
    /// The number of threads.
    pub threads: NonZeroUsize,
    /// Called with the number of judged kernels and the number of all kernels, by several threads in no fixed order.
    pub progress: &'a (dyn Fn(u64, u64) + Sync),
    /// Called between kernels. The scan stops if this returns true.
    pub is_cancelled: &'a (dyn Fn() -> bool + Sync),
}

impl ScanOptions<'_> {
    /// Returns the options of a scan with this number of threads.
    pub fn new(threads: NonZeroUsize) -> Self {
        Self { threads, progress: &|_, _| {}, is_cancelled: &|| false }
    }
}

/// The result of a scan: the content of one cache.
#[derive(Debug)]
#[non_exhaustive]
pub struct CacheScan {
    /// The cache.
    pub cache: CacheDir,
    /// All kernels, and the other items that are not intact, by name.
    pub items: Vec<Item>,
    /// The number of known files that belong to no kernel, and of intact precompiles.
    pub known: u64,
    /// The number of debugging aids, which MindSpore ignores because of their names.
    pub skipped: u64,
    /// The first hundred names of files of unknown programs.
    pub foreign: Vec<String>,
    /// The number of files of unknown programs.
    pub foreign_count: u64,
    /// Directories in the cache that could not be read, each with the error.
    pub unreadable_dirs: Vec<(String, io::Error)>,
    /// Whether the scan was cancelled.
    pub cancelled: bool,
}

/// Judges all files in a cache.
///
/// # Errors
/// The directory cannot be read.
pub fn scan(cache: &CacheDir, options: &ScanOptions<'_>) -> io::Result<CacheScan> {
    let dir = Dir::open_quietly(&cache.path)?;
    let mut scan = CacheScan {
        cache: cache.clone(),
        items: Vec::new(),
        known: 0,
        skipped: 0,
        foreign: Vec::new(),
        foreign_count: 0,
        unreadable_dirs: Vec::new(),
        cancelled: false,
    };
    let mut in_use = InUseCheck::default();
    let subdirs = scan.add_dir(&dir, None, options, &mut in_use)?;
    for subdir in subdirs {
        let known = SUBDIRS.into_iter().find(|known| *known == subdir);
        let outcome = match (cache.kind, known) {
            (Kind::MindSpore, Some(PREBUILT)) => dir
                .below(OsStr::new(PREBUILT))
                .and_then(|below| scan.add_precompiles(&below, options, &mut in_use)),
            (Kind::Akg, Some(part)) if part != PREBUILT => dir
                .below(OsStr::new(part))
                .and_then(|below| scan.add_dir(&below, Some(part), options, &mut in_use).map(drop)),
            _ => {
                scan.add_foreign(&format!("{subdir}/"));
                Ok(())
            }
        };
        if let Err(error) = outcome {
            scan.unreadable_dirs.push((subdir, error));
        }
    }
    opkeep_order::sort(&mut scan.foreign);
    opkeep_order::by(&mut scan.items, |a, b| (a.below, &a.name, a.kind).cmp(&(b.below, &b.name, b.kind)));
    Ok(scan)
}

/// Judges the kernel called `stem` in `dir`, a cache of MindSpore, and its use. Returns `None` if the kernel has no
/// file.
pub(crate) fn judge_one(dir: &Dir, stem: &str) -> Option<Item> {
    let judged_dir = JudgedDir { dir, kind: Kind::MindSpore };
    let members = FileSet::KERNEL.filter(|member| dir.is_file_or_link(member.name(stem)));
    if members.is_empty() {
        return None;
    }
    let mut items =
        judged_dir.judge(stem, members, &mut JudgeBuffers::default()).into_iter().collect::<Vec<_>>();
    InUseCheck::default().mark(dir, &mut items, SystemTime::now());
    items.pop()
}

impl CacheScan {
    fn add_foreign(&mut self, name: &str) {
        file_set::add_foreign(name, &mut self.foreign, &mut self.foreign_count);
    }

    /// Judges the files directly in `dir`. Returns the names of its subdirectories.
    fn add_dir(
        &mut self,
        dir: &Dir,
        below: Option<&'static str>,
        options: &ScanOptions<'_>,
        in_use: &mut InUseCheck,
    ) -> io::Result<Vec<String>> {
        let kind = self.cache.kind;
        let names = dir.list()?;
        let files = names.iter().filter(|(_, kind)| *kind == FileKind::File);
        let mut classified = file_set::classify(files.filter_map(|(name, _)| name.to_str()), kind);
        let mut subdirs = Vec::new();
        let is_plain = |name: &OsStr, kind| kind == FileKind::File && name.as_encoded_bytes().is_ascii();
        for (name, file_kind) in names.iter().filter(|(name, kind)| !is_plain(name, *kind)) {
            match (file_kind, name.to_str()) {
                (FileKind::Dir, Some(subdir)) => subdirs.push(subdir.to_owned()),
                (FileKind::File, Some(_)) => {}
                // The user may have moved a kernel's file and linked to it, and frameworks follow links.
                (FileKind::Link, Some(link)) if classified.add_link(link, kind) => {}
                // No framework writes a link, or a name that is not UTF-8.
                (_, _) => self.add_foreign(&name.to_string_lossy()),
            }
        }
        drop(names);
        opkeep_order::sort(&mut subdirs);
        let ClassifiedNames { kernels, temps, skipped, known, foreign, foreign_count } = classified;
        (self.known, self.skipped) = (self.known + known, self.skipped + skipped);
        foreign.iter().for_each(|name| self.add_foreign(name));
        self.foreign_count += foreign_count - foreign.len() as u64;

        let judged_dir = JudgedDir { dir, kind };
        let first = self.items.len();
        let (judged, cancelled) = judge_all(&judged_dir, &kernels, options);
        self.cancelled |= cancelled;
        self.items.extend(judged);
        shared_files::resolve(dir, kind, &mut self.items, first);
        chip_comparison::compare(dir, &self.cache, &mut self.items[first..]);
        if kind == Kind::Cann {
            self.move_foreign(first);
        }
        own_notes::remove(dir, &mut self.items[first..]);
        self.items
            .extend(temps.into_iter().map(|temp| judged_dir.orphan(temp, ItemKind::Temp, Orphan::Temp)));
        for item in &mut self.items[first..] {
            item.below = below;
        }
        in_use.mark(dir, &mut self.items[first..], SystemTime::now());
        Ok(subdirs)
    }

    /// Moves the files of damaged items and orphans whose names are not CANN's from the items from the index `first` on
    /// to the foreign files: CANN did not write them, so no repair may move them.
    fn move_foreign(&mut self, first: usize) {
        let is_foreign = |item: &mut Item| {
            let is_wrong = matches!(item.state, ItemState::Damaged(_) | ItemState::Orphan(_));
            (is_wrong || item.kind == ItemKind::OtherJson) && !is_cann_kernel(&item.name)
        };
        let foreign: Vec<Item> = self.items.extract_if(first.., is_foreign).collect();
        // An object that a description names beside them has another stem.
        let files = foreign.iter().flat_map(|item| item.members.names(&item.name));
        files.for_each(|file| self.add_foreign(&file));
    }

    /// Judges the precompiles in `dir`, which the framework reads at start-up.
    fn add_precompiles(
        &mut self,
        dir: &Dir,
        options: &ScanOptions<'_>,
        in_use: &mut InUseCheck,
    ) -> io::Result<()> {
        let (mut buffer, first) = (Vec::new(), self.items.len());
        for name in dir.entries()? {
            if (options.is_cancelled)() {
                self.cancelled = true;
                break;
            }
            let (kind, name) = (name.kind, name.name.to_string_lossy().into_owned());
            match name.strip_suffix(".json") {
                Some(stem) if kind == FileKind::File => {
                    let judged_dir = JudgedDir { dir, kind: self.cache.kind };
                    match judged_dir.precompile(stem, FileSet::JSON, &mut buffer) {
                        Some(item) => self.items.push(Item { below: Some(PREBUILT), ..item }),
                        None => self.known += 1,
                    }
                }
                _ => self.add_foreign(&format!("{PREBUILT}/{name}")),
            }
        }
        in_use.mark(dir, &mut self.items[first..], SystemTime::now());
        Ok(())
    }
}

/// Judges `kernels` with several threads. Also returns whether the scan was cancelled.
fn judge_all(
    judged_dir: &JudgedDir<'_>,
    kernels: &[(String, FileSet)],
    options: &ScanOptions<'_>,
) -> (Vec<Item>, bool) {
    /// The number of kernels that a thread takes at once: few, so that all threads end at about the same time.
    const BATCH: usize = 16;
    let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
    let run = || {
        let (mut buffers, mut cancelled) = (JudgeBuffers::default(), false);
        let mut items = Vec::with_capacity(kernels.len() / options.threads);
        loop {
            let at = next.fetch_add(BATCH, Ordering::Relaxed);
            let Some(batch) =
                kernels.get(at..kernels.len().min(at + BATCH)).filter(|batch| !batch.is_empty())
            else {
                return (items, cancelled);
            };
            cancelled = (options.is_cancelled)();
            if cancelled {
                return (items, cancelled);
            }
            for (stem, members) in batch {
                items.extend(judged_dir.judge_all_of(stem, *members, &mut buffers));
            }
            let done = done.fetch_add(batch.len() as u64, Ordering::Relaxed) + batch.len() as u64;
            (options.progress)(done, kernels.len() as u64);
        }
    };
    scope(|scope| {
        let start = |_| Builder::new().spawn_scoped(scope, run).ok();
        // If the system starts fewer threads, the running ones do all the work.
        let helpers: Vec<_> = (1..options.threads.get().min(kernels.len())).map_while(start).collect();
        let (mut items, mut cancelled) = run();
        for helper in helpers {
            match helper.join() {
                Ok((more, is_cancelled)) => {
                    items.extend(more);
                    cancelled |= is_cancelled;
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        (items, cancelled)
    })
}

impl JudgedDir<'_> {
    /// Judges the files of one stem: a kernel, its precompile and their locks.
    fn judge_all_of(&self, stem: &str, members: FileSet, buffers: &mut JudgeBuffers) -> Vec<Item> {
        let mut items = Vec::new();
        let precompile = members.only(FileSet::PRE.with(FileSet::PRE_LOCK));
        if precompile.has(FileSet::PRE) {
            items.extend(self.precompile(stem, precompile, &mut Vec::new()));
        } else if !precompile.is_empty() {
            items.push(self.orphan_of(stem, precompile, ItemKind::Lock, Orphan::StaleLock));
        }
        let kernel = members.without(precompile);
        if kernel == FileSet::LOCK {
            items.push(self.orphan_of(stem, kernel, ItemKind::Lock, Orphan::StaleLock));
        } else if !kernel.is_empty() {
            items.extend(self.judge(stem, kernel, buffers));
        }
        items
    }

    /// Judges a precompile. Returns an item if it is not intact.
    fn precompile(&self, stem: &str, members: FileSet, buffer: &mut Vec<u8>) -> Option<Item> {
        let file = members.without(FileSet::PRE_LOCK).names(stem).last()?;
        let state = match self.dir.read(&file, MAX_TEXT, buffer) {
            FileRead::Complete(_) => judge::json_problem(buffer),
            FileRead::Missing => None,
            FileRead::Changing => Some(ItemState::Changing),
            FileRead::Link => Some(ItemState::Unreadable { file, problem: judge::IS_LINK.to_owned() }),
            FileRead::NotAFile => Some(ItemState::Damaged(vec![ItemProblem::NotAFile { file }])),
            FileRead::TooLarge(size) => {
                Some(ItemState::Damaged(vec![ItemProblem::TooLarge { file, bytes: size.len }]))
            }
            FileRead::Failed(error) => Some(ItemState::Unreadable { file, problem: error.to_string() }),
        };
        state.map(|state| self.item(stem, members, judge::Judgement::of(ItemKind::Precompile, state)))
    }

    /// Returns an orphan that consists of one file.
    fn orphan(&self, file: String, kind: ItemKind, orphan: Orphan) -> Item {
        let judgement = judge::Judgement::of(kind, ItemState::Orphan(orphan)).named(&file);
        self.item(&file, FileSet::default(), judgement)
    }

    fn orphan_of(&self, stem: &str, members: FileSet, kind: ItemKind, orphan: Orphan) -> Item {
        self.item(stem, members, judge::Judgement::of(kind, ItemState::Orphan(orphan)))
    }
}
