//! `cargo xtask python`: the Python package, built as a wheel, installed in environments below `target/python`, and tested.
//!
//! The tests need nothing but the standard library. The first run gets maturin, which makes the wheel, and mypy, which checks
//! the types, from the package index; later ones need no network. With `--types`, only the types are checked. With `--install`,
//! the package is installed as a user does, which takes minutes and needs the index. With `--command`, the wheel of the command
//! is built and run.

mod environment;
mod interpreter;
mod types;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use toml::de::DeTable;

use self::environment::{environment, install_wheel, path_with, pip};
use self::interpreter::{Interpreter, interpreters};
use crate::disk;
use crate::frameworks::commit_seed;
use crate::task::run;
use crate::wheel::{AS_IN_TESTS, CRATE};

/// The crate of the command, which is a wheel of its own.
const COMMAND: &str = "crates/cli";
/// What each wheel carries besides the program.
const LICENSES: [&str; 3] = ["LICENSE-APACHE", "LICENSE-MIT", "THIRD-PARTY.md"];
const SCRATCH: &str = "target/python";
const MATURIN: &str = "maturin==1.16.0";

/// The variable that selects the long tests.
const SEEDS: &str = "OPKEEP_MUTATION_SEEDS";

/// The test modules that run with each Python; all run with the first.
const FOR_ALL: [&str; 2] = ["test_package", "test_cache"];

pub(crate) fn python(args: &[String]) -> Result<(), String> {
    let interpreters = interpreters();
    let Some(first) = interpreters.first() else {
        println!("python: SKIPPED, there is no Python 3.10 or later with the module `venv`");
        return Ok(());
    };
    let metadata = disk::metadata()?;
    let root = metadata["workspace_root"].as_str().ok_or("`cargo metadata` names no workspace root")?;
    let scratch = Path::new(root).join(SCRATCH);
    if args == ["--install"] {
        return install(Path::new(root), &scratch, first);
    }
    if args == ["--command"] {
        return command(Path::new(root), &scratch, first);
    }
    let wheel = wheel(Path::new(root), &scratch, first, CRATE)?;
    let is_types = args == ["--types"];
    if is_types || args.is_empty() {
        types::check(&Path::new(root).join(CRATE), &scratch, first, &wheel)?;
    }
    if is_types {
        return Ok(());
    }
    for (number, interpreter) in interpreters.iter().enumerate() {
        let python = installed(&scratch, interpreter, &wheel)?;
        println!("==> the tests with Python 3.{}", interpreter.minor);
        let mut tests = unittest(Path::new(root), &python);
        match (args, number) {
            ([], 0) => tests.args(["discover", "-s"]).arg(Path::new(CRATE).join("tests")),
            ([], _) => tests.args(FOR_ALL),
            (names, _) => tests.args(names),
        };
        run(&mut tests)?;
    }
    // Its wheel takes a minute to build, so one commit of four has it.
    let has_turn = args.is_empty() && commit_seed()? % 4 == 1;
    if has_turn { command(Path::new(root), &scratch, first) } else { Ok(()) }
}

/// Builds the wheel of the command, installs it, and runs the command.
fn command(root: &Path, scratch: &Path, interpreter: &Interpreter) -> Result<(), String> {
    println!("==> the wheel of the command");
    let wheel = wheel(root, scratch, interpreter, COMMAND)?;
    let python = environment(scratch, "command", interpreter, &[])?;
    let files =
        disk::output(&python.to_string_lossy(), &["-m", "zipfile", "-l", &wheel.to_string_lossy()], None)?;
    let files = String::from_utf8_lossy(&files).into_owned();
    if let Some(missing) = LICENSES.iter().find(|name| !files.contains(**name)) {
        return Err(format!("`{}` has no {missing}", wheel.display()));
    }
    install_wheel(&python, &wheel)?;
    run(Command::new(scratch.join("command/bin/opkeep")).arg("--version"))
}

