//! Kernels on disk: pairs of a `.json` and an object, and the validator's report about each.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use opkeep_artifact::{Artifact, Expectations, is_safe_file_name};
use opkeep_cann_meta::{KernelMeta, MetaError, known_target, targets};
use opkeep_descriptor::MAX_INFO_BYTES;
use opkeep_framework_cache::scan::other_chip;
use opkeep_framework_cache::triton::TritonMetadata;
use opkeep_store::MAX_ENTRY_BYTES;
use opkeep_validator::{
    DescriptionProblem, ObjectProblem, Problem, Report, Validator, expectations_of, sub_kernel_files,
    validate_full, validate_json, validate_object,
};

use crate::input::{exists, read_file};

/// A kernel that was checked.
pub(crate) struct CheckedKernel {
    /// The path of the `.json`, or of the object if there is no `.json`.
    pub(crate) file: PathBuf,
    /// The path of the object, if there are both.
    pub(crate) object: Option<PathBuf>,
    /// The target for which the kernel was checked.
    pub(crate) target: String,
    pub(crate) report: Report,
}

/// The result of the check of a file.
pub(crate) enum CheckOutcome {
    /// The file belongs to these kernels, usually one.
    Kernels(Vec<CheckedKernel>),
    /// The file belongs to no kernel, for this reason.
    Other(String),
}

/// Whether a file has the extension of a kernel's description or object, or of a store entry.
pub(crate) fn is_kernel_file(path: &Path) -> bool {
    matches!(path.extension().and_then(|extension| extension.to_str()), Some("json" | "o" | "so" | "kern"))
}

/// Checks the kernels to which the file at `path` belongs, by `expect`; if unset, by the target that the object states.
pub(crate) fn check_kernels(path: &Path, expect: Option<&Expectations>) -> anyhow::Result<CheckOutcome> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("json") => check_json(path, expect),
        Some("cubin" | "hsaco") => Ok(check_triton(path)?.unwrap_or_else(|| {
            let other =
                format!("`{}` has no metadata of Triton beside it, which names its kernel", path.display());
            CheckOutcome::Other(other)
        })),
        Some("o" | "so") => check_object(path, expect).map(|kernel| CheckOutcome::Kernels(vec![kernel])),
        _ => {
            let other = format!("`{}` is neither the .json nor the .o or .so of a kernel", path.display());
            Ok(CheckOutcome::Other(other))
        }
    }
}

/// Checks a kernel of Triton by the rules of its backend. `path` is its metadata or its object. None if there is no metadata
/// of Triton, or no rule.
fn check_triton(path: &Path) -> anyhow::Result<Option<CheckOutcome>> {
    let file = path.with_extension("json");
    let json = if exists(&file) { read_file(&file, MAX_INFO_BYTES)? } else { Vec::new() };
    let metadata = TritonMetadata::read(&json);
    let Some((suffix, rules)) = metadata.as_ref().and_then(TritonMetadata::rules) else { return Ok(None) };
    let object = file.with_extension(suffix);
    let artifact =
        Artifact { metadata: json, object: read_file(&object, MAX_ENTRY_BYTES)?, extra: Vec::new() };
    let report = Validator::builtin().validate(&artifact, &rules);
    let target = metadata.map_or_else(String::new, |metadata| metadata.target());
    Ok(Some(CheckOutcome::Kernels(vec![CheckedKernel { file, object: Some(object), target, report }])))
}

fn check_json(path: &Path, expect: Option<&Expectations>) -> anyhow::Result<CheckOutcome> {
    let json = read_file(path, MAX_INFO_BYTES)?;
    if let Some(checked) = TritonMetadata::read(&json).and_then(|_| check_triton(path).transpose()) {
        return checked;
    }
    let parsed = KernelMeta::parse(&json);
    let is_list = matches!(&parsed, Err(MetaError::Field { field, .. }) if field == "(document)");
    let meta = parsed.ok();
    if let Some(sub_kernel_files) = meta.as_ref().and_then(sub_kernel_files) {
        return check_master(path, &json, &sub_kernel_files, expect).map(CheckOutcome::Kernels);
    }
    if meta.as_ref().is_some_and(|meta| !meta.describes_kernel()) {
        let problem = "does not describe a kernel: it has neither names nor a digest";
        return Ok(CheckOutcome::Other(format!("`{}` {problem}", path.display())));
    }
    let names = object_names(path, meta.as_ref());
    let objects: Vec<PathBuf> =
        names.iter().map(|name| path.with_file_name(name)).filter(|object| exists(object)).collect();
    if objects.is_empty() && is_list {
        return Ok(CheckOutcome::Other(format!(
            "`{}` does not describe a kernel: it is no JSON object",
            path.display()
        )));
    }
    if objects.is_empty() {
        let mut report = validate_json(&json, expect);
        report.add(Problem::Description(DescriptionProblem::NoObject { expected: names.join(" or ") }));
        return Ok(CheckOutcome::Kernels(vec![kernel_without_pair(path, expect, report)]));
    }
    let pairs = objects.iter().map(|object| check_pair(path, &json, object, expect));
    pairs.collect::<anyhow::Result<_>>().map(CheckOutcome::Kernels)
}

