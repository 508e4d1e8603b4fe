//! Whether the object is the kernel that its `.json` describes.

use std::collections::HashSet;

use opkeep_artifact::ElfLayout;
use opkeep_cann_meta::{Deterministic, KernelMeta, Magic, Word};

use crate::cann::claims::{self, Claim, Cores};
use crate::cann::device::DeviceMeta;
use crate::cann::missing_fields;
use crate::cann::objects::{GETTER, Objects, Place};
use crate::code::Code;
use crate::display::shown;
use crate::elf::facts::{ElfFacts, Linkage};
use crate::expected::Expected;
use crate::findings::Findings;
use crate::problem::{DescriptionProblem, KernelProblem};

/// The suffixes of the symbols of a mixed kernel's sides, which the `.json` omits.
const MIX_SUFFIXES: [&str; 2] = ["_mix_aic", "_mix_aiv"];
/// The runtime ignores longer names.
const NAME_BYTES: usize = 4096;
/// The largest number of kernels in a message.
const NAMED: usize = 5;
/// The second byte of a metadata entry with a tiling key.
const HAS_KEY: u8 = 0x80;

/// For each object, the kernels that the `.json` names.
pub(crate) type Named = Vec<Vec<bool>>;

/// The comparison of the `.json` with the objects.
struct Pair<'a> {
    meta: &'a KernelMeta,
    objects: &'a Objects<'a>,
    facts: &'a [ElfFacts],
    layout: ElfLayout,
    named: Named,
    /// Names of all definitions in relocatable parts, computed on first use.
    defined: Option<HashSet<&'a [u8]>>,
}

/// No kernel is named.
pub(crate) fn none_named(facts: &[ElfFacts]) -> Named {
    facts.iter().map(|facts| vec![false; facts.kernels.len()]).collect()
}

/// Looks up the kernels that the `.json` names, and compares both descriptions.
pub(crate) fn judge(
    meta: &KernelMeta,
    objects: &Objects<'_>,
    facts: &[ElfFacts],
    expect: &Expected<'_>,
    findings: &mut Findings,
) -> Named {
    let layout = expect.layout();
    let mut pair = Pair { meta, objects, facts, layout, named: none_named(facts), defined: None };
    if objects.list.is_empty() {
        return pair.named;
    }
    if objects.is_container(meta, layout) {
        findings.add(Code::CONTAINER, || KernelProblem::Container);
        pair.find_kernel(&Claim { name: GETTER, ..Claim::default() }, findings);
        return pair.named;
    }
    let claims = claims::claims(meta);
    for claim in &claims {
        let found = pair.find_kernel(claim, findings) || pair.find_by_tiling_key(claim, findings);
        // The definitions of an incompletely read object are unknown.
        if !found && !objects.is_incomplete {
            pair.report_missing(claim.name, findings);
        }
        check_key_in_name(meta, claim, findings);
    }
    if layout == ElfLayout::Contiguous {
        pair.report_unlisted(claims.len(), findings);
        facts.iter().for_each(|facts| check_architecture(meta, facts, findings));
        missing_fields::judge(meta, facts, findings);
    }
    pair.named
}

impl<'a> Pair<'a> {
    /// Looks up a kernel, with and without the suffixes of the sides; whether any exists.
    fn find_kernel(&mut self, claim: &Claim<'_>, findings: &mut Findings) -> bool {
        let mut found = false;
        // An empty name is no kernel, even if a symbol is named `_mix_aic`.
        let sides = ["", MIX_SUFFIXES[0], MIX_SUFFIXES[1]].into_iter().filter(|_| !claim.name.is_empty());
        let mut symbol = String::with_capacity(claim.name.len() + MIX_SUFFIXES[0].len());
        for side in sides {
            symbol.clear();
            symbol.push_str(claim.name);
            symbol.push_str(side);
            let is_ignored = self.layout == ElfLayout::Contiguous && symbol.len() >= NAME_BYTES;
            if let Some(place) = self.objects.find(symbol.as_bytes(), claim.config_key)
                && !is_ignored
            {
                found = true;
                self.mark_named(place, claim, findings);
            }
        }
        found
    }

    fn mark_named(&mut self, place: Place, claim: &Claim<'_>, findings: &mut Findings) {
        let Place { object, kernel } = place;
        self.named[object][kernel] = true;
        if let Some(device) = &self.facts[object].kernels[kernel].meta {
            compare(
                self.meta,
                claim,
                self.objects.list[object].symbols.kernels[kernel].name,
                device,
                findings,
            );
        }
    }

    /// If nothing is listed, `kernelName` may be the common prefix of kernels with a tiling key.
    fn find_by_tiling_key(&mut self, claim: &Claim<'_>, findings: &mut Findings) -> bool {
        if self.layout != ElfLayout::Contiguous || self.meta.listed().is_some() || claim.name.is_empty() {
            return false;
        }
        let objects = self.objects;
        let mut found = Vec::new();
        let mut kernels = 0;
        for (place, symbol) in objects.kernels() {
            let Some(name) = std::str::from_utf8(symbol).ok().map(without_side) else { continue };
            let Some(digits) = claims::trailing_digits(name, claim.name) else { continue };
            kernels += 1;
            if found.len() < NAMED {
                found.push(shown(symbol));
            }
            self.mark_named(place, &Claim { tiling_key: digits.parse().ok(), ..*claim }, findings);
        }
        if kernels > 0 {
            let kernel = shown(claim.name.as_bytes());
            findings.add(Code::BY_KEY, || KernelProblem::ByKey { kernel, kernels, found });
        }
        kernels > 0
    }

