//! Objects of GPU compilers: the [expectations](opkeep_artifact::Expectations) of each format as data, and the
//! [kernels](DeviceKernel) of an object. The rules themselves name no vendor.

mod amd;
mod kernel;
mod nvidia;

use opkeep_artifact::Expectations;

use crate::elf::Elf;
use crate::findings::Findings;

pub use amd::hsaco;
pub use kernel::DeviceKernel;
pub use nvidia::cubin;

/// The rules for the kernels of a store's target that is called `<backend>-<architecture>`, such as `cuda-sm_90` or
/// `hip-gfx942`, and the suffix of their objects' names. `None` if there are none.
pub fn rules_of_target(target: &str) -> Option<(&'static str, Expectations)> {
    let (suffix, mut rules) = match target.split_once('-')? {
        ("cuda", architecture) => ("cubin", cubin(architecture)),
        ("hip", architecture) => ("hsaco", hsaco(architecture)),
        _ => return None,
    };
    target.clone_into(&mut rules.target);
    Some((suffix, rules))
}

/// The kernels of an object, in the order of its symbol table: empty if it is no cubin or hsaco, or is damaged.
pub fn device_kernels(object: &[u8]) -> Vec<DeviceKernel> {
    let Some(elf) = Elf::read(object, &mut Findings::new()) else { return Vec::new() };
    match elf.machine.0 {
        nvidia::MACHINE => nvidia::kernels(&elf),
        amd::MACHINE => amd::kernels(&elf),
        _ => Vec::new(),
    }
}
