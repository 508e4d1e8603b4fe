//! The check of a package: each file against the others.

mod binary_info;
mod indexes;
mod keys;
mod operators;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use opkeep_fs::{CancelToken, map};
use opkeep_validator::Severity;

use crate::kernel::{Kernel, unreadable};
use crate::locate::{PackageFiles, PackageKind, UnitFiles};
use crate::problem::{Finding, Problem};
use crate::tree::{FileTree, ReadProblem};

/// The largest number of findings of one severity that are kept for a package.
const MAX_FINDINGS: usize = 1_000;
/// The largest index that is read, in bytes.
pub(crate) const MAX_INDEX_BYTES: u64 = 64 << 20;

/// How packages are checked.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct VerifyOptions<'a> {
    /// The number of kernels that are checked at once.
    pub threads: NonZeroUsize,
    /// Ends the check early.
    pub cancel: &'a CancelToken,
    /// Is called with the number of kernels that were checked, and of all.
    pub progress: &'a (dyn Fn(u64, u64) + Sync),
}

impl<'a> VerifyOptions<'a> {
    /// A check with `threads` threads, without a progress report.
    pub fn new(threads: NonZeroUsize, cancel: &'a CancelToken) -> Self {
        Self { threads, cancel, progress: &|_, _| {} }
    }
}

/// A package that was checked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct VerifiedPackage {
    /// Its directory, below the one that was named; empty for that itself.
    pub path: PathBuf,
    /// What it is.
    pub kind: PackageKind,
    /// Its chip families.
    pub units: Vec<VerifiedUnit>,
    /// The findings, the most severe first.
    pub findings: Vec<Finding>,
    /// The number of findings that were not kept.
    pub more: usize,
    /// Whether the check was cancelled.
    pub cancelled: bool,
}

/// A unit that was checked.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct VerifiedUnit {
    /// The chip family: `ascend910b`.
    pub name: String,
    /// The number of kernels.
    pub kernels: usize,
    /// How many of them are valid, each by itself.
    pub valid: usize,
    /// How many become parts of larger kernels.
    pub relocatable: usize,
    /// The number of operators with kernels.
    pub operators: usize,
    /// The number of indexes.
    pub indexes: usize,
}

impl VerifiedPackage {
    /// Whether all its files agree: no finding is an error.
    pub fn is_consistent(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity() < Severity::Error)
    }
}

/// A unit, with its kernels read.
pub(crate) struct CheckedUnit<'a> {
    pub(crate) tree: &'a FileTree,
    pub(crate) package: &'a PackageFiles,
    pub(crate) files: &'a UnitFiles,
    pub(crate) kernels: BTreeMap<&'a str, Kernel>,
    pub(crate) findings: Vec<Finding>,
    /// The number of findings that were not kept, and of those that were, by severity.
    more: usize,
    counts: BTreeMap<Severity, usize>,
}

pub(crate) fn verify(
    tree: &FileTree,
    package: &PackageFiles,
    options: &VerifyOptions<'_>,
) -> VerifiedPackage {
    let PackageFiles { path, kind, units, .. } = package;
    let mut verified = VerifiedPackage {
        path: path.clone(),
        kind: *kind,
        units: Vec::new(),
        findings: Vec::new(),
        more: 0,
        cancelled: false,
    };
    let total = units.iter().map(|unit| unit.kernels.len() as u64).sum();
    let mut done = 0;
    for files in units {
        let Some(unit) = CheckedUnit::read(tree, package, files, options, (done, total)) else {
            verified.cancelled = true;
            break;
        };
        done += files.kernels.len() as u64;
        let unit = unit.checked();
        verified.units.push(unit.summary());
        verified.findings.extend(unit.findings);
        verified.more += unit.more;
    }
    opkeep_order::by_key(&mut verified.findings, |finding| std::cmp::Reverse(finding.severity()));
    verified
}

