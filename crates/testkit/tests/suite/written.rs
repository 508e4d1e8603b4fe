//! Content other than sections and symbols: metadata, digests, descriptions.

use std::collections::BTreeSet;

use goblin::elf::Elf;
use opkeep_cann_meta::{KernelMeta, Magic};
use opkeep_digest::Digest;
use opkeep_testkit::ascend::{Argument, Chip, Cores, Kernel, Metadata, Pair, split_mix, zoo};
use opkeep_testkit::patch;

fn section<'a>(object: &'a [u8], name: &str) -> &'a [u8] {
    let elf = Elf::parse(object).unwrap();
    let header = elf.section_headers.iter().find(|header| &elf.shdr_strtab[header.sh_name] == name).unwrap();
    &object[header.file_range().unwrap()]
}

/// The metadata of a genuine object, with fewer arguments.
#[test]
fn metadata_is_spelt_as_compilers_do() {
    let mix = Kernel::new(Chip::Ascend910B, "K")
        .cores(Cores::Mix { cube: 1, vector: 2 })
        .keys([3])
        .arguments([Argument::InputList(4), Argument::Output, Argument::Workspace, Argument::Tiling(0x128)]);
    let object = mix.build().object;
    let expected = "01000400 04000000 03000400 01000200 04005c00 \
        00050001 000000000001000b 00050003 0000000000030002 ffffffffffffffff 0000000000000004 \
        00050002 0000000000010003 ffffffffffffffff 00050001 0000000000010004 \
        00050002 0000000000010007 0000000000000128";
    let expected = expected.replace(' ', "");
    for suffix in ["aic", "aiv"] {
        let bytes = section(&object, &format!(".ascend.meta.K_3_mix_{suffix}"));
        assert_eq!(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), expected);
    }
    assert_eq!(section(&object, "__CCE_KernelArgSize"), [0x28, 0, 0, 0, 0x28, 0, 0, 0]);
    assert_eq!(section(&object, ".ascend.stack.size.record"), [0, 0x80, 0, 0, 0, 0, 0, 0].repeat(2));
    assert_eq!(
        section(&object, ".comment"),
        b"2026-07-30T20:53:21+08:00 clang version 15.0.5\0Linker: LLD 15.0.5\0"
    );
    let entry = Metadata::default().tiling_key(10_000_000_000_000_000_000);
    assert_eq!(entry.0, [14, 0, 16, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xe8, 0x89, 4, 0x23, 0xc7, 0x8a]);
}

#[test]
fn each_kernel_type_is_that_of_its_cores() {
    let kind = |chip, cores| {
        let object = Kernel::new(chip, "K").cores(cores).keys([0]).build().object;
        let elf = Elf::parse(&object).unwrap();
        let of_name = |name: &&str| name.starts_with(".ascend.meta.");
        let names: Vec<&str> = elf
            .section_headers
            .iter()
            .map(|header| &elf.shdr_strtab[header.sh_name])
            .filter(of_name)
            .collect();
        names.iter().map(|name| section(&object, name)[4]).collect::<Vec<_>>()
    };
    let mix = |cube, vector| Cores::Mix { cube, vector };
    assert_eq!(kind(Chip::Ascend910B, Cores::AiCore), [2]);
    assert_eq!(kind(Chip::Ascend910_93, Cores::Vector), [3]);
    assert_eq!(kind(Chip::Ascend910B, mix(1, 2)), [4, 4]);
    assert_eq!(kind(Chip::Ascend910B, mix(1, 0)), [4]);
    assert_eq!(kind(Chip::Ascend910B, mix(0, 1)), [5]);
    assert_eq!(kind(Chip::Ascend310P, Cores::AiCore), [1]);
    assert_eq!(kind(Chip::Ascend310B, Cores::AiCore), [1]);
    assert_eq!(kind(Chip::Ascend910, Cores::AiCore), [0; 0]);
}