/// The tests of the package that `python` has.
fn unittest(root: &Path, python: &Path) -> Command {
    let mut tests = Command::new(python);
    tests.current_dir(root).env("PYTHONPATH", root.join(CRATE).join("tests"));
    // The settings of the person who runs the tests do not count.
    tests.env("OPKEEP_CONFIG", "/dev/null");
    // A test that the interpreter's development mode finds fault with fails.
    tests.args(["-X", "dev", "-W", "error", "-m", "unittest"]);
    // Each commit has a quarter of the long tests.
    #[expect(clippy::disallowed_methods, reason = "a task of the command line")]
    let given = std::env::var_os(SEEDS);
    if given.is_none()
        && let Ok(seed) = commit_seed()
    {
        tests.env(SEEDS, seed.to_string());
    }
    tests
}

/// Installs the package as README.md says, in a new environment: optimized, with the build requirements that pip gets. Then
/// it runs the tests that run with each Python.
fn install(root: &Path, scratch: &Path, interpreter: &Interpreter) -> Result<(), String> {
    disk::empty_directory(&scratch.join("installed"))?;
    let python = environment(scratch, "installed", interpreter, &[])?;
    let mut install = Command::new(&python);
    // It calls cargo.
    crate::cargo::without_package(&mut install);
    install.args(["-m", "pip", "install"]).arg(format!("./{CRATE}")).current_dir(root);
    let begin = Instant::now();
    run(&mut install).map_err(|error| format!("{error}; is the package index reachable?"))?;
    println!("==> installed in {:.0} s", begin.elapsed().as_secs_f64());
    run(unittest(root, &python).args(FOR_ALL))
}

/// The packages that pyproject.toml requires to build the wheel.
fn build_requirements(root: &Path, package: &str) -> Result<Vec<String>, String> {
    let path = format!("{package}/pyproject.toml");
    let text = disk::text_if_exists(root, &path)?.unwrap_or_default();
    let project = DeTable::parse(&text).map_err(|error| format!("`{path}`: {error}"))?;
    let system = project.get_ref().get("build-system").and_then(|system| system.get_ref().get("requires"));
    let requirements = system.and_then(|requires| requires.get_ref().as_array());
    let requirements = requirements.ok_or_else(|| format!("`{path}` has no list `build-system.requires`"))?;
    Ok(requirements.iter().filter_map(|name| Some(name.get_ref().as_str()?.to_owned())).collect())
}

/// Builds the wheel of a package as `pip install ./crates/python` does, but without optimizations, and in an environment that stays. It has
/// what pyproject.toml requires and nothing else, so a missing requirement fails here, too. Returns its path.
fn wheel(root: &Path, scratch: &Path, interpreter: &Interpreter, package: &str) -> Result<PathBuf, String> {
    let requirements = build_requirements(root, package)?;
    // The file's name changes with its content, and with it the environment.
    let constraints = scratch.join("constraints");
    disk::empty_directory(&constraints)?;
    let version = constraints.join(MATURIN);
    disk::write(&version, MATURIN)?;
    let version = version.to_string_lossy();
    let packages: Vec<_> =
        requirements.iter().map(String::as_str).chain(["--constraint", &version]).collect();
    let python = environment(scratch, "build", interpreter, &packages)?;
    let wheels = scratch.join("wheels");
    disk::empty_directory(&wheels)?;
    let mut build = pip(&python);
    build.args(["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir"]).arg(&wheels);
    build.arg(format!("./{package}")).current_dir(root);
    let mut arguments = "--profile dev".to_owned();
    if package == CRATE {
        arguments += &format!(" --features {AS_IN_TESTS}");
    }
    build.env("MATURIN_PEP517_ARGS", arguments).env("CARGO_TARGET_DIR", root.join("target"));
    build.env("PATH", path_with(&scratch.join("build/bin")));
    run(&mut build)?;
    match &disk::entries(&wheels)?[..] {
        [wheel] => Ok(wheel.clone()),
        found => Err(format!("expected one wheel, found {found:?}")),
    }
}

/// Installs the wheel in an environment of its own. Returns the environment's Python.
fn installed(scratch: &Path, interpreter: &Interpreter, wheel: &Path) -> Result<PathBuf, String> {
    let python = environment(scratch, &format!("3.{}", interpreter.minor), interpreter, &[])?;
    install_wheel(&python, wheel)?;
    Ok(python)
}
