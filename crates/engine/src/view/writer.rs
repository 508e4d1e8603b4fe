//! The `kernel_meta` view: kernels where a framework looks for them.
//!
//! Kernels are written in batches of 16 MiB while others are still built, so that a network of any size needs no more
//! memory than two batches, unless the caller keeps the artifacts.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use opkeep_artifact::{Artifact, is_safe_file_name};
use opkeep_descriptor::{Descriptor, write_info_named};
use opkeep_digest::Digest;
use opkeep_kernel_meta::{
    DirectoryRisk, FileContent, KernelFiles, LeftKernel, RetiredKernel, ViewError, ViewReport, is_same_chip,
};
use opkeep_store::Store;

use crate::config::{ViewConfig, ViewPolicy};
use crate::plan::BuildPlan;
use crate::report::{KernelReport, ViewPlacement};
use crate::request::Request;
use crate::view::group::ViewGroup;
use crate::view::info_text::{Info, InfoTextCache};
use crate::view::own_kernels::OwnKernels;

/// The number of bytes of kernels from which a batch is written.
const BATCH: usize = 16 << 20;

/// Puts the kernels of a build into the view.
pub(crate) struct ViewWriter<'a> {
    setting: ViewConfig,
    /// The builds that write to the same directory.
    group: ViewGroup,
    /// The store, which knows kernels that the manifest does not list.
    store: Option<&'a Store>,
    infos: &'a InfoTextCache,
    /// The maximum wait for other writers.
    lock_timeout: Duration,
    /// The names under which frameworks look for kernels.
    names: BTreeMap<String, Name<'a>>,
    /// The names of each kernel, by the kernel's index in the plan.
    names_of: Vec<Vec<String>>,
    /// Names that cannot be file names.
    invalid_names: Vec<String>,
    state: Mutex<Progress>,
    /// Held by the thread that writes a full batch.
    writing: Mutex<()>,
}

/// A name under which frameworks look for a kernel.
struct Name<'a> {
    /// The kernel's index in the plan; `None` if several kernels have this name.
    kernel: Option<usize>,
    /// The operators that use the kernel.
    operators: Vec<&'a str>,
    /// The descriptor of the first operator.
    descriptor: &'a Descriptor,
    /// Whether the kernel is built for the chip that all these operators name.
    for_chip: bool,
    /// Whether the kernel is compiled for debugging.
    debug: bool,
}

#[derive(Default)]
struct Progress {
    batch: Batch,
    /// The names that were written, each with the kernel's index in the plan.
    placed: Vec<(String, usize)>,
    /// Names of multi-part kernels, and of kernels without a `.json`.
    multi_part_names: Vec<String>,
    /// The directory, once something was written there.
    directory: PathBuf,
    left: Vec<LeftKernel>,
    quarantine: Option<PathBuf>,
    displaced: Vec<String>,
    risk: Option<DirectoryRisk>,
    /// The first error.
    error: Option<ViewError>,
}

/// Kernels that are not yet written.
#[derive(Default)]
struct Batch {
    built: Vec<Waiting>,
    /// The kernels that failed or cannot be written: the index in the plan, and the kernel's own name.
    failed: Vec<(usize, String)>,
    bytes: usize,
}

struct Waiting {
    kernel: usize,
    artifact: Arc<Artifact>,
    /// The digests of the object and of the `.json`.
    digests: (Digest, Digest),
    /// The digest and the length of the `.info` under each of the kernel's names.
    infos: Vec<Info>,
}

impl<'a> ViewWriter<'a> {
    pub(crate) fn new(
        setting: ViewConfig,
        (store, infos): (Option<&'a Store>, &'a InfoTextCache),
        lock_timeout: Duration,
        requests: &'a [Request],
        plan: &BuildPlan<'a>,
    ) -> Self {
        let mut writer = Self {
            group: setting.group.clone().unwrap_or_else(|| ViewGroup::of([])),
            setting,
            store,
            infos,
            lock_timeout,
            names: BTreeMap::new(),
            names_of: plan.kernels.iter().map(|_| Vec::new()).collect(),
            invalid_names: Vec::new(),
            state: Mutex::default(),
            writing: Mutex::default(),
        };
        for (request, kernel) in requests.iter().zip(&plan.kernel_of) {
            writer.add(request, *kernel, plan.kernels[*kernel].name());
        }
        for (stem, name) in &mut writer.names {
            name.kernel = name.kernel.filter(|_| !writer.group.conflicting_names.contains(stem));
            if let Some(kernel) = name.kernel {
                writer.names_of[kernel].push(stem.clone());
            }
        }
        writer
    }

