//! The requirements of the target's loader on an object, independent of its `.json`.

use object::LittleEndian as LE;
use object::elf;
use object::read::elf::SectionHeader as _;
use opkeep_artifact::{ElfLayout, FlagRules};
use opkeep_cann_meta::{ChipMatch, match_chip};

use crate::code::Code;
use crate::display::shown;
use crate::elf::Elf;
use crate::elf::facts::{ElfFacts, ElfType, Flags, Linkage, Machine};
use crate::elf::sections::InfoSections;
use crate::expected::Expected;
use crate::findings::Findings;
use crate::problem::{KernelProblem, ObjectProblem};

/// Validates the object alone.
pub(crate) fn judge(
    elf: &Elf<'_>,
    facts: &ElfFacts,
    info_sections: &InfoSections<'_>,
    expect: &Expected<'_>,
    findings: &mut Findings,
) {
    // The right type and layout of an object for another machine are unknown.
    let is_own = check_machine(elf, facts, expect, findings);
    if expect.layout() == ElfLayout::Unspecified {
        return;
    }
    if is_own {
        check_type(elf, expect.layout(), findings);
    }
    // The runtime reads the number only from the header, not from the null section.
    let uncounted = elf.e_shnum == 0 && expect.layout() == ElfLayout::Contiguous;
    if uncounted || (elf.sections.is_empty() && !elf.is_incomplete) {
        return findings.add(Code::NO_SECTIONS, || ObjectProblem::NoSections);
    }
    check_functions(elf, expect.layout(), findings);
    if !is_own {
        return;
    }
    if expect.layout() == ElfLayout::Contiguous && facts.linkage == Linkage::Final {
        check_sections(elf, facts, findings);
        check_kernels(elf, info_sections, findings);
    }
    // Dynamic loaders use program headers; the Ascend runtime ignores them.
    if expect.layout() != ElfLayout::Contiguous && facts.elf_type == Some(ElfType::Shared) {
        elf.check_segments(findings);
    }
}

fn check_machine(elf: &Elf<'_>, facts: &ElfFacts, expect: &Expected<'_>, findings: &mut Findings) -> bool {
    if !expect.elf.machines.contains(&elf.machine.0) {
        findings.add(Code::MACHINE, || ObjectProblem::Machine {
            target: expect.target.to_owned(),
            expected: expect.elf.machines.iter().copied().map(Machine).collect(),
            found: elf.machine,
        });
        return false;
    }
    check_flags(elf, expect, findings);
    let (target, flags) = (expect.target, facts.flags);
    match match_chip(target, facts.family) {
        ChipMatch::Other(found) => {
            findings.add(Code::CHIP, || ObjectProblem::Chip { target: target.to_owned(), flags, found });
        }
        ChipMatch::Unknown if expect.layout() == ElfLayout::Contiguous => {
            findings
                .add(Code::UNKNOWN_CHIP, || ObjectProblem::UnknownChip { chip: target.to_owned(), flags });
        }
        _ => {}
    }
    true
}

/// Compares `e_flags` with those that the target loads, if the rules state them.
fn check_flags(elf: &Elf<'_>, expect: &Expected<'_>, findings: &mut Findings) {
    let Some(FlagRules { mask, values }) = &expect.elf.flags else { return };
    if !values.contains(&(elf.flags & mask)) {
        findings.add(Code::FLAGS, || ObjectProblem::Flags {
            target: expect.target.to_owned(),
            mask: *mask,
            expected: values.iter().copied().map(Flags).collect(),
            found: elf.flags,
        });
    }
}

fn check_type(elf: &Elf<'_>, layout: ElfLayout, findings: &mut Findings) {
    use ElfType::{Executable, Relocatable, Shared};
    let (usual, loadable, expected) = match layout {
        ElfLayout::SharedObject => {
            (&[Relocatable, Shared][..], &[][..], "1 (relocatable) or 3 (shared object)")
        }
        ElfLayout::Contiguous => {
            (&[Relocatable, Executable][..], &[Shared][..], "1 (relocatable) or 2 (executable)")
        }
        ElfLayout::AicpuObject => (&[Shared][..], &[Relocatable][..], "3 (shared object)"),
        _ => return,
    };
    match elf.elf_type() {
        Some(found) if usual.contains(&found) => {}
        Some(found) if loadable.contains(&found) => {
            findings.add(Code::UNUSUAL_TYPE, || ObjectProblem::UnusualType { expected, found });
        }
        _ => findings.add(Code::TYPE, || ObjectProblem::Type { expected, found: elf.e_type }),
    }
}

