//! Each rule, broken alone, is refused by its own name.

use opbuild_artifact::{KernelEntry, KernelMeta, Magic, MetaError};
use opbuild_validator::{CrossCheck, ElfType, Machine, Refusal, Report, cross_check, read_object, validate};

use crate::made::{KERNEL, NOT_KERNELS, expect, meta, object, object_with, section_header, word};

fn check(meta: &KernelMeta, object: &[u8]) -> Result<Report, Refusal> {
    validate(meta.to_json().as_bytes(), object, &expect())
}

/// The object with `bytes` at `at`, judged with a description that has its digest.
fn patched(at: usize, bytes: &[u8]) -> Result<Report, Refusal> {
    let mut object = object();
    object[at..at + bytes.len()].copy_from_slice(bytes);
    check(&meta(&object), &object)
}

/// The made object, judged after `change` to its description.
fn described(change: impl FnOnce(&mut KernelMeta)) -> Result<Report, Refusal> {
    let object = object();
    let mut meta = meta(&object);
    change(&mut meta);
    check(&meta, &object)
}

fn entry(name: &str) -> KernelEntry {
    KernelEntry { kernel_name: name.into(), tiling_key: None, extra: Default::default() }
}

#[test]
fn the_made_kernel_is_accepted_and_reported() {
    let report = described(|_| {}).unwrap();
    assert_eq!(report.object.kernels, [KERNEL]);
    assert_eq!(report.object.machine, Machine(62));
    assert_eq!(report.object.elf_type, ElfType::Relocatable);
    assert_eq!(report.object.flags, 0);
    // The null section, .text, .data, .symtab, .strtab, .shstrtab.
    assert_eq!(report.object.sections, 6);
    assert_eq!(report.meta, meta(&object()));
    assert_eq!(read_object(&object()).unwrap(), report.object);
}

#[test]
fn only_a_visible_global_function_with_code_is_a_kernel() {
    for name in NOT_KERNELS {
        let refusal = described(|meta| meta.kernel_name = Some(name.into())).unwrap_err();
        let known = Refusal::Kernel {
            field: "kernelName",
            expected: name.into(),
            kernels: 1,
            found: vec![KERNEL.into()],
        };
        assert_eq!(refusal, known);
    }
    // The same object, but .text is not executable, or has no bytes in the file.
    let text = section_header(&object(), 1);
    for (at, byte) in [(text + 8, 2), (text + 4, 8)] {
        assert!(matches!(patched(at, &[byte]), Err(Refusal::Kernel { kernels: 0, .. })));
    }
}

#[test]
fn mix_suffixes_count() {
    for symbol in ["add_1_mix_aic", "add_1_mix_aiv", "add_1"] {
        let object = object_with(&[symbol]);
        let mut meta = meta(&object);
        meta.kernel_name = Some("add_1".into());
        assert_eq!(check(&meta, &object).unwrap().object.kernels, [symbol]);
    }
    for symbol in ["add_1_mix_ai", "add_1_mix_aic_0", "add_1_aic", "_mix_aic"] {
        let object = object_with(&[symbol]);
        for name in ["add_1", ""] {
            let mut meta = meta(&object);
            meta.kernel_name = Some(name.into());
            assert!(matches!(check(&meta, &object), Err(Refusal::Kernel { .. })), "{symbol} for {name}");
        }
    }
}

#[test]
fn each_item_of_a_kernel_list_must_be_there() {
    let object = object_with(&["add_1_0", "add_1_1_mix_aic", "add_1_1_mix_aiv"]);
    let mut meta = meta(&object);
    meta.kernel_name = Some("add_1".into());
    meta.kernel_list = Some(vec![entry("add_1_0"), entry("add_1_1")]);
    assert_eq!(check(&meta, &object).unwrap().object.kernels.len(), 3);

    meta.kernel_list = Some(vec![entry("add_1_0"), entry("add_1_2")]);
    let refusal = check(&meta, &object).unwrap_err();
    let Refusal::Kernel { field: "kernelList", expected, kernels: 3, found } = &refusal else {
        panic!("{refusal}")
    };
    assert_eq!((expected.as_str(), found.len()), ("add_1_2", 3));
}

