//! Whether the object is the kernel that its `.json` describes.

use opbuild_artifact::{Deterministic, Expectations, KernelMeta, Loader, Magic, Word};

use crate::claims::{self, Claim, Cores};
use crate::code::Code;
use crate::device::DeviceMeta;
use crate::elf::Elf;
use crate::facts::{Architecture, ElfFacts};
use crate::problem::Problem;
use crate::report::Findings;
use crate::shown::shown;

/// What a `.json` leaves out of a kernel's symbol when the kernel has a cube and a vector side.
const MIX_SUFFIXES: [&str; 2] = ["_mix_aic", "_mix_aiv"];
/// The runtime passes over longer names.
const NAME_BYTES: usize = 4096;
/// At most so many kernels are named in a message.
const NAMED: usize = 5;
/// What the second byte of an entry of the metadata holds if there is a tiling key.
const HAS_KEY: u8 = 0x80;

/// Looks for the kernels that the `.json` names, and compares what both say of them.
pub(crate) fn judge(
    meta: &KernelMeta,
    elf: &Elf<'_>,
    facts: &ElfFacts,
    expect: &Expectations,
    findings: &mut Findings,
) {
    let claims = claims::claims(meta);
    let mut listed = vec![false; facts.kernels.len()];
    let mut symbol = String::new();
    for claim in &claims {
        let mut found = false;
        for at in find(elf, claim.name, expect.loader, &mut symbol).into_iter().flatten() {
            (found, listed[at]) = (true, true);
            if let Some(device) = &facts.kernels[at].meta {
                compare(meta, claim, elf.symbols.kernels[at].name, device, findings);
            }
        }
        // Of an object that cannot be read to its end, nobody knows what it defines.
        if !found && !elf.torn {
            findings.add(Code::KERNEL, || missing(meta, claim.name, elf));
        }
        check_key_in_name(meta, claim, findings);
    }
    if expect.loader == Loader::Ascend {
        tell_unlisted(&claims, &listed, elf, findings);
        check_architecture(meta, facts, findings);
    }
}

/// The kernels that go by a name: as it is, and with the suffixes of both sides.
fn find(elf: &Elf<'_>, name: &str, loader: Loader, symbol: &mut String) -> [Option<usize>; 3] {
    // Without a name there is no kernel, even if a symbol is called `_mix_aic`.
    if name.is_empty() {
        return [None; 3];
    }
    ["", MIX_SUFFIXES[0], MIX_SUFFIXES[1]].map(|suffix| {
        symbol.clear();
        symbol.push_str(name);
        symbol.push_str(suffix);
        let passed_over = loader == Loader::Ascend && symbol.len() >= NAME_BYTES;
        elf.symbols.find(symbol.as_bytes()).filter(|_| !passed_over)
    })
}

fn missing(meta: &KernelMeta, name: &str, elf: &Elf<'_>) -> Problem {
    let kernels = &elf.symbols.kernels;
    Problem::Kernel {
        field: if meta.kernel_list.is_some() { "kernelList" } else { "kernelName" },
        expected: shown(name.as_bytes()),
        kernels: kernels.len(),
        found: kernels.iter().take(NAMED).map(|kernel| shown(kernel.name)).collect(),
    }
}