impl<'a> CheckedUnit<'a> {
    /// Reads and checks the kernels. `None` if it was cancelled.
    fn read(
        tree: &'a FileTree,
        package: &'a PackageFiles,
        files: &'a UnitFiles,
        options: &VerifyOptions<'_>,
        (done, total): (u64, u64),
    ) -> Option<Self> {
        let places: Vec<_> = files.kernels.iter().collect();
        let count = std::sync::atomic::AtomicU64::new(done);
        let read = map(
            places.len(),
            options.threads,
            || options.cancel.is_cancelled(),
            |at| {
                let (place, pair) = places[at];
                let kernel = Kernel::check(tree, files, place, pair);
                (options.progress)(count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1, total);
                (place.as_str(), kernel)
            },
        );
        let (findings, counts) = (Vec::new(), BTreeMap::new());
        let kernels = opkeep_order::map(read.results);
        (!read.is_cancelled).then_some(Self { tree, package, files, kernels, findings, more: 0, counts })
    }

    fn checked(mut self) -> Self {
        for kernel in self
            .kernels
            .values_mut()
            .map(|kernel| std::mem::take(&mut kernel.problems))
            .zip(self.files.kernels.values())
            .map(|(problems, pair)| (problems, pair.json.clone().or_else(|| pair.object.clone())))
            .collect::<Vec<_>>()
        {
            let (problems, file) = kernel;
            problems
                .into_iter()
                .for_each(|problem| self.add(file.as_deref().unwrap_or(Path::new("")), problem));
        }
        self.check_links();
        self.check_parts();
        self.check_indexes();
        self.check_keys();
        self.check_operators();
        self
    }

    pub(crate) fn add(&mut self, file: &Path, problem: Problem) {
        let count = self.counts.entry(problem.severity()).or_default();
        *count += 1;
        if *count > MAX_FINDINGS {
            self.more += 1;
            return;
        }
        self.findings.push(Finding { file: file.to_owned(), unit: self.files.name.clone(), problem });
    }

    /// Reads a file of the unit; a problem becomes a finding.
    pub(crate) fn read_index(&mut self, path: &Path) -> Option<serde_json::Value> {
        let found = match self.tree.read(path, MAX_INDEX_BYTES) {
            Ok(bytes) => crate::json::parse(&bytes).map_err(|error| Problem::NotJson { error }),
            Err(problem) => Err(unreadable(&problem)),
        };
        found.map_err(|problem| self.add(path, problem)).ok()
    }

    fn check_links(&mut self) {
        for link in &self.files.links {
            if let Err(problem @ (ReadProblem::Leaves(_) | ReadProblem::Failed(_))) = self.tree.find(link) {
                self.add(link, unreadable(&problem));
            }
        }
    }

    /// The places of the parts of masters, which no index names.
    pub(crate) fn parts(&self) -> BTreeSet<String> {
        opkeep_order::set(self.kernels.values().flat_map(|kernel| kernel.parts.iter().cloned()))
    }

    fn check_parts(&mut self) {
        let missing: Vec<(PathBuf, String)> = self
            .kernels
            .values()
            .flat_map(|kernel| kernel.parts.iter().map(move |part| (kernel.file.clone(), part.clone())))
            .filter(|(_, part)| !self.kernels.contains_key(part.as_str()))
            .collect();
        for (file, part) in missing {
            self.add(
                &file,
                Problem::MissingFile { field: "jsonList".to_owned(), expected: format!("{part}.json") },
            );
        }
    }

    fn summary(&self) -> VerifiedUnit {
        let kernels = || self.kernels.values().filter(|kernel| kernel.is_kernel);
        let refused: BTreeSet<&Path> = opkeep_order::set(
            self.findings
                .iter()
                .filter(|finding| finding.severity() == Severity::Error)
                .map(|finding| finding.file.as_path()),
        );
        VerifiedUnit {
            name: self.files.name.clone(),
            kernels: kernels().count(),
            valid: kernels().filter(|kernel| !refused.contains(kernel.file.as_path())).count(),
            relocatable: kernels().filter(|kernel| kernel.is_relocatable()).count(),
            operators: opkeep_order::set(kernels().filter_map(Kernel::operator)).len(),
            indexes: self.files.indexes.len(),
        }
    }
}
