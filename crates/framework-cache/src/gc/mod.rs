//! Makes room in CANN's own cache, `kernel_cache/<soc>`, where it is, by CANN's limits.
//!
//! CANN ages that folder itself: once, when a process begins, if there is at least as much in it as the limit says. It
//! counts every file, but deletes only descriptions and objects. So `_pre.json`, `.h`, `.temp`, `.lock` and objects whose
//! description is gone add up, and when they alone are as much as the limit, every kernel that was idle for half an hour
//! goes at each start, for nothing. [`gc`] counts the same, and deletes in this order:
//!
//! 1. what nobody can use: orphans, temporary files, locks of what is not there; always, even if there is room;
//! 2. kernels and trial compiles that were not used for as long as [`GcOptions::older_than`] says;
//! 3. if there is too much, trial compiles without a kernel, then kernels, the longest unused first, until as much is
//!    left as the limits say.
//!
//! What was used within half an hour stays, whoever asks. So does what another process has open or locked, and what is
//! not recognised. CANN's lock for aging is held meanwhile.
//!
//! A kernel's last use is the time of access of its description, which CANN sets itself at each hit. Reading it here
//! does not change that.

mod describe;
mod disk;
mod file_group;
mod group_files;
mod limits;
mod list;
mod progress;
mod remove;
mod usage;

pub use limits::{LimitSettings, LimitWarning, Limits};
pub use progress::{GcProgress, IDLE_FOR, InUseCounts};
pub use usage::{Amount, FileGroupKind, Usage};

use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::scan::CacheDir;
use disk::Tried;
use file_group::FileGroup;
use group_files::{FileGroups, Grouping};
use list::{Listing, ListingObserver};
use opkeep_fs::{Dir, Fs};
use opkeep_kernel_meta::QUARANTINE;
use remove::{Remover, descend, is_cheap};

/// The lock that CANN holds while it ages a folder.
const AGING_LOCK: &str = "op_cache_file_del.lock";

/// How to make room.
pub struct GcOptions<'a> {
    /// Says what would be done, and changes nothing.
    pub dry_run: bool,
    /// Leaves at most so many bytes, whatever the limits are.
    pub max_bytes: Option<u64>,
    /// Deletes every kernel that was not used for so long, even if there is room. Less than [`IDLE_FOR`] counts as that.
    pub older_than: Option<Duration>,
    /// What the environment says of limits.
    pub environment: &'a LimitSettings,
    /// Told what is done.
    pub watch: &'a dyn Fn(GcProgress<'_>),
    /// Asked now and then whether to give up.
    pub cancelled: &'a dyn Fn() -> bool,
}

/// What [`gc`] did, or would do.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct GcReport {
    /// Another process is at it; nothing was looked at.
    pub busy: bool,
    /// The limits that hold. They were not asked for if [`GcOptions::max_bytes`] was given.
    pub limits: Option<Limits>,
    /// What is to be said of them.
    pub notices: Vec<LimitWarning>,
    /// What there was.
    pub before: Usage,
    /// What was removed.
    pub removed: Usage,
    /// What is left.
    pub after: Usage,
    /// There is still more than there should be.
    pub still_over: bool,
    /// What should have gone, and was left to those who use it.
    pub kept: InUseCounts,
    /// What should have gone and could not be deleted.
    pub failed: u64,
    /// Which file was the first of it, and why.
    pub failure: Option<(PathBuf, io::Error)>,
    /// Descriptions that could not be read without counting as a use of them, since they are another user's: what has
    /// none beside them may be theirs, and stays.
    pub unread: u64,
    /// What is not recognised, and stays: the first hundred names.
    pub unknown: Vec<String>,
    /// How many there are.
    pub unknown_count: u64,
    /// Folders below that could not be looked into, and why.
    pub closed: Vec<(PathBuf, io::Error)>,
    /// It was given up before the end.
    pub cancelled: bool,
}

/// How much may be there, and how much is to be left if there is more.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// From so much on something must go.
    from: u64,
    keep: u64,
}

impl Bounds {
    fn of(limits: Option<&Limits>, options: &GcOptions<'_>) -> Option<Self> {
        if let Some(keep) = options.max_bytes {
            return Some(Self { from: keep.saturating_add(1), keep });
        }
        let limits = limits?;
        limits.max_bytes.map(|max| Self { from: max, keep: limits.remaining_of(max) })
    }
}

