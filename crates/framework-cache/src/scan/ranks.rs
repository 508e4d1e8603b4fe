//! The kernels that a rank lacks, although other ranks of the run have them. Because of such kernels, ranks wait for
//! each other until a timeout.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use opkeep_descriptor::{Descriptor, ForeignName, Generation, read_info};

use crate::scan::item::Item;
use crate::scan::{CacheScan, ItemState};
use crate::stem::Stem;
use opkeep_cann_meta::file_names::FileSet;
use opkeep_fs::{Dir, FileKind, FileRead};
use opkeep_kernel_meta::manifest::MAX_TEXT;

/// The comparison of the ranks of one run.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RankComparison {
    /// The directory that contains `rank_0`, `rank_1`, ...
    pub base: PathBuf,
    /// The number of different kernels in all ranks together.
    pub kernels: usize,
    /// The ranks, in order.
    pub ranks: Vec<RankCache>,
}

/// The comparison of a rank with the others.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RankCache {
    /// The `RANK_ID` of the rank.
    pub rank: String,
    /// The number of intact kernels that the rank has.
    pub has: usize,
    /// The kernels that the rank lacks.
    pub lacks: Vec<MissingKernel>,
}

/// A kernel that a rank lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissingKernel {
    /// The name of the kernel in a rank that has it.
    pub name: String,
    /// The `RANK_ID` of that rank.
    pub in_rank: String,
    /// Whether a fill can copy the kernel to this rank.
    pub copy: RankCopy,
}

/// Whether a fill can copy a kernel from one rank to another, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RankCopy {
    /// The name differs between the ranks only in the device: a fill copies the kernel, unless the ranks contradict each other.
    Possible,
    /// The name depends on the rank, as from MindSpore r2.1 on: the framework compiles the kernel for each rank.
    NameOfRank,
    /// The name is not MindSpore's: the program that wrote the kernel, such as a build of opkeep, writes it for each rank.
    OtherName,
}

/// Compares the ranks in `scans`, for each base. A run with a single rank has no comparison.
///
/// Kernels are the same if their names differ only in the device. From r2.1 on, names depend on the rank; then kernels
/// are the same if their descriptors describe the same job.
pub fn compare<'a>(scans: impl IntoIterator<Item = &'a CacheScan>) -> Vec<RankComparison> {
    let mut bases: BTreeMap<PathBuf, Vec<&CacheScan>> = BTreeMap::new();
    for scan in scans.into_iter().filter(|scan| !scan.cancelled) {
        if let Some(base) = scan.cache.base() {
            bases.entry(base).or_default().push(scan);
        }
    }
    bases.into_iter().filter_map(|(base, scans)| compare_base(&base, &scans)).collect()
}

fn compare_base(base: &Path, scans: &[&CacheScan]) -> Option<RankComparison> {
    let mut ranks: BTreeMap<String, BTreeMap<String, KernelName<'_>>> = BTreeMap::new();
    for scan in scans {
        let rank = scan.cache.rank.clone()?;
        ranks.insert(rank, kernels(scan));
    }
    for rank in deleted(base) {
        ranks.entry(rank).or_default();
    }
    if ranks.len() < 2 {
        return None;
    }
    let all: BTreeSet<&String> = opkeep_order::set(ranks.values().flat_map(BTreeMap::keys));
    let lack = |key: &String| {
        let (rank, KernelName { name, copy }) =
            ranks.iter().find_map(|(rank, has)| Some((rank, has.get(key)?)))?;
        Some(MissingKernel { name: (*name).to_owned(), in_rank: rank.clone(), copy: *copy })
    };
    let mut compared: Vec<RankCache> = ranks
        .iter()
        .map(|(rank, has)| RankCache {
            rank: rank.clone(),
            has: has.len(),
            lacks: all.iter().filter(|key| !has.contains_key(**key)).filter_map(|key| lack(key)).collect(),
        })
        .collect();
    // Numeric order puts rank_10 after rank_9.
    opkeep_order::by_key(&mut compared, |rank| {
        (rank.rank.parse::<u64>().unwrap_or(u64::MAX), rank.rank.clone())
    });
    Some(RankComparison { base: base.to_owned(), kernels: all.len(), ranks: compared })
}

/// Returns the ranks whose directory exists without a `kernel_meta`, since that was deleted.
fn deleted(base: &Path) -> Vec<String> {
    let Ok(dir) = Dir::open_quietly(base) else { return Vec::new() };
    let is_empty = |name: &OsStr| {
        let names = dir.below(name).and_then(|rank| rank.entries());
        names.is_ok_and(|names| !names.iter().any(|name| name.name == "kernel_meta"))
    };
    let names = dir.entries().unwrap_or_default().into_iter();
    let ranks = names.filter(|name| name.kind == FileKind::Dir && is_empty(&name.name));
    ranks.filter_map(|name| Some(name.name.to_str()?.strip_prefix("rank_")?.to_owned())).collect()
}

/// The name of a kernel in a rank, and whether another rank can have a copy of it.
struct KernelName<'a> {
    name: &'a str,
    copy: RankCopy,
}

/// Returns the intact kernels of a rank by the name or job that the same kernel has in all ranks.
fn kernels(scan: &CacheScan) -> BTreeMap<String, KernelName<'_>> {
    let intact = scan.items.iter().filter(|item| {
        matches!(item.state, ItemState::Intact) && item.kernel.is_some() && item.below.is_none()
    });
    let dir = Dir::open_quietly(&scan.cache.path).ok();
    let mut names_differ = None;
    let mut kernels = BTreeMap::new();
    for item in intact {
        // The first readable descriptor decides for all kernels of the rank.
        if names_differ.is_none() {
            names_differ = dir.as_ref().and_then(|dir| hashes_rank(dir, item));
        }
        let differ = names_differ.unwrap_or(false);
        let job = || descriptor(dir.as_ref()?, item).map(|read| read.job.digest().to_string());
        let by_job = differ.then(job).flatten();
        let copy = match (&by_job, Stem::of(&item.name)) {
            (_, None) => RankCopy::OtherName,
            (Some(_), _) => RankCopy::NameOfRank,
            (None, Some(_)) => RankCopy::Possible,
        };
        let key = by_job.unwrap_or_else(|| without_device(&item.name));
        kernels.insert(key, KernelName { name: &item.name, copy });
    }
    kernels
}

/// Returns whether names depend on the rank in this kernel's generation.
fn hashes_rank(dir: &Dir, item: &Item) -> Option<bool> {
    let generation = descriptor(dir, item)?.named_by(&item.name)?;
    Some(generation == Generation::R2_1)
}

fn descriptor(dir: &Dir, item: &Item) -> Option<Descriptor> {
    let mut info = Vec::new();
    let has_info = item.members.has(FileSet::INFO);
    let read = has_info.then(|| dir.read(format!("{}.info", item.name), MAX_TEXT, &mut info))?;
    matches!(read, FileRead::Complete(_)).then(|| read_info(&info).ok()).flatten()
}

/// Returns a kernel's name without the device at its end.
fn without_device(name: &str) -> String {
    match ForeignName::parse(name) {
        Some(ForeignName::MindSpore { words, number, .. }) => format!("{words}_{number}"),
        _ => name.to_owned(),
    }
}
