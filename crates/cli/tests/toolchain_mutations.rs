//! What a compiler reads is in the key: some hundred toolchains that change between builds, and the real command.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    opkeep_testkit::toolchain_mutations::main(Path::new(env!("CARGO_BIN_EXE_opkeep")))
}
