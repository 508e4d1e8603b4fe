//! Putting back what was set aside.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use opbuild_digest::Digest;

use crate::Part;
use crate::disk;
use crate::displace::{Displaced, displace};
use crate::manifest::{self, Manifest};
use crate::quarantine::aside::locked;
use crate::quarantine::ground::{Ground, beside};
use crate::quarantine::journal::{self, Entry, Made};
use crate::quarantine::listed::{forget, read_manifest, stem_of};
use crate::quarantine::locks::Locks;
use crate::quarantine::run::{is_run, order as run_order};
use crate::quarantine::{RepairError, Step, io as tools};
use crate::survey::FOLDERS;
use crate::survey::look::{Dir, NameKind, Read1};
use crate::survey::place::{MAX_DEPTH, QUARANTINE};

/// What one run of repair took away from one cache.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quarantined {
    /// The run's name: later ones are greater.
    pub run: OsString,
    /// The cache.
    pub cache: PathBuf,
}

impl Quarantined {
    /// The folder with the files.
    pub fn path(&self) -> PathBuf {
        let name = beside(self.cache.file_name().unwrap_or_default());
        self.cache.with_file_name(name).join(&self.run)
    }
}

/// How to put back.
pub struct UndoOptions<'a> {
    /// Change nothing, and tell what would be done.
    pub dry_run: bool,
    /// Told what is about to be done.
    pub observe: &'a dyn Fn(Step),
}

/// What was put back, and what not.
#[derive(Debug, Default)]
pub struct Undone {
    /// The files that are where they were, by their paths in the cache.
    pub restored: Vec<String>,
    /// The files that the run, or the build that it was part of, had written and that are gone now.
    pub withdrawn: Vec<String>,
    /// What stays in quarantine.
    pub kept: Vec<Kept>,
    /// Nothing is left of the run: its folder is gone.
    pub removed: bool,
}

/// A file that stays in quarantine, or is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its path in the cache.
    pub file: String,
    /// Why it is not there.
    pub why: String,
}

/// What repairs took away: the run at `path`, or all runs of the cache at `path` and of those below.
///
/// # Errors
/// `path` cannot be looked into.
pub fn quarantines(path: &Path) -> io::Result<Vec<Quarantined>> {
    // The cache itself may have been deleted since.
    let full = match path.canonicalize() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let absolute = std::path::absolute(path)?;
            let (Some(above), Some(name)) = (absolute.parent(), absolute.file_name()) else {
                return Err(error);
            };
            above.canonicalize()?.join(name)
        }
        full => full?,
    };
    let mut found = Vec::new();
    if let Some(top) = full.parent().filter(|top| cache_of(top).is_some()) {
        let run = full.file_name().unwrap_or_default().to_owned();
        let there = is_run(&run) && Dir::open(&full).is_ok();
        let cache = cache_of(top).filter(|_| there);
        return Ok(cache.map(|cache| Quarantined { run, cache }).into_iter().collect());
    }
    if let (Some(above), Some(name)) = (full.parent(), full.file_name()) {
        let quarantine = if cache_of(&full).is_some() { name.to_owned() } else { beside(name) };
        if let Some(top) = open_quarantine(&Dir::open(above)?, &quarantine)? {
            add_runs(&top, &mut found)?;
        }
    }
    if cache_of(&full).is_none() {
        match Dir::open(&full) {
            Ok(dir) => walk(&dir, 0, &mut found)?,
            Err(error) if found.is_empty() => return Err(error),
            Err(_) => {}
        }
    }
    found.sort();
    Ok(found)
}

/// Those of the newest run, in the order in which they are to be undone: what was done last comes first.
pub fn newest(mut found: Vec<Quarantined>) -> Vec<Quarantined> {
    let order = |one: &Quarantined| run_order(&one.run);
    let last = found.iter().map(|one| order(one).0).max();
    found.retain(|one| Some(order(one).0) == last);
    found.sort_by_key(|one| std::cmp::Reverse(order(one)));
    found
}

/// The cache whose quarantine `path` is.
fn cache_of(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?.strip_suffix(QUARANTINE)?;
    (!name.is_empty()).then(|| path.with_file_name(name))
}