    /// Adds a request for the kernel whose own name is `own`.
    fn add(&mut self, request: &'a Request, kernel: usize, own: &str) {
        let framework_name = request.framework_name();
        // The framework's name, or the kernel's own. A job that was refused before it had a key may have neither.
        if let Some(stem) = [framework_name.as_str(), own].into_iter().find(|name| is_usable(name)) {
            let name = self.names.entry(stem.to_owned()).or_insert_with(|| Name {
                kernel: Some(kernel),
                operators: Vec::new(),
                descriptor: &request.descriptor,
                for_chip: true,
                debug: opkeep_descriptor::debug_enabled(&request.spec),
            });
            name.operators.push(request.name());
            name.for_chip &= is_same_chip(&request.descriptor.spec.target, &request.spec.target);
            // With one name for two kernels, a framework would run the wrong one.
            name.kernel = name.kernel.filter(|known| *known == kernel);
        }
        if !framework_name.is_empty() && !is_usable(&framework_name) {
            self.invalid_names.push(framework_name);
        }
    }

    /// Adds a kernel to the batch. For a kernel that failed, and for each kernel after an error of the view, adds the
    /// retirement of older kernels under its names.
    pub(crate) fn place(&self, kernel: usize, report: &KernelReport) {
        if self.names_of[kernel].is_empty() {
            return;
        }
        // A multi-part kernel has no object of its own: a `.json` beside an empty object would pass for a kernel.
        // Frameworks find a kernel by its `.json`, which kernels of other devices do not have.
        let is_whole =
            |artifact: &&Arc<Artifact>| !artifact.object.is_empty() && !artifact.metadata.is_empty();
        if report.artifact.as_ref().is_some_and(|artifact| !is_whole(&artifact)) {
            self.progress().multi_part_names.extend(self.names_of[kernel].iter().cloned());
        }
        let whole = report.artifact.as_ref().filter(is_whole);
        let built = whole.zip(report.digests).map(|(artifact, digests)| {
            // Computed on the thread of the kernel, so that the last thread does not compute it for all kernels.
            let infos = self.names_of[kernel].iter();
            let infos = infos.map(|stem| self.infos.of(stem, self.names[stem].descriptor)).collect();
            Waiting { kernel, artifact: Arc::clone(artifact), digests, infos }
        });
        let mut progress = self.progress();
        let has_error = progress.error.is_some();
        let batch = &mut progress.batch;
        match built.filter(|_| !has_error) {
            Some(built) => {
                batch.bytes += built.artifact.metadata.len() + built.artifact.object.len();
                batch.built.push(built);
            }
            None => batch.failed.push((kernel, report.name.clone())),
        }
        let is_full = batch.bytes >= BATCH;
        drop(progress);
        if is_full {
            self.write_full();
        }
    }

    /// Writes the batch if it is full. During a write, threads that have filled the next batch wait here, so that at
    /// most two batches are in memory.
    fn write_full(&self) {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut progress = self.progress();
        // Another thread may have written the batch while this one waited for the lock.
        if progress.batch.bytes < BATCH {
            return;
        }
        let batch = std::mem::take(&mut progress.batch);
        drop(progress);
        self.write(&batch, &[]);
    }

    /// Writes the remaining kernels. Returns the placement of all kernels.
    pub(crate) fn finish(self) -> Result<ViewPlacement, ViewError> {
        let batch = std::mem::take(&mut self.progress().batch);
        let conflicting_names: Vec<&String> =
            self.names.iter().filter(|(_, name)| name.kernel.is_none()).map(|(stem, _)| stem).collect();
        self.write(&batch, &conflicting_names);
        let conflicting_names = conflicting_names.into_iter().cloned().collect();
        let Progress {
            placed: mut names,
            mut multi_part_names,
            directory,
            error,
            mut left,
            quarantine,
            mut displaced,
            risk,
            ..
        } = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = error {
            return Err(error);
        }
        opkeep_order::sort(&mut names);
        opkeep_order::sort(&mut multi_part_names);
        opkeep_order::by(&mut left, |one, other| one.stem.cmp(&other.stem));
        // Each batch reports on the whole directory.
        opkeep_order::sort(&mut displaced);
        displaced.dedup();
        names.retain(|(name, _)| left.binary_search_by(|left| left.stem.cmp(name)).is_err());
        Ok(ViewPlacement {
            directory,
            names,
            conflicting_names,
            invalid_names: self.invalid_names,
            multi_part_names,
            left,
            quarantine,
            displaced,
            risk,
        })
    }

