//! Objects as goblin reads them, compared with genuine objects of each kind.

use goblin::elf::{Elf, sym};
use opkeep_testkit::ascend::{Chip, Cores, Kernel, Pair, zoo};

/// For each kind: type, flags, program headers, and sections, with some names shortened.
const KINDS: [(&str, u16, u32, usize, &str); 10] = [
    ("910A static", 1, 0, 0, ".strtab .text .comment .note.GNU-stack .llvm_addrsig .symtab"),
    (
        "310B AscendC",
        2,
        0x95_0000,
        4,
        ".text meta meta .comment .debug_frame .bl_uninit .symtab .shstrtab .strtab",
    ),
    ("310P", 2, 0x8a_0000, 3, ".text .data meta .comment .bl_uninit .symtab .shstrtab .strtab"),
    (
        "910B vector",
        2,
        0x93_0000,
        3,
        ".text .data .rela.text stack meta sizes .comment .bl_uninit .symtab .shstrtab .strtab",
    ),
    (
        "910B vector, CANN 8",
        2,
        0x93_0000,
        3,
        ".text .data stack meta meta meta sizes .comment .bl_uninit .symtab .shstrtab .strtab",
    ),
    (
        "910B vector, CANN 8, no metadata",
        2,
        0x93_0000,
        3,
        ".text .data stack sizes .comment .bl_uninit .symtab .shstrtab .strtab",
    ),
    (
        "910B cube",
        2,
        0x94_0000,
        3,
        ".text .data .rela.text stack meta sizes .comment meta .bl_uninit .symtab .shstrtab .strtab",
    ),
    (
        "910B mix 1:2",
        2,
        0x94_0000,
        3,
        ".text .data .rela.text stack meta sizes .comment meta .bl_uninit .symtab .shstrtab .strtab",
    ),
    (
        "910B part, vector",
        1,
        0x93_0000,
        0,
        ".text .rela.text stack .group .bl.uninit.g_sysWorkspaceReserved .group .bl.uninit.g_vecTPipePtr .comment \
         .llvm_addrsig .note.GNU-stack .symtab .shstrtab .strtab",
    ),
    ("AI CPU", 3, 0, 4, ".hash .dynsym .dynstr .text .dynamic .shstrtab"),
];

fn of_kind(kind: &str) -> Pair {
    zoo().into_iter().find(|(name, _)| *name == kind).unwrap().1
}

fn short(name: &str) -> &str {
    match name {
        ".ascend.stack.size.record" => "stack",
        "__CCE_KernelArgSize" => "sizes",
        name if name.starts_with(".ascend.meta.") => "meta",
        name => name,
    }
}

#[test]
fn headers_and_sections_are_those_of_genuine_objects() {
    for (kind, elf_type, flags, segments, sections) in KINDS {
        let pair = of_kind(kind);
        let elf = Elf::parse(&pair.object).unwrap();
        let names = elf.section_headers[1..].iter().map(|header| short(&elf.shdr_strtab[header.sh_name]));
        let found = (elf.header.e_type, elf.header.e_flags, elf.program_headers.len());
        assert_eq!(found, (elf_type, flags, segments), "{kind}");
        assert_eq!(names.collect::<Vec<_>>().join(" "), sections, "{kind}");
        let machine = if kind == "AI CPU" { 183 } else { 0x1029 };
        assert_eq!((elf.header.e_machine, elf.header.e_version, elf.entry), (machine, 1, 0), "{kind}");
    }
}

/// The rules that hold for all linked objects that were examined.
#[test]
fn loaded_sections_are_one_piece_from_address_0() {
    for (kind, pair) in zoo() {
        let elf = Elf::parse(&pair.object).unwrap();
        if elf.header.e_type != 2 {
            continue;
        }
        let loaded: Vec<_> = elf.section_headers.iter().filter(|header| header.sh_flags & 2 != 0).collect();
        assert_eq!((&elf.shdr_strtab[loaded[0].sh_name], loaded[0].sh_addr), (".text", 0), "{kind}");
        for header in &loaded {
            assert_eq!(header.sh_offset - header.sh_addr, loaded[0].sh_offset, "{kind}");
            assert_eq!(header.sh_type, 1, "{kind}");
        }
        let loads: Vec<_> = elf.program_headers.iter().filter(|header| header.p_type == 1).collect();
        assert_eq!(loads.len(), 2, "{kind}");
        for header in &loads {
            assert!(header.p_offset + header.p_filesz <= pair.object.len() as u64, "{kind}");
        }
        assert!(loads.iter().any(|header| header.is_executable() && header.p_vaddr == 0), "{kind}");
        assert_eq!(loads[0].p_vaddr == loads[1].p_vaddr, kind == "310B AscendC", "{kind}");
    }
}