fn tell_unlisted(claims: &[Claim<'_>], listed: &[bool], elf: &Elf<'_>, findings: &mut Findings) {
    let others = || elf.symbols.kernels.iter().zip(listed).filter(|(_, listed)| !**listed);
    let count = others().count();
    // If none is listed, that is told for each name.
    if count > 0 && count < listed.len() {
        findings.add(Code::UNLISTED, || Problem::Unlisted {
            named: claims.len(),
            others: count,
            found: others().take(NAMED).map(|(kernel, _)| shown(kernel.name)).collect(),
        });
    }
}

/// What the `.json` and the metadata say of one kernel.
fn compare(
    meta: &KernelMeta,
    claim: &Claim<'_>,
    symbol: &[u8],
    device: &DeviceMeta,
    findings: &mut Findings,
) {
    let kernel = || shown(symbol);
    compare_cores(meta, claim, symbol, device, findings);
    if let (Some(expected), Some(found)) = (claim.task_ratio, device.task_ratio)
        && expected != found
    {
        let kernel = kernel();
        findings.add(Code::TASK_RATIO, || Problem::TaskRatio { kernel, expected, found });
    }
    if let (Some(expected), Some(entry)) = (claim.tiling_key, device.function_entry)
        && entry.flag == HAS_KEY
        && entry.tiling_key != expected
    {
        let (kernel, found) = (kernel(), entry.tiling_key);
        let place = "the metadata";
        findings.add(Code::TILING_KEY, || Problem::TilingKey { kernel, expected, place, found });
    }
    if let (Some(expected), Some(found)) = (claim.cross_core_sync, device.cross_core_sync)
        && expected.is_set() != (found != 0)
    {
        let (kernel, expected) = (kernel(), expected.is_set());
        findings.add(Code::CROSS_CORE_SYNC, || Problem::CrossCoreSync { kernel, expected, found });
    }
    if let (Some(expected @ (Deterministic::True | Deterministic::False)), Some(found)) =
        (claim.deterministic, device.deterministic)
        && (expected == Deterministic::True) != (found != 0)
    {
        let kernel = kernel();
        findings.add(Code::DETERMINISTIC, || Problem::Deterministic { kernel, expected, found });
    }
}

/// The kind of core, as the kernel's own entry, else the whole `.json`, and the magic have it.
fn compare_cores(
    meta: &KernelMeta,
    claim: &Claim<'_>,
    symbol: &[u8],
    device: &DeviceMeta,
    findings: &mut Findings,
) {
    let Some(found) = device.kernel_type else { return };
    let whole = [("coreType", &meta.core_type), ("core_type", &meta.old_core_type)];
    let own = claim.kernel_type.map(|text| ("kernelType", Word::of(text)));
    let whole = whole.into_iter().filter_map(|(field, word)| Some((field, word.clone()?)));
    let known = own.into_iter().chain(whole).find_map(|(field, word)| Some((field, Cores::of(&word)?, word)));
    if let Some((field, cores, word)) = known {
        // A mixed binary may have kernels for one side only; then nothing but their own entry speaks of them.
        let may_differ = cores == Cores::Mix && field != "kernelType";
        if !cores.allow(found) && !may_differ {
            findings.add(Code::KERNEL_TYPE, || Problem::KernelType {
                kernel: shown(symbol),
                field,
                expected: word.to_string(),
                found,
            });
        }
    }
    let (magic, expected) = match claims::magic(meta) {
        Some(magic @ Magic::ElfAivec) => (magic, Cores::Vector),
        Some(magic @ Magic::ElfAicube) => (magic, Cores::Cube),
        _ => return,
    };
    if !expected.allow(found) {
        findings.add(Code::MAGIC_MISFIT, || Problem::MagicMisfit {
            magic,
            with: format!("the kernel type {found} in the metadata of {}", shown(symbol)),
        });
    }
}

fn check_key_in_name(meta: &KernelMeta, claim: &Claim<'_>, findings: &mut Findings) {
    let found = claims::key_in(claim.name, meta.kernel_name.as_deref());
    if let (Some(expected), Some(found)) = (claim.tiling_key, found)
        && expected != found
    {
        let (kernel, place) = (shown(claim.name.as_bytes()), "its name");
        findings.add(Code::TILING_KEY, || Problem::TilingKey { kernel, expected, place, found });
    }
}

/// On chips with cores of two sorts, `e_flags` say for which the object was compiled.
fn check_architecture(meta: &KernelMeta, facts: &ElfFacts, findings: &mut Findings) {
    let Some(found) = facts.architecture else { return };
    let other = match found {
        Architecture::C220Vector => Magic::ElfAicube,
        Architecture::C220Cube => Magic::ElfAivec,
        _ => return,
    };
    if claims::magic(meta) == Some(other) {
        let expected = format!("`magic` is {other}");
        findings.add(Code::ARCHITECTURE, || Problem::Architecture { expected, found });
    }
}