/// The quarantine called `name`; none if there is none. One that is closed to us is no sign that there is none.
fn open_quarantine(above: &Dir, name: &OsStr) -> io::Result<Option<Dir>> {
    match above.below(name) {
        Ok(top) => Ok(Some(top)),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let path = above.path().join(name);
            let problem = format!("`{}`: {error}; run it as the user who owns that", path.display());
            Err(io::Error::new(error.kind(), problem))
        }
        Err(_) => Ok(None),
    }
}

fn add_runs(top: &Dir, found: &mut Vec<Quarantined>) -> io::Result<()> {
    let Some(cache) = cache_of(top.path()) else { return Ok(()) };
    let folders = top.names()?.into_iter().filter(|name| name.kind == NameKind::Folder);
    found.extend(
        folders
            .filter(|name| is_run(&name.name))
            .map(|name| Quarantined { run: name.name, cache: cache.clone() }),
    );
    Ok(())
}

fn walk(dir: &Dir, depth: usize, found: &mut Vec<Quarantined>) -> io::Result<()> {
    for folder in dir.names()?.into_iter().filter(|name| name.kind == NameKind::Folder) {
        if cache_of(Path::new(&folder.name)).is_some() {
            if let Some(top) = open_quarantine(dir, &folder.name)? {
                add_runs(&top, found)?;
            }
        } else if depth < MAX_DEPTH
            // Into folders that are closed to us, we can put nothing back.
            && let Ok(Some(below)) = dir.descend(&folder.name)
        {
            walk(&below, depth + 1, found)?;
        }
    }
    Ok(())
}

/// Puts back what a run took away: kernel by kernel, where all names are free. What cannot be put back is told and left;
/// a later call goes on.
///
/// # Errors
/// [`RepairError`]: nothing was changed.
pub fn undo(quarantined: &Quarantined, options: &UndoOptions<'_>) -> Result<Undone, RepairError> {
    let path = quarantined.path();
    let ground = Ground::enter(&quarantined.cache)?;
    let open =
        |dir: &Dir, name: &OsStr| dir.below(name).map_err(|source| RepairError::io("open", &path, source));
    let top = open(&ground.parent, &ground.quarantine)?;
    let run = open(&top, &quarantined.run)?;
    let Journal { entries, bad, made } = read_journal(&run)?;
    let mut undone = Undone::default();
    let lost = |line: usize| Kept {
        file: format!("{}:{line}", journal::NAME),
        why: "this line of the journal is damaged; what it was about has to be put back by hand".to_owned(),
    };
    undone.kept.extend(bad.into_iter().map(lost));
    undone.kept.extend(unnamed(&run, &entries));

    let mut sets: BTreeMap<u64, Vec<Entry>> = BTreeMap::new();
    entries.into_iter().for_each(|entry| sets.entry(entry.set).or_default().push(entry));
    let manifest = read_manifest(&ground.folder);
    let mut back = Back { ground: &ground, run: &run, options, manifest: &manifest, number: 0, undone };
    for entries in sets.values().rev() {
        match entries.first() {
            Some(entry) if entry.added.is_some() => back.withdraw(entries),
            _ => back.put(entries),
        }
    }
    let mut undone = back.undone;
    if !options.dry_run {
        let replaced = sets.values().flatten().filter(|entry| entry.replaced);
        if let Err(error) = forget(&ground.folder, &manifest, replaced) {
            undone.kept.push(Kept { file: manifest::NAME.to_owned(), why: error.to_string() });
        }
        tools::sync(&ground.folder);
        undone.removed = undone.kept.is_empty() && clear(&ground, &top, &run, &quarantined.run);
        if undone.removed {
            unmake(&ground, made);
        }
    }
    Ok(undone)
}

