//! The Ascend backend: finds CANN, Huawei's toolkit, fingerprints everything that its kernels depend on, and compiles
//! kernels with its compiler.
//!
//! Compiling needs no device. The facts about the toolkit come from published installs of CANN 8.1 and 9.1; the backend
//! has not been run on a real one. `opkeep-cann-toolkit` finds and fingerprints the toolkit; its types are re-exported here.
//!
//! # Driving the compiler
//!
//! [`AscendBackend`] compiles one operator per job, by one of two [drivers](Driver) that make the same kernels: a
//! process of `opc` per compile, or workers, Python processes that import the toolkit once. A worker that crashes fails
//! its own job and is replaced; one whose modules were changed since it imported them is replaced before it compiles
//! anything. All processes end when this process ends, even if it is killed.
//!
//! The toolkit's exit status does not show whether a compile succeeded: a compile succeeded if both files exist. The
//! reason of a failure is in its log; [`slog`] finds codes and texts in it.
//!
//! # A device
//!
//! Two things need a device: [`Runtime::soc_name`] returns the name of its chip, and [`AscendLoader`] loads kernels onto
//! it. Both use `libascendcl.so`, which is loaded at their first call.
//!
//! # Networks
//!
//! [`Prepare`] makes a network fit the toolkit's operators: each node gets its module, function and attributes, and a
//! combination of element types and formats that its operator takes; `Cast` and `TransData` are inserted where needed.
//! Operators that the operator information does not describe are queried through [`Formats`].

mod backend;
mod compile;
mod config;
mod device;
mod error;
mod ffi;
mod graph;
mod name;
mod probe;
mod process_error;
pub mod slog;
mod worker;

pub use backend::AscendBackend;
pub use config::{AscendConfig, Driver};
pub use device::acl_error::AclError;
pub use device::loader::AscendLoader;
pub use device::runtime::Runtime;
pub use graph::prepare::Prepare;
pub use graph::select::{Formats, PortFormats, parse_formats};
pub use name::NAME;
pub use opkeep_cann_toolkit::{
    AttrInfo, Implementation, KnowledgeBank, MissingComponent, OpInfo, OpsInfo, PathOrigin, Platforms,
    PortInfo, PortKind, Search, SearchedPath, Soc, Sources, Toolkit, ToolkitError, VARIABLES, Value,
    Variable, Vendor, Version, Versions, toolchain,
};
