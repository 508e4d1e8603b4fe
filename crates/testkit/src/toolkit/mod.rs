//! A stand-in for the CANN toolkit: a directory with the real layout whose `opc` compiles, without CANN and without a
//! device, to kernels that look like genuine ones and compute nothing.
//!
//! ```no_run
//! use opkeep_testkit::toolkit::{Fault, Rule, Toolkit};
//!
//! # fn main() -> std::io::Result<()> {
//! let directory = tempfile::tempdir()?;
//! let installed = Toolkit::new().compile_time(std::time::Duration::from_millis(20)).write(directory.path())?;
//! installed.rules(&[Rule::new(Fault::Crash).op("Square").times(1)])?;
//! // ... run `installed.tool("opc")` with `installed.environment()` ...
//! assert_eq!(installed.compiles()?.len(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! It is written from what is known of CANN 8.1.RC1 (a published install: `set_env.sh`, `platform_config`, the operator
//! information of `Ascend910B`, the Python packages `opc_tool` and `tbe`) and of 9.1 (its kernel developer's kit, and
//! genuine objects), so that a backend that works with it has a chance with the real one. It is not the real one: nothing
//! in opkeep knows of it, and nothing that it makes runs anywhere.
//!
//! # What is as the vendor has it
//!
//! Behind each stands the vendor's file that says so, or *observed*, where objects and `.json` files do.
//!
//! * The layout: a versioned root and a link to it, files in `<arch>-linux`, directories of packages that are links,
//!   `version.info`, `version.cfg`. Without the environment that `set_env.sh` sets, nothing runs. (8.1's file lists,
//!   `set_env.sh`)
//! * Fields that distinguish families and cores, and the trap that `Ascend910B` is one of the first generation.
//!   (`platform_config/*.ini`)
//! * Of many operators element types and formats are listed, of others it says `dynamicFormat` and nothing is listed
//!   (`Conv2D`, `Add`, `MatMulV2`, ...): their `op_select_format` has to be asked. `Conv2D` takes `NC1HWC0` and
//!   `FRACTAL_Z` and nothing else; its function refuses, not `opc`. Types are spelt `float` here and `float32` there.
//!   (`aic-ascend910b-ops-info.json`)
//! * What is compiled for shapes that are known too stands in `impl/dynamic`, unless `dynamicCompileStatic` is missing.
//!   (`opc_tool/op_manager.py`)
//! * The options of `opc`, their checks and their words; the first line of the output; that a compile which fails, and
//!   options that cannot be read, exit with 0, and checks with 1; that `--output` is a directory, made with mode decimal
//!   750. Missing banks cause a warning only. (`opc_tool/opc.py`)
//! * `--deterministic=all` compiles twice and renames the first pair. Locks in `kernel_meta_<kernel>` stay when their
//!   process is killed, and keep every other process out. (`opc_tool/op_compilation.py`)
//! * Python leaves `__pycache__` beside operators, so the tree changes when it is used. (observed)
//! * Parameter files: `null` for what is absent, lists, one of `value`, `value_list` and `value_range`. Where no
//!   attribute is given, none is filled in, and the kernel's name lands in the first one's place; of those that are
//!   filled in, lists and numbers with a point stay text. (`opc_tool/op_info_parser.py`)
//! * A file that is named is run again at each compile; by its type an operator is imported once, so a worker never
//!   sees a later edit. Of packages in `ASCEND_CUSTOM_OPP_PATH` only the operator information is found, and files only
//!   if they are named; vendors go by `config.ini`. (`opc_tool/op_manager.py`, `op_info_store.py`)
//! * `compile_op`, for programs: modules import each other flatly; `bin_filename` must be among the options.
//!   (`opc_tool/opc_api.py`, `opc.py`)
//! * Errors go to files below the home directory, unless `ASCEND_SLOG_PRINT_TO_STDOUT=1`; without `libascendalog.so`
//!   all is printed. (`tbe/common/utils/log.py`; the form of the lines: observed)
//! * A generated module refuses a newer protobuf. (`opc_tool/ge_ir_pb2.py`)
//! * `ccec` and `ld.lld` are found on `PATH`, else in one odd place; what fails is tried thrice, with other flags, before
//!   it is reported. (`tbe/tvm/contrib/ccec.py`)
//! * `asc_opc`, from 9 on, exits with 1 when a compile fails, and has no banks. (9.1's kit)
//! * Magic by chip and cores, the fields of the `.json` and how they are laid out at each step. (`cce_runtime.py`,
//!   `post_compile_base.py`, observed)
//! * Objects are those of [`ascend`](crate::ascend), byte for byte but for the code. (observed) The code differs with
//!   everything that a compiler reads: operator, tensors, attributes, options, chip, the operator's sources and what they
//!   import, knowledge banks, compiler. Nothing else changes it.
//!
//! # What is not
//!
//! * Code is noise. `ccec` and `ld.lld` are shell scripts that hand text on; Python makes the object of it.
//! * What the toolkit wants of the user's Python (`numpy`, protobuf, ...) stands beside it as empty packages.
//! * `libascendcl.so` is missing; `libascendalog.so` is a name. `atc`, `--graph`, the pool of `te_fusion`, SPK and
//!   relocatable objects are missing.
//! * Objects are written for 910A, 310P, 310B, 910B and 910_93; no genuine ones of others were seen.
//! * Which codes operators raise is known of few (`E80008`, `E80012`, `E60004`), and that a `filePath` is written of
//!   packaged kernels only. Numbers of cores are made up but for `Ascend910B1` and `Ascend910B`.
//! * `opkeep_standin`, in the root and in its Python: switches and the log of compiles, for tests.

mod control;
mod disk;
mod install;
mod interpreter;
mod library;
mod module;
mod op_info;
mod ops;
pub mod package;
mod paths;
mod plan;
mod platform;
mod port;
mod python;
mod tree;
mod vendor;

pub use control::{Compile, Fault, Rule};
pub use install::Installation;
pub use interpreter::{python, python_with_sources};
pub use plan::{Layout, Part, Toolkit};
pub use platform::{SOCS, Soc};
pub use vendor::Vendor;
