//! The types of the Python package: mypy reads its sources, its stubs and its tests, and stubtest compares the stubs of the
//! native module with the module itself.

use std::path::Path;
use std::process::Command;

use super::environment::{environment, install_wheel};
use super::interpreter::Interpreter;
use crate::task::run;

/// mypy, and all that it needs. A new version may find more, so it is a decision.
const MYPY: [&str; 6] = [
    "mypy==2.4.1",
    "mypy_extensions==1.2.0",
    "typing_extensions==4.16.0",
    "pathspec==1.1.1",
    "librt==0.17.0",
    "ast-serialize==0.13.1",
];

const NATIVE: &str = "opkeep._native";
/// What stubtest passes over, and why.
const ALLOWED: &str = "tests/stubtest.txt";

/// Checks the types of `package`, of which `wheel` was built. The settings of mypy are in its pyproject.toml.
pub(super) fn check(
    package: &Path,
    scratch: &Path,
    interpreter: &Interpreter,
    wheel: &Path,
) -> Result<(), String> {
    println!("==> the types, with Python 3.{}", interpreter.minor);
    let python = environment(scratch, "types", interpreter, &MYPY)?;
    install_wheel(&python, wheel)?;
    let cache = scratch.join("types/cache");
    let module = |name: &str| {
        let mut command = Command::new(&python);
        command.current_dir(package).env("MYPY_CACHE_DIR", &cache).args(["-m", name]);
        command
    };
    run(&mut module("mypy"))?;
    run(module("mypy.stubtest").args([
        "--concise",
        "--mypy-config-file",
        "pyproject.toml",
        "--allowlist",
        ALLOWED,
        NATIVE,
    ]))
}
