//! CANN operator packages: what is in them, and whether their files agree with each other.
//!
//! A package has kernels of operators for *units*, which are families of chips (`ascend910b`). It is installed below
//! `vendors`, or is the tree that a build writes:
//!
//! ```text
//! vendors/NAME/op_impl/ai_core/tbe/              BUILD/binary/UNIT/
//!   config/UNIT/aic-UNIT-ops-info.json             bin/UNIT/OP/*.o, *.json
//!   kernel/UNIT/OP/*.o, *.json                     bin/config/UNIT/OP.json
//!   kernel/config/UNIT/OP.json                     bin/config/UNIT/binary_info_config.json
//!   kernel/config/UNIT/binary_info_config.json
//!   NAME_impl/dynamic/OP.py
//! ```
//!
//! The runtime finds a kernel by `binary_info_config.json` or by the index of its operator, both of which repeat what the
//! kernel's own `.json` states. A package whose files were written, copied or replaced one by one may have indexes that
//! lead to no kernel, or to one for other inputs. [`PackageDir::verify`] compares all of them. [`diff()`] compares two packages
//! by what they mean, and [`PackageDir::plan`] lists the tasks of a build tree.
//!
//! # Errors, warnings, notes
//!
//! An error is certain: a file is missing or damaged, or two files contradict each other. A warning is unusual, and no known
//! genuine package has it. A note is information. What is checked of one kernel is in `opkeep-validator`.
//!
//! # Hostile files
//!
//! Everything is read below the directory that the caller names: links that leave it are reported, not followed, and so are
//! pipes and devices. Sizes of files, their number, the depth of directories and the number of findings are limited.
//!
//! ```
//! use std::num::NonZeroUsize;
//!
//! use opkeep_cann_package::{PackageDir, PackageError, VerifyOptions};
//! use opkeep_fs::CancelToken;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (dir, cancel) = (tempfile::tempdir()?, CancelToken::new());
//! let unit = dir.path().join("op_impl/ai_core/tbe/kernel/ascend910b/add");
//! std::fs::create_dir_all(&unit)?;
//! std::fs::write(unit.join("Add_1.o"), b"")?;
//! let packages = PackageDir::open(dir.path(), &cancel)?.verify(&VerifyOptions::new(NonZeroUsize::MIN, &cancel));
//! let texts: Vec<String> = packages[0].findings.iter().map(|finding| finding.problem.to_string()).collect();
//! assert_eq!(texts[0], "expected its description `Add_1.json`, found no file");
//! # Ok(())
//! # }
//! ```

mod diff;
mod error;
mod json;
mod kernel;
mod locate;
mod package_dir;
mod plan;
mod problem;
mod tree;
mod verify;

pub use diff::{
    FieldDiff, FileDiff, KernelChange, KernelDiff, PackageDiff, PackagesDiff, Presence, SharedObjects,
    UnitDiff, diff,
};
pub use error::PackageError;
pub use locate::PackageKind;
pub use package_dir::PackageDir;
pub use plan::{BuildPlan, PlannedTask, TaskState};
pub use problem::{Finding, Problem};
pub use verify::{VerifiedPackage, VerifiedUnit, VerifyOptions};
