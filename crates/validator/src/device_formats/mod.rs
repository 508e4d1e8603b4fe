//! Objects of GPU compilers: the [expectations](opkeep_artifact::Expectations) of each format as data, and the
//! [kernels](DeviceKernel) of an object. The rules themselves name no vendor.

mod amd;
mod kernel;
mod nvidia;

use crate::elf::Elf;
use crate::findings::Findings;

pub use amd::hsaco;
pub use kernel::DeviceKernel;
pub use nvidia::cubin;

/// The kernels of an object, in the order of its symbol table: empty if it is no cubin or hsaco, or is damaged.
pub fn device_kernels(object: &[u8]) -> Vec<DeviceKernel> {
    let Some(elf) = Elf::read(object, &mut Findings::new()) else { return Vec::new() };
    match elf.machine.0 {
        nvidia::MACHINE => nvidia::kernels(&elf),
        amd::MACHINE => amd::kernels(&elf),
        _ => Vec::new(),
    }
}
