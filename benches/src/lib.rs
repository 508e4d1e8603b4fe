//! Shared by the benchmarks: kernels of the size of real operators, directories in memory, floors, and measurement.
//!
//! Run them with `cargo bench -p opkeep-benches`, one with `cargo bench -p opkeep-benches --bench store_hit`. Each
//! answers one question. Values with a budget are measured in [`Turns`], and a broken budget makes the program fail.
//! Compare figures of one run only: machines differ, and so do days. `cargo xtask bench-report` runs those that have
//! design budgets and writes `REPORT.md`; see [`Figure`].

mod cpu;
mod ffi;
mod figure;
mod files;
mod kernel;
mod turns;

pub use cpu::{children_cpu, own_cpu};
pub use ffi::{Ended, wait};
pub use figure::Figure;
pub use files::{
    bare_walk, command_of, directory, files_in, has_room, lines, look, make_compiler, make_directory,
    most_resident, publish, read, reads_and_writes, remove, remove_directory, search_path, write,
    write_program,
};
pub use kernel::Kernel;
pub use turns::{Budgets, Turns, is_measured, thousands, time};