fn check_functions(elf: &Elf<'_>, layout: ElfLayout, findings: &mut Findings) {
    let symbols = &elf.symbols;
    if let Some(name) = symbols.same_name {
        findings.add(Code::SAME_NAME, || KernelProblem::SameName { kernel: shown(name) });
    }
    if elf.is_incomplete {
        return;
    }
    if symbols.functions == 0 && layout == ElfLayout::Contiguous {
        findings.add(Code::NO_FUNCTION, || ObjectProblem::NoFunction { symbols: symbols.total });
    } else if symbols.kernels.is_empty() {
        findings.add(Code::NO_KERNEL, || KernelProblem::NoKernel { functions: symbols.functions });
    }
}

/// Checks that kernels lie within their sections; `named` states for each whether the `.json` names it.
pub(crate) fn check_ranges(elf: &Elf<'_>, facts: &ElfFacts, named: &[bool], findings: &mut Findings) {
    let kernels = elf.symbols.kernels.iter().zip(&facts.kernels).zip(named);
    for ((kernel, fact), &named) in kernels {
        let Ok(section) = elf.sections.section(object::SectionIndex(kernel.section)) else { continue };
        let section_bytes = section.sh_size(LE);
        // A symbol of length 0 at the end of a section marks the end.
        if fact.offset <= section_bytes && fact.size <= section_bytes - fact.offset {
            continue;
        }
        let (kernel, offset, size) = (|| shown(kernel.name), fact.offset, fact.size);
        if named {
            findings.add(Code::KERNEL_RANGE, || {
                let kernel = kernel();
                KernelProblem::KernelRange { kernel, offset, size, section_bytes }
            });
        } else {
            findings.add(Code::OTHER_RANGE, || {
                let kernel = kernel();
                KernelProblem::OtherRange { kernel, offset, size, section_bytes }
            });
        }
    }
}

/// The runtime copies the file from the first loaded section to the end of the last as one block, and uses `st_value`
/// as the kernel's offset in it. It neither relocates nor links.
fn check_sections(elf: &Elf<'_>, facts: &ElfFacts, findings: &mut Findings) {
    let name = |section| elf.sections.section_name(LE, section).map(shown).unwrap_or_default();
    let mut first = None;
    for section in elf.sections.iter() {
        let (kind, address) = (section.sh_type(LE), section.sh_addr(LE));
        if kind == elf::SHT_DYNAMIC {
            findings.add(Code::DYNAMIC, || ObjectProblem::Dynamic { section: name(section) });
        }
        if !section.sh_flags(LE).contains(elf::SHF_ALLOC) || section.sh_size(LE) == 0 {
            continue;
        }
        if kind == elf::SHT_NOBITS {
            findings.add(Code::LOADED_NOBITS, || ObjectProblem::LoadedNobits { section: name(section) });
            continue;
        }
        let offset = section.sh_offset(LE);
        let Some(base) = first else {
            first = Some(offset.wrapping_sub(address));
            if address != 0 || !elf.sections.section_name(LE, section).is_ok_and(|name| name == b".text") {
                findings
                    .add(Code::TEXT_PLACE, || ObjectProblem::TextPlace { section: name(section), address });
            }
            continue;
        };
        // Relocatable objects have no addresses yet.
        if facts.elf_type != Some(ElfType::Relocatable) && offset.wrapping_sub(address) != base {
            findings.add(Code::GAP, || ObjectProblem::SectionOffset {
                section: name(section),
                expected: base.wrapping_add(address),
                found: offset,
            });
        }
    }
    if elf.symbols.undefined > 0 {
        findings.add(Code::UNDEFINED, || ObjectProblem::Undefined {
            symbol: shown(elf.symbols.first_undefined),
            count: elf.symbols.undefined,
        });
    }
}

fn check_kernels(elf: &Elf<'_>, info_sections: &InfoSections<'_>, findings: &mut Findings) {
    for kernel in &elf.symbols.kernels {
        let offset = kernel.offset(elf);
        if !offset.is_multiple_of(4) {
            findings.add(Code::KERNEL_ALIGN, || KernelProblem::KernelAlign {
                kernel: shown(kernel.name),
                offset,
            });
        }
        if info_sections.text != Some(kernel.section) {
            let section = elf.sections.section(object::SectionIndex(kernel.section));
            let name = section.and_then(|section| elf.sections.section_name(LE, section));
            findings.add(Code::KERNEL_SECTION, || KernelProblem::KernelSection {
                kernel: shown(kernel.name),
                section: name.map(shown).unwrap_or_default(),
            });
        }
    }
}
