//! The Ascend runtime's requirements on an object that it loads directly.

use opkeep_cann_meta::{Architecture, targets};
use opkeep_validator::{
    Code, ElfType, Linkage, ObjectProblem, Problem, Report, Severity, validate, validate_full,
};

use crate::made_kernels::ascend::{
    ALLOC, CODE, GLOBAL_FUNC, Kernel, NOBITS, PROGBITS, RELA, Section, Symbol,
};
use crate::made_kernels::codes;

/// Expectations for the kernel's chip.
fn judge(kernel: &Kernel) -> Report {
    judge_for(if kernel.is_first_generation() { "Ascend910A" } else { "Ascend910B1" }, kernel)
}

fn judge_for(target: &str, kernel: &Kernel) -> Report {
    validate(kernel.json().as_bytes(), &kernel.object(), &targets::ascend(target))
}

/// The findings after `change` to a kernel without findings.
#[track_caller]
fn changed(mut kernel: Kernel, change: impl FnOnce(&mut Kernel)) -> Vec<Code> {
    assert_eq!(codes(&judge(&kernel)), []);
    change(&mut kernel);
    codes(&judge(&kernel))
}

#[test]
fn each_kind_of_kernel_is_accepted_without_findings() {
    for kernel in [Kernel::vector(1), Kernel::vector(3), Kernel::mixed(), Kernel::first_generation()] {
        let expect = targets::ascend("Ascend");
        let report = validate_full(kernel.json().as_bytes(), &kernel.object(), &expect);
        assert!(report.worst() < Some(Severity::Warning), "{:?}", report.findings);
        assert!(report.cross_check.is_some());
        assert_eq!(codes(&judge(&kernel)), []);
    }
}

#[test]
fn facts_are_reported() {
    let facts = judge(&Kernel::vector(2)).object.unwrap();
    assert_eq!((facts.elf_type, facts.linkage), (Some(ElfType::Executable), Linkage::Final));
    assert_eq!((facts.architecture, facts.flags), (Some(Architecture::C220Vector), 0x93_0000));
    assert_eq!((facts.sections, facts.stack_bytes), (11, Some(0x8000)));
    assert_eq!(facts.compilers, ["Linker: LLD 15.0.5", "clang version 15.0.5"]);
    let kernels: Vec<_> = facts
        .kernels
        .iter()
        .map(|kernel| (kernel.name.as_str(), kernel.offset, kernel.size, kernel.argument_bytes))
        .collect();
    assert_eq!(kernels, [("add_0", 0, 16, Some(32)), ("add_1", 16, 16, Some(32))]);
}

#[test]
fn text_comes_first_and_at_zero() {
    let code = [Code::TEXT_PLACE];
    assert_eq!(changed(Kernel::vector(1), |kernel| kernel.section(".text").address = 0x10), {
        // Then the kernel is before its section, and `.data` keeps its distance.
        [Code::KERNEL_RANGE, Code::TEXT_PLACE]
    });
    let moved = |kernel: &mut Kernel| {
        kernel.section(".text").address = 0x10;
        kernel.symbols[0].value = 0x10;
    };
    assert_eq!(changed(Kernel::vector(1), moved), code);
    // Another section is loaded before it.
    let before = |kernel: &mut Kernel| {
        kernel.section(".text").address = 0x10;
        kernel.symbols.iter_mut().for_each(|symbol| symbol.section += 1);
        kernel.symbols[0].value = 0x10;
        kernel.sections.insert(0, Section::new(".rodata", PROGBITS, ALLOC, &[1; 16]));
    };
    assert_eq!(changed(Kernel::vector(1), before), code);
    // Empty sections do not count, nor do those that are not loaded.
    let harmless = |kernel: &mut Kernel| {
        kernel.symbols.iter_mut().for_each(|symbol| symbol.section += 2);
        kernel.sections.insert(0, Section::new(".rodata", PROGBITS, ALLOC, &[]));
        kernel.sections.insert(0, Section::new(".debug", PROGBITS, 0, &[1; 16]));
    };
    assert_eq!(changed(Kernel::vector(1), harmless), []);
}

#[test]
fn loaded_sections_are_contiguous() {
    // Then its header's address does not match its offset.
    let kernel = Kernel::vector(1);
    let mut object = kernel.object();
    let at = object.len() - 64 * (kernel.sections.len() + 3) + 2 * 64 + 16;
    assert_eq!(object[at..at + 8], 0x1000_u64.to_le_bytes());
    object[at + 1] = 0x20;
    let expect = targets::ascend("Ascend");
    let report = validate(kernel.json_of(&object).as_bytes(), &object, &expect);
    let problem = Problem::Object(ObjectProblem::SectionOffset {
        section: ".data".into(),
        expected: 0x2040,
        found: 0x1040,
    });
    assert!(report.findings.iter().map(|finding| &finding.problem).eq([&problem]), "{:?}", report.findings);
    // Relocatable objects have no addresses yet.
    assert_eq!(
        changed(Kernel::first_generation(), |kernel| {
            kernel.sections.push(Section::new(".rodata", PROGBITS, ALLOC, &[1; 16]));
        }),
        []
    );
}

