//! The tests of the cache manager for Triton, with one version of Triton.

use std::path::Path;
use std::process::Command;

use super::environment::{Environment, Installed};

const TESTS: &str = "crates/python/tests";

/// Runs the tests that need Triton.
pub(super) fn run(environment: &Environment, framework: &Installed) -> Result<(), String> {
    println!("==> the tests with {} {}", framework.name, framework.version);
    let mut program = Command::new(environment.python());
    program.args(["-m", "unittest", "discover", "-s", TESTS, "-p", "test_triton*.py"]);
    let packages = framework.packages.iter().map(|path| path.display().to_string());
    let tests = std::iter::once(Path::new(TESTS).display().to_string());
    let absolute = |path: String| std::path::absolute(&path).unwrap_or(path.into()).display().to_string();
    let path: Vec<_> = packages.chain(tests).map(absolute).collect();
    program.env("PYTHONPATH", path.join(":")).env("PYTHONDONTWRITEBYTECODE", "1");
    match program.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            Err(format!("the tests with {} {} ended with {status}", framework.name, framework.version))
        }
        Err(error) => Err(format!("`{}` did not start: {error}", environment.python().display())),
    }
}
