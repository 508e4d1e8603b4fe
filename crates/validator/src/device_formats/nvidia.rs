//! Cubins: objects of NVIDIA's `ptxas`. NVIDIA documents little of the format, so each statement here was compared with
//! what `cuobjdump -res-usage` and `-elf` print for objects of `ptxas` 12.4 to 13.5 for SM 75 to 121.

use std::collections::HashMap;

use object::LittleEndian as LE;
use object::elf;
use object::read::elf::{SectionHeader as _, Sym as _};
use opkeep_artifact::{ElfLayout, ElfRules, Expectations};

use crate::device_formats::kernel::DeviceKernel;
use crate::elf::Elf;
use crate::kernel_symbols::{self, ELF_TYPE, FLAGS, NAME_FIELD, SYMBOLS};

/// `EM_CUDA`.
pub(super) const MACHINE: u16 = elf::EM_CUDA.0;
/// The bit of `st_other` that distinguishes kernels from the functions that they call.
const ENTRY: u8 = 0x10;
/// The section with attributes of all functions.
const INFO: &[u8] = b".nv.info";
/// The prefix of the sections for the static shared memory of a kernel.
const SHARED: &[u8] = b".nv.shared.";
/// The format of an attribute that is followed by as many bytes as it states.
const SIZED: u8 = 4;
/// The attributes for the registers and the stack of a function.
const REGISTERS: u8 = 0x2f;
const STACK: u8 = 0x12;

/// Expectations of a cubin for `target`, such as `sm_90a`, whose JSON metadata name the kernel in `name`. The number in
/// the target is the SM that the object must be for; a suffix letter is not in the object. For another target, any SM.
///
/// ```
/// use opkeep_artifact::Artifact;
/// use opkeep_validator::{Code, Validator, device_formats};
///
/// let metadata = br#"{"name": "add_kernel"}"#.to_vec();
/// let cut = Artifact { metadata, object: b"\x7fELF".to_vec(), extra: Vec::new() };
/// let report = Validator::builtin().validate(&cut, &device_formats::cubin("sm_90"));
/// assert!(report.find(Code::MALFORMED).is_some());
/// ```
pub fn cubin(target: &str) -> Expectations {
    let flags = sm(target).map(flags);
    let mut parameters =
        vec![(NAME_FIELD, "name"), (ELF_TYPE, "executable"), (SYMBOLS, "{}:func:section=.text.{}")];
    parameters.extend(flags.as_deref().map(|flags| (FLAGS, flags)));
    kernel_symbols::expectations(target, ElfRules::new([MACHINE], ElfLayout::Unspecified), &parameters)
}

/// The number in `sm_90`, `sm90a`, `compute_90` or `90`.
fn sm(target: &str) -> Option<u8> {
    let start = target.find(|letter: char| letter.is_ascii_digit())?;
    let prefix = target[..start].trim_end_matches('_');
    let number = target[start..].trim_end_matches(|letter: char| letter.is_ascii_lowercase());
    matches!(prefix, "" | "sm" | "compute").then(|| number.parse().ok())?
}

/// `ptxas` writes the SM into the lowest byte of `e_flags` with `EI_OSABI` 51, into the next with 65.
fn flags(sm: u8) -> String {
    format!("51:0xff={sm:#x} 65:0xff00={:#x}", u32::from(sm) << 8)
}

/// The kernels, also those that are not global.
pub(super) fn kernels(elf: &Elf<'_>) -> Vec<DeviceKernel> {
    let is_kernel = |symbol: &elf::Sym64<LE>| {
        symbol.st_type() == elf::STT_FUNC
            && symbol.st_other().0 & ENTRY != 0
            && symbol.st_shndx(LE) != elf::SHN_UNDEF
    };
    let Ok(symbols) = elf.named_symbols(is_kernel, |_| true) else { return Vec::new() };
    let (mut info, mut shared): (&[u8], _) = (&[], HashMap::new());
    for (name, section) in elf.sections_with_names() {
        if name == INFO {
            info = section.data(LE, elf.bytes).unwrap_or_default();
        } else if let Some(kernel) = name.strip_prefix(SHARED) {
            shared.insert(kernel, section.sh_size(LE));
        }
    }
    let info = attributes(info);
    let kernels = symbols.iter().filter(|symbol| symbol.table == elf::SHT_SYMTAB).map(|symbol| {
        let of_kernel = |attribute| {
            let index = u32::try_from(symbol.index).ok()?;
            info.get(&(attribute, index)).copied()
        };
        DeviceKernel {
            name: String::from_utf8_lossy(symbol.name).into_owned(),
            code_bytes: symbol.symbol.st_size(LE),
            registers: of_kernel(REGISTERS),
            // A kernel without the section uses none.
            static_shared_bytes: Some(shared.get(symbol.name).copied().unwrap_or(0)),
            private_bytes: of_kernel(STACK).map(u64::from),
        }
    });
    kernels.collect()
}

/// The attributes with a symbol and a number.
fn attributes(mut info: &[u8]) -> HashMap<(u8, u32), u32> {
    let mut found = HashMap::new();
    while let Some(([format, attribute, low, high], rest)) = info.split_first_chunk() {
        info = rest;
        if *format != SIZED {
            continue;
        }
        let Some((value, rest)) = info.split_at_checked(u16::from_le_bytes([*low, *high]).into()) else {
            break;
        };
        info = rest;
        if let ([symbol, number], []) = value.as_chunks::<4>()
            && matches!(*attribute, REGISTERS | STACK)
        {
            found.insert((*attribute, u32::from_le_bytes(*symbol)), u32::from_le_bytes(*number));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_target_is_its_sm() {
        for (target, number) in
            [("sm_90a", 90), ("sm75", 75), ("120", 120), ("compute_100f", 100), ("sm_121", 121)]
        {
            assert_eq!(sm(target), Some(number), "{target}");
        }
        for target in ["", "sm_", "any", "gfx90a", "sm_300", "cuda:90", "sm_9x0", "é9"] {
            assert_eq!(sm(target), None, "{target}");
        }
        assert_eq!(flags(90), "51:0xff=0x5a 65:0xff00=0x5a00");
    }
}
