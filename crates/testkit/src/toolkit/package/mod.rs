//! A stand-in for what builds of operator packages run: `asc_opc`, the compiler package below it, `bisheng`, `ld.lld`, and
//! operator projects with one of the three usual build systems.
//!
//! ```no_run
//! use opkeep_testkit::toolkit::package::{PackageToolkit, Project};
//!
//! # fn main() -> std::io::Result<()> {
//! let directory = tempfile::tempdir()?;
//! let installed = PackageToolkit::new().write(directory.path())?;
//! let project = Project::vllm().tasks(4).write(&directory.path().join("vllm-ascend"), &installed)?;
//! assert!(project.build(2).status()?.success());
//! assert_eq!(installed.runs_of("asc_opc")?.len(), 4);
//! # Ok(())
//! # }
//! ```
//!
//! It needs Python, GNU make, and the machine's clang and linker: [`tools`] says whether they are there. Kernels are compiled
//! from real C++ by a real compiler, so whatever changes what a compiler reads changes the bytes that come of it: a header, one
//! that hides another, a definition, a tiling key, a flag. The objects of the last link are for a chip and pass for genuine, and
//! compute nothing.
//!
//! # What is as it is in CANN 9.1
//!
//! The facts are of its published kernel development kit (`asc-devkit`, 9.1.0), of the build files of vllm-ascend, ops-nn and
//! `msopgen` projects, and of the packages that vllm-ascend publishes.
//!
//! * `asc_opc` is a script of bash that finds its package by its real path: a link to it works, a copy does not. `HI_PYTHON`
//!   names the interpreter. (`asc_opc`)
//! * Exit codes: 0 for no arguments and for options that cannot be read, 1 for parameters, compiles and exceptions. Of several
//!   operators in one file a later success hides an earlier failure. (`opc.py`, `op_compilation.py`)
//! * The work folder is `<debug_dir>/kernel_meta_<bin_filename>/`, and its lock holds a process id. A lock that another process
//!   left, even a dead one, fails the task: `Another process is using this dir`. (`op_compilation.py`)
//! * Both files get the mode 0640; the output folder is made with mode decimal 750. (`post_compile_base.py`)
//! * With `--tiling_key` that no kernel has: exit code 1 and `None of the given tiling keys are in the supported list` on standard
//!   output. (`compile_op.py`)
//! * `--deterministic=all` compiles twice where the operator can repeat itself, with `-DDETERMINISTIC_MODE=1` and `=0`.
//! * What the environment does: [`PackageToolkit::environment`](PackageInstallation::environment) and each module of the Python.
//! * Two runs of the preprocessor a task where cores are apart, one stub with a block for each tiling key, one makefile with a
//!   phony target for each, vector cores first, `make`'s exit status ignored unless `ASCENDC_BUILD_LOG_DIR` is set, two links, the second in
//!   place. (`kernel_info_infer.py`, `ascendc_compile_base.py`, `ascendc_compile_v220.py`)
//! * `ASCENDC_CCACHE_EXECUTABLE`, where its text ends in `ccache`: it comes before the compiler, `-x cce` becomes
//!   `--cce-aicore-lang`, and names lose the process id. Struct selection and links never go through it.
//!   (`ascendc_common_utility.py`)
//! * For 310P a failed compile is repeated with longer jumps, in the same line of the makefile. (`write_mk`)
//! * A part of super kernels has no second link, but weak symbols by `llvm-objcopy`, and says in its `.json` what it is.
//! * Tiling data is described by a struct in the source, or by the package's host library. (`get_op_tiling.py`)
//!
//! # What is not
//!
//! * The compilers are one program that translates the options for clang and the machine's linker; what clang does not know is
//!   kept as a text in the object. `_meta_info.cpp`, options of super kernels, and chips other than 910B, 910_93, 310P and 910 are
//!   missing.
//! * `opc` is the same program as `asc_opc`.
//! * Operators are four small ones of our own; headers of Ascend C have what these use.

mod files;
mod installation;
mod log;
mod operators;
mod plan;
mod project;
mod tools;
mod vendor;

pub use installation::PackageInstallation;
pub use log::ToolRun;
pub use operators::{OPERATORS, Operator};
pub use plan::PackageToolkit;
pub use project::{Project, ProjectTask, ProjectTree, System};
pub use tools::{MachineTools, tools};
pub use vendor::VendorPackage;
