//! The garbage collection of one cache.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use opkeep_fs::{Dir, Fs};
use opkeep_kernel_meta::is_quarantine;
use opkeep_store::{LimitSettings, Limits};

use crate::disk::{self, LockAttempt};
use crate::error::GcError;
use crate::file_group::FileGroup;
use crate::grouping::{FileGroups, Grouping};
use crate::limits::{self, LimitWarning};
use crate::list::{Listing, ListingObserver};
use crate::progress::{GcProgress, IDLE_FOR, InUseCounts};
use crate::remove::{Remover, open_below};
use crate::usage::{FileGroupKind, Usage};

/// The lock that CANN holds while it evicts kernels.
const EVICTION_LOCK: &str = "op_cache_file_del.lock";

/// The options of [`gc`].
#[non_exhaustive]
pub struct GcOptions<'a> {
    /// Whether to delete nothing, and to report the files that would be deleted.
    pub dry_run: bool,
    /// The size to reach, in bytes. If it is set, the limits do not count.
    pub max_bytes: Option<u64>,
    /// The idle time after which kernels and precompiles are deleted even below the limit; a shorter time counts as
    /// [`IDLE_FOR`]. If unset, they are deleted only above the limit.
    pub older_than: Option<Duration>,
    /// The settings of the limits in the environment.
    pub environment: &'a LimitSettings,
    /// Called after each step.
    pub progress: &'a dyn Fn(GcProgress<'_>),
    /// Called between steps. The collection stops if this returns true.
    pub is_cancelled: &'a dyn Fn() -> bool,
}

impl<'a> GcOptions<'a> {
    /// Returns the options of a collection that applies the limits.
    pub fn new(environment: &'a LimitSettings) -> Self {
        Self {
            dry_run: false,
            max_bytes: None,
            older_than: None,
            environment,
            progress: &|_| {},
            is_cancelled: &|| false,
        }
    }
}

/// The result of [`gc`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct GcReport {
    /// Whether another process holds CANN's eviction lock; then the cache was not listed.
    pub is_locked: bool,
    /// The limits that were applied; `None` if [`GcOptions::max_bytes`] was set.
    pub limits: Option<Limits>,
    /// Warnings about settings of limits that do not count, or that have another effect than their text suggests.
    pub warnings: Vec<LimitWarning>,
    /// The content of the cache before the collection.
    pub before: Usage,
    /// The deleted files; in a dry run, the files that would be deleted.
    pub removed: Usage,
    /// The content of the cache after the collection.
    pub after: Usage,
    /// Whether the remaining content still reaches the limit.
    pub still_over: bool,
    /// The numbers of groups that were to be deleted, but stay because they are in use.
    pub in_use: InUseCounts,
    /// The number of groups that could not be deleted.
    pub failed: u64,
    /// The first file that could not be deleted or locked, and the error.
    pub failure: Option<(PathBuf, io::Error)>,
    /// The number of descriptions that were not read, such as those of other users: reading them would change their
    /// access times. Files without a description in the same directory stay, since an unread description may name them.
    pub unread: u64,
    /// The paths of the first hundred unknown files, relative to the cache. Unknown files stay.
    pub unknown: Vec<String>,
    /// The number of unknown files.
    pub unknown_count: u64,
    /// Directories in the cache that could not be read, each with the error.
    pub unreadable_dirs: Vec<(PathBuf, io::Error)>,
    /// Whether the collection was cancelled.
    pub cancelled: bool,
}

