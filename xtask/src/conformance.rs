//! `cargo xtask conformance`: opkeep beside ONNX Runtime.
//!
//! The scripts in `fixtures/conformance` create networks and single operators with references, and judge the results.
//! They run in their own environment below `target/`, which is created on the first run; that needs Python and the
//! network.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{disk, task};

const SCRIPTS: &str = "fixtures/conformance";
const SCRATCH: &str = "target/conformance";

/// The networks whose graphs the onnx package has, the fastest first.
const NETWORKS: [&str; 9] = [
    "light_squeezenet",
    "light_resnet50",
    "light_inception_v1",
    "light_inception_v2",
    "light_shufflenet",
    "light_densenet121",
    "light_bvlc_alexnet",
    "light_zfnet512",
    "light_vgg19",
];

/// The arguments of the command line.
#[derive(Debug, PartialEq)]
struct Arguments {
    seed: u64,
    /// The number of cases with single operators.
    count: u64,
    networks: Vec<String>,
}

impl Arguments {
    fn of(args: &[String]) -> Result<Self, String> {
        let networks = NETWORKS.map(str::to_owned).to_vec();
        let mut arguments = Self { seed: 1, count: 1000, networks };
        let mut args = args.iter();
        while let Some(flag) = args.next() {
            let value = args.next().ok_or_else(|| format!("`{flag}` needs a value\n{USAGE}"))?;
            let number = || value.parse().map_err(|_| format!("`{flag}`: `{value}` is not a number"));
            match flag.as_str() {
                "--seed" => arguments.seed = number()?,
                "--count" => arguments.count = number()?,
                "--networks" => {
                    arguments.networks =
                        value.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
                }
                _ => return Err(format!("found `{flag}`\n{USAGE}")),
            }
        }
        Ok(arguments)
    }
}

const USAGE: &str =
    "usage: cargo xtask conformance [--seed N] [--count OPERATOR_CASES] [--networks NAME,NAME,...]";

pub(crate) fn conformance(args: &[String]) -> Result<(), String> {
    let Arguments { seed, count, networks } = Arguments::of(args)?;
    let python = python()?;
    let seed = seed.to_string();
    let work_dir = Path::new(SCRATCH).join(format!("seed_{seed}"));
    let script = |name: &str| Path::new(SCRIPTS).join(name);

    let mut directories = vec![PathBuf::from("fixtures/networks")];
    for network in networks.iter().map(String::as_str) {
        let directory = work_dir.join(network.rsplit('/').next().unwrap_or(network));
        let mut sharpen = Command::new(&python);
        sharpen
            .arg(script("sharpen.py"))
            .arg(network)
            .arg(&directory)
            .args(["--seed", &seed, "--taps", "all"]);
        run(sharpen.stdout(std::process::Stdio::null()))?;
        directories.push(directory);
    }
    let operators = work_dir.join("operators");
    let count = count.to_string();
    let mut make = Command::new(&python);
    run(make.arg(script("operators.py")).arg(&operators).args(["--seed", &seed, "--count", &count]))?;
    directories.push(operators);

    run(crate::cargo::cargo().args(["build", "--release", "--bin", "opkeep"]))?;
    let metadata = disk::metadata()?;
    let target = metadata["target_directory"].as_str().unwrap_or("target");
    let mut check = Command::new(&python);
    run(check.arg(script("check.py")).arg(Path::new(target).join("release/opkeep")).args(directories))
}

/// The Python of the scratch environment, created if it is missing.
fn python() -> Result<PathBuf, String> {
    let venv = Path::new(SCRATCH).join("venv");
    let python = venv.join("bin/python");
    let requirements = Path::new(SCRIPTS).join("requirements.txt");
    if !python.exists() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    }
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"];
    run(Command::new(&python).args(install).arg(requirements))?;
    Ok(python)
}

/// Runs a command, and prints its line before its output.
fn run(command: &mut Command) -> Result<(), String> {
    println!("==> {}", task::line(command));
    task::run(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Result<Arguments, String> {
        Arguments::of(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn flags_are_understood_or_refused() {
        assert_eq!(parsed(&[]).unwrap().networks.len(), 9);
        let some = parsed(&["--seed", "7", "--networks", "light_vgg19,a/b.onnx", "--count", "0"]).unwrap();
        assert_eq!((some.seed, some.count), (7, 0));
        assert_eq!(some.networks, ["light_vgg19", "a/b.onnx"]);
        assert!(parsed(&["--seed"]).unwrap_err().contains("needs a value"));
        assert!(parsed(&["--seed", "x"]).unwrap_err().contains("`x` is not a number"));
        assert!(parsed(&["--sed", "1"]).unwrap_err().contains("usage"));
    }
}