#[test]
fn objects_that_need_a_loader_are_reported() {
    let add = |section: Section| move |kernel: &mut Kernel| kernel.sections.push(section);
    let bss = Section { address: 0x2000, ..Section::new(".bss", NOBITS, ALLOC, &[]) };
    assert_eq!(changed(Kernel::vector(1), add(bss)), [Code::LOADED_NOBITS]);
    assert_eq!(changed(Kernel::vector(1), add(Section::new(".dynamic", 6, 0, &[0; 16]))), [Code::DYNAMIC]);
    let undefined = |info| Symbol { name: "memcpy".into(), info, other: 0, section: 0, value: 0, size: 0 };
    let link = |info| move |kernel: &mut Kernel| kernel.symbols.push(undefined(info));
    for info in [GLOBAL_FUNC, 0x10, 0x11, 0x20] {
        assert_eq!(changed(Kernel::vector(1), link(info)), [Code::UNDEFINED], "{info:#x}");
    }
    assert_eq!(changed(Kernel::vector(1), link(0)), [], "local symbols need no definition");
    // Linked objects may keep relocations as information.
    let relocations = Section { info: 1, link: 8, ..Section::new(".rela.text", RELA, 0x40, &[0; 24]) };
    assert_eq!(changed(Kernel::vector(1), add(relocations)), []);
}

/// An object that must still be linked may have any layout.
#[test]
fn parts_are_exempt() {
    let relocations = Section { info: 1, link: 3, ..Section::new(".rela.text", RELA, 0x40, &[0; 24]) };
    let group = Section::new(".group", 17, 0, &[1, 0, 0, 0]);
    let with_flaws = |kernel: &mut Kernel| {
        kernel.sections.push(Section::new(".bss", NOBITS, ALLOC, &[]));
        kernel.symbols[0].value = 2;
        kernel.symbols[0].size = 14;
    };
    let whole = [Code::LOADED_NOBITS, Code::KERNEL_ALIGN];
    assert_eq!(changed(Kernel::first_generation(), with_flaws), whole);
    for section in [relocations, group] {
        let mut kernel = Kernel::first_generation();
        kernel.sections.push(section);
        assert_eq!(judge(&kernel).object.unwrap().linkage, Linkage::Part);
        assert_eq!(changed(kernel, with_flaws), []);
    }
}

#[test]
fn kernels_are_within_text() {
    let place = |value, size| {
        changed(Kernel::vector(2), |kernel| {
            kernel.symbols[1].value = value;
            kernel.symbols[1].size = size;
        })
    };
    assert_eq!(place(16, 16), []);
    assert_eq!(place(28, 4), []);
    assert_eq!(place(0, 0), []);
    // A label at the end of the code.
    assert_eq!(place(32, 0), []);
    for (value, size) in [(16, 17), (36, 0), (32, 1), (36, 4), (u64::MAX - 3, 8), (4, u64::MAX)] {
        assert_eq!(place(value, size), [Code::KERNEL_RANGE], "{value} {size}");
    }
    assert_eq!(place(18, 2), [Code::KERNEL_ALIGN]);
    let elsewhere = |kernel: &mut Kernel| {
        kernel.sections.push(Section { address: 0x1100, ..Section::new(".init", PROGBITS, CODE, &[0; 16]) });
        kernel.symbols[1].section = kernel.sections.len() as u16;
        kernel.symbols[1].value = 0x1100;
    };
    assert_eq!(changed(Kernel::vector(2), elsewhere), [Code::KERNEL_SECTION]);
}

#[test]
fn one_name_is_one_kernel() {
    let again = |value| {
        changed(Kernel::vector(2), |kernel| {
            let mut symbol = kernel.symbols[0].clone();
            symbol.value = value;
            kernel.symbols.push(symbol);
        })
    };
    assert_eq!(again(0), []);
    assert_eq!(again(16), [Code::SAME_NAME]);
}

/// The number of very many sections is stored in the first of them, where the runtime does not look.
#[test]
fn a_section_count_outside_the_header_is_refused() {
    let kernel = Kernel::vector(1);
    let mut object = kernel.object();
    let count = kernel.sections.len() + 3;
    let headers = object.len() - 64 * count;
    object[60..62].copy_from_slice(&[0, 0]);
    object[headers + 32..headers + 40].copy_from_slice(&(count as u64).to_le_bytes());
    let report = validate(kernel.json_of(&object).as_bytes(), &object, &targets::ascend("Ascend"));
    assert_eq!(codes(&report), [Code::NO_SECTIONS]);
    assert_eq!(report.object.unwrap().kernels.len(), 1);
}

