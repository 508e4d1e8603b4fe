//! Flaws of files that hold kernels: libraries for the host, and fat binaries.

use opkeep_testkit::patch::{get, header, put, symbol, symbol_named};
use opkeep_validator::{Code, expectations_of, validate, validate_full};

use crate::mutations::table::{Change, Mutation, base, fields, object};

const CONTAINER: &str = "container";
const FAT: &str = "fat binary";

/// The offset of the second of two objects in a fat binary, and that of its entry in the table.
const SECOND: usize = 8 + 2 * 8 + 8;

/// Overwrites a field of the kernel's symbol in the second object.
fn kernel(file: &mut [u8], field: usize, bytes: impl AsRef<[u8]>) {
    let start = get(file, SECOND, 8);
    let at = symbol_named(&file[start..], "Tile_1_0");
    put(file, start + at + field, bytes);
}

pub(crate) const HOLDERS: &[Mutation] = &[
    Mutation {
        of: CONTAINER,
        name: "the magic of cube cores",
        codes: &[Code::MAGIC_MISFIT],
        change: Change::Fields(|fields| {
            fields.insert("magic".into(), "RT_DEV_BINARY_MAGIC_ELF_AICUBE".into());
        }),
    },
    fields(CONTAINER, "the magic of a raw binary", &[Code::MAGIC], |fields| {
        fields.insert("magic".into(), "RT_DEV_BINARY_MAGIC_PLAIN_AIVEC".into());
    }),
    object(CONTAINER, "a weak function", &[], |object| {
        let at = symbol_named(object, "GetKernelBin");
        put(object, at + symbol::INFO, [0x22]);
    }),
    object(CONTAINER, "nothing to load", &[Code::MALFORMED], |object| {
        put(object, header::PHOFF, [0xff; 8]);
    }),
    object(CONTAINER, "a function behind the code", &[Code::KERNEL_RANGE], |object| {
        let at = symbol_named(object, "GetKernelBin");
        put(object, at + symbol::VALUE, 0x9000_u64.to_le_bytes());
    }),
    object(FAT, "a table of nothing", &[Code::MALFORMED], |object| put(object, 0, [0])),
    object(FAT, "a table beyond all files", &[Code::MALFORMED], |object| put(object, 0, [0xff; 8])),
    object(FAT, "an object in the table", &[Code::MALFORMED], |object| put(object, SECOND, [8, 0])),
    object(FAT, "an object behind the end", &[Code::MALFORMED], |object| {
        let end = object.len() as u64;
        put(object, SECOND, end.to_le_bytes());
    }),
    object(FAT, "a last byte less", &[Code::MALFORMED], |object| object.truncate(object.len() - 1)),
    object(FAT, "an object that is none", &[Code::NOT_ELF], |object| {
        let start = get(object, SECOND, 8);
        put(object, start, [0]);
    }),
    object(FAT, "an object for another machine", &[Code::MACHINE], |object| {
        let start = get(object, SECOND, 8);
        put(object, start + header::MACHINE, [62, 0]);
    }),
    object(FAT, "a kernel that does not end in time", &[Code::KERNEL_RANGE], |object| {
        kernel(object, symbol::SIZE, [0xff; 8]);
    }),
    // One of the two still has it, and the other cannot be used.
    object(
        FAT,
        "a hidden kernel",
        &[Code::STRAY_METADATA, Code::NO_KERNEL, Code::ARGUMENT_RECORD],
        |object| {
            kernel(object, symbol::OTHER, [2]);
        },
    ),
    object(FAT, "offsets that count from the table's end", &[], |object| {
        let head = get(object, SECOND - 8, 8) as u64;
        let second = get(object, SECOND, 8) as u64;
        put(object, SECOND - 8, [0; 8]);
        put(object, SECOND, (second - head).to_le_bytes());
    }),
    object(FAT, "a key without a kernel in the list", &[Code::UNLISTED], |object| put(object, 16, [1])),
    fields(FAT, "one kernel of two", &[Code::UNLISTED], |fields| {
        fields["kernelList"].as_array_mut().unwrap().pop();
    }),
    fields(FAT, "a key twice", &[Code::LISTED_TWICE, Code::UNLISTED], |fields| {
        fields["kernelList"][1]["configKey"] = 7.into();
    }),
    fields(FAT, "a kernel that is nowhere", &[Code::KERNEL, Code::UNLISTED], |fields| {
        fields["kernelList"][1]["kernelName"] = "Tile_1_1".into();
    }),
    fields(FAT, "no keys", &[Code::NOT_ELF], |fields| {
        for item in fields["kernelList"].as_array_mut().unwrap() {
            item.as_object_mut().unwrap().remove("configKey");
        }
        fields["kernelList"].as_array_mut().unwrap().pop();
    }),
];

#[test]
fn each_object_of_a_fat_binary_has_findings() {
    let (pair, expect) = base(FAT);
    let report = validate_full(&pair.json, &pair.object, &expect);
    let sizes: Vec<_> =
        report.object.iter().chain(&report.others).map(|facts| facts.kernels[0].size).collect();
    assert_eq!(sizes, [0x200, 0x400]);
    let cross_check = report.cross_check.unwrap();
    assert_eq!(cross_check.kernels, 2);
    assert_eq!(cross_check.sections, report.object.unwrap().sections + report.others[0].sections);
    let guessed = expectations_of(Some(&pair.json), &pair.object);
    assert_eq!(guessed.elf().map(|rules| &rules.machines), expect.elf().map(|rules| &rules.machines));
}

/// Each item is compared with the object of its key, although all have one name.
#[test]
fn a_kernel_is_searched_in_the_object_with_its_key() {
    let (pair, expect) = base(FAT);
    // In the second object, the metadata of the kernel is for cube cores.
    let pair = pair.with_object(|file| {
        let start = get(file, SECOND, 8);
        let object = &file[start..];
        let header = opkeep_testkit::patch::section_named(object, ".ascend.meta.Tile_1_0");
        let meta = opkeep_testkit::patch::bytes_of(object, header).start;
        put(file, start + meta + 4, [2]);
    });
    assert!(validate(&pair.json, &pair.object, &expect).find(Code::KERNEL_TYPE).is_some());
    let first = pair.with_fields(|fields| {
        fields["kernelList"].as_array_mut().unwrap().pop();
    });
    assert!(validate(&first.json, &first.object, &expect).find(Code::KERNEL_TYPE).is_none());
}
