//! The tests of our modules for a framework, with one version of it.

use std::path::Path;
use std::process::Command;

use super::environment::{Environment, Installed};

const TESTS: &str = "crates/python/tests";

/// The files with the tests that need a framework. `None` if the tests of another one are enough.
fn pattern(framework: &str) -> Option<&'static str> {
    match framework {
        "triton" => Some("test_triton*.py"),
        "jax" => Some("test_jax*.py"),
        _ => None,
    }
}

/// Runs the tests that need this framework, if there are any.
pub(super) fn run(environment: &Environment, framework: &Installed) -> Result<(), String> {
    let Some(pattern) = pattern(&framework.name) else { return Ok(()) };
    println!("==> the tests with {} {}", framework.name, framework.version);
    let mut program = Command::new(environment.python());
    program.args(["-m", "unittest", "discover", "-s", TESTS, "-p", pattern]);
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