/// Makes room in the cache at `place`.
///
/// # Errors
/// The folder cannot be opened, listed or, for want of the right to write there, locked; or it is what a repair set aside.
pub fn gc(place: &CacheDir, options: &GcOptions<'_>) -> io::Result<GcReport> {
    let dir = Dir::open_quietly(&place.path)?;
    if place.soc.as_ref().is_some_and(|soc| soc.ends_with(QUARANTINE)) {
        return Err(io::Error::other(
            "what a repair quarantined stays until it is restored, or deleted by hand",
        ));
    }
    let mut report = GcReport::default();
    if options.max_bytes.is_none() {
        let ini = disk::read_ini(&dir, limits::INI).map_err(|error| error.to_string());
        let path = ini_path(place).to_string_lossy().into_owned();
        let (limits, notices) = limits::find(ini, &path, options.environment);
        (report.limits, report.notices) = (Some(limits), notices);
    }
    let (_held, now) = match begin(&dir, options.dry_run) {
        Ok(Some((held, now))) => (held, now),
        Ok(None) => return Ok(GcReport { busy: true, ..report }),
        Err(error) => {
            return Err(io::Error::new(error.kind(), format!("cannot lock `{AGING_LOCK}`: {error}")));
        }
    };
    let listener = ListingObserver {
        listed: &|files| (options.watch)(GcProgress::Listed { files }),
        cancelled: options.cancelled,
    };
    let listing = Listing::of(&dir, &listener)?;
    (report.closed, report.cancelled) = (listing.closed, listing.cancelled);
    let bounds = Bounds::of(report.limits.as_ref(), options);
    let is_over = bounds.is_some_and(|bounds| listing.total.bytes >= bounds.from);
    let older_than = options.older_than.map(|age| age.max(IDLE_FOR));
    let sorting = Grouping {
        now,
        read: is_over || older_than.is_some(),
        list_idle_for: if is_over { Some(IDLE_FOR) } else { older_than },
        rest_idle_for: IDLE_FOR,
        cancelled: options.cancelled,
    };
    let (mut things, mut unknown, mut folders) = (FileGroups::default(), listing.unknown, Vec::new());
    things.usage.other = listing.other;
    for (index, shelf) in listing.shelves.into_iter().enumerate() {
        folders.push(shelf.below.clone());
        match descend(&dir, &shelf.below) {
            Ok(folder) => things.add(&folder, index, shelf, &sorting, &mut unknown),
            Err(error) => report.closed.push((shelf.below, error)),
        }
    }
    (report.unknown, report.unknown_count) = (unknown.names, unknown.count);
    (report.before, report.unread) = (things.usage, things.unread);
    report.cancelled |= (options.cancelled)();
    if report.cancelled {
        report.after = report.before;
        return Ok(report);
    }
    let remover = Remover::new(&dir, &folders, now, options.dry_run, options.watch);
    make_room(things, remover, older_than, bounds, options, &mut report);
    Ok(report)
}

/// Deletes what may go, in the order in which it should.
fn make_room(
    things: FileGroups,
    mut remover: Remover<'_>,
    older_than: Option<Duration>,
    bounds: Option<Bounds>,
    options: &GcOptions<'_>,
    report: &mut GcReport,
) {
    let before = things.usage;
    let of = things.listed.len() as u64;
    let mut done = 0;
    let mut cancelled = false;
    let mut remove = |remover: &mut Remover<'_>, thing: &FileGroup| {
        cancelled |= (options.cancelled)();
        if !cancelled {
            remover.remove(thing);
            done += 1;
            (options.watch)(GcProgress::Done { done, of });
        }
    };
    let is_used = |thing: &FileGroup| matches!(thing.what, FileGroupKind::Kernel | FileGroupKind::Trial);
    let (mut idle, rests): (Vec<FileGroup>, Vec<FileGroup>) = things.listed.into_iter().partition(is_used);
    rests.iter().for_each(|rest| remove(&mut remover, rest));
    drop(rests);
    idle.sort_by(|one, other| {
        let key = |thing: &FileGroup| (!is_cheap(thing), thing.used());
        (key(one), one.shelf, &one.stem).cmp(&(key(other), other.shelf, &other.stem))
    });
    if let Some(age) = older_than {
        idle.retain(|thing| {
            let is_old = disk::idle(thing.used(), remover.now) >= age;
            if is_old {
                remove(&mut remover, thing);
            }
            !is_old
        });
    }
    if let Some(bounds) = bounds {
        let left = |remover: &Remover<'_>| before.without(&remover.removed).total().bytes;
        if left(&remover) >= bounds.from {
            for thing in &idle {
                if left(&remover) <= bounds.keep {
                    break;
                }
                remove(&mut remover, thing);
            }
        }
        report.still_over = left(&remover) >= bounds.from;
    }
    report.cancelled |= cancelled;
    report.removed = remover.removed;
    report.after = before.without(&remover.removed);
    (report.kept, report.failed, report.failure) = (remover.kept, remover.failed, remover.failure);
}

/// Takes CANN's lock for aging, and learns the time; in a dry run only asks whether the lock is free. `None` if it is not.
fn begin(dir: &Dir, dry_run: bool) -> io::Result<Option<(Option<std::fs::File>, SystemTime)>> {
    if dry_run {
        let now = SystemTime::now();
        return Ok((!disk::is_locked(dir, AGING_LOCK)?).then_some((None, now)));
    }
    let tried = match disk::try_lock(dir, AGING_LOCK, true) {
        // Nobody can hold a lock that cannot even be made, and room is what is wanted.
        Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
            return Ok(Some((None, SystemTime::now())));
        }
        other => other?,
    };
    match tried {
        Tried::Held(lock) => {
            let now = disk::touch(&lock);
            Ok(Some((Some(lock), now)))
        }
        // Whoever replaces it is at it.
        Tried::Busy | Tried::Gone => Ok(None),
    }
}

/// Where the limits of the cache at `place` are written.
fn ini_path(place: &CacheDir) -> PathBuf {
    let full = Fs::new().real_path(&place.path).unwrap_or_else(|_| place.path.clone());
    full.parent().unwrap_or(&full).join(limits::INI)
}