#[test]
fn at_most_five_kernels_are_named() {
    let names: Vec<String> = (0..9).map(|i| format!("add_1_{i}")).collect();
    let object = object_with(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let refusal = check(&meta(&object), &object).unwrap_err();
    let Refusal::Kernel { kernels: 9, found, .. } = refusal else { panic!("{refusal}") };
    assert_eq!(found, names[..5]);
}

#[test]
fn fields_that_are_missing_are_named() {
    type Change = fn(&mut KernelMeta);
    let changes: [(Change, &str); 4] = [
        (|meta| meta.sha256 = None, "sha256"),
        (|meta| meta.magic = None, "magic"),
        (|meta| meta.kernel_name = None, "kernelName"),
        (|meta| meta.kernel_list = Some(vec![]), "kernelList[0]"),
    ];
    for (change, name) in changes {
        let refusal = described(change).unwrap_err();
        assert!(matches!(refusal, Refusal::Missing { field } if field == name), "{refusal}");
        assert_eq!(refusal.field(), name);
    }
    // These two are optional.
    assert!(described(|meta| meta.bin_file_name = None).is_ok());
    assert!(described(|meta| meta.bin_file_suffix = None).is_ok());
}

#[test]
fn the_digest_is_of_the_object_and_in_lower_case() {
    let upper = |meta: &mut KernelMeta| meta.sha256 = meta.sha256.as_ref().map(|text| text.to_uppercase());
    let short = |meta: &mut KernelMeta| meta.sha256 = Some("00".into());
    for refusal in [described(upper).unwrap_err(), described(short).unwrap_err()] {
        assert!(matches!(refusal, Refusal::Field { field: "sha256", .. }), "{refusal}");
    }
    let meta = meta(&object());
    let mut other = object();
    *other.last_mut().unwrap() ^= 1;
    let refusal = check(&meta, &other).unwrap_err();
    let Refusal::Sha256 { expected, found } = &refusal else { panic!("{refusal}") };
    assert_eq!(Some(expected.to_string()), meta.sha256);
    assert_ne!(expected, found);
}

#[test]
fn the_digest_comes_first() {
    let object = object();
    let mut meta = meta(&object);
    meta.magic = None;
    meta.bin_file_name = Some("../x".into());
    assert!(matches!(check(&meta, &object[1..]), Err(Refusal::Sha256 { .. })));
    assert!(matches!(check(&meta, &object), Err(Refusal::UnsafeName { .. })));
}

#[test]
fn names_that_would_leave_the_folder_are_refused() {
    for name in ["../add_1", "/etc/passwd", "", ".", "a b", "add_1\n"] {
        let refusal = described(|meta| meta.bin_file_name = Some(name.into())).unwrap_err();
        assert!(matches!(refusal, Refusal::UnsafeName { field: "binFileName", .. }), "{refusal}");
        assert!(!refusal.to_string().contains('\n'));
    }
    // Another name than the kernel's is fine.
    assert!(described(|meta| meta.bin_file_name = Some("other".into())).is_ok());
    assert!(described(|meta| meta.bin_file_suffix = Some(".so".into())).is_ok());
    let refusal = described(|meta| meta.bin_file_suffix = Some(".o/../x".into())).unwrap_err();
    assert!(matches!(refusal, Refusal::Field { field: "binFileSuffix", .. }), "{refusal}");
}

#[test]
fn the_magic_must_be_one_that_the_target_takes() {
    let refusal = described(|meta| meta.magic = Some(Magic::ElfAivec)).unwrap_err();
    let other =
        Refusal::Magic { target: "cpu-x86_64".into(), expected: vec![Magic::Elf], found: Magic::ElfAivec };
    assert_eq!(refusal, other);

    let json = meta(&object()).to_json().replace("_MAGIC_ELF", "_MAGIC_ELG");
    let refusal = validate(json.as_bytes(), &object(), &expect()).unwrap_err();
    assert!(matches!(refusal, Refusal::Meta(MetaError::Field { .. })), "{refusal}");
    assert_eq!(refusal.field(), "magic");
}

#[test]
fn identification_bytes_are_judged_one_by_one() {
    assert_eq!(patched(0, b"\x7fELG").unwrap_err(), Refusal::NotElf { found: b"\x7fELG".to_vec() });
    assert_eq!(patched(4, &[1]).unwrap_err(), Refusal::Class { found: 1 });
    assert_eq!(patched(5, &[2]).unwrap_err(), Refusal::Endianness { found: 2 });
    assert_eq!(patched(6, &[0]).unwrap_err().field(), "EI_VERSION");
    // Padding and OS ABI are anybody's.
    assert!(patched(7, &[3, 9, 9]).is_ok());
}

#[test]
fn machine_and_type_are_judged() {
    assert_eq!(
        patched(18, &[0x29, 0x10]).unwrap_err(),
        Refusal::Machine { target: "cpu-x86_64".into(), expected: vec![Machine(62)], found: Machine(0x1029) }
    );
    assert_eq!(patched(16, &[4]).unwrap_err(), Refusal::Type { found: 4 });
    assert_eq!(patched(16, &[2]).unwrap().object.elf_type, ElfType::Executable);
    assert_eq!(patched(16, &[3]).unwrap().object.elf_type, ElfType::Shared);
    assert_eq!(patched(48, &[0, 0, 0x93]).unwrap().object.flags, 0x93_0000);
}

#[test]
fn a_stripped_shared_object_has_only_dynamic_symbols() {
    let symbols = section_header(&object(), 2);
    assert_eq!(patched(symbols + 4, &[11]).unwrap().object.kernels, [KERNEL]);
    // And without symbols at all, there is no kernel.
    assert!(matches!(patched(symbols + 4, &[1]), Err(Refusal::Kernel { kernels: 0, .. })));
}

#[test]
fn malformed_structures_are_named() {
    let base = object();
    let symbols = section_header(&base, 2);
    let structure = |at: usize, bytes: &[u8]| patched(at, bytes).unwrap_err().field().to_owned();
    assert_eq!(structure(0x28, &[0xff; 8]), "section headers");
    assert_eq!(structure(0x3a, &[63]), "section headers");
    assert_eq!(structure(0x3e, &[200]), "section headers");
    assert_eq!(structure(symbols + 24, &[0xff; 8]), "section 3");
    assert_eq!(structure(symbols + 32, &[0xff; 8]), "section 3");
    // Its string table: no section, then no string table.
    assert_eq!(structure(symbols + 40, &[200]), "symbol table");
    assert_eq!(structure(symbols + 40, &[1]), "symbol table");
    // The kernel's name, then its section.
    let last = word(&base, symbols + 24) + word(&base, symbols + 32) - 24;
    assert_eq!(structure(last, &[0xff; 4]), "symbol table");
    assert_eq!(structure(last + 6, &[77, 0]), "symbol table");
    let refusal = patched(symbols + 24, &[0xff; 8]).unwrap_err();
    assert!(
        refusal
            .to_string()
            .contains(&format!("section 3: Invalid ELF section size or offset, in {} bytes", base.len()))
    );
}

#[test]
fn places_of_nothing_do_not_matter() {
    // The null section's size may be the number of sections; its offset means nothing.
    assert!(patched(word(&object(), 0x28) + 24, &[0xff; 16]).is_ok());
    // .data, emptied.
    let data = section_header(&object(), 1) + 64;
    assert!(patched(data + 24, &[[0xff; 8], [0; 8]].concat()).is_ok());
    // .symtab, emptied: there is no kernel, and goblin agrees.
    let mut object = object();
    let symbols = section_header(&object, 2);
    object[symbols + 24..symbols + 40].copy_from_slice(&[[0xff; 8], [0; 8]].concat());
    assert!(matches!(check(&meta(&object), &object), Err(Refusal::Kernel { kernels: 0, .. })));
    assert!(matches!(cross_check(&object), CrossCheck::Agree { sections: 6, kernels: 0, .. }));
}

/// With more sections than a symbol can count, their numbers stand in a table of their own.
#[test]
fn extended_section_indexes_are_read() {
    let mut object = object();
    let symbols = section_header(&object, 2);
    let data = section_header(&object, 1) + 64;
    let count = word(&object, symbols + 32) / 24;
    let last = word(&object, symbols + 24) + 24 * (count - 1);
    object[last + 6..last + 8].copy_from_slice(&[0xff; 2]);
    let without = check(&meta(&object), &object).unwrap_err();
    assert_eq!(without.field(), "symbol table", "{without}");

    // .data becomes the table: a number for each symbol, and only the last, the kernel's, counts.
    let end = object.len();
    object[data + 4] = 18;
    object[data + 24..data + 32].copy_from_slice(&(end as u64).to_le_bytes());
    object[data + 32..data + 40].copy_from_slice(&(4 * count as u64).to_le_bytes());
    object[data + 40] = 3;
    object.resize(end + 4 * count, 0);
    object[end + 4 * (count - 1)] = 1;
    assert_eq!(check(&meta(&object), &object).unwrap().object.kernels, [KERNEL]);
    assert!(matches!(cross_check(&object), CrossCheck::GoblinRefuses { .. }));
}

/// Ten thousand names that are all the tail of one long name: reading each would take the square of the file.
#[test]
fn names_that_overlap_without_end_are_refused() {
    let long = "x".repeat(200_000);
    let names: Vec<String> = (0..10_000).map(|i| format!("k{i}")).chain([long.clone()]).collect();
    let mut object = object_with(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let header = section_header(&object, 2);
    let (start, end) = (word(&object, header + 24), word(&object, header + 24) + word(&object, header + 32));
    let strings = word(&object, section_header(&object, 3) + 24);
    let at = object.windows(long.len()).position(|window| window == long.as_bytes()).unwrap() - strings;
    for (i, symbol) in (start + 24..end).step_by(24).enumerate() {
        object[symbol..symbol + 4].copy_from_slice(&((at + i) as u32).to_le_bytes());
    }
    let refusal = check(&meta(&object), &object).unwrap_err();
    let Refusal::Malformed { structure, problem, .. } = &refusal else { panic!("{refusal}") };
    assert_eq!(structure, "symbol table");
    assert!(problem.contains("longer than the file"), "{problem}");
    assert_eq!(cross_check(&object), CrossCheck::Unreadable(refusal));
}
