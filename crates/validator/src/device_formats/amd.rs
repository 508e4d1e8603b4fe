//! Hsacos: code objects of LLVM's AMDGPU backend, as its user guide describes them
//! (<https://llvm.org/docs/AMDGPUUsage.html>: "ELF Code Object" and "Kernel Descriptor").

use std::collections::HashMap;

use object::LittleEndian as LE;
use object::elf;
use object::read::elf::{SectionHeader as _, Sym as _};
use opkeep_artifact::{ElfLayout, ElfRules, Expectations};

use crate::device_formats::kernel::DeviceKernel;
use crate::elf::Elf;
use crate::kernel_symbols::{self, ELF_TYPE, NAME_FIELD, SYMBOLS};

/// `EM_AMDGPU`.
pub(super) const MACHINE: u16 = elf::EM_AMDGPU.0;
/// `EF_AMDGPU_MACH`: the bits of `e_flags` with the processor.
const PROCESSOR: u32 = 0xff;
/// The suffix of the symbol of a kernel's descriptor.
const DESCRIPTOR: &[u8] = b".kd";

/// Processors and their `EF_AMDGPU_MACH_AMDGCN_...`.
const PROCESSORS: [(&str, u32); 30] = [
    ("gfx900", 0x2c),
    ("gfx902", 0x2d),
    ("gfx904", 0x2e),
    ("gfx906", 0x2f),
    ("gfx908", 0x30),
    ("gfx909", 0x31),
    ("gfx90c", 0x32),
    ("gfx90a", 0x3f),
    ("gfx942", 0x4c),
    ("gfx950", 0x4f),
    ("gfx1010", 0x33),
    ("gfx1011", 0x34),
    ("gfx1012", 0x35),
    ("gfx1013", 0x42),
    ("gfx1030", 0x36),
    ("gfx1031", 0x37),
    ("gfx1032", 0x38),
    ("gfx1033", 0x39),
    ("gfx1034", 0x3e),
    ("gfx1035", 0x3d),
    ("gfx1036", 0x45),
    ("gfx1100", 0x41),
    ("gfx1101", 0x46),
    ("gfx1102", 0x47),
    ("gfx1103", 0x44),
    ("gfx1150", 0x43),
    ("gfx1151", 0x4a),
    ("gfx1152", 0x55),
    ("gfx1200", 0x48),
    ("gfx1201", 0x4e),
];

/// Expectations of an hsaco for `target`, such as `gfx942` or `gfx90a:sramecc+:xnack-`, whose JSON metadata name the
/// kernel in `name`. For a known processor, the object must be for it. A store's target has `_` for `:` and `+`.
pub fn hsaco(target: &str) -> Expectations {
    let elf = ElfRules::new([MACHINE], ElfLayout::Unspecified);
    let name = target.split([':', '_']).next().unwrap_or_default();
    let elf = match PROCESSORS.iter().find(|(processor, _)| *processor == name) {
        Some((_, number)) => elf.with_flags(PROCESSOR, [*number]),
        None => elf,
    };
    // A kernel descriptor has 64 bytes.
    let symbols = "{}:func {}.kd:object:bytes=64";
    kernel_symbols::expectations(
        target,
        elf,
        &[(NAME_FIELD, "name"), (ELF_TYPE, "shared"), (SYMBOLS, symbols)],
    )
}

/// The functions that have a descriptor.
pub(super) fn kernels(elf: &Elf<'_>) -> Vec<DeviceKernel> {
    let is_object = |symbol: &elf::Sym64<LE>| symbol.st_type() == elf::STT_OBJECT;
    let is_descriptor = |name: &[u8]| name.ends_with(DESCRIPTOR);
    let Ok(objects) = elf.named_symbols(is_object, is_descriptor) else { return Vec::new() };
    let descriptors: HashMap<&[u8], &[u8; 64]> = objects
        .iter()
        .filter_map(|object| {
            let section = elf.sections.section(object.section?).ok()?;
            let start = object.symbol.st_value(LE).wrapping_sub(section.sh_addr(LE));
            let data = section.data(LE, elf.bytes).ok()?.get(usize::try_from(start).ok()?..)?;
            Some((object.name.strip_suffix(DESCRIPTOR)?, data.first_chunk()?))
        })
        .collect();
    let kernels = elf.symbols.kernels.iter().filter_map(|kernel| {
        let descriptor = descriptors.get(kernel.name)?;
        Some(DeviceKernel {
            name: String::from_utf8_lossy(kernel.name).into_owned(),
            code_bytes: kernel.size,
            registers: vector_registers(elf.flags & PROCESSOR, descriptor),
            static_shared_bytes: Some(word(descriptor, 0).into()),
            private_bytes: Some(word(descriptor, 4).into()),
        })
    });
    kernels.collect()
}

/// The little-endian number at `at`.
fn word(descriptor: &[u8; 64], at: usize) -> u32 {
    descriptor[at..].first_chunk().copied().map_or(0, u32::from_le_bytes)
}

/// The vector registers of a thread, for processors whose unit of allocation in the descriptor is known: 8 on gfx90a,
/// gfx942 and gfx950, on gfx10 to gfx12 with waves of 32 threads 8, of 64 threads 4.
fn vector_registers(processor: u32, descriptor: &[u8; 64]) -> Option<u32> {
    // `COMPUTE_PGM_RSRC1`, whose lowest 6 bits are the number of units less one, and `ENABLE_WAVEFRONT_SIZE32`.
    let (units, is_wave32) = ((word(descriptor, 48) & 0x3f) + 1, word(descriptor, 56) >> 10 & 1 == 1);
    let (name, _) = PROCESSORS.iter().find(|(_, number)| *number == processor)?;
    match *name {
        "gfx90a" | "gfx942" | "gfx950" => Some(8 * units),
        // gfx10 to gfx12.
        name if name.len() == 7 => Some(if is_wave32 { 8 } else { 4 } * units),
        _ => None,
    }
}
