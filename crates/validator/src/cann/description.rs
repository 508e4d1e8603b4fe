//! Rules for the `.json` alone.

use object::elf;
use opkeep_artifact::{ElfLayout, is_plain_file_name};
use opkeep_cann_meta::{Json, KernelMeta, Word};
use opkeep_digest::Digest;

use crate::cann::claims::{self, Cores};
use crate::code::Code;
use crate::display::shown;
use crate::expected::Expected;
use crate::findings::Findings;
use crate::problem::DescriptionProblem;

/// The longest file name, in bytes.
const NAME_MAX: usize = 255;

/// Validates the `.json`. The object matters only if it is a library that holds the kernel.
pub(crate) fn judge(
    meta: &KernelMeta,
    expect: Option<&Expected<'_>>,
    is_container: bool,
    findings: &mut Findings,
) {
    check_repeated(meta, findings);
    check_file_names(meta, findings);
    if claims::sub_kernel_files(meta).is_some() {
        return;
    }
    if let Some(expect) = expect {
        check_magic(meta, expect, is_container, findings);
    }
    check_ignored_values(meta, findings);
    check_listed_twice(meta, findings);
    // The names are those of the kernel in the library.
    if !is_container {
        check_kernel_names(meta, findings);
    }
    check_cores(meta, findings);
}

/// Compares the object's digest with the one in the `.json`. AKG writes two for the two objects of a CPU kernel: that
/// of the shared object, and that of the relocatable object it was linked from. Other programs read only `sha256`.
pub(crate) fn check_sha256(
    meta: &KernelMeta,
    found: Digest,
    e_type: Option<u16>,
    layout: ElfLayout,
    findings: &mut Findings,
) {
    let of_two = layout == ElfLayout::SharedObject && claims::is_short_form(meta);
    let (field, text) = match &meta.obj_sha256 {
        Some(text) if of_two && e_type == Some(elf::ET_REL.0) => ("objSha256", Some(text)),
        _ => ("sha256", meta.sha256.as_ref()),
    };
    let Some(text) = text else {
        return findings.add(Code::MISSING, || DescriptionProblem::Missing { field });
    };
    match text.parse::<Digest>() {
        Ok(expected) if expected == found => {}
        Ok(expected) => findings.add(Code::SHA256, || DescriptionProblem::Sha256 { field, expected, found }),
        Err(_) => findings.add(Code::FIELD, || DescriptionProblem::Field {
            field,
            expected: "64 lower-case hexadecimal digits",
            found: shown(text.as_bytes()),
        }),
    }
}

fn check_file_names(meta: &KernelMeta, findings: &mut Findings) {
    let (name, suffix) = (meta.bin_file_name.as_deref(), meta.bin_file_suffix.as_deref());
    // An empty name has its own finding.
    if let Some(name) = name.filter(|name| !name.is_empty())
        && (!is_plain_file_name(name) || name.len() + suffix.unwrap_or(".o").len() > NAME_MAX)
    {
        let found = shown(name.as_bytes());
        findings.add(Code::UNSAFE_NAME, || DescriptionProblem::UnsafeName { field: "binFileName", found });
    }
    match suffix {
        None | Some(".o" | ".so") => {}
        Some(other) if !other.is_empty() && !is_plain_file_name(other) => {
            let found = shown(other.as_bytes());
            findings
                .add(Code::UNSAFE_NAME, || DescriptionProblem::UnsafeName { field: "binFileSuffix", found });
        }
        Some(other) => findings.add(Code::FIELD, || DescriptionProblem::Field {
            field: "binFileSuffix",
            expected: "`.o` or `.so`",
            found: shown(other.as_bytes()),
        }),
    }
}

fn check_magic(meta: &KernelMeta, expect: &Expected<'_>, is_container: bool, findings: &mut Findings) {
    match &meta.magic {
        None if expect.layout() == ElfLayout::SharedObject && claims::is_short_form(meta) => {
            findings.add(Code::NO_MAGIC, || DescriptionProblem::NoMagic);
        }
        None => findings.add(Code::MISSING, || DescriptionProblem::Missing { field: "magic" }),
        Some(Word::Known(magic)) if expect.magics.contains(*magic) => {}
        // The magic is that of the kernel in the library.
        Some(Word::Known(magic)) if is_container && magic.is_elf() => {}
        Some(Word::Known(found)) => findings.add(Code::MAGIC, || DescriptionProblem::Magic {
            target: expect.target.to_owned(),
            expected: expect.magics.iter().collect(),
            found: *found,
        }),
        Some(Word::Other(text)) => findings.add(Code::FIELD, || DescriptionProblem::Field {
            field: "magic",
            expected: "one of the nine magic names, such as RT_DEV_BINARY_MAGIC_ELF",
            found: shown(text.as_bytes()),
        }),
    }
}

