//! Fills the caches of ranks with intact kernels of other ranks.
//!
//! MindSpore r1.5 to r2.0 names a kernel `{words}_{number}_{device}`, where the number depends on the operator only.
//! MindSpore launches the kernel by the name in the `.json`, and never compares that with the file name. So a rank can
//! use the bytes of another rank: only the file names differ, and the descriptor, which MindSpore does not read. From
//! r2.1 on, the number depends on the rank's directory and device, too; before r1.5, there are no rank directories;
//! AKG's ranks share one directory. In these cases, no kernel is filled.
//!
//! # Guarantees
//!
//! - **Sources agree.** All ranks under one base that have a kernel must have the same object, the same `.json` and the
//!   same `SocInfo`, except for names of devices, directories and kernels. If two ranks differ, the kernel is refused,
//!   and the report names both. A kernel is also refused if the `SocInfo` of the receiving rank differs.
//! - **The chip runs the kernel**: the object is for the chip that its descriptor names.
//! - **The device is known, not guessed**: it is in the names of the rank's own files, or in a [`DeviceMap`]. `RANK_ID`
//!   is not a device.
//! - **No file is replaced**, and the `.json` is written last, when the object is durable. If a job writes the same
//!   kernel at the same time, the job's files stay.

mod devices;
mod rank_dir;
mod ranks;
mod reason;
mod scanned;
mod source_kernel;
mod sources;

pub use devices::{DeviceMap, DeviceMapError};
pub use reason::{DeviceError, UnfilledReason};
pub use scanned::ScannedCache;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::thread::sleep;
use std::time::Duration;

use opkeep_fs::Fs;

use crate::scan::{CacheDir, Kind};
use crate::stem::Stem;
use opkeep_kernel_meta::RunId;
use ranks::{Rank, ranks};
use source_kernel::SourceKernel;
use sources::agree;

/// The options of [`fill`].
#[non_exhaustive]
pub struct FillOptions<'a> {
    /// The run of repair. Its journal lists the written files, so that an undo of the run removes them.
    pub run: &'a RunId,
    /// The devices of ranks, as far as the user gave them.
    pub devices: &'a DeviceMap,
    /// Whether to change nothing, and to report the kernels that would be written.
    pub dry_run: bool,
    /// Called with the number of finished ranks, and the number of ranks to fill.
    pub progress: &'a dyn Fn(u64, u64),
    /// Called before each kernel. The fill stops if this returns true.
    pub is_cancelled: &'a dyn Fn() -> bool,
}

impl<'a> FillOptions<'a> {
    /// Returns the options of a fill in the run `run`.
    pub fn new(run: &'a RunId, devices: &'a DeviceMap) -> Self {
        Self { run, devices, dry_run: false, progress: &|_, _| {}, is_cancelled: &|| false }
    }
}

/// The result of [`fill`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct FillReport {
    /// The kernels that were written; in a dry run, those that would be written.
    pub filled: Vec<FilledKernel>,
    /// The kernels that ranks still lack, or may lack, with the reasons.
    pub unfilled: Vec<UnfilledKernel>,
    /// Caches that belong to no rank, each with the reason why it cannot be filled.
    pub no_ranks: Vec<(PathBuf, &'static str)>,
    /// Whether the fill was cancelled.
    pub cancelled: bool,
}

/// A kernel that a rank lacked, and that was copied from another rank.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilledKernel {
    /// The rank's `kernel_meta` directory.
    pub dir: PathBuf,
    /// The `RANK_ID` of the rank.
    pub rank: String,
    /// The stem of the files that were written.
    pub stem: String,
    /// The `RANK_ID` of the source rank.
    pub source: String,
    /// The stem of the files in the source rank.
    pub source_stem: String,
}

/// A kernel that was not copied to a rank, or a rank to which no kernel was copied.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnfilledKernel {
    /// The directory that contains the ranks.
    pub base: PathBuf,
    /// The `RANK_ID` of the rank; `None` if all ranks are concerned.
    pub rank: Option<String>,
    /// The kernel's stem without the device; `None` if all kernels are concerned.
    pub kernel: Option<String>,
    /// The reason.
    pub reason: UnfilledReason,
}