/// Checks a master and its parts. A part must not be a master itself.
fn check_master(
    path: &Path,
    json: &[u8],
    sub_kernel_files: &[&str],
    expect: Option<&Expectations>,
) -> anyhow::Result<Vec<CheckedKernel>> {
    let mut report = validate_json(json, expect);
    let mut kernels = Vec::new();
    for part in sub_kernel_files {
        match check_part(path, part, expect) {
            Ok(of_part) => kernels.extend(of_part),
            Err(error) => report.add(Problem::Description(DescriptionProblem::Part {
                part: (*part).to_owned(),
                problem: crate::ui::output::chain(&error),
            })),
        }
    }
    kernels.insert(0, kernel_without_pair(path, expect, report));
    Ok(kernels)
}

fn check_part(
    master: &Path,
    part: &str,
    expect: Option<&Expectations>,
) -> anyhow::Result<Vec<CheckedKernel>> {
    anyhow::ensure!(is_safe_file_name(part), "its name is not that of a file beside the master");
    let path =
        master.with_file_name(if part.ends_with(".json") { part.to_owned() } else { format!("{part}.json") });
    let json = read_file(&path, MAX_INFO_BYTES)?;
    let is_master = KernelMeta::parse(&json).is_ok_and(|meta| sub_kernel_files(&meta).is_some());
    anyhow::ensure!(!is_master, "it is a master itself");
    match check_json(&path, expect)? {
        CheckOutcome::Kernels(kernels) => Ok(kernels),
        CheckOutcome::Other(other) => bail!(other),
    }
}

fn check_object(path: &Path, expect: Option<&Expectations>) -> anyhow::Result<CheckedKernel> {
    if let Some(json) = json_beside(path) {
        return check_pair(&json, &read_file(&json, MAX_INFO_BYTES)?, path, expect);
    }
    let mut kernel = check_object_bytes(path, &read_file(path, MAX_ENTRY_BYTES)?, expect);
    kernel.report.add(Problem::Description(DescriptionProblem::NoJson));
    Ok(kernel)
}

/// Checks the bytes of an object alone, even if there is a `.json` beside it.
pub(crate) fn check_object_bytes(path: &Path, object: &[u8], expect: Option<&Expectations>) -> CheckedKernel {
    let expect = expect.cloned().unwrap_or_else(|| expectations_of(None, object));
    kernel_without_pair(path, Some(&expect), validate_object(object, Some(&expect)))
}

fn check_pair(
    path: &Path,
    json: &[u8],
    object_path: &Path,
    expect: Option<&Expectations>,
) -> anyhow::Result<CheckedKernel> {
    let object = read_file(object_path, MAX_ENTRY_BYTES)?;
    let (mut report, mut target) = check_bytes(json, &object, expect);
    if let (None, Some(chip)) = (expect, other_chip(path, &report)) {
        match known_target(&chip) {
            Some(expect) => (report, target) = check_bytes(json, &object, Some(&expect)),
            // The object is valid for some chip, and may not be valid for this one.
            None => report.add(unknown_chip(chip, &report)),
        }
    }
    let name = object_path.file_name().context("a file has a name")?;
    report.compare_file_name(&name.to_string_lossy());
    Ok(CheckedKernel { file: path.to_owned(), object: Some(object_path.to_owned()), target, report })
}

fn unknown_chip(chip: String, report: &Report) -> Problem {
    Problem::Object(ObjectProblem::UnknownChip {
        chip,
        flags: report.object.as_ref().map_or(0, |object| object.flags),
    })
}

/// Checks the bytes of a pair. Returns the report and the target.
fn check_bytes(json: &[u8], object: &[u8], expect: Option<&Expectations>) -> (Report, String) {
    let guessed = expect.cloned().unwrap_or_else(|| expectations_of(Some(json), object));
    (validate_full(json, object, &guessed), guessed.target)
}

fn kernel_without_pair(path: &Path, expect: Option<&Expectations>, report: Report) -> CheckedKernel {
    let target = expect.map_or_else(|| targets::any().target, |expect| expect.target.clone());
    CheckedKernel { file: path.to_owned(), object: None, target, report }
}

/// Returns the names that the object of a `.json` may have. MindSpore uses the name of the `.json`, and CANN uses
/// `binFileName`, so if both objects exist, each is checked. AKG has two objects: the shared object, and the object
/// from which it was linked.
fn object_names(json: &Path, meta: Option<&KernelMeta>) -> Vec<String> {
    let stem = json.file_stem().unwrap_or_default().to_string_lossy();
    let suffix = meta.and_then(|meta| meta.bin_file_suffix.as_deref());
    let mut names = match suffix {
        Some(".so") => vec![format!("{stem}.so"), format!("lib{stem}.so")],
        Some(".o") => vec![format!("{stem}.o")],
        _ => vec![format!("{stem}.so"), format!("{stem}.o")],
    };
    let bin = meta.and_then(|meta| meta.bin_file_name.as_deref()).filter(|bin| is_safe_file_name(bin));
    if let Some(bin) = bin.filter(|bin| *bin != stem) {
        let suffix = suffix.filter(|suffix| is_safe_file_name(suffix)).unwrap_or(".o");
        let others = [format!("{bin}{suffix}")]
            .into_iter()
            .chain((suffix == ".so").then(|| format!("lib{bin}{suffix}")));
        let new: Vec<String> = others.filter(|name| !names.contains(name)).collect();
        names.extend(new);
    }
    names
}

/// Returns the path of the `.json` beside an object. The object's name may have the prefix `lib`.
fn json_beside(object: &Path) -> Option<PathBuf> {
    let stem = object.file_stem()?.to_str()?;
    let stems = [Some(stem), stem.strip_prefix("lib")];
    let beside = |stem: &str| object.with_file_name(format!("{stem}.json"));
    stems.into_iter().flatten().map(beside).find(|json| exists(json))
}
