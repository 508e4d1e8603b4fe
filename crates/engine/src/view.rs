//! The `kernel_meta` view: kernels where a framework looks for them.

use std::collections::BTreeMap;

use opbuild_artifact::is_safe_file_name;
use opbuild_descriptor::{Descriptor, write_info};
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
    let unusable = requests.iter().map(|request| &request.descriptor.envelope.fusion_op_name);
    placed.unusable = unusable.filter(|name| !name.is_empty() && !is_usable(name)).cloned().collect();
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

/// The name by which a framework looks for the kernel: the one in its descriptor, else ours. A job that was refused
/// before it had a key may have none.
fn stem(descriptor: &Descriptor, own: &str) -> Option<String> {
    let names = [descriptor.envelope.fusion_op_name.as_str(), own];
    names.into_iter().find(|name| is_usable(name)).map(str::to_owned)
}

/// Whether a name can be that of files. A framework's own mostly are.
fn is_usable(name: &str) -> bool {
    is_safe_file_name(name) && !name.starts_with('.')
}

/// The `.info` as the framework that asked writes it.
fn info(descriptor: &Descriptor, stem: &str) -> String {
    if !descriptor.envelope.fusion_op_name.is_empty() {
        return write_info(descriptor);
    }
    let mut named = descriptor.clone();
    named.envelope.fusion_op_name = stem.to_owned();
    write_info(&named)
}
