//! What a `.json` must say, whatever its object says.

use opbuild_artifact::{Expectations, KernelMeta, Loader, Word, is_safe_file_name};
use opbuild_digest::Digest;

use crate::claims::{self, Cores};
use crate::code::Code;
use crate::problem::Problem;
use crate::report::Findings;
use crate::shown::shown;

/// Judges the `.json` alone.
pub(crate) fn judge(meta: &KernelMeta, expect: Option<&Expectations>, findings: &mut Findings) {
    check_repeated(meta, findings);
    check_file_names(meta, findings);
    if claims::parts(meta).is_some() {
        return;
    }
    if let Some(expect) = expect {
        check_magic(meta, expect, findings);
    }
    check_kernel_names(meta, findings);
    check_cores(meta, findings);
}

/// Compares the object's digest with the one in the `.json`. AKG writes two for the two objects of a CPU kernel, and
/// either may be the one at hand; everybody else reads `sha256` and nothing else.
pub(crate) fn check_sha256(meta: &KernelMeta, found: Digest, loader: Loader, findings: &mut Findings) {
    let other = meta.obj_sha256.as_ref().filter(|_| loader == Loader::Host && claims::is_short_form(meta));
    if other.and_then(|text| text.parse().ok()) == Some(found) {
        return;
    }
    let Some(text) = meta.sha256.as_deref() else {
        return findings.add(Code::MISSING, || Problem::Missing { field: "sha256" });
    };
    match text.parse::<Digest>() {
        Ok(expected) if expected == found => {}
        Ok(expected) => findings.add(Code::SHA256, || Problem::Sha256 { expected, found }),
        Err(_) => findings.add(Code::FIELD, || Problem::Field {
            field: "sha256",
            expected: "64 lower-case hexadecimal digits",
            found: shown(text.as_bytes()),
        }),
    }
}

fn check_file_names(meta: &KernelMeta, findings: &mut Findings) {
    if let Some(name) = meta.bin_file_name.as_deref()
        && !is_safe_file_name(name)
    {
        let found = shown(name.as_bytes());
        findings.add(Code::UNSAFE_NAME, || Problem::UnsafeName { field: "binFileName", found });
    }
    match meta.bin_file_suffix.as_deref() {
        None | Some(".o" | ".so") => {}
        Some(other) if !is_safe_file_name(other) => {
            let found = shown(other.as_bytes());
            findings.add(Code::UNSAFE_NAME, || Problem::UnsafeName { field: "binFileSuffix", found });
        }
        Some(other) => findings.add(Code::FIELD, || Problem::Field {
            field: "binFileSuffix",
            expected: "`.o` or `.so`",
            found: shown(other.as_bytes()),
        }),
    }
}

fn check_magic(meta: &KernelMeta, expect: &Expectations, findings: &mut Findings) {
    match &meta.magic {
        None if expect.loader == Loader::Host && claims::is_short_form(meta) => {
            findings.add(Code::NO_MAGIC, || Problem::NoMagic);
        }
        None => findings.add(Code::MISSING, || Problem::Missing { field: "magic" }),
        Some(Word::Known(magic)) if expect.magics.contains(magic) => {}
        Some(Word::Known(found)) => findings.add(Code::MAGIC, || Problem::Magic {
            target: expect.target.clone(),
            expected: expect.magics.clone(),
            found: *found,
        }),
        Some(Word::Other(text)) => findings.add(Code::FIELD, || Problem::Field {
            field: "magic",
            expected: "one of the nine magic names, such as RT_DEV_BINARY_MAGIC_ELF",
            found: shown(text.as_bytes()),
        }),
    }
}

fn check_kernel_names(meta: &KernelMeta, findings: &mut Findings) {
    let first = match &meta.kernel_list {
        // An empty list hides `kernelName`, so it is the list that lacks something.
        Some(list) => list.first().map(|entry| entry.kernel_name.as_str()).ok_or("kernelList[0]"),
        None => meta.kernel_name.as_deref().ok_or("kernelName"),
    };
    match (first, meta.bin_file_name.as_deref()) {
        (Err(field), _) => findings.add(Code::MISSING, || Problem::Missing { field }),
        (Ok(kernel), Some(bin)) if !kernel.starts_with(bin) => {
            findings.add(Code::BIN_NAME, || Problem::BinName {
                bin_file_name: shown(bin.as_bytes()),
                kernel: shown(kernel.as_bytes()),
            });
        }
        (Ok(_), _) => {}
    }
}

/// The kinds of core that are named, against each other and against the magic.
fn check_cores(meta: &KernelMeta, findings: &mut Findings) {
    let (new, old) = (meta.core_type.as_ref(), meta.old_core_type.as_ref());
    if let (Some(new), Some(old)) = (new, old)
        && let (Some(cores), Some(others)) = (Cores::of(new), Cores::of(old))
        && !cores.goes_with(others)
    {
        let (core_type, other) = (new.to_string(), old.to_string());
        findings.add(Code::CORE_TYPES, || Problem::CoreTypes { core_type, other });
    }
    if let (Some(core), Some(magic)) = (new.or(old).and_then(Word::known), claims::magic(meta))
        && !magic.fits(core)
    {
        let with = format!("the core type {core}");
        findings.add(Code::MAGIC_MISFIT, || Problem::MagicMisfit { magic, with });
    }
}

/// A field that stands there twice is read one way by some, and another way by others.
fn check_repeated(meta: &KernelMeta, findings: &mut Findings) {
    for place in &meta.repeated {
        findings.add(Code::REPEATED, || Problem::Repeated { place: shown(place.as_bytes()) });
    }
}
