//! A framework outside the workspace, made of the README's example: it depends on the engine and on one backend.

use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![Trial::test("the_readmes_example_needs_two_dependencies", || {
        the_readmes_example_needs_two_dependencies();
        Ok(())
    })]
}

fn the_readmes_example_needs_two_dependencies() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let (_, rest) = readme.split_once("```rust\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let project = tempfile::tempdir().unwrap();
    std::fs::create_dir(project.path().join("src")).unwrap();
    std::fs::write(project.path().join("src/main.rs"), example).unwrap();
    let dependency = |name: &str, path: &str| format!("{name} = {{ path = {:?} }}\n", root.join(path));
    let manifest = format!(
        "[package]\nname = \"downstream\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n{}{}",
        dependency("opkeep", "crates/engine"),
        dependency("opkeep-backend-cpu", "crates/backend-cpu"),
    );
    std::fs::write(project.path().join("Cargo.toml"), manifest).unwrap();
    // The versions that the workspace was tested with, so that nothing is fetched.
    std::fs::copy(root.join("Cargo.lock"), project.path().join("Cargo.lock")).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(project.path()).args(["check", "--offline", "--quiet"]);
    let output = cargo.env("CARGO_TARGET_DIR", target_dir()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The workspace's target directory, in which the dependencies are checked already.
fn target_dir() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    // `<target>/<profile>/deps/<program>`
    program.ancestors().nth(3).unwrap().to_owned()
}