/// The size at which an eviction begins, and the size at which it ends, in bytes.
#[derive(Clone, Copy, Debug)]
struct Bounds {
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

/// Deletes useless and idle files from CANN's cache for one chip, the directory at `path`.
///
/// # Errors
/// The directory cannot be opened, listed or locked, or is in quarantine.
pub fn gc(path: &Path, options: &GcOptions<'_>) -> Result<GcReport, GcError> {
    let dir = Dir::open_quietly(path)?;
    let real_path = Fs::new().real_path(path).unwrap_or_else(|_| path.to_owned());
    if real_path.iter().any(is_quarantine) {
        return Err(GcError::Quarantine);
    }
    let mut report = GcReport::default();
    if options.max_bytes.is_none() {
        let ini = disk::read_ini(&dir, limits::INI);
        let ini_path = real_path.parent().unwrap_or(&real_path).join(limits::INI);
        let (limits, warnings) = limits::resolve(ini, &ini_path.to_string_lossy(), options.environment);
        (report.limits, report.warnings) = (Some(limits), warnings);
    }
    let locked =
        lock(&dir, options.dry_run).map_err(|source| GcError::Lock { lock: EVICTION_LOCK, source })?;
    let Some((_held, now)) = locked else {
        return Ok(GcReport { is_locked: true, ..report });
    };
    let observer = ListingObserver {
        listed: &|files| (options.progress)(GcProgress::Listed { files }),
        is_cancelled: options.is_cancelled,
    };
    let listing = Listing::of(&dir, &observer)?;
    (report.unreadable_dirs, report.cancelled) = (listing.unreadable_dirs, listing.cancelled);
    let bounds = Bounds::of(report.limits.as_ref(), options);
    let is_over = bounds.is_some_and(|bounds| listing.total.bytes >= bounds.from);
    let older_than = options.older_than.map(|age| age.max(IDLE_FOR));
    let grouping = Grouping {
        now,
        reads_all: is_over || older_than.is_some(),
        kernel_idle_for: if is_over { Some(IDLE_FOR) } else { older_than },
        other_idle_for: IDLE_FOR,
        is_cancelled: options.is_cancelled,
    };
    let (mut groups, mut unknown, mut dirs) = (FileGroups::default(), listing.unknown, Vec::new());
    groups.usage.other = listing.other;
    for (index, listed) in listing.dirs.into_iter().enumerate() {
        dirs.push(listed.path.clone());
        match open_below(&dir, &listed.path) {
            Ok(below) => groups.add_dir(&below, index, listed, &grouping, &mut unknown),
            Err(error) => report.unreadable_dirs.push((listed.path, error)),
        }
    }
    (report.unknown, report.unknown_count) = (unknown.names.into_iter().collect(), unknown.count);
    (report.before, report.unread) = (groups.usage, groups.unread);
    report.cancelled |= (options.is_cancelled)();
    if report.cancelled {
        report.after = report.before;
        return Ok(report);
    }
    let remover = Remover::new(&dir, &dirs, now, options.dry_run, options.progress);
    evict(groups, remover, older_than, bounds, options, &mut report);
    Ok(report)
}

/// Deletes the useless groups, then the groups that are old enough, then idle groups until the bounds are met.
fn evict(
    groups: FileGroups,
    mut remover: Remover<'_>,
    older_than: Option<Duration>,
    bounds: Option<Bounds>,
    options: &GcOptions<'_>,
    report: &mut GcReport,
) {
    let before = groups.usage;
    let of = groups.removable.len() as u64;
    let mut done = 0;
    let mut cancelled = false;
    let mut remove = |remover: &mut Remover<'_>, group: &FileGroup| {
        cancelled |= (options.is_cancelled)();
        if !cancelled {
            remover.remove(group);
            done += 1;
            (options.progress)(GcProgress::Done { done, of });
        }
    };
    let is_useful =
        |group: &FileGroup| matches!(group.kind, FileGroupKind::Kernel | FileGroupKind::Precompile);
    let (mut idle, useless): (Vec<FileGroup>, Vec<FileGroup>) =
        groups.removable.into_iter().partition(is_useful);
    useless.iter().for_each(|group| remove(&mut remover, group));
    drop(useless);
    opkeep_order::by(&mut idle, |one, other| {
        let key = |group: &FileGroup| (group.kind != FileGroupKind::Precompile, group.used());
        (key(one), one.dir, &one.stem).cmp(&(key(other), other.dir, &other.stem))
    });
    if let Some(age) = older_than {
        idle.retain(|group| {
            let is_old = disk::idle(group.used(), remover.now) >= age;
            if is_old {
                remove(&mut remover, group);
            }
            !is_old
        });
    }
    if let Some(bounds) = bounds {
        let left = |remover: &Remover<'_>| before.without(&remover.removed).total().bytes;
        if left(&remover) >= bounds.from {
            for group in &idle {
                if left(&remover) <= bounds.keep {
                    break;
                }
                remove(&mut remover, group);
            }
        }
        report.still_over = left(&remover) >= bounds.from;
    }
    report.cancelled |= cancelled;
    report.removed = remover.removed;
    report.after = before.without(&remover.removed);
    (report.in_use, report.failed, report.failure) = (remover.in_use, remover.failed, remover.failure);
}

/// Takes CANN's eviction lock, and returns it with the time by the clock of the file system. A dry run only checks that
/// the lock is free, and returns no lock. Returns `None` if another process holds the lock.
fn lock(dir: &Dir, dry_run: bool) -> io::Result<Option<(Option<std::fs::File>, SystemTime)>> {
    if dry_run {
        let now = SystemTime::now();
        return Ok((!disk::is_locked(dir, EVICTION_LOCK)?).then_some((None, now)));
    }
    let attempt = match disk::try_lock(dir, EVICTION_LOCK, true) {
        // The lock file is missing, so no process holds the lock; and on a full disk, the collection is needed most.
        Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
            return Ok(Some((None, SystemTime::now())));
        }
        other => other?,
    };
    match attempt {
        LockAttempt::Held(lock) => {
            let now = disk::touch(&lock);
            Ok(Some((Some(lock), now)))
        }
        // The process that replaced the file is about to lock it.
        LockAttempt::Busy | LockAttempt::Missing => Ok(None),
    }
}
