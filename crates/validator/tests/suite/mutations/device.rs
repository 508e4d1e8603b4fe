//! Flaws that matter to the Ascend runtime: the positions of sections, and the metadata of kernels.

use opkeep_testkit::ascend::Metadata;
use opkeep_testkit::patch::{bytes_of, get, header, put, section, section_named, symbol, symbol_named};
use opkeep_validator::Code;
use serde_json::json;

use crate::mutations::table::{Change, Mutation, object, spoken};

const VECTOR: &str = "910B vector";
const VECTOR_META: &str = ".ascend.meta.ReshapeAndCache_69cf_0";
const CUBE: &str = "910B cube";
const CUBE_META: &str = ".ascend.meta.MoeGroupedMatmul_3461_11";
const MIX: &str = "910B mix 1:2";
const MIX_META: &str = ".ascend.meta.GroupedMatmul_1fb9_3_mix_aiv";

/// Overwrites a field of a section's header.
fn set(object: &mut [u8], name: &str, field: usize, bytes: impl AsRef<[u8]>) {
    let at = section_named(object, name) + field;
    put(object, at, bytes);
}

/// Overwrites bytes of a section.
fn fill(object: &mut [u8], name: &str, at: usize, bytes: impl AsRef<[u8]>) {
    let start = bytes_of(object, section_named(object, name)).start;
    put(object, start + at, bytes);
}

/// Gives a section another name of the same length.
fn rename(object: &mut [u8], name: &str, other: &str) {
    let names = bytes_of(object, section_named(object, ".shstrtab")).start;
    let at = names + get(object, section_named(object, name) + section::NAME, 4);
    put(object, at, other);
}

/// The positions of sections and kernels.
pub(crate) const LAYOUT: &[Mutation] = &[
    object(VECTOR, "code by another name", &[Code::TEXT_PLACE, Code::KERNEL_SECTION], |object| {
        rename(object, ".text", ".tex2");
    }),
    object(VECTOR, "code that is not loaded", &[Code::TEXT_PLACE], |object| {
        set(object, ".text", section::FLAGS, [4]);
    }),
    object(VECTOR, "data at another place of the file", &[Code::GAP], |object| {
        let at = section_named(object, ".data") + section::OFFSET;
        let offset = get(object, at, 8) as u64;
        put(object, at, (offset + 8).to_le_bytes());
    }),
    object(VECTOR, "data at another address", &[Code::GAP], |object| {
        set(object, ".data", section::ADDRESS, 0x2000_u64.to_le_bytes());
    }),
    object(VECTOR, "data at the end of all addresses", &[Code::GAP], |object| {
        set(object, ".data", section::ADDRESS, [0xff; 8]);
    }),
    object(VECTOR, "memory that is loaded from nowhere", &[Code::LOADED_NOBITS], |object| {
        set(object, ".bl_uninit", section::FLAGS, [3]);
    }),
    object(VECTOR, "something for a dynamic loader", &[Code::DYNAMIC], |object| {
        set(object, ".comment", section::TYPE, [6]);
    }),
    object(VECTOR, "undefined memory", &[Code::UNDEFINED], |object| {
        let at = symbol_named(object, "g_vecTPipePtr");
        put(object, at + symbol::SECTION, [0, 0]);
    }),
    object(CUBE, "a kernel within an instruction", &[Code::KERNEL_ALIGN], |object| {
        let at = symbol_named(object, "MoeGroupedMatmul_3461_10");
        put(object, at + symbol::VALUE, [2]);
    }),
    object(CUBE, "a kernel elsewhere", &[Code::KERNEL_SECTION], |object| {
        set(object, ".data", section::FLAGS, [7]);
        let at = symbol_named(object, "MoeGroupedMatmul_3461_11");
        put(object, at + symbol::SECTION, [2]);
        put(object, at + symbol::VALUE, 0x1000_u64.to_le_bytes());
        put(object, at + symbol::SIZE, 8_u64.to_le_bytes());
    }),
    object(VECTOR, "for cube cores", &[Code::ARCHITECTURE], |object| {
        put(object, header::FLAGS, [0, 0, 0x94])
    }),
    object(VECTOR, "for another chip", &[Code::CHIP], |object| put(object, header::FLAGS, [0, 0, 0x8a])),
    object("310P", "for another chip", &[Code::CHIP], |object| put(object, header::FLAGS, [0, 0, 0x95])),
    object("910A static", "for vector cores", &[Code::CHIP, Code::LACKS_FIELD], |object| {
        put(object, header::FLAGS, [0, 0, 0x93]);
    }),
    object("950 vector", "for another chip", &[Code::CHIP], |object| {
        put(object, header::FLAGS, [0, 0, 0x93]);
    }),
    object("950 vector", "for cores that were never seen", &[], |object| {
        put(object, header::FLAGS, [0, 0, 0x9a]);
    }),
    // A part is not loaded: its layout is the linker's matter.
    object("910B part, vector", "undefined memory", &[], |object| {
        let at = symbol_named(object, "g_vecTPipePtr");
        put(object, at + symbol::SECTION, [0, 0]);
    }),
    object("910B part, vector", "code by another name", &[], |object| rename(object, ".text", ".tex2")),
];

