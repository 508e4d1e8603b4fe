//! The command `opkeep`; the library has everything.

use std::process::ExitCode;

/// musl's own allocator takes up to half as much time again for a build that compiles nothing.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    opkeep_cli::main()
}
