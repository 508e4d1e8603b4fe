//! Judging everything in one cache.

use std::ffi::OsStr;
use std::io;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::{Builder, scope};
use std::time::SystemTime;

use crate::scan::cache_dir::{CacheDir, FOLDERS, Kind, PREBUILT};
use crate::scan::file_set::{self, ClassifiedNames};
use crate::scan::in_use::Watch;
use crate::scan::item::{Item, ItemKind, ItemProblem, ItemState, Orphan};
use crate::scan::judge::{self, JudgeCache, JudgeScratch};
use crate::scan::{chip_comparison, shared_files};
use opkeep_cann_meta::file_names::FileSet;
use opkeep_fs::{Dir, FileKind, FileRead};
use opkeep_kernel_meta::manifest::MAX_TEXT;

/// How to survey.
pub struct ScanOptions<'a> {
    /// How many threads read and judge.
    pub threads: NonZeroUsize,
    /// Told how many kernels are judged, and of how many; from several threads, in no order.
    pub progress: &'a (dyn Fn(u64, u64) + Sync),
    /// Asked now and then whether to give up.
    pub cancelled: &'a (dyn Fn() -> bool + Sync),
}

/// What is in one cache.
#[derive(Debug)]
#[non_exhaustive]
pub struct CacheScan {
    /// The cache.
    pub place: CacheDir,
    /// All kernels, by name; and of the other things those that are not in order.
    pub items: Vec<Item>,
    /// Files that belong there and hold no kernel, and trial compiles in order.
    pub known: u64,
    /// Debugging aids that MindSpore passes over for their names.
    pub skipped: u64,
    /// What is nobody's that we know: the first hundred names.
    pub foreign: Vec<String>,
    /// How many there are.
    pub foreign_count: u64,
    /// Folders in it that could not be looked into, and why.
    pub closed: Vec<(String, io::Error)>,
    /// Whether it was given up before the end.
    pub cancelled: bool,
}

/// Judges everything in the cache at `place`.
///
/// # Errors
/// The folder cannot be read.
pub fn scan(place: &CacheDir, options: &ScanOptions<'_>) -> io::Result<CacheScan> {
    let dir = Dir::open_quietly(&place.path)?;
    let mut scan = CacheScan {
        place: place.clone(),
        items: Vec::new(),
        known: 0,
        skipped: 0,
        foreign: Vec::new(),
        foreign_count: 0,
        closed: Vec::new(),
        cancelled: false,
    };
    let mut watch = Watch::default();
    let folders = scan.folder(&dir, None, options, &mut watch)?;
    for folder in folders {
        let known = FOLDERS.into_iter().find(|known| *known == folder);
        let looked = match (place.kind, known) {
            (Kind::MindSpore, Some(PREBUILT)) => {
                dir.below(OsStr::new(PREBUILT)).and_then(|below| scan.trials(&below, options, &mut watch))
            }
            (Kind::Akg, Some(part)) if part != PREBUILT => dir
                .below(OsStr::new(part))
                .and_then(|below| scan.folder(&below, Some(part), options, &mut watch).map(drop)),
            _ => {
                scan.add_foreign(&format!("{folder}/"));
                Ok(())
            }
        };
        if let Err(error) = looked {
            scan.closed.push((folder, error));
        }
    }
    scan.items.sort_by(|a, b| (a.below, &a.name, a.what).cmp(&(b.below, &b.name, b.what)));
    Ok(scan)
}

/// Judges what there is of the kernel called `stem` in `dir`, a cache of MindSpore's; and whether a process is at it. None
/// if there is nothing.
pub(crate) fn judge_one(dir: &Dir, stem: &str) -> Option<Item> {
    let scratch = JudgeScratch { dir, kind: Kind::MindSpore };
    let members = FileSet::KERNEL.filter(|member| dir.is_file_or_link(member.name(stem)));
    if members.is_empty() {
        return None;
    }
    let mut items = scratch.judge(stem, members, &mut JudgeCache::default()).into_iter().collect::<Vec<_>>();
    Watch::default().mark(dir, &mut items, SystemTime::now());
    items.pop()
}

