//! A CANN toolkit on disk: where it is, its version and chips, the operators that it offers, the sources of each, and
//! fingerprints of its content. Nothing of the toolkit is run.
//!
//! The facts about the toolkit come from published installs of CANN 8.1 and 9.1.
//!
//! # Finding the toolkit
//!
//! [`Search::find`] takes the path that the caller names, else the one that `ASCEND_HOME_PATH`, `ASCEND_TOOLKIT_HOME`
//! or `ASCEND_OPP_PATH` names, else the first complete toolkit at one of the usual paths. If a path is named, no other
//! is searched. Links are kept as they are (`latest` is one), so that an upgrade that moves a link is noticed.
//! [`Toolkit::variables`] has the values that the toolkit's `set_env.sh` would set; sourcing it is not necessary.
//!
//! # Fingerprints
//!
//! [`toolchain`] covers what all kernels share, part by part: versions with their build time, the compiler, the Python
//! packages that generate code, the files that describe chips and operators, knowledge banks in the order in which they
//! are read, packages of vendors. [`Sources::fingerprint`] covers what one job's kernel depends on besides: the modules of
//! its operators, their variants for unknown shapes, Ascend C sources, and everything that these import of the operators'
//! package. Both hold contents and names below a package, never a path outside it: the same toolkit in another directory
//! has the same fingerprints. Files that Python and locks leave behind (`__pycache__`, `*.pyc`, `*.lock`) do not count.

pub mod disk;
mod environment;
mod error;
mod find;
mod fingerprint;
pub mod knowledge_bank;
mod ops_info;
mod platform;
mod sources;
mod vendors;
mod version;

pub use environment::{Value, Variable};
pub use error::{MissingComponent, PathOrigin, SearchedPath, ToolkitError};
pub use find::{Search, Toolkit, VARIABLES, Versions, absolute};
pub use fingerprint::{is_source, toolchain};
pub use knowledge_bank::KnowledgeBank;
pub use ops_info::{AttrInfo, OpInfo, OpsInfo, PortInfo, PortKind};
pub use platform::{Platforms, Soc};
pub use sources::externals::{first, imported_below};
pub use sources::import_closure::Externals;
pub use sources::op_sources::{Implementation, Sources};
pub use vendors::Vendor;
pub use version::Version;