fn check_kernel_names(meta: &KernelMeta, findings: &mut Findings) {
    check_base_name(meta, findings);
    let first = meta.entry_names().first().copied();
    match (first, meta.bin_file_name.as_deref()) {
        (None, _) => findings.add(Code::MISSING, || DescriptionProblem::Missing { field: "kernelName" }),
        (Some(kernel), Some(bin)) if !kernel.starts_with(bin) => {
            findings.add(Code::BIN_NAME, || DescriptionProblem::BinName {
                bin_file_name: shown(bin.as_bytes()),
                kernel: shown(kernel.as_bytes()),
            });
        }
        (Some(_), _) => {}
    }
}

/// If there is a list, all its names begin with `kernelName`.
fn check_base_name(meta: &KernelMeta, findings: &mut Findings) {
    let Some(list) = meta.listed() else { return };
    let base = meta.kernel_name.as_deref().filter(|name| !name.is_empty());
    let other = list.iter().find(|entry| base.is_none_or(|base| !entry.kernel_name.starts_with(base)));
    if let Some(other) = other {
        findings.add(Code::BASE_NAME, || DescriptionProblem::BaseName {
            found: base.map_or("nothing".to_owned(), |base| format!("`{}`", shown(base.as_bytes()))),
            kernel: shown(other.kernel_name.as_bytes()),
        });
    }
}

/// Fields without information.
fn check_ignored_values(meta: &KernelMeta, findings: &mut Findings) {
    let empty_name = meta.bin_file_name.as_deref() == Some("");
    let empty_list = meta.kernel_list.is_some() && meta.listed().is_none();
    let no_size = meta.extra.get("opParaSize").map(Json::text).filter(|text| *text != "null");
    let ignored = [
        ("binFileName", "the name of a file", empty_name.then_some("an empty text")),
        ("kernelList", "at least one kernel", empty_list.then_some("[]")),
        ("opParaSize", "a whole number from 0 to 18446744073709551615", no_size),
    ];
    for (field, expected, found) in ignored {
        let Some(found) = found else { continue };
        let found = shown(found.as_bytes());
        findings.add(Code::IGNORED_VALUE, || DescriptionProblem::IgnoredValue { field, expected, found });
    }
}

/// In a fat binary, a name may occur once for each key.
fn check_listed_twice(meta: &KernelMeta, findings: &mut Findings) {
    let list = meta.listed().unwrap_or_default();
    let mut items: Vec<_> = list.iter().map(|entry| (entry.kernel_name.as_str(), entry.config_key)).collect();
    opkeep_order::sort(&mut items);
    for (kernel, _) in items.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]) {
        findings
            .add(Code::LISTED_TWICE, || DescriptionProblem::ListedTwice { kernel: shown(kernel.as_bytes()) });
    }
}

/// Compares the stated kinds of core with each other and with the magic.
fn check_cores(meta: &KernelMeta, findings: &mut Findings) {
    let (new, old) = (meta.core_type.as_ref(), meta.old_core_type.as_ref());
    if let (Some(new), Some(old)) = (new, old)
        && let (Some(cores), Some(others)) = (Cores::of(new), Cores::of(old))
        && !cores.is_compatible_with(others)
    {
        let (core_type, other) = (new.to_string(), old.to_string());
        findings.add(Code::CORE_TYPES, || DescriptionProblem::CoreTypes { core_type, other });
    }
    for (field, word) in [("coreType", new), ("core_type", old)] {
        if let Some(Word::Other(text)) = word {
            let found = shown(text.as_bytes());
            findings.add(Code::UNKNOWN_CORE, || DescriptionProblem::UnknownCore { field, found });
        }
    }
    if let (Some(core), Some(magic)) = (new.or(old).and_then(Word::known), claims::magic(meta))
        && !magic.fits(core)
    {
        let with = format!("the core type {core}");
        findings.add(Code::MAGIC_MISFIT, || DescriptionProblem::MagicMisfit { magic, with });
    }
}

/// Readers differ in which value of a repeated field they take.
fn check_repeated(meta: &KernelMeta, findings: &mut Findings) {
    for place in &meta.repeated {
        findings.add(Code::REPEATED, || DescriptionProblem::Repeated { place: shown(place.as_bytes()) });
    }
}
