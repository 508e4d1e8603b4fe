//! The command `opkeep`; the library has everything.

use std::process::ExitCode;

fn main() -> ExitCode {
    opkeep_cli::main()
}