/// Sections with information about kernels.
pub(crate) const METADATA: &[Mutation] = &[
    object(VECTOR, "a record that does not end in time", &[Code::METADATA], |object| {
        fill(object, VECTOR_META, 10, [0xff, 0xff]);
    }),
    object(VECTOR, "half a record", &[Code::METADATA], |object| {
        let at = section_named(object, VECTOR_META) + section::SIZE;
        let bytes = get(object, at, 8) as u64;
        put(object, at, (bytes - 1).to_le_bytes());
    }),
    object(VECTOR, "an argument that does not end in time", &[Code::METADATA], |object| {
        fill(object, VECTOR_META, 14, [0, 99]);
    }),
    object(VECTOR, "a kernel type without meaning", &[Code::METADATA], |object| {
        fill(object, VECTOR_META, 4, [9])
    }),
    object(VECTOR, "metadata of no kernel", &[Code::STRAY_METADATA], |object| {
        rename(object, VECTOR_META, ".ascend.meta.ReshapeAndCache_69cf_1");
    }),
    object(CUBE, "metadata of no kernel", &[Code::STRAY_METADATA, Code::NO_METADATA], |object| {
        rename(object, CUBE_META, ".ascend.meta.MoeGroupedMatmul_3461_12");
    }),
    object(CUBE, "no metadata", &[Code::NO_METADATA], |object| {
        rename(object, CUBE_META, ".ascent.meta.MoeGroupedMatmul_3461_11");
    }),
    object(CUBE, "metadata of one kernel twice", &[Code::METADATA, Code::NO_METADATA], |object| {
        rename(object, CUBE_META, ".ascend.meta.MoeGroupedMatmul_3461_10");
    }),
    object(VECTOR, "a stack that is not known", &[Code::STACK_RECORD], |object| {
        fill(object, ".ascend.stack.size.record", 0, [1]);
    }),
    object(CUBE, "two stacks", &[Code::STACK_RECORD], |object| {
        fill(object, ".ascend.stack.size.record", 8, 0x4000_u64.to_le_bytes());
    }),
    object(CUBE, "the arguments of one of two kernels", &[Code::ARGUMENT_RECORD], |object| {
        set(object, "__CCE_KernelArgSize", section::SIZE, [4]);
    }),
    object(VECTOR, "for cube cores", &[Code::KERNEL_TYPE, Code::MAGIC_MISFIT], |object| {
        fill(object, VECTOR_META, 4, [2]);
    }),
    object(CUBE, "for vector cores", &[Code::KERNEL_TYPE, Code::MAGIC_MISFIT], |object| {
        fill(object, CUBE_META, 4, [3]);
    }),
    // Compilers may call a mixed kernel without cube cores a vector kernel in the metadata, and `MIX_AIC` in the
    // `.json`.
    object("910B mix 0:1, in the list", "vector cores only", &[], |object| {
        fill(object, ".ascend.meta.TransposeKvCache_f57d_0_mix_aiv", 4, [3]);
    }),
    object("910B mix 0:1, in the list", "cube cores only", &[Code::KERNEL_TYPE], |object| {
        fill(object, ".ascend.meta.TransposeKvCache_f57d_0_mix_aiv", 4, [2]);
    }),
    object(MIX, "vector cores only", &[Code::KERNEL_TYPE], |object| fill(object, MIX_META, 4, [3])),
    object(MIX, "another ratio of cores", &[Code::TASK_RATIO], |object| {
        fill(object, MIX_META, 12, [1, 0, 1, 0])
    }),
    // The record of the ratio becomes one of synchronisation.
    object(MIX, "cores that do not wait for each other", &[Code::CROSS_CORE_SYNC], |object| {
        fill(object, MIX_META, 8, [2, 0, 4, 0, 0, 0, 0, 0]);
    }),
    object(MIX, "cores that wait for each other", &[], |object| {
        fill(object, MIX_META, 8, [2, 0, 4, 0, 1, 0, 0, 0]);
    }),
    object("910B many mixed kernels", "the key of another kernel", &[Code::TILING_KEY], |object| {
        fill(object, ".ascend.meta.MatmulLeakyRelu_0a1b_12_mix_aiv", 28, [13]);
    }),
    object("910B many mixed kernels", "no key", &[], |object| {
        fill(object, ".ascend.meta.MatmulLeakyRelu_0a1b_12_mix_aiv", 20, [0]);
    }),
    Mutation {
        of: VECTOR,
        name: "another opinion on whether results are repeatable",
        codes: &[Code::DETERMINISTIC],
        change: Change::Pair(|_| {
            let metadata = Metadata::default().kernel_type(3).record(13, 4, &[1, 0, 0, 0]);
            let list = json!([{"kernelName": "Spoken_0", "deterministic": "false"}]);
            spoken(&metadata).with_field("kernelList", list)
        }),
    },
    Mutation {
        of: VECTOR,
        name: "the same opinion on whether results are repeatable",
        codes: &[],
        change: Change::Pair(|_| {
            let metadata = Metadata::default().kernel_type(3).record(13, 4, &[1, 0, 0, 0]);
            let list = json!([{"kernelName": "Spoken_0", "deterministic": "true"}]);
            spoken(&metadata).with_field("kernelList", list)
        }),
    },
    // The runtime skips unknown records.
    Mutation {
        of: VECTOR,
        name: "a record of tomorrow",
        codes: &[],
        change: Change::Pair(|_| spoken(&Metadata::default().kernel_type(3).record(777, 3, &[1, 2, 3]))),
    },
];
