//! The `kernel_meta` view: kernels where a framework looks for them.

use std::collections::BTreeMap;

use opbuild_artifact::is_safe_file_name;
use opbuild_descriptor::{Descriptor, VendorName, write_info};
use opbuild_kernel_meta::{Content, KernelFiles, View, ViewError, Withdrawn};

use crate::builder::{Request, ViewConfig};
use crate::report::{BuildReport, KernelReport, Placed};

/// Puts every kernel of `report` into the view.
pub(crate) fn materialise(
    config: &ViewConfig,
    requests: &[Request],
    report: &BuildReport,
) -> Result<Placed, ViewError> {
    let view = View::open(&config.base, &config.rank)?;
    let names = names(requests, report);
    let mut placed = Placed { folder: view.dir().to_owned(), ..Placed::default() };
    let mut withdrawn = Vec::new();
    let mut files = Vec::new();
    for (stem, name) in &names {
        match name.kernel {
            Claim::Built(kernel) => {
                files.extend(name.files(stem, &report.kernels[kernel]));
                placed.names.push((stem.clone(), kernel));
            }
            // The same kernel may be there from an earlier build; another one must not be taken for it.
            Claim::Failed(kernel) => {
                withdrawn.push(Withdrawn { stem, unless: Some(&report.kernels[kernel].name) });
            }
            Claim::Contested => {
                placed.contested.push(stem.clone());
                withdrawn.push(Withdrawn { stem, unless: None });
            }
        }
    }
    let looked_for = requests.iter().map(|request| frameworks_name(&request.descriptor));
    placed.unusable = looked_for.filter(|name| !name.is_empty() && !is_usable(name)).collect();
    view.replace(&files, &withdrawn)?;
    Ok(placed)
}

/// A name under which frameworks look for a kernel.
struct Name<'a> {
    kernel: Claim,
    /// The operators that look for it.
    slots: Vec<&'a str>,
    /// The `.info` of the first of them.
    info: String,
}

/// Which kernel a name is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claim {
    /// This one, by its place in the report.
    Built(usize),
    /// This one, which could not be built.
    Failed(usize),
    /// Two different ones.
    Contested,
}

impl Name<'_> {
    fn files<'b>(&'b self, stem: &'b str, kernel: &'b KernelReport) -> Vec<KernelFiles<'b>> {
        let Some((artifact, (object, json))) = kernel.artifact.as_ref().zip(kernel.digests) else {
            return Vec::new();
        };
        let object = Content::known(object, &artifact.object);
        let json = Content::known(json, &artifact.json);
        let info = Content::of(self.info.as_bytes());
        self.slots.iter().map(|slot| KernelFiles { slot, stem, object, json, info }).collect()
    }
}

/// Who looks for what under which name.
fn names<'a>(requests: &'a [Request], report: &BuildReport) -> BTreeMap<String, Name<'a>> {
    let mut names: BTreeMap<String, Name<'a>> = BTreeMap::new();
    for (request, kernel) in requests.iter().zip(&report.kernel_of) {
        let built = report.kernels[*kernel].artifact.is_some();
        let claim = if built { Claim::Built(*kernel) } else { Claim::Failed(*kernel) };
        let stem = stem(&request.descriptor, &report.kernels[*kernel].name);
        let Some(stem) = stem else { continue };
        let name = names.entry(stem).or_insert_with_key(|stem| Name {
            kernel: claim,
            slots: Vec::new(),
            info: info(&request.descriptor, stem),
        });
        if name.kernel != claim {
            name.kernel = Claim::Contested;
        }
        name.slots.push(request.name());
    }
    names
}

/// What the kernel's files are called: as its framework looks for them, else as we do. A job that was refused before it
/// had a key may have no name.
fn stem(descriptor: &Descriptor, own: &str) -> Option<String> {
    let names = [frameworks_name(descriptor), own.to_owned()];
    names.into_iter().find(|name| is_usable(name))
}

/// The name under which the framework that wrote a descriptor looks for the kernel; empty if there is none.
///
/// It follows from the fields. A descriptor that was changed since it was named still bears the name of the kernel that
/// it was: a framework would run the new one for the old. Only names that take in more than the descriptor says, or
/// whose making is not known, are taken as they stand.
fn frameworks_name(descriptor: &Descriptor) -> String {
    let borne = &descriptor.envelope.fusion_op_name;
    let is_borne = descriptor.envelope.generation.is_none()
        || matches!(VendorName::parse(borne), Some(VendorName::Cann { .. }));
    let computed = if is_borne { None } else { descriptor.kernel_meta_stem().ok() };
    computed.map_or_else(|| borne.clone(), |name| name.to_string())
}

/// Whether a name can be that of files. A framework's own mostly are.
fn is_usable(name: &str) -> bool {
    is_safe_file_name(name) && !name.starts_with('.')
}

/// The `.info` as the framework that asked writes it.
fn info(descriptor: &Descriptor, stem: &str) -> String {
    if descriptor.envelope.fusion_op_name == stem {
        return write_info(descriptor);
    }
    let mut named = descriptor.clone();
    named.envelope.rename(stem);
    write_info(&named)
}