    /// Writes a batch. After an error, a batch only retires older kernels; not if the directory was locked, since each
    /// batch would wait for the lock.
    fn write(&self, batch: &Batch, conflicting_names: &[&String]) {
        if matches!(self.progress().error, Some(ViewError::Locked { .. })) {
            return;
        }
        let mut placed = Vec::new();
        let written = self.try_write(batch, conflicting_names, &mut placed);
        let mut progress = self.progress();
        match written {
            Ok((directory, report)) => {
                progress.placed.extend(placed);
                progress.directory = directory;
                progress.left.extend(report.left);
                progress.quarantine = report.quarantine.or(progress.quarantine.take());
                progress.displaced.extend(report.displaced);
                progress.risk = report.risk;
            }
            // An outdated kernel that a framework may load is more than a kernel that is not written.
            Err(error @ ViewError::Outdated { .. }) => progress.error = Some(error),
            Err(error) => {
                progress.error.get_or_insert(error);
            }
        }
    }

    /// Writes a batch. Returns the directory and the report.
    fn try_write(
        &self,
        batch: &Batch,
        conflicting_names: &[&String],
        placed: &mut Vec<(String, usize)>,
    ) -> Result<(PathBuf, ViewReport), ViewError> {
        let stems = |kernel: &usize| self.names_of[*kernel].iter();
        let text_of = |stem: &'_ String| {
            let (descriptor, stem) = (self.names[stem].descriptor, stem.clone());
            move || Ok(write_info_named(descriptor, &stem).into_bytes())
        };
        let texts: Vec<_> = batch.built.iter().flat_map(|built| stems(&built.kernel)).map(text_of).collect();
        let mut texts = texts.iter();
        let mut files = Vec::new();
        for Waiting { kernel, artifact, digests: (object, json), infos } in &batch.built {
            let object = FileContent::known(*object, &artifact.object);
            let json = FileContent::known(*json, &artifact.metadata);
            for ((stem, info), text) in stems(kernel).zip(infos).zip(&mut texts) {
                let info = FileContent::lazy(info.digest, info.bytes, text);
                let Name { operators, for_chip, debug, .. } = &self.names[stem];
                let (for_chip, debug) = (*for_chip, *debug);
                let files_of =
                    |slot: &&'a str| KernelFiles { slot, stem, object, json, info, for_chip, debug };
                files.extend(operators.iter().map(files_of));
                placed.push((stem.clone(), *kernel));
            }
        }
        // The directory may have the same kernel from an earlier build, which stays. A different kernel is retired,
        // since it must not be taken for the failed one. If a kernel for debugging failed, the kernel in the directory
        // stays.
        let failed = batch.failed.iter().flat_map(|(kernel, name)| {
            let stems = self.names_of[*kernel].iter().filter(|stem| !self.names[*stem].debug);
            stems.map(|stem| RetiredKernel { stem, keep: Some(name) })
        });
        let conflicting_names = conflicting_names.iter().map(|stem| RetiredKernel { stem, keep: None });
        let withdrawn: Vec<RetiredKernel<'_>> = failed.chain(conflicting_names).collect();
        let ViewPolicy { replace, guessed_target } = self.setting.policy;
        let view = self.setting.open()?.with_lock_timeout(self.lock_timeout).with_run(self.group.run.clone());
        let view = view.with_replace(replace).with_guessed_target(guessed_target);
        let report = view.replace_adopting(&files, &withdrawn, &OwnKernels { store: self.store })?;
        Ok((view.dir().to_owned(), report))
    }

    /// The progress. A panic elsewhere leaves it consistent.
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether this name can be a file name.
fn is_usable(name: &str) -> bool {
    is_safe_file_name(name) && !name.starts_with('.')
}
