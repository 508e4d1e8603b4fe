//! Judging everything in one cache.

use std::ffi::OsStr;
use std::io;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::{Builder, scope};
use std::time::SystemTime;

use crate::scan::busy::Watch;
use crate::scan::judge::{self, Bench, Desk};
use crate::scan::names::{self, Members, Sorted};
use crate::scan::place::{FOLDERS, Kind, PREBUILT, Place};
use crate::scan::verdict::{Flaw, Item, Orphan, Verdict, What};
use crate::scan::{chips, settle};
use opkeep_fs::{Dir, FileKind, FileRead};
use opkeep_kernel_meta::manifest::MAX_TEXT;

/// How to survey.
pub struct SurveyOptions<'a> {
    /// How many threads read and judge.
    pub threads: NonZeroUsize,
    /// Told how many kernels are judged, and of how many; from several threads, in no order.
    pub progress: &'a (dyn Fn(u64, u64) + Sync),
    /// Asked now and then whether to give up.
    pub cancelled: &'a (dyn Fn() -> bool + Sync),
}

/// What is in one cache.
#[derive(Debug)]
pub struct Survey {
    /// The cache.
    pub place: Place,
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
pub fn survey(place: &Place, options: &SurveyOptions<'_>) -> io::Result<Survey> {
    let dir = Dir::open_quietly(&place.path)?;
    let mut survey = Survey {
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
    let folders = survey.folder(&dir, None, options, &mut watch)?;
    for folder in folders {
        let known = FOLDERS.into_iter().find(|known| *known == folder);
        let looked = match (place.kind, known) {
            (Kind::MindSpore, Some(PREBUILT)) => {
                dir.below(OsStr::new(PREBUILT)).and_then(|below| survey.trials(&below, options, &mut watch))
            }
            (Kind::Akg, Some(part)) if part != PREBUILT => dir
                .below(OsStr::new(part))
                .and_then(|below| survey.folder(&below, Some(part), options, &mut watch).map(drop)),
            _ => {
                survey.add_foreign(&format!("{folder}/"));
                Ok(())
            }
        };
        if let Err(error) = looked {
            survey.closed.push((folder, error));
        }
    }
    survey.items.sort_by(|a, b| (a.below, &a.name, a.what).cmp(&(b.below, &b.name, b.what)));
    Ok(survey)
}

/// Judges what there is of the kernel called `stem` in `dir`, a cache of MindSpore's; and whether a process is at it. None
/// if there is nothing.
pub(crate) fn judge_one(dir: &Dir, stem: &str) -> Option<Item> {
    let bench = Bench { dir, kind: Kind::MindSpore };
    let members = Members::KERNEL.filter(|member| dir.is_file_or_link(member.name(stem)));
    if members.is_empty() {
        return None;
    }
    let mut items = bench.judge(stem, members, &mut Desk::default()).into_iter().collect::<Vec<_>>();
    Watch::default().mark(dir, &mut items, SystemTime::now());
    items.pop()
}

impl Survey {
    fn add_foreign(&mut self, name: &str) {
        names::add_foreign(name, &mut self.foreign, &mut self.foreign_count);
    }

    /// Judges all files right in `dir`. The names of the folders there.
    fn folder(
        &mut self,
        dir: &Dir,
        below: Option<&'static str>,
        options: &SurveyOptions<'_>,
        watch: &mut Watch,
    ) -> io::Result<Vec<String>> {
        let kind = self.place.kind;
        let names = dir.list()?;
        let files = names.iter().filter(|(_, kind)| *kind == FileKind::File);
        let mut sorted = names::sort(files.filter_map(|(name, _)| name.to_str()), kind);
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
        let Sorted { kernels, temps, skipped, known, foreign, foreign_count } = sorted;
        (self.known, self.skipped) = (self.known + known, self.skipped + skipped);
        foreign.iter().for_each(|name| self.add_foreign(name));
        self.foreign_count += foreign_count - foreign.len() as u64;

        let bench = Bench { dir, kind };
        let first = self.items.len();
        let (judged, cancelled) = judge_all(&bench, &kernels, options);
        self.cancelled |= cancelled;
        self.items.extend(judged);
        settle::settle(dir, kind, &mut self.items, first);
        chips::compare(dir, &self.place, &mut self.items[first..]);
        self.items.extend(temps.into_iter().map(|temp| bench.rest(temp, What::Temp, Orphan::Temp)));
        for item in &mut self.items[first..] {
            item.below = below;
        }
        watch.mark(dir, &mut self.items[first..], SystemTime::now());
        Ok(folders)
    }

    /// Judges what trial compiles left: the framework reads all of them at start-up.
    fn trials(&mut self, dir: &Dir, options: &SurveyOptions<'_>, watch: &mut Watch) -> io::Result<()> {
        let (mut buffer, first) = (Vec::new(), self.items.len());
        for name in dir.entries()? {
            if (options.cancelled)() {
                self.cancelled = true;
                break;
            }
            let (kind, name) = (name.kind, name.name.to_string_lossy().into_owned());
            match name.strip_suffix(".json") {
                Some(stem) if kind == FileKind::File => {
                    let bench = Bench { dir, kind: self.place.kind };
                    match bench.trial(stem, Members::JSON, &mut buffer) {
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
    bench: &Bench<'_>,
    kernels: &[(String, Members)],
    options: &SurveyOptions<'_>,
) -> (Vec<Item>, bool) {
    /// So many are taken at once: few enough that threads end together.
    const BATCH: usize = 16;
    let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
    let run = || {
        let (mut desk, mut gave_up) = (Desk::default(), false);
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
                items.extend(bench.judge_all_of(stem, *members, &mut desk));
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

impl Bench<'_> {
    /// Judges all that there is under one stem: a kernel, its trial compile, their locks.
    fn judge_all_of(&self, stem: &str, members: Members, desk: &mut Desk) -> Vec<Item> {
        let mut items = Vec::new();
        let trial = members.only(Members::PRE.with(Members::PRE_LOCK));
        if trial.has(Members::PRE) {
            items.extend(self.trial(stem, trial, &mut Vec::new()));
        } else if !trial.is_empty() {
            items.push(self.rest_of(stem, trial, What::Lock, Orphan::DeadLock));
        }
        let kernel = members.without(trial);
        if kernel == Members::LOCK {
            items.push(self.rest_of(stem, kernel, What::Lock, Orphan::DeadLock));
        } else if !kernel.is_empty() {
            items.extend(self.judge(stem, kernel, desk));
        }
        items
    }

    /// What a trial compile said, if it is not in order.
    fn trial(&self, stem: &str, members: Members, buffer: &mut Vec<u8>) -> Option<Item> {
        let file = members.without(Members::PRE_LOCK).files(stem, None).pop()?;
        let verdict = match self.dir.read(&file, MAX_TEXT, buffer) {
            FileRead::Complete(_) => judge::text_verdict(buffer),
            FileRead::Missing => None,
            FileRead::Changing => Some(Verdict::InUse),
            FileRead::Link => Some(Verdict::Unreadable { file, problem: judge::IS_LINK.to_owned() }),
            FileRead::NotAFile => Some(Verdict::Damaged(vec![Flaw::NotAFile { file }])),
            FileRead::TooLarge(size) => {
                Some(Verdict::Damaged(vec![Flaw::TooLarge { file, bytes: size.len }]))
            }
            FileRead::Failed(error) => Some(Verdict::Unreadable { file, problem: error.to_string() }),
        };
        verdict.map(|verdict| self.item(stem, members, judge::Seen::of(What::Trial, verdict)))
    }

    /// A file by itself that is left of something.
    fn rest(&self, file: String, what: What, orphan: Orphan) -> Item {
        let seen = judge::Seen::of(what, Verdict::Orphan(orphan)).named(&file);
        self.item(&file, Members::default(), seen)
    }

    fn rest_of(&self, stem: &str, members: Members, what: What, orphan: Orphan) -> Item {
        self.item(stem, members, judge::Seen::of(what, Verdict::Orphan(orphan)))
    }
}