/// Removes what a run made besides the files of kernels, unless something else is there by now.
fn unmake(ground: &Ground, made: Made) {
    let is_ours = |name: &OsStr| name == disk::LOCK;
    let names = ground.folder.names().unwrap_or_default();
    // A build that keeps its list there uses the lock, too.
    if made.lock && !names.iter().any(|name| name.name == manifest::NAME) {
        let _ = tools::remove(&ground.folder, disk::LOCK);
    }
    let is_empty = ground.folder.names().is_ok_and(|names| names.iter().all(|name| is_ours(&name.name)));
    if let (true, true, Some(name)) = (made.directory, is_empty, ground.folder.path().file_name()) {
        let _ = tools::remove_folder(&ground.parent, name);
    }
    let above = ground.parent.path();
    if let (true, Some(name), Some(parent)) = (made.above, above.file_name(), above.parent())
        && let Ok(parent) = Dir::open(parent)
    {
        let _ = tools::remove_folder(&parent, name);
    }
}

/// What a run's journal says.
#[derive(Default)]
struct Journal {
    entries: Vec<Entry>,
    /// The numbers of lines that cannot be used.
    bad: Vec<usize>,
    made: Made,
}

/// The journal; empty if there is none, since then nothing was moved.
fn read_journal(run: &Dir) -> Result<Journal, RepairError> {
    let mut bytes = Vec::new();
    let problem = match run.read(journal::NAME, journal::MAX_BYTES, &mut bytes) {
        Read1::Whole(_) => {
            let (entries, bad) = journal::parse(&bytes);
            return Ok(Journal { entries, bad, made: journal::made(&bytes) });
        }
        Read1::Gone => return Ok(Journal::default()),
        Read1::Failed(error) => error,
        other => io::Error::other(format!("expected a file that nobody writes, found: {other:?}")),
    };
    Err(RepairError::io("read", run.path().join(journal::NAME), problem))
}

/// Files in the run's folder that no line of the journal is about: somebody edited that, or put them there.
fn unnamed(run: &Dir, entries: &[Entry]) -> Vec<Kept> {
    let known: HashSet<String> = entries.iter().map(Entry::path).collect();
    let own = |name: &str| [journal::NAME, journal::UNFINISHED].contains(&name);
    let mut found = Vec::new();
    for name in run.names().unwrap_or_default() {
        let text = name.name.to_string_lossy().into_owned();
        match run.below(&name.name) {
            Ok(below) if FOLDERS.contains(&text.as_str()) => {
                let names = below.names().unwrap_or_default().into_iter();
                found.extend(names.map(|name| format!("{text}/{}", name.name.to_string_lossy())));
            }
            _ if own(&text) => {}
            _ => found.push(text),
        }
    }
    found.retain(|path| !known.contains(path));
    found.sort();
    let why = "the journal does not say what it is: if it belongs into the cache, move it there by hand";
    found.into_iter().map(|file| Kept { file, why: why.to_owned() }).collect()
}

/// Removes the run's folder if nothing of the cache is in it; whether it did.
fn clear(ground: &Ground, top: &Dir, run: &Dir, name: &OsStr) -> bool {
    let own = [journal::NAME, journal::UNFINISHED];
    let Ok(names) = run.names() else { return false };
    for folder in names.iter().filter(|name| name.kind == NameKind::Folder) {
        let _ = tools::remove_folder(run, &folder.name);
    }
    let is_own = |name: &OsStr| own.iter().any(|own| name == *own);
    if !run.names().is_ok_and(|names| names.iter().all(|name| is_own(&name.name))) {
        return false;
    }
    for name in own {
        let _ = tools::remove(run, name);
    }
    let removed = tools::remove_folder(top, name).is_ok();
    let _ = tools::remove_folder(&ground.parent, &ground.quarantine);
    tools::sync(&ground.parent);
    removed
}

struct Back<'a> {
    ground: &'a Ground,
    run: &'a Dir,
    options: &'a UndoOptions<'a>,
    /// The text of what we wrote in the cache.
    manifest: &'a [u8],
    number: u64,
    undone: Undone,
}

/// Where a file is.
enum Where {
    InQuarantine,
    /// Where it belongs: it was put back already, or never moved.
    InPlace,
    /// It cannot be put back, and why.
    Stuck(String),
}