#[test]
fn refusals_of_the_runtime_are_errors() {
    let kernel = Kernel::vector(1);
    let patched = |at: usize, bytes: &[u8]| {
        let mut object = kernel.object();
        object[at..at + bytes.len()].copy_from_slice(bytes);
        let expect = targets::ascend("Ascend910B1");
        let report = validate(kernel.json_of(&object).as_bytes(), &object, &expect);
        assert!(!report.is_valid());
        codes(&report)[0]
    };
    assert_eq!(patched(4, &[1]), Code::CLASS);
    assert_eq!(patched(58, &[56]), Code::ENTRY_SIZE);
    assert_eq!(patched(60, &[0, 0]), Code::NO_SECTIONS);
    assert_eq!(patched(40, &[0; 8]), Code::NO_SECTIONS);
    // The symbol table's link.
    let headers = kernel.object().len() - 64 * (kernel.sections.len() + 3);
    let symtab = headers + 64 * (kernel.sections.len() + 1);
    assert_eq!(patched(symtab + 40, &[200]), Code::MALFORMED);
    // The size of a symbol, and the section that holds the names.
    assert_eq!(patched(symtab + 56, &[16]), Code::MALFORMED);
    assert_eq!(patched(62, &[1]), Code::MALFORMED);
    assert_eq!(
        changed(Kernel::vector(1), |kernel| kernel.symbols[0].info = 0x10)[..2],
        [Code::NO_FUNCTION, Code::KERNEL]
    );
    // The runtime counts an invisible function, but cannot launch it.
    assert_eq!(
        changed(Kernel::vector(1), |kernel| kernel.symbols[0].other = 2)[..2],
        [Code::KERNEL, Code::STRAY_METADATA]
    );
    assert_eq!(
        changed(Kernel::first_generation(), |kernel| kernel.symbols[0].other = 2),
        [Code::KERNEL, Code::NO_KERNEL]
    );
    // For other sections, a wrong link is only a warning.
    assert_eq!(changed(Kernel::vector(1), |kernel| kernel.section(".comment").link = 200), [Code::LINK]);
}

/// An unreadable table is reported, but not its consequences.
#[test]
fn consequences_of_an_unreadable_table_are_not_reported() {
    let kernel = Kernel::vector(2);
    let object = kernel.object();
    let headers = object.len() - 64 * (kernel.sections.len() + 3);
    let symtab = headers + 64 * (kernel.sections.len() + 1);
    for (at, bytes) in [(62, &[1][..]), (symtab + 40, &[1])] {
        let mut object = object.clone();
        object[at..at + bytes.len()].copy_from_slice(bytes);
        let expect = targets::ascend("Ascend");
        let report = validate_full(kernel.json_of(&object).as_bytes(), &object, &expect);
        let errors_and_warnings = report.findings.iter().filter(|one| one.severity() > Severity::Note);
        assert!(errors_and_warnings.map(|one| one.code()).eq([Code::MALFORMED]), "{:?}", report.findings);
    }
}

#[test]
fn names_that_the_runtime_ignores_are_not_found() {
    let name = |length: usize| {
        let mut kernel = Kernel::first_generation();
        kernel.symbols[0].name = "k".repeat(length);
        kernel.json["kernelName"] = kernel.symbols[0].name.as_str().into();
        kernel.json["binFileName"] = "k".into();
        codes(&judge(&kernel))
    };
    assert_eq!(name(4095), []);
    assert_eq!(name(4096), [Code::KERNEL]);
}

#[test]
fn types_that_no_compiler_writes() {
    assert_eq!(changed(Kernel::vector(1), |kernel| kernel.e_type = 4), [Code::TYPE]);
    let shared = changed(Kernel::vector(1), |kernel| {
        kernel.e_type = 3;
        kernel.sections.retain(|section| section.name != ".data");
        kernel.symbols.truncate(1);
    });
    assert_eq!(shared, [Code::UNUSUAL_TYPE]);
}

/// Known flags are compared with the chip and the magic, others with nothing.
#[test]
fn flags_are_compared_only_where_they_are_known() {
    let mut kernel = Kernel::vector(1);
    for (target, is_other) in [
        ("Ascend910B1", false),
        ("Ascend910_9391", false),
        ("ascend910b", false),
        ("Ascend910A", true),
        ("Ascend910B", true),
        ("Ascend310P3", true),
        ("Ascend950PR_9599", true),
    ] {
        let found = codes(&judge_for(target, &kernel));
        assert_eq!(found, if is_other { vec![Code::CHIP] } else { vec![] }, "{target}");
    }
    // A chip without a known object is compared with nothing, and that is reported.
    assert_eq!(codes(&judge_for("Ascend610", &kernel)), [Code::UNKNOWN_CHIP]);
    kernel.flags = 0x94_0000;
    assert_eq!(codes(&judge(&kernel)), [Code::ARCHITECTURE]);
    for flags in [0, 0x77_0000, 0xffff_ffff, 0x93_1234] {
        kernel.flags = flags;
        assert_eq!(codes(&judge(&kernel)), [], "{flags:#x}");
    }
}