#[test]
fn kernels_are_global_functions_with_code_of_their_own() {
    let cores = Cores::Mix { cube: 1, vector: 2 };
    let kernel = Kernel::new(Chip::Ascend910B, "K").cores(cores).keys([3, u64::MAX]).code_bytes(10);
    assert_eq!(kernel.kernel_names(), ["K_3", "K_18446744073709551615"]);
    let object = kernel.build().object;
    let elf = Elf::parse(&object).unwrap();
    let functions: Vec<_> = elf
        .syms
        .iter()
        .filter(sym::Sym::is_function)
        .map(|symbol| {
            assert_eq!((symbol.st_bind(), symbol.st_visibility()), (sym::STB_GLOBAL, sym::STV_DEFAULT));
            (&elf.strtab[symbol.st_name], symbol.st_value, symbol.st_size, symbol.st_shndx)
        })
        .collect();
    let expected = [
        ("K_3_mix_aic", 0, 12, 1),
        ("K_3_mix_aiv", 12, 12, 1),
        ("K_18446744073709551615_mix_aic", 24, 12, 1),
        ("K_18446744073709551615_mix_aiv", 36, 12, 1),
    ];
    assert_eq!(functions, expected);
    // Local symbols come first, and their number is in the table's header.
    let table = elf.section_headers.iter().find(|header| header.sh_type == 2).unwrap();
    let locals = elf.syms.iter().take_while(|symbol| symbol.st_bind() == sym::STB_LOCAL).count();
    assert_eq!(table.sh_info as usize, locals);
    assert!(elf.syms.iter().skip(locals).all(|symbol| symbol.st_bind() != sym::STB_LOCAL));
    // No two kernels have the same code.
    let text = &object[elf.section_headers[1].file_range().unwrap()];
    assert!(text.chunks(12).is_sorted_by(|a, b| a != b) && text.len() == 48);
}

#[test]
fn relocations_point_into_the_object() {
    for kind in ["910B vector", "910B mix 1:2", "910B part, vector", "910B part, cube"] {
        let pair = of_kind(kind);
        let elf = Elf::parse(&pair.object).unwrap();
        let (text, table) = elf.shdr_relocs.first().map(|(at, table)| (*at, table)).unwrap();
        assert_eq!(elf.section_headers[text].sh_info, 1, "{kind}");
        assert!(table.len() >= 2, "{kind}");
        for relocation in table {
            let symbol = elf.syms.get(relocation.r_sym).unwrap();
            assert!(elf.strtab[symbol.st_name].starts_with("g_"), "{kind}");
            assert!(relocation.r_offset + 4 <= elf.section_headers[1].sh_size, "{kind}");
        }
    }
}

#[test]
fn groups_have_their_members_and_are_called_as_they_are() {
    let pair = of_kind("910B part, cube");
    let elf = Elf::parse(&pair.object).unwrap();
    let groups = elf.section_headers.iter().filter(|header| header.sh_type == 17);
    let found: Vec<_> = groups
        .map(|header| {
            let words = pair.object[header.file_range().unwrap()].chunks(4);
            let words: Vec<u32> = words.map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
            let member = &elf.section_headers[words[1] as usize];
            let signature = elf.syms.get(header.sh_info as usize).unwrap();
            (words[0], &elf.shdr_strtab[member.sh_name], &elf.strtab[signature.st_name])
        })
        .collect();
    let expected = [
        (1, ".bl.uninit.g_sysWorkspaceReserved", "g_sysWorkspaceReserved"),
        (1, ".bl.uninit.g_cubeTPipePtr", "g_cubeTPipePtr"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_library_says_where_its_symbols_are() {
    let pair = of_kind("AI CPU");
    assert_eq!(pair.file_names(), ["aicpu_kernels.json", "libaicpu_kernels.so"]);
    let elf = Elf::parse(&pair.object).unwrap();
    assert_eq!(elf.soname, Some("libaicpu_kernels.so"));
    let names: Vec<&str> = elf.dynsyms.iter().map(|symbol| &elf.dynstrtab[symbol.st_name]).collect();
    assert_eq!(names, ["", "RunCpuKernel", "RunCpuKernelWithBlock"]);
    let code = elf.section_headers.iter().find(|header| header.is_executable()).unwrap().vm_range();
    assert!(elf.dynsyms.iter().skip(1).all(|symbol| code.contains(&(symbol.st_value as usize))));
    // A name so long that the tables exceed a page.
    let long = "f".repeat(5000);
    let pair = opkeep_testkit::ascend::library(opkeep_testkit::ascend::Library::Host(62), "x", &[&long]);
    let elf = Elf::parse(&pair.object).unwrap();
    assert_eq!(&elf.dynstrtab[elf.dynsyms.get(1).unwrap().st_name], long);
    assert_eq!(elf.dynsyms.get(1).unwrap().st_value, elf.section_headers[4].sh_addr);
}
