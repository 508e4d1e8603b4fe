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
    std::fs::create_dir(project.path().join("src/bin")).unwrap();
    std::fs::write(project.path().join("src/bin/names.rs"), NAMES).unwrap();
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

/// A program that names the types of signatures, as a program must that passes values on.
const NAMES: &str = r#"
use std::collections::BTreeMap;
use std::sync::Arc;

use opkeep::cache::{Accept, Claim, Query};
use opkeep::{BuildError, BuildReport, Cache, CacheError, Diff, Engine, EntryError, Explanation, Finding, Key};
use opkeep::{ForeignFiles, KernelError, Provenance, RemoteConfig, StoreConfig, ViewConfig, WarningKind};

fn cache(engine: &Engine, key: &Key) -> Result<bool, BuildError> {
    let cache: Arc<Cache> = engine.cache()?;
    let query = Query::new(&|_| Accept::Take);
    Ok(matches!(cache.target("cpu")?.get_or_begin(key.digest(), &query)?, Claim::Hit(_)))
}

fn store(config: &StoreConfig) -> Result<opkeep::store::Store, opkeep::store::StoreError> {
    opkeep::store::Store::open(config.clone())
}

fn origins(report: &BuildReport) -> BTreeMap<&str, &Provenance> {
    let imported = |kernel: &'_ opkeep::KernelReport| kernel.imported.is_some();
    let kernels = report.kernels.iter().filter(|kernel| imported(kernel));
    kernels.filter_map(|kernel| Some((kernel.name.as_str(), kernel.imported.as_ref()?))).collect()
}

fn is_full(report: &BuildReport) -> bool {
    report.warnings.iter().any(|warning| warning.kind == WarningKind::Write)
}

fn findings(error: KernelError) -> Vec<Finding> {
    match error {
        KernelError::Invalid { errors, .. } => errors,
        _ => Vec::new(),
    }
}

fn wrong_key(error: KernelError) -> Option<EntryError> {
    match error {
        KernelError::WrongKey { source, .. } => Some(source),
        _ => None,
    }
}

fn cause(error: BuildError) -> Option<CacheError> {
    match error {
        BuildError::Cache(error) => Some(error),
        _ => None,
    }
}

fn difference(explanation: &Explanation) -> Option<&Diff> {
    match &explanation.status {
        opkeep::CacheStatus::Miss(miss) => miss.nearest.as_ref().map(|nearest| &nearest.job),
        _ => None,
    }
}

fn view(judge: Arc<dyn ForeignFiles>) -> ViewConfig {
    let mut view = ViewConfig::rank("run", "0");
    view.foreign_files = judge;
    view
}

fn main() {
    let _: (fn(_, _) -> _, fn(_) -> _, fn(_) -> _) = (cache, store, origins);
    let _: (fn(_) -> _, fn(_) -> _, fn(_) -> _) = (is_full, findings, wrong_key);
    let _: (fn(_) -> _, fn(_) -> _, fn(_) -> _) = (cause, difference, view);
    let _: Option<RemoteConfig> = None;
}
"#;

/// The workspace's target directory, in which the dependencies are checked already.
fn target_dir() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    // `<target>/<profile>/deps/<program>`
    program.ancestors().nth(3).unwrap().to_owned()
}
