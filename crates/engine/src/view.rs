//! The `kernel_meta` view: kernels where a framework looks for them.

use std::collections::HashMap;
use std::path::PathBuf;

use opbuild_artifact::is_safe_file_name;
use opbuild_descriptor::{Descriptor, write_info};
use opbuild_kernel_meta::{Content, KernelFiles, View, ViewError};

use crate::builder::{Request, ViewConfig, Warnings};
use crate::report::BuildReport;

/// Puts every kernel of `report` into the view, and gives the view's folder.
pub(crate) fn materialise(
    config: &ViewConfig,
    requests: &[Request],
    report: &BuildReport,
    warnings: &Warnings,
) -> Result<PathBuf, ViewError> {
    let view = View::open(&config.base, &config.rank)?;
    let placed = place(requests, report, warnings);
    let files: Vec<KernelFiles<'_>> = placed.iter().filter_map(|placed| placed.files(report)).collect();
    view.materialise(&files)?;
    Ok(view.dir().to_owned())
}

/// A kernel under the name by which one operator looks for it.
struct Placed<'a> {
    slot: &'a str,
    stem: String,
    kernel: usize,
    info: std::rc::Rc<str>,
}

impl Placed<'_> {
    fn files<'b>(&'b self, report: &'b BuildReport) -> Option<KernelFiles<'b>> {
        let kernel = &report.kernels[self.kernel];
        let (artifact, (object, json)) = (kernel.artifact.as_ref()?, kernel.digests?);
        Some(KernelFiles {
            slot: self.slot,
            stem: &self.stem,
            object: Content::known(object, &artifact.object),
            json: Content::known(json, &artifact.json),
            info: Content::of(self.info.as_bytes()),
        })
    }
}

/// Who finds what under which name. Two operators that share a name share the files; if their kernels differ, the
/// second is found under our name.
fn place<'a>(requests: &'a [Request], report: &BuildReport, warnings: &Warnings) -> Vec<Placed<'a>> {
    let mut taken: HashMap<String, (usize, std::rc::Rc<str>)> = HashMap::new();
    let mut placed = Vec::new();
    for (request, kernel) in requests.iter().zip(&report.kernel_of) {
        let own = &report.kernels[*kernel].name;
        let mut stem = stem(&request.descriptor, own);
        if taken.get(&stem).is_some_and(|(other, _)| other != kernel) {
            warnings.once(&format!(
                "two different kernels would both be `{stem}` in kernel_meta; that of `{}` is there as `{own}`",
                request.name()
            ));
            stem.clone_from(own);
        }
        let (_, info) = taken
            .entry(stem.clone())
            .or_insert_with(|| (*kernel, info(&request.descriptor, &stem).into()))
            .clone();
        placed.push(Placed { slot: request.name(), stem, kernel: *kernel, info });
    }
    placed
}

/// The name by which a framework looks for the kernel: the one in its descriptor, else ours.
fn stem(descriptor: &Descriptor, own: &str) -> String {
    let asked = &descriptor.envelope.fusion_op_name;
    let usable = is_safe_file_name(asked) && !asked.starts_with('.');
    if usable { asked.clone() } else { own.to_owned() }
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
