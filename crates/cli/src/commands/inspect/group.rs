//! `opkeep inspect` for groups of files, and for the objects of GPU compilers.

use std::path::Path;

use opkeep_artifact::{Artifact, Expectations};
use opkeep_descriptor::MAX_INFO_BYTES;
use opkeep_digest::Digest;
use opkeep_framework_cache::triton::TritonMetadata;
use opkeep_kernel_entry::member::EXPECTATIONS;
use opkeep_kernel_entry::{GroupFiles, GroupRecord};
use opkeep_store::{Entry, MAX_ENTRY_BYTES};
use opkeep_validator::{DeviceKernel, Validator, device_formats, device_kernels};
use serde_json::Value;

use super::inspected_file::InspectedFile;
use crate::input::{exists, read_file};
use crate::ui::json::{self, Milliseconds};
use crate::ui::text::counted;

/// The fields of Triton's metadata that state what a launch needs.
const METADATA_FIELDS: [&str; 6] =
    ["name", "num_warps", "num_stages", "num_ctas", "shared", "triton_version"];

/// Adds the fields of the group in an entry, if its record can be read.
pub(crate) fn describe(file: &mut InspectedFile, entry: &Entry) {
    let Some(record) = GroupRecord::of(entry) else { return };
    let key = &record.key;
    file.field("framework", [&key.framework, " ", &record.framework_version].concat().trim_end());
    for (name, value) in [("kernel", &record.kernel), ("target", &key.target), ("name", &key.name)] {
        if !value.is_empty() {
            file.field(name, value);
        }
    }
    file.field("framework key", key.framework_key);
    for part in key.toolchain.parts() {
        file.field(format!("toolchain: {}", part.name), format!("{} (sha256 {})", part.note, part.digest));
    }
    if let Some(time) = record.compile_time {
        file.field("compile time", format!("{} ms", Milliseconds(time).number()));
    }
    if record.is_local {
        file.field("local", "the files work on the machine that made them only");
    }
    let files = GroupFiles::of(entry);
    for (name, bytes) in files.iter() {
        let digest = files.digest(name).map(Digest::to_string).unwrap_or_default();
        file.field(format!("file {name}"), format!("{}, sha256 {digest}", counted(bytes.len(), "byte")));
    }
    let rules = entry.lazy_member(EXPECTATIONS).ok().flatten();
    if let Some(Ok(rules)) = rules.map(Expectations::decode) {
        file.field("rules", String::from_utf8_lossy(&rules.encode()));
    }
    if let Some(artifact) = files.artifact(&record) {
        describe_artifact(file, &artifact);
    }
}

/// Returns the fields of a cubin or an hsaco, checked with the metadata beside it.
pub(crate) fn device_object(path: &Path) -> anyhow::Result<InspectedFile> {
    let mut file = InspectedFile::new("object of a GPU compiler");
    let json = path.with_extension("json");
    let metadata = if exists(&json) { read_file(&json, MAX_INFO_BYTES)? } else { Vec::new() };
    let artifact = Artifact { metadata, object: read_file(path, MAX_ENTRY_BYTES)?, extra: Vec::new() };
    file.field("object bytes", artifact.object.len());
    file.outline(&artifact.object);
    describe_artifact(&mut file, &artifact);
    match artifact.metadata.is_empty() {
        true if device_kernels(&artifact.object).is_empty() => {
            file.problems.push("it is neither a cubin nor an hsaco with a kernel".to_owned());
        }
        true => file.field("metadata", "none beside it; the object is not checked"),
        false => {
            let expectations = expectations(path, &artifact.metadata);
            file.field("judged as for", &expectations.target);
            file.report = Some(Validator::builtin().validate(&artifact, &expectations));
        }
    }
    Ok(file)
}

/// Returns the expectations of a cubin or an hsaco for the target in Triton's metadata; without metadata of Triton, for any.
fn expectations(path: &Path, metadata: &[u8]) -> Expectations {
    let rules = TritonMetadata::read(metadata).and_then(|metadata| metadata.rules());
    let suffix = path.extension().unwrap_or_default();
    match rules.filter(|(of_backend, _)| suffix == *of_backend) {
        Some((_, rules)) => rules,
        None if suffix == "hsaco" => device_formats::hsaco("any"),
        None => device_formats::cubin("any"),
    }
}

/// Returns the fields of Triton's metadata, checked with the object beside it. None if the file is no metadata of
/// Triton.
pub(crate) fn metadata(path: &Path) -> anyhow::Result<Option<InspectedFile>> {
    let json = read_file(path, MAX_INFO_BYTES)?;
    let Some(metadata) = TritonMetadata::read(&json) else { return Ok(None) };
    let mut file = InspectedFile::new("metadata of a kernel of Triton");
    file.field("kernel", metadata.kernel());
    file.field("target", metadata.target());
    let mut artifact = Artifact { metadata: json, object: Vec::new(), extra: Vec::new() };
    let rules = metadata.rules();
    if let Some((suffix, _)) = &rules {
        let object = path.with_extension(suffix);
        match exists(&object) {
            true => {
                artifact.object = read_file(&object, MAX_ENTRY_BYTES)?;
                let size = counted(artifact.object.len(), "byte");
                file.field(
                    "object",
                    format!("{}, {size}, sha256 {}", json::path(&object), Digest::of(&artifact.object)),
                );
            }
            false => file.field("object", "none beside it; the pair cannot be checked"),
        }
    }
    describe_artifact(&mut file, &artifact);
    if let Some((_, rules)) = rules.filter(|_| !artifact.object.is_empty()) {
        file.field("judged as for", &rules.target);
        file.report = Some(Validator::builtin().validate(&artifact, &rules));
    }
    Ok(Some(file))
}

/// Adds what the metadata state, and the kernels of the object.
fn describe_artifact(file: &mut InspectedFile, artifact: &Artifact) {
    let metadata: Value = serde_json::from_slice(&artifact.metadata).unwrap_or_default();
    for name in METADATA_FIELDS {
        match &metadata[name] {
            Value::Null => {}
            Value::String(text) => file.field(format!("metadata {name}"), text),
            other => file.field(format!("metadata {name}"), other),
        }
    }
    let shared = metadata["shared"].as_u64();
    for kernel in device_kernels(&artifact.object) {
        file.field(format!("kernel {}", kernel.name), kernel_text(&kernel, shared));
    }
}

/// Returns a text about a kernel. A launch adds `shared` bytes of shared memory, if known.
fn kernel_text(kernel: &DeviceKernel, shared: Option<u64>) -> String {
    let DeviceKernel { code_bytes, registers, static_shared_bytes, private_bytes, .. } = kernel;
    let mut parts = vec![format!("{} of code", counted(*code_bytes, "byte"))];
    parts.extend(registers.map(|registers| counted(registers, "register")));
    parts.extend(
        static_shared_bytes.map(|bytes| format!("{} of static shared memory", counted(bytes, "byte"))),
    );
    parts.extend(shared.map(|bytes| format!("{} of shared memory at a launch", counted(bytes, "byte"))));
    parts.extend(private_bytes.map(|bytes| format!("{} of stack", counted(bytes, "byte"))));
    parts.join(", ")
}