    fn report_missing(&mut self, name: &str, findings: &mut Findings) {
        let field = if self.meta.listed().is_some() { "kernelList" } else { "kernelName" };
        if self.is_defined(name) {
            let kernel = shown(name.as_bytes());
            return findings.add(Code::NOT_VISIBLE, || KernelProblem::NotVisible { field, kernel });
        }
        findings.add(Code::KERNEL, || KernelProblem::Kernel {
            field,
            expected: shown(name.as_bytes()),
            kernels: self.objects.kernels().count(),
            found: self.objects.kernels().take(NAMED).map(|(_, symbol)| shown(symbol)).collect(),
        });
    }

    /// Whether a relocatable part defines that name, which its linker may make visible.
    fn is_defined(&mut self, name: &str) -> bool {
        let (objects, facts, layout) = (self.objects, self.facts, self.layout);
        let defined = self.defined.get_or_insert_with(|| {
            let parts = objects.list.iter().zip(facts).filter(|(_, facts)| facts.linkage == Linkage::Part);
            let parts = parts.filter(|_| layout == ElfLayout::Contiguous);
            parts.flat_map(|(elf, _)| elf.defined_names()).collect()
        });
        let sides = ["", MIX_SUFFIXES[0], MIX_SUFFIXES[1]];
        sides.into_iter().any(|side| defined.contains(format!("{name}{side}").as_bytes()))
    }

    fn report_unlisted(&self, claims: usize, findings: &mut Findings) {
        let named = |place: Place| self.named[place.object][place.kernel];
        let others = || self.objects.kernels().filter(|(place, _)| !named(*place));
        let (count, all) = (others().count(), self.objects.kernels().count());
        // If no listed kernel exists, each name gets its own finding.
        if count > 0 && count < all {
            findings.add(Code::UNLISTED, || KernelProblem::Unlisted {
                named: claims,
                others: count,
                found: others().take(NAMED).map(|(_, symbol)| shown(symbol)).collect(),
            });
        }
    }
}

/// A symbol without the suffix of its side.
fn without_side(symbol: &str) -> &str {
    MIX_SUFFIXES.iter().find_map(|suffix| symbol.strip_suffix(suffix)).unwrap_or(symbol)
}

/// Compares the `.json` and the metadata of one kernel.
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
        findings.add(Code::TASK_RATIO, || KernelProblem::TaskRatio { kernel, expected, found });
    }
    if let (Some(expected), Some(entry)) = (claim.tiling_key, device.function_entry)
        && entry.flag == HAS_KEY
        && entry.tiling_key != expected
    {
        let (kernel, found) = (kernel(), entry.tiling_key);
        let place = "the metadata";
        findings.add(Code::TILING_KEY, || KernelProblem::TilingKey { kernel, expected, place, found });
    }
    if let (Some(expected), Some(found)) = (claim.cross_core_sync, device.cross_core_sync)
        && expected.is_set() != (found != 0)
    {
        let (kernel, expected) = (kernel(), expected.is_set());
        findings.add(Code::CROSS_CORE_SYNC, || KernelProblem::CrossCoreSync { kernel, expected, found });
    }
    if let (Some(expected @ (Deterministic::True | Deterministic::False)), Some(found)) =
        (claim.deterministic, device.deterministic)
        && (expected == Deterministic::True) != (found != 0)
    {
        let kernel = kernel();
        findings.add(Code::DETERMINISTIC, || KernelProblem::Deterministic { kernel, expected, found });
    }
}

/// Compares the kind of core in the kernel's own entry, or in the `.json`, with the metadata and the magic.
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
        // A mixed binary may have kernels for one side only; only their own entries describe them.
        let may_differ = cores == Cores::Mix && field != "kernelType";
        if !cores.allows(found) && !may_differ && !claim.is_one_sided(found) {
            findings.add(Code::KERNEL_TYPE, || KernelProblem::KernelType {
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
    if !expected.allows(found) {
        findings.add(Code::MAGIC_MISFIT, || DescriptionProblem::MagicMisfit {
            magic,
            with: format!("the kernel type {found} in the metadata of {}", shown(symbol)),
        });
    }
}

fn check_key_in_name(meta: &KernelMeta, claim: &Claim<'_>, findings: &mut Findings) {
    let found = claims::tiling_key_in(claim.name, meta.kernel_name.as_deref());
    if let (Some(expected), Some(found)) = (claim.tiling_key, found)
        && expected != found
    {
        let (kernel, place) = (shown(claim.name.as_bytes()), "its name");
        findings.add(Code::TILING_KEY, || KernelProblem::TilingKey { kernel, expected, place, found });
    }
}

/// On chips with two kinds of core, `e_flags` state the kind that the object was compiled for, and the magic states the
/// kind that it is launched on: the magic of a mixed kernel does not match an object for one kind.
fn check_architecture(meta: &KernelMeta, facts: &ElfFacts, findings: &mut Findings) {
    let Some(found) = facts.architecture else { return };
    let other = found.excluded_magic();
    let magic = claims::magic(meta);
    if magic.is_some() && magic == other {
        let expected = format!("`magic` is {}", other.unwrap_or(Magic::Elf));
        return findings.add(Code::ARCHITECTURE, || KernelProblem::Architecture { expected, found });
    }
    let core = meta.core_type.as_ref().or(meta.old_core_type.as_ref());
    if magic == Some(Magic::Elf)
        && found.family().is_split()
        && let Some(core) = core.and_then(Word::known)
        && !core.is_mix()
    {
        let with = format!("the core type {core} on {}", found.family());
        findings.add(Code::MAGIC_MISFIT, || DescriptionProblem::MagicMisfit { magic: Magic::Elf, with });
    }
}
