//! The collection of one cache.

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
    /// Reports what would be deleted, and changes nothing.
    pub dry_run: bool,
    /// The size to reach, instead of the limits.
    pub max_bytes: Option<u64>,
    /// Deletes every kernel that was idle for this time, even below the limit. Less than [`IDLE_FOR`] counts as that.
    pub older_than: Option<Duration>,
    /// The limits from the environment.
    pub environment: &'a LimitSettings,
    /// Called with each step.
    pub progress: &'a dyn Fn(GcProgress<'_>),
    /// Called between steps: whether to stop.
    pub is_cancelled: &'a dyn Fn() -> bool,
}

impl<'a> GcOptions<'a> {
    /// A collection by the limits.
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
    /// Another process evicts kernels there; nothing was read.
    pub is_locked: bool,
    /// The limits that were applied; none if [`GcOptions::max_bytes`] was set.
    pub limits: Option<Limits>,
    /// Settings of limits that do not count, or count differently than they read.
    pub warnings: Vec<LimitWarning>,
    /// The content before.
    pub before: Usage,
    /// The deleted part.
    pub removed: Usage,
    /// The remaining content.
    pub after: Usage,
    /// The remaining content exceeds the limit.
    pub still_over: bool,
    /// Groups that should have been deleted, and are in use.
    pub in_use: InUseCounts,
    /// The number of groups that could not be deleted.
    pub failed: u64,
    /// The first of their files, and the error.
    pub failure: Option<(PathBuf, io::Error)>,
    /// The number of descriptions of other users: reading them would change their access times. Files beside them that have
    /// no description may be theirs, and stay.
    pub unread: u64,
    /// The first hundred names of unknown files, which stay.
    pub unknown: Vec<String>,
    /// The number of unknown files.
    pub unknown_count: u64,
    /// Directories below that could not be read, and why.
    pub unreadable_dirs: Vec<(PathBuf, io::Error)>,
    /// The collection was cancelled.
    pub cancelled: bool,
}

/// The size at which kernels are evicted, and the size to reach then.
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

/// Deletes unused files in CANN's cache for one chip, the directory at `path`.
///
/// # Errors
/// The directory cannot be opened, listed or locked, or is in quarantine.
pub fn gc(path: &Path, options: &GcOptions<'_>) -> Result<GcReport, GcError> {
    let dir = Dir::open_quietly(path)?;
    let full = Fs::new().real_path(path).unwrap_or_else(|_| path.to_owned());
    if full.iter().any(is_quarantine) {
        return Err(GcError::Quarantine);
    }
    let mut report = GcReport::default();
    if options.max_bytes.is_none() {
        let ini = disk::read_ini(&dir, limits::INI);
        let ini_path = full.parent().unwrap_or(&full).join(limits::INI);
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
    (report.unknown, report.unknown_count) = (unknown.names, unknown.count);
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

/// Deletes the groups in their order.
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
    let is_used = |group: &FileGroup| matches!(group.kind, FileGroupKind::Kernel | FileGroupKind::Precompile);
    let (mut idle, useless): (Vec<FileGroup>, Vec<FileGroup>) =
        groups.removable.into_iter().partition(is_used);
    useless.iter().for_each(|group| remove(&mut remover, group));
    drop(useless);
    idle.sort_by(|one, other| {
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

/// Takes CANN's lock, and reads the clock of the file system. A dry run only checks that the lock is free. `None` if another
/// process has it.
fn lock(dir: &Dir, dry_run: bool) -> io::Result<Option<(Option<std::fs::File>, SystemTime)>> {
    if dry_run {
        let now = SystemTime::now();
        return Ok((!disk::is_locked(dir, EVICTION_LOCK)?).then_some((None, now)));
    }
    let attempt = match disk::try_lock(dir, EVICTION_LOCK, true) {
        // No process can hold a lock whose file cannot be created, and the disk needs the space.
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