impl CacheScan {
    fn add_foreign(&mut self, name: &str) {
        file_set::add_foreign(name, &mut self.foreign, &mut self.foreign_count);
    }

    /// Judges all files right in `dir`. The names of the folders there.
    fn folder(
        &mut self,
        dir: &Dir,
        below: Option<&'static str>,
        options: &ScanOptions<'_>,
        watch: &mut Watch,
    ) -> io::Result<Vec<String>> {
        let kind = self.place.kind;
        let names = dir.list()?;
        let files = names.iter().filter(|(_, kind)| *kind == FileKind::File);
        let mut sorted = file_set::sort(files.filter_map(|(name, _)| name.to_str()), kind);
        let mut folders = Vec::new();
        let is_plain = |name: &OsStr, kind| kind == FileKind::File && name.as_encoded_bytes().is_ascii();
        for (name, what) in names.iter().filter(|(name, kind)| !is_plain(name, *kind)) {
            match (what, name.to_str()) {
                (FileKind::Dir, Some(folder)) => folders.push(folder.to_owned()),
                (FileKind::File, Some(_)) => {}
                // A user may have moved a kernel's file elsewhere, and frameworks follow links.
                (FileKind::Link, Some(link)) if sorted.add_link(link, kind) => {}
                // No framework writes a link, or a name that is no text.
                (_, _) => self.add_foreign(&name.to_string_lossy()),
            }
        }
        drop(names);
        folders.sort_unstable();
        let ClassifiedNames { kernels, temps, skipped, known, foreign, foreign_count } = sorted;
        (self.known, self.skipped) = (self.known + known, self.skipped + skipped);
        foreign.iter().for_each(|name| self.add_foreign(name));
        self.foreign_count += foreign_count - foreign.len() as u64;

        let scratch = JudgeScratch { dir, kind };
        let first = self.items.len();
        let (judged, cancelled) = judge_all(&scratch, &kernels, options);
        self.cancelled |= cancelled;
        self.items.extend(judged);
        shared_files::settle(dir, kind, &mut self.items, first);
        chip_comparison::compare(dir, &self.place, &mut self.items[first..]);
        self.items.extend(temps.into_iter().map(|temp| scratch.rest(temp, ItemKind::Temp, Orphan::Temp)));
        for item in &mut self.items[first..] {
            item.below = below;
        }
        watch.mark(dir, &mut self.items[first..], SystemTime::now());
        Ok(folders)
    }

    /// Judges what trial compiles left: the framework reads all of them at start-up.
    fn trials(&mut self, dir: &Dir, options: &ScanOptions<'_>, watch: &mut Watch) -> io::Result<()> {
        let (mut buffer, first) = (Vec::new(), self.items.len());
        for name in dir.entries()? {
            if (options.cancelled)() {
                self.cancelled = true;
                break;
            }
            let (kind, name) = (name.kind, name.name.to_string_lossy().into_owned());
            match name.strip_suffix(".json") {
                Some(stem) if kind == FileKind::File => {
                    let scratch = JudgeScratch { dir, kind: self.place.kind };
                    match scratch.trial(stem, FileSet::JSON, &mut buffer) {
                        Some(item) => self.items.push(Item { below: Some(PREBUILT), ..item }),
                        None => self.known += 1,
                    }
                }
                _ => self.add_foreign(&format!("{PREBUILT}/{name}")),
            }
        }
        watch.mark(dir, &mut self.items[first..], SystemTime::now());
        Ok(())
    }
}

