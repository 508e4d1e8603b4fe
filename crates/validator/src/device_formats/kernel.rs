//! The description of a kernel.

/// A kernel in an object of a GPU compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceKernel {
    /// Its symbol.
    pub name: String,
    /// The size of its code in bytes.
    pub code_bytes: u64,
    /// The registers of a thread, if known; in an hsaco the vector registers, rounded up to the unit in which they are
    /// allocated.
    pub registers: Option<u32>,
    /// The memory in bytes that the threads of a block share, without what a launch adds (`shared` in Triton's
    /// metadata). CUDA counts what it reserves.
    pub static_shared_bytes: Option<u64>,
    /// The stack, or private memory, of a thread in bytes.
    pub private_bytes: Option<u64>,
}