/// Copies the kernels that ranks lack from other ranks. `caches` may be of several bases; each base is filled by
/// itself.
pub fn fill(caches: &[ScannedCache<'_>], options: &FillOptions<'_>) -> FillReport {
    let mut report = FillReport::default();
    let mut bases: BTreeMap<PathBuf, Vec<ScannedCache<'_>>> = BTreeMap::new();
    for cache in caches {
        let cache_dir = &cache.scan.cache;
        match base(cache_dir) {
            Some(base) => bases.entry(base).or_default().push(*cache),
            None => report.no_ranks.push((cache_dir.path.clone(), no_ranks(cache_dir.kind))),
        }
    }
    for (base, caches) in &bases {
        Work { base, options, report: &mut report }.fill(caches);
    }
    report
}

/// Returns the base of a cache, the parent of the rank's directory; `None` if the cache belongs to no rank.
fn base(cache_dir: &CacheDir) -> Option<PathBuf> {
    cache_dir.rank.as_ref().filter(|_| cache_dir.kind == Kind::MindSpore)?;
    let real_path = Fs::new().real_path(&cache_dir.path).unwrap_or_else(|_| cache_dir.path.clone());
    Some(real_path.parent()?.parent()?.to_owned())
}

/// Returns the reason why a cache of this kind without a rank is not filled.
fn no_ranks(kind: Kind) -> &'static str {
    match kind {
        Kind::MindSpore => {
            "it is in no rank_N: MindSpore before r1.5 has no rank directories, so there is nothing to fill it from"
        }
        Kind::Akg => "AKG's kernels are in one directory for all ranks: there is nothing to fill it from",
        _ => "only MindSpore has rank directories: there is nothing to fill it from",
    }
}

/// The maximum number of kernels that are written before the locks of a rank are released for [`PAUSE`].
const BATCH: usize = 64;
/// The size at which a batch of kernels is written, in bytes: a batch is in memory.
const BATCH_BYTES: usize = 64 << 20;
const PAUSE: Duration = Duration::from_millis(20);

struct Work<'a> {
    base: &'a Path,
    options: &'a FillOptions<'a>,
    report: &'a mut FillReport,
}