#[test]
fn descriptions_match_the_objects() {
    let mut magics = BTreeSet::new();
    for (kind, pair) in zoo() {
        let meta = KernelMeta::parse(&pair.json).unwrap();
        assert_eq!(meta.sha256, Some(Digest::of(&pair.object).to_string()), "{kind}");
        assert_eq!(meta.bin_file_name.as_ref(), Some(&pair.stem), "{kind}");
        let elf = Elf::parse(&pair.object).unwrap();
        let symbols: BTreeSet<&str> = elf
            .syms
            .iter()
            .map(|symbol| &elf.strtab[symbol.st_name])
            .chain(elf.dynsyms.iter().map(|symbol| &elf.dynstrtab[symbol.st_name]))
            .collect();
        for name in meta.entry_names() {
            let known = ["", "_mix_aic", "_mix_aiv"]
                .map(|suffix| symbols.contains(format!("{name}{suffix}").as_str()));
            assert!(known.contains(&true), "{kind}: {name}");
        }
        let fields: serde_json::Value = serde_json::from_slice(&pair.json).unwrap();
        magics.insert(fields["magic"].as_str().map(str::to_owned));
    }
    let elf = [
        Magic::Elf,
        Magic::ElfAicpu,
        Magic::ElfAicube,
        Magic::ElfAivec,
        Magic::FftsMixAic,
        Magic::FftsMixAiv,
    ];
    assert_eq!(magics, elf.map(|magic| Some(magic.name().to_owned())).into());
}

#[test]
fn a_split_kernel_names_its_parts() {
    let split = split_mix("M");
    let master: serde_json::Value = serde_json::from_slice(&split.master).unwrap();
    for (item, part) in master["jsonList"].as_array().unwrap().iter().zip(&split.parts) {
        assert_eq!(item["jsonFileName"], part.file_names()[0]);
    }
}

#[test]
fn a_pair_is_changed_in_one_place() {
    let pair = Kernel::new(Chip::Ascend310P, "K").build();
    let other = pair.clone().with_object(|object| patch::put(object, patch::header::FLAGS, [1, 2, 3]));
    assert_eq!(Elf::parse(&other.object).unwrap().header.e_flags, 0x03_0201);
    let fields = |pair: &Pair| serde_json::from_slice::<serde_json::Map<_, _>>(&pair.json).unwrap();
    let (before, after) = (fields(&pair), fields(&other));
    let changed: Vec<_> = before.keys().filter(|name| before[*name] != after[*name]).collect();
    assert_eq!(changed, ["sha256"]);
    assert_eq!(after["sha256"], Digest::of(&other.object).to_string());

    let other = pair.clone().with_field("blockDim", 7).without_field("magic");
    assert_eq!(fields(&other)["blockDim"], 7);
    assert!(!fields(&other).contains_key("magic"));
    assert_eq!((fields(&other).len() + 1, &other.object), (before.len(), &pair.object));
}

#[test]
fn fields_are_found_where_goblin_finds_them() {
    for (kind, pair) in zoo() {
        let elf = Elf::parse(&pair.object).unwrap();
        for header in elf.section_headers.iter().skip(1) {
            let at = patch::section_named(&pair.object, &elf.shdr_strtab[header.sh_name]);
            let link = patch::get(&pair.object, at + patch::section::LINK, 4);
            assert_eq!(link, header.sh_link as usize, "{kind}");
        }
        let table =
            if elf.syms.is_empty() { (&elf.dynsyms, &elf.dynstrtab) } else { (&elf.syms, &elf.strtab) };
        for symbol in table.0.iter().filter(|symbol| symbol.st_name != 0) {
            let at = patch::symbol_named(&pair.object, &table.1[symbol.st_name]);
            assert_eq!(
                patch::get(&pair.object, at + patch::symbol::VALUE, 8),
                symbol.st_value as usize,
                "{kind}"
            );
            assert_eq!(patch::get(&pair.object, at + patch::symbol::SECTION, 2), symbol.st_shndx, "{kind}");
        }
    }
}