impl Back<'_> {
    fn keep(&mut self, entry: &Entry, why: impl Into<String>) {
        self.undone.kept.push(Kept { file: entry.path(), why: why.into() });
    }

    /// Puts back the files of one kernel, its description last.
    fn put(&mut self, entries: &[Entry]) {
        let Some(below) = entries.first().map(|entry| entry.below.as_deref()) else { return };
        let folders = match below {
            None => Ok((None, None)),
            Some(below) => self.ground.folder.below(OsStr::new(below)).and_then(|to| {
                match self.run.below(OsStr::new(below)) {
                    Ok(from) => Ok((Some(from), Some(to))),
                    // All that was in it was put back already.
                    Err(error) if error.kind() == ErrorKind::NotFound => Ok((None, Some(to))),
                    Err(error) => Err(error),
                }
            }),
        };
        let (from, to) = match folders {
            Ok((from, to)) => (from, to),
            Err(error) => {
                entries.iter().for_each(|entry| {
                    self.keep(
                        entry,
                        format!(
                            "its folder cannot be opened: {error}; make it one that \
                                                                this user may write, and repeat the command"
                        ),
                    )
                });
                return;
            }
        };
        let from = from.as_ref().or_else(|| below.is_none().then_some(self.run));
        let to = to.as_ref().unwrap_or(&self.ground.folder);
        let _locks = match Locks::of_kernel(to, &lock_names(entries)) {
            Ok(locks) => locks,
            Err(error) => return entries.iter().for_each(|entry| self.keep(entry, locked(&error))),
        };
        let places: Vec<Where> = entries.iter().map(|entry| locate(entry, from, to)).collect();
        let waits = places.iter().any(|place| matches!(place, Where::InQuarantine));
        let is_stuck = places.iter().any(|place| matches!(place, Where::Stuck(_)));
        let freed = if waits && !is_stuck && entries.iter().any(|entry| entry.replaced) {
            self.remove_ours(entries, to)
        } else {
            Vec::new()
        };
        let taken = entries.iter().zip(&places).find_map(|(entry, place)| match place {
            Where::InQuarantine if !freed.contains(&entry.file) && tools::exists(to, &entry.file) => {
                Some(entry.path())
            }
            _ => None,
        });
        let mut failed: Option<String> = None;
        for (entry, place) in entries.iter().zip(&places).rev() {
            match (place, &taken) {
                (Where::InPlace, _) => {}
                (Where::Stuck(why), _) => self.keep(entry, why.clone()),
                (Where::InQuarantine, Some(taken)) => {
                    let why = format!(
                        "`{taken}` was made anew since: move that away first, if the old one is what you want"
                    );
                    self.keep(entry, why);
                }
                (Where::InQuarantine, None) => match (&failed, from) {
                    // A description comes last: it must not stand beside what somebody makes meanwhile.
                    (Some(file), _) => {
                        let why = format!("`{file}` of the same kernel could not be put back");
                        self.keep(entry, why);
                    }
                    (None, Some(from)) if self.put_one(entry, from, to) => {}
                    (None, _) => failed = Some(entry.path()),
                },
            }
        }
    }

    /// Removes the kernel of ours that a build wrote in the place of `entries`: files that are as we wrote them, its
    /// description first. Returns the names that are free then.
    fn remove_ours(&mut self, entries: &[Entry], to: &Dir) -> Vec<String> {
        let manifest = Manifest::parse(self.manifest);
        let Some(stem) = entries.iter().find_map(stem_of) else { return Vec::new() };
        let Some(record) = manifest.kernels.get(stem) else { return Vec::new() };
        let is_taken = |part: Part| {
            let name = part.of(stem);
            let is_entry = entries.iter().any(|entry| entry.file == name);
            let digest = to.open_file(OsStr::new(&name)).and_then(Digest::of_reader);
            is_entry && tools::exists(to, &name) && !digest.is_ok_and(|digest| record.is_ours(part, &digest))
        };
        // If not all can come back, what is there stays whole.
        if Part::ALL.into_iter().any(is_taken) {
            return Vec::new();
        }
        let mut freed = Vec::new();
        for part in [Part::Json, Part::Object, Part::Info] {
            let name = part.of(stem);
            match self.remove_written(to, &name, |digest| record.is_ours(part, digest)) {
                Ok(true) => freed.push(name),
                Ok(false) => {}
                // What is left of it keeps the names taken, and the caller says so.
                Err(_) => break,
            }
        }
        freed
    }

    /// Removes the file called `name` if it `is_ours`, by its digest; whether it did, or would.
    fn remove_written(
        &mut self,
        dir: &Dir,
        name: &str,
        is_ours: impl Fn(&Digest) -> bool,
    ) -> io::Result<bool> {
        if self.options.dry_run {
            let ours =
                dir.open_file(OsStr::new(name)).and_then(Digest::of_reader).is_ok_and(|it| is_ours(&it));
            if ours {
                self.undone.withdrawn.push(name.to_owned());
            }
            return Ok(ours);
        }
        (self.options.observe)(Step::Moving(self.number));
        let Displaced::As(old) = displace(dir, name, || {}, is_ours)? else { return Ok(false) };
        tools::remove(dir, &old)?;
        (self.options.observe)(Step::Moved(self.number));
        self.number += 1;
        self.undone.withdrawn.push(name.to_owned());
        Ok(true)
    }

    /// Removes the files that the run added for one kernel, the description first; all of them, or none if one was
    /// changed since.
    fn withdraw(&mut self, entries: &[Entry]) {
        let to = &self.ground.folder;
        let digest = |entry: &Entry| to.open_file(OsStr::new(&entry.file)).and_then(Digest::of_reader);
        let is_written = |entry: &Entry, found: &Digest| entry.added.as_deref() == Some(&*found.to_string());
        let changed = entries.iter().find(|entry| match digest(entry) {
            Ok(found) => !is_written(entry, &found),
            Err(error) => error.kind() != ErrorKind::NotFound,
        });
        if let Some(changed) = changed {
            let why = format!("`{}` was changed since it was filled in: the kernel stays", changed.file);
            let there = entries.iter().filter(|entry| tools::exists(to, &entry.file));
            there.for_each(|entry| self.keep(entry, why.clone()));
            return;
        }
        for entry in entries.iter().rev() {
            if let Err(error) = self.remove_written(to, &entry.file, |found| is_written(entry, found)) {
                return self.keep(entry, error.to_string());
            }
        }
    }

    /// Whether it is back.
    fn put_one(&mut self, entry: &Entry, from: &Dir, to: &Dir) -> bool {
        if !self.options.dry_run {
            (self.options.observe)(Step::Moving(self.number));
            if let Err(error) = tools::rename_new(from, &entry.file, to, &entry.file) {
                self.keep(entry, error.to_string());
                return false;
            }
            (self.options.observe)(Step::Moved(self.number));
            self.number += 1;
        }
        self.undone.restored.push(entry.path());
        true
    }
}

/// How CANN calls the locks of what has these files.
fn lock_names(entries: &[Entry]) -> Vec<String> {
    let stem = |entry: &Entry| {
        [".json", ".o", ".h"].iter().find_map(|suffix| Some(entry.file.strip_suffix(suffix)?.to_owned()))
    };
    let names: BTreeSet<String> =
        entries.iter().filter_map(stem).map(|stem| format!("{stem}.lock")).collect();
    names.into_iter().collect()
}

fn locate(entry: &Entry, from: Option<&Dir>, to: &Dir) -> Where {
    match (from.and_then(|from| from.identity(&entry.file)), to.identity(&entry.file)) {
        (Some(found), _) if entry.is(&found) => Where::InQuarantine,
        (Some(_), _) => Where::Stuck("it was changed since it was set aside".to_owned()),
        (None, Some(found)) if entry.is(&found) => Where::InPlace,
        // The kernel was never taken: somebody made it anew before its turn came.
        (None, Some(_)) if from.is_none_or(|from| !tools::exists(from, &entry.file)) => Where::InPlace,
        (None, _) => {
            Where::Stuck("it is neither in quarantine nor in the cache: somebody removed it".to_owned())
        }
    }
}