impl Work<'_> {
    fn refuse(&mut self, rank: Option<&str>, kernel: Option<&str>, why: impl Into<UnfilledReason>) {
        let text = |text: Option<&str>| text.map(str::to_owned);
        let (base, rank, kernel) = (self.base.to_owned(), text(rank), text(kernel));
        self.report.unfilled.push(UnfilledKernel { base, rank, kernel, reason: why.into() });
    }

    fn fill(&mut self, caches: &[ScannedCache<'_>]) {
        let mut ranks = ranks(self.base, caches, self.options.devices);
        let kernels = self.kernels(&ranks);
        // The kernels that each rank lacks, with their sources.
        let mut wanted: BTreeMap<usize, Vec<(String, Rc<SourceKernel>)>> = BTreeMap::new();
        let mut unknown: BTreeMap<usize, u64> = BTreeMap::new();
        for (kernel, sources) in &kernels {
            if (self.options.is_cancelled)() {
                self.report.cancelled = true;
                return;
            }
            let lacking: Vec<usize> = (0..ranks.len()).filter(|at| ranks[*at].lacks(*at, sources)).collect();
            if lacking.is_empty() {
                continue;
            }
            let source = match agree(kernel, sources, &ranks) {
                Ok(source) => Rc::new(source),
                Err(why) => {
                    self.refuse(None, Some(kernel), why);
                    continue;
                }
            };
            for at in lacking {
                match &ranks[at].device {
                    Ok(_) => wanted.entry(at).or_default().push((kernel.clone(), Rc::clone(&source))),
                    Err(_) => *unknown.entry(at).or_default() += 1,
                }
            }
        }
        for (at, kernels) in unknown {
            let Rank { name, device, .. } = &ranks[at];
            if let Err(error) = device {
                let error = error.clone();
                self.refuse(Some(name), None, UnfilledReason::UnknownDevice { lacking: kernels, error });
            }
        }
        let (mut done, of) = (0, wanted.len() as u64);
        for (at, kernels) in wanted {
            (self.options.progress)(done, of);
            self.fill_rank(&mut ranks, at, kernels);
            done += 1;
        }
    }

    /// Returns all intact kernels with MindSpore's names, each with the indices of the ranks that have it and its stems
    /// there.
    fn kernels(&mut self, ranks: &[Rank<'_>]) -> BTreeMap<String, Vec<(usize, String)>> {
        let (mut kernels, mut others) = (BTreeMap::<String, Vec<_>>::new(), BTreeMap::<&str, usize>::new());
        for (at, rank) in ranks.iter().enumerate() {
            for stem in rank.intact.keys() {
                match Stem::of(stem) {
                    Some(named) => {
                        kernels.entry(named.kernel.to_owned()).or_default().push((at, (*stem).to_owned()));
                    }
                    None => *others.entry(stem).or_default() += 1,
                }
            }
        }
        others.retain(|_, having| *having < ranks.len());
        if let Some(first) = others.keys().next() {
            let (count, example) = (others.len(), (*first).to_owned());
            self.refuse(None, None, UnfilledReason::OtherNames { count, example });
        }
        kernels
    }

    fn fill_rank(&mut self, ranks: &mut [Rank<'_>], at: usize, kernels: Vec<(String, Rc<SourceKernel>)>) {
        let name = ranks[at].name.clone();
        let mut kernels = kernels.into_iter().peekable();
        let mut is_first = true;
        while kernels.peek().is_some() {
            if (self.options.is_cancelled)() {
                self.report.cancelled = true;
                return;
            }
            // A framework that starts now waits for the lock, and gets it during the pause.
            if !self.options.dry_run && !is_first {
                sleep(PAUSE);
            }
            is_first = false;
            let rank_dir = match self.options.dry_run {
                true => None,
                false => match rank_dir::RankDir::enter(&Fs::new(), self.base, &name) {
                    Ok(rank_dir) => Some(rank_dir),
                    Err(why) => return self.refuse(Some(&name), None, why),
                },
            };
            let mut batch = Vec::new();
            let mut bytes = 0;
            while batch.len() < BATCH
                && bytes < BATCH_BYTES
                && let Some((kernel, source)) = kernels.next()
            {
                match Self::prepare(ranks, at, &kernel, &source) {
                    Ok((filled, prepared)) => {
                        bytes += prepared.byte_len();
                        batch.push((kernel, filled, prepared));
                    }
                    Err(why) => self.refuse(Some(&name), Some(&kernel), why),
                }
            }
            match rank_dir {
                None => self.report.filled.extend(batch.into_iter().map(|(_, filled, _)| filled)),
                Some(rank_dir) => self.write_batch(&name, &rank_dir, batch),
            }
        }
    }

    /// Writes a batch of kernels to a rank, after a journal that lists them.
    fn write_batch(
        &mut self,
        rank: &str,
        rank_dir: &rank_dir::RankDir,
        batch: Vec<(String, FilledKernel, rank_dir::PreparedKernel)>,
    ) {
        let mut staged = Vec::with_capacity(batch.len());
        for (kernel, filled, prepared) in batch {
            match rank_dir.stage(&filled.stem, &prepared) {
                Ok(files) => staged.push((kernel, filled, prepared, files)),
                Err(why) => self.refuse(Some(rank), Some(&kernel), why),
            }
        }
        if staged.is_empty() {
            return;
        }
        let noted = staged.iter().map(|(_, filled, prepared, files)| (filled.stem.as_str(), prepared, files));
        let mut record = match rank_dir.record(self.options.run, noted) {
            Ok(record) => record,
            Err(why) => return self.refuse(Some(rank), None, why),
        };
        for (number, (kernel, filled, prepared, files)) in (0..).zip(staged) {
            if (self.options.is_cancelled)() {
                self.report.cancelled = true;
                record.remove_from(number);
                break;
            }
            match rank_dir.publish(&filled.stem, &prepared, files) {
                Ok(()) => self.report.filled.push(filled),
                Err(why) => {
                    record.remove_kernel(number, rank_dir);
                    self.refuse(Some(rank), Some(&kernel), why);
                }
            }
        }
        rank_dir.sync();
        record.close(rank_dir);
    }

    /// Prepares a kernel for the rank `ranks[at]`. Returns its entry in the report, and its files.
    fn prepare(
        ranks: &mut [Rank<'_>],
        at: usize,
        kernel: &str,
        source: &SourceKernel,
    ) -> Result<(FilledKernel, rank_dir::PreparedKernel), String> {
        let device = ranks[at].device.clone().map_err(|error| error.to_string())?;
        let stem = format!("{kernel}_{device}");
        ranks[at].is_free(&stem)?;
        ranks[at].accepts(source, &ranks[source.rank].name.clone())?;
        let (target, from) = (&ranks[at], &ranks[source.rank]);
        let prepared = rank_dir::prepare_files(source, from, target, &stem, device)?;
        let filled = FilledKernel {
            dir: target.path.clone(),
            rank: target.name.clone(),
            stem,
            source: from.name.clone(),
            source_stem: source.stem.clone(),
        };
        Ok((filled, prepared))
    }
}