/// Judges `kernels` with several threads; and whether it was given up.
fn judge_all(
    scratch: &JudgeScratch<'_>,
    kernels: &[(String, FileSet)],
    options: &ScanOptions<'_>,
) -> (Vec<Item>, bool) {
    /// So many are taken at once: few enough that threads end together.
    const BATCH: usize = 16;
    let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
    let run = || {
        let (mut judge_cache, mut gave_up) = (JudgeCache::default(), false);
        let mut items = Vec::with_capacity(kernels.len() / options.threads);
        loop {
            let at = next.fetch_add(BATCH, Ordering::Relaxed);
            let Some(batch) =
                kernels.get(at..kernels.len().min(at + BATCH)).filter(|batch| !batch.is_empty())
            else {
                return (items, gave_up);
            };
            gave_up = (options.cancelled)();
            if gave_up {
                return (items, gave_up);
            }
            for (stem, members) in batch {
                items.extend(scratch.judge_all_of(stem, *members, &mut judge_cache));
            }
            let done = done.fetch_add(batch.len() as u64, Ordering::Relaxed) + batch.len() as u64;
            (options.progress)(done, kernels.len() as u64);
        }
    };
    scope(|scope| {
        let start = |_| Builder::new().spawn_scoped(scope, run).ok();
        // Where no more threads are to be had, those there are do the work.
        let helpers: Vec<_> = (1..options.threads.get().min(kernels.len())).map_while(start).collect();
        let (mut items, mut gave_up) = run();
        for helper in helpers {
            match helper.join() {
                Ok((more, also)) => {
                    items.extend(more);
                    gave_up |= also;
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        (items, gave_up)
    })
}

impl JudgeScratch<'_> {
    /// Judges all that there is under one stem: a kernel, its trial compile, their locks.
    fn judge_all_of(&self, stem: &str, members: FileSet, judge_cache: &mut JudgeCache) -> Vec<Item> {
        let mut items = Vec::new();
        let trial = members.only(FileSet::PRE.with(FileSet::PRE_LOCK));
        if trial.has(FileSet::PRE) {
            items.extend(self.trial(stem, trial, &mut Vec::new()));
        } else if !trial.is_empty() {
            items.push(self.rest_of(stem, trial, ItemKind::Lock, Orphan::StaleLock));
        }
        let kernel = members.without(trial);
        if kernel == FileSet::LOCK {
            items.push(self.rest_of(stem, kernel, ItemKind::Lock, Orphan::StaleLock));
        } else if !kernel.is_empty() {
            items.extend(self.judge(stem, kernel, judge_cache));
        }
        items
    }

    /// What a trial compile said, if it is not in order.
    fn trial(&self, stem: &str, members: FileSet, buffer: &mut Vec<u8>) -> Option<Item> {
        let file = members.without(FileSet::PRE_LOCK).names(stem).last()?;
        let verdict = match self.dir.read(&file, MAX_TEXT, buffer) {
            FileRead::Complete(_) => judge::text_verdict(buffer),
            FileRead::Missing => None,
            FileRead::Changing => Some(ItemState::InUse),
            FileRead::Link => Some(ItemState::Unreadable { file, problem: judge::IS_LINK.to_owned() }),
            FileRead::NotAFile => Some(ItemState::Damaged(vec![ItemProblem::NotAFile { file }])),
            FileRead::TooLarge(size) => {
                Some(ItemState::Damaged(vec![ItemProblem::TooLarge { file, bytes: size.len }]))
            }
            FileRead::Failed(error) => Some(ItemState::Unreadable { file, problem: error.to_string() }),
        };
        verdict.map(|verdict| self.item(stem, members, judge::Seen::of(ItemKind::Precompile, verdict)))
    }

    /// A file by itself that is left of something.
    fn rest(&self, file: String, what: ItemKind, orphan: Orphan) -> Item {
        let seen = judge::Seen::of(what, ItemState::Orphan(orphan)).named(&file);
        self.item(&file, FileSet::default(), seen)
    }

    fn rest_of(&self, stem: &str, members: FileSet, what: ItemKind, orphan: Orphan) -> Item {
        self.item(stem, members, judge::Seen::of(what, ItemState::Orphan(orphan)))
    }
}
