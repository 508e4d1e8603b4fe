//! The `kernel_meta` view: kernels where a framework looks for them.

use std::collections::BTreeMap;

use opbuild_artifact::is_safe_file_name;
use opbuild_descriptor::{Descriptor, write_info};
use opbuild_kernel_meta::{Content, KernelFiles, View, ViewError};

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
    let mut contested = Vec::new();
    let mut withdrawn = Vec::new();
    let mut files = Vec::new();
    for (stem, name) in &names {
        match name.kernel {
            Claim::One(kernel) => files.extend(name.files(stem, &report.kernels[kernel])),
            Claim::None => withdrawn.push(stem.as_str()),
            Claim::Contested => {
                contested.push(stem.clone());
                withdrawn.push(stem.as_str());
            }
        }
    }
    view.replace(&files, &withdrawn)?;
    let placed = names.values().filter(|name| matches!(name.kernel, Claim::One(_))).count();
    Ok(Placed { folder: view.dir().to_owned(), names: placed, contested })
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
    One(usize),
    /// The kernel could not be built; an older one of ours must not be found instead.
    None,
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
        let claim = if built { Claim::One(*kernel) } else { Claim::None };
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
    let usable = |name: &&str| is_safe_file_name(name) && !name.starts_with('.');
    names.into_iter().find(usable).map(str::to_owned)
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
