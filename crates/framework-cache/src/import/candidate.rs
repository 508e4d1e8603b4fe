//! The kernels that may be imported.

use std::collections::BTreeMap;
use std::time::SystemTime;

use crate::import::report::SkipReason;
use crate::scan::{CacheReader, ExtractError, ExtractedKernel, Item, ItemState};
use opkeep_artifact::Artifact;
use opkeep_cann_meta::{KernelMeta, is_chip, targets};
use opkeep_descriptor::{
    BuildSpec, Descriptor, ForeignName, Generation, KernelName, ResolvedSpec, read_info,
};
use opkeep_kernel_entry::{KernelBundle, StoredExpectations};
use opkeep_validator::Validator;

/// Resolves the options of a descriptor; `None` if no backend runs such kernels.
pub(super) type ResolveOptions = dyn Fn(&BuildSpec) -> Option<Result<ResolvedSpec, String>> + Send + Sync;

/// A kernel that may be imported.
pub(super) struct ImportCandidate {
    pub(super) descriptor: Descriptor,
    pub(super) generation: Generation,
    pub(super) spec: ResolvedSpec,
    pub(super) unkeyed_options: BTreeMap<String, String>,
    pub(super) artifact: Artifact,
    pub(super) expected: StoredExpectations,
    pub(super) compiled_at: SystemTime,
}

impl ImportCandidate {
    /// Reads a kernel, and resolves the options in its descriptor with `resolve`.
    ///
    /// # Errors
    /// The reason why the kernel is not imported: it is not intact, or its descriptor does not describe it.
    pub(super) fn read(
        reader: &CacheReader,
        item: &Item,
        resolve: &ResolveOptions,
    ) -> Result<Self, SkipReason> {
        if !matches!(item.state, ItemState::Intact) {
            return Err(SkipReason::of_item(item));
        }
        if item.kernel.is_none() {
            return Err(SkipReason::MultiPart);
        }
        let ExtractedKernel { json, object, info, is_descriptor_newer, compiled_at, is_ours } =
            reader.extract(item).map_err(|error| match error {
                ExtractError::Missing { file } if file.ends_with(".info") => SkipReason::NoDescriptor,
                ExtractError::Missing { file } if file.ends_with(".o") => SkipReason::NoObject,
                ExtractError::Missing { .. } | ExtractError::Changing { .. } => {
                    SkipReason::InUse(error.to_string())
                }
                error => SkipReason::Unreadable(error.to_string()),
            })?;
        if is_ours {
            return Err(SkipReason::Ours);
        }
        let descriptor =
            read_info(&info).map_err(|error| SkipReason::DamagedDescriptor(error.to_string()))?;
        let generation = named_by(&descriptor, &item.name).ok_or_else(|| other_name(&descriptor))?;
        let target = &descriptor.spec.target;
        if targets::named(target).is_some_and(|expect| targets::is_ai_core(&expect)) && !is_chip(target) {
            return Err(SkipReason::UnknownChip(target.clone()));
        }
        let no_backend = || SkipReason::NoBackend(target.clone());
        let mut spec = resolve(&descriptor.spec).ok_or_else(no_backend)?.map_err(SkipReason::Options)?;
        let validator = Validator::builtin();
        let expect = targets::named(&spec.target).ok_or_else(no_backend)?;
        let expected = StoredExpectations::new(expect, &validator);
        if spec.debug {
            return Err(SkipReason::Debug);
        }
        if let Some(source) = descriptor.job.custom_op_source() {
            return Err(SkipReason::CustomSource(source.to_owned()));
        }
        if is_descriptor_newer {
            return Err(SkipReason::NewerDescriptor);
        }
        let artifact = Artifact { metadata: json, object, extra: Vec::new() };
        let report = KernelBundle::of(&artifact).validate(None, expected.expectations(), &validator);
        let Some(meta) = report.meta.as_ref().filter(|_| report.is_valid()) else {
            return Err(SkipReason::Invalid(report.errors().map(ToString::to_string).collect()));
        };
        if let Some(other) = other_kernel(&descriptor, &item.name, meta) {
            return Err(SkipReason::OtherKernel(other));
        }
        let unkeyed_options = spec.split_unkeyed_options();
        Ok(Self { descriptor, generation, spec, unkeyed_options, artifact, expected, compiled_at })
    }
}

/// Returns the generation whose rules result in the kernel's name. If the descriptor has the name, and the rules for it
/// are unknown, the generation is the descriptor's. If the rules are known and result in another name, the descriptor
/// was changed.
fn named_by(descriptor: &Descriptor, stem: &str) -> Option<Generation> {
    let written_name = &descriptor.envelope.fusion_op_name;
    let has_written_name = || {
        let unknown = descriptor.kernel_meta_stem().is_err()
            || matches!(ForeignName::parse(written_name), Some(ForeignName::Cann { .. }));
        descriptor.envelope.generation.filter(|_| unknown && written_name == stem)
    };
    descriptor.named_by(stem).or_else(has_written_name)
}

/// Returns the kernel's name in its `.json`, if that is the name of another kernel: it has a hash, and no generation
/// computes that hash from the descriptor. Names without a hash depend on the compiler and prove nothing.
fn other_kernel(descriptor: &Descriptor, stem: &str, meta: &KernelMeta) -> Option<String> {
    let device = descriptor.device_id();
    let name_by = |generation| KernelName::mindspore(descriptor, generation, device).ok();
    let computed = Generation::ALL.into_iter().filter_map(name_by);
    let own: Vec<u64> = computed.flat_map(|name| hashes(name.as_str())).chain(hashes(stem)).collect();
    let named = [meta.kernel_name.as_deref(), meta.bin_file_name.as_deref()];
    let mut stated = meta.entry_names().into_iter().chain(named.into_iter().flatten());
    let other = |name: &str| {
        let hashes = hashes(name);
        !hashes.is_empty() && !hashes.iter().any(|hash| own.contains(hash))
    };
    stated.find(|name| other(name)).map(str::to_owned)
}

/// Returns the numbers in a name that are large enough to be hashes: numbers of devices, tiles and parts are small.
fn hashes(name: &str) -> Vec<u64> {
    let numbers = name.split('_').filter_map(|part| part.parse::<u64>().ok());
    numbers.filter(|number| *number > u64::from(u32::MAX)).collect()
}

fn other_name(descriptor: &Descriptor) -> SkipReason {
    SkipReason::OtherName(descriptor.kernel_meta_stem().ok().map(|name| name.to_string()))
}
