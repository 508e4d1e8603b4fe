//! `opkeep inspect` for a kernel.

use opkeep_cann_meta::KernelMeta;
use opkeep_validator::{DeviceMeta, ElfFacts, KernelFacts, Linkage, sub_kernel_files};
use serde_json::Value;

use super::inspected_file::InspectedFile;
use crate::input::pairs::CheckedKernel;
use crate::ui::text::counted;

/// The maximum number of kernels of an object that are described one by one.
const DESCRIBED: usize = 20;

/// Adds the validator's facts and report about a kernel.
pub(crate) fn with_report(mut file: InspectedFile, kernel: CheckedKernel) -> InspectedFile {
    describe(&mut file, &kernel);
    file.report = Some(kernel.report);
    file
}

/// Adds the fields of a kernel.
fn describe(file: &mut InspectedFile, kernel: &CheckedKernel) {
    let report = &kernel.report;
    if let Some(meta) = &report.meta {
        describe_meta(file, meta);
        file.field("judged as for", &kernel.target);
    }
    if let Some(digest) = report.sha256 {
        file.field("object sha256", digest);
    }
    match &report.object {
        Some(facts) => describe_object(file, facts),
        None if kernel.object.is_none() => match report.meta.as_ref().map(sub_kernel_files) {
            Some(Some(parts)) => file.field("parts", parts.join(", ")),
            Some(None) => file.field("object", "none beside it; the pair cannot be checked"),
            None => {}
        },
        None => {}
    }
    for (at, facts) in report.others.iter().enumerate() {
        let kernels: Vec<&str> =
            facts.kernels.iter().take(DESCRIBED).map(|kernel| kernel.name.as_str()).collect();
        file.field(
            format!("further object {}", at + 1),
            format!("{}, {}", counted(facts.bytes, "byte"), kernels.join(", ")),
        );
    }
    if let Some(cross_check) = report.cross_check {
        file.field("second parser", cross_check);
    }
    if report.is_valid() && report.object.is_some() && report.meta.is_some() {
        file.field("valid", "yes: the pair fits together");
    }
}

fn describe_meta(file: &mut InspectedFile, meta: &KernelMeta) {
    let text: Value = serde_json::from_str(&meta.to_json()).unwrap_or_default();
    if let Value::Object(fields) = text {
        for (name, value) in fields {
            let value = match value {
                Value::String(text) => text,
                other => other.to_string(),
            };
            let short: String = value.chars().take(200).collect();
            file.field(name, if short.len() < value.len() { format!("{short}...") } else { short });
        }
    }
    if let Some(magic) = meta.magic.as_ref().and_then(|magic| magic.known()) {
        file.field("magic number", format!("{:#010x}", magic.value()));
    }
}

fn describe_object(file: &mut InspectedFile, facts: &ElfFacts) {
    file.field("object bytes", facts.bytes);
    file.field("machine", facts.machine);
    if let Some(elf_type) = facts.elf_type {
        let rest = if facts.linkage == Linkage::Part { ", still to be linked" } else { "" };
        file.field("elf type", format!("{elf_type}{rest}"));
    }
    let architecture = facts.architecture.map(|name| format!(" ({name})")).unwrap_or_default();
    file.field("e_flags", format!("{:#x}{architecture}", facts.flags));
    file.field("sections", facts.sections);
    if !facts.compilers.is_empty() {
        file.field("made by", facts.compilers.join("; "));
    }
    if let Some(bytes) = facts.stack_bytes {
        file.field("stack", counted(bytes, "byte"));
    }
    let shown: Vec<&str> = facts.kernels.iter().take(DESCRIBED).map(|kernel| kernel.name.as_str()).collect();
    let more = facts.kernels.len() - shown.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    file.field("kernels", format!("{}{more}", shown.join(", ")));
    for kernel in facts.kernels.iter().take(DESCRIBED) {
        file.field(format!("kernel {}", kernel.name), one_kernel(kernel));
    }
}

fn one_kernel(kernel: &KernelFacts) -> String {
    let mut parts = vec![format!("{} at {:#x}", counted(kernel.size, "byte"), kernel.offset)];
    if let Some(bytes) = kernel.argument_bytes {
        parts.push(format!("{} of arguments", counted(bytes as usize, "byte")));
    }
    if let Some(meta) = &kernel.meta {
        parts.extend(metadata(meta));
    }
    parts.join(", ")
}

/// Returns short texts for the metadata of a device kernel.
fn metadata(meta: &DeviceMeta) -> Vec<String> {
    let mut parts = Vec::new();
    parts.extend(meta.kernel_type.map(|kind| kind.to_string()));
    parts.extend(meta.task_ratio.map(|ratio| format!("cube to vector {ratio}")));
    parts.extend(meta.function_entry.map(|entry| format!("tiling key {}", entry.tiling_key)));
    parts.extend(meta.cross_core_sync.map(|sync| format!("cross core sync {sync}")));
    parts.extend(meta.deterministic.map(|value| format!("deterministic {value}")));
    let names: Vec<&str> = meta.arguments.iter().map(|argument| argument.name()).collect();
    if !names.is_empty() {
        parts.push(format!("arguments {}", names.join(" ")));
    }
    for item in &meta.others {
        let name = item.name().map_or_else(|| format!("kind {}", item.kind), str::to_lowercase);
        let value = item.number.map_or_else(|| counted(item.bytes, "byte"), |number| number.to_string());
        parts.push(format!("{name} {value}"));
    }
    parts
}
