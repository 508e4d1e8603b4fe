//! The virtual environment below `target/`, with our wheel and the frameworks. What is installed stays for the next run,
//! except the wheel.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::disk;
use crate::venv::{Skip, Venv, is_marked, mark, output, text};
use crate::wheel::AS_IN_TESTS;

/// The name of the virtual environment.
const VENV: &str = "venv";
/// Triton's versions that the adapter is for, from the first to the one after the last.
const TRITON: [Version; 2] = [[3, 2, 0], [3, 10, 0]];
const TRITON_ASCEND: &str = "3.2.0";
/// The adapter for JAX uses private interfaces, so a new version is a decision.
const JAX: &str = "jax<0.11";

/// The first version of Python that the wheel is for, and the first that triton-ascend is not for.
const PYTHON: [u32; 2] = [3, 10];
const PYTHON_AFTER_ASCEND: [u32; 2] = [3, 12];

type Version = [u32; 3];

/// A framework that the cases can run.
pub(super) struct Installed {
    pub(super) name: String,
    pub(super) version: String,
    /// Where it is, if not in the environment.
    pub(super) packages: Option<PathBuf>,
}

pub(super) struct Environment {
    pub(super) directory: PathBuf,
    venv: Venv,
    pub(super) frameworks: Vec<Installed>,
    /// Frameworks that cannot run here, and why.
    pub(super) skipped: Vec<(String, String)>,
}

/// Adds a framework to an environment with this Python. The oldest Triton has this version, if there are two.
type Other = fn(&mut Environment, [u32; 2], Option<&String>) -> Result<(), String>;

impl Environment {
    /// Makes the environment, or what is missing of it. For a `part` of the cases it has the newest Triton, and one of the
    /// other frameworks, by this number.
    pub(super) fn of(directory: &Path, part: Option<u32>) -> Result<Self, Skip> {
        let (mut environment, python, versions) = Self::with_wheel(directory)?;
        let (newest, oldest) = match &versions[..] {
            [oldest, .., newest] => (Some(newest), Some(oldest)),
            versions => (versions.first(), None),
        };
        newest.map_or(Ok(()), |version| environment.beside("triton", version))?;
        let others: [Other; 4] = [
            |environment, _, oldest| oldest.map_or(Ok(()), |version| environment.beside("triton", version)),
            |environment, _, _| environment.hip(),
            |environment, python, _| environment.ascend(python),
            |environment, _, _| environment.jax(),
        ];
        let chosen = part.map(|part| part as usize % others.len());
        for (number, other) in others.iter().enumerate() {
            if chosen.is_none_or(|chosen| chosen == number) {
                other(&mut environment, python, oldest)?;
            }
        }
        Ok(environment)
    }

    /// The environment with our wheel and no framework, the version of its Python, and the versions of Triton that the adapter is
    /// for, from the oldest to the newest.
    pub(super) fn with_wheel(directory: &Path) -> Result<(Self, [u32; 2], Vec<String>), Skip> {
        let python = system_python()?;
        let directory =
            std::path::absolute(directory).map_err(|error| format!("`{}`: {error}", directory.display()))?;
        let venv = Venv::create(&directory.join(VENV))?;
        let environment = Self { directory, venv, frameworks: Vec::new(), skipped: Vec::new() };
        let found = environment.versions_of_triton()?;
        let versions = supported(&found);
        if versions.is_empty() {
            let reason = format!("pip finds no Triton of 3.2 to 3.9 for this Python, only {found:?}");
            return Err(Skip::Skipped(reason));
        }
        environment.wheel()?;
        // For the tests of tickets.
        environment.venv.install("greenlet", &["greenlet"])?;
        Ok((environment, python, versions))
    }

    /// Calls `test` with Triton of this version, which is removed if it was not installed before.
    pub(super) fn with_triton(
        &mut self,
        version: &str,
        test: impl FnOnce(&Self, &Installed) -> Result<(), String>,
    ) -> Result<(), String> {
        let directory = format!("triton-{version}");
        let was_installed = is_marked(&self.directory.join(&directory), "triton");
        self.beside("triton", version)?;
        let Some(framework) = self.frameworks.pop() else { return Ok(()) };
        let tested = test(self, &framework);
        if !was_installed {
            disk::remove(&self.directory.join(&directory))?;
        }
        tested
    }

    /// Triton for AMD's devices: the newest one, which needs no other package.
    fn hip(&mut self) -> Result<(), String> {
        if let Some(Installed { version, packages, .. }) = self.frameworks.first() {
            let (version, packages) = (version.clone(), packages.clone());
            self.frameworks.push(Installed { name: "triton-hip".to_owned(), version, packages });
        }
        Ok(())
    }

    fn ascend(&mut self, python: [u32; 2]) -> Result<(), String> {
        if python < PYTHON_AFTER_ASCEND {
            self.venv.install("pybind11", &["pybind11"])?;
            return self.beside("triton-ascend", TRITON_ASCEND);
        }
        let reason = format!("it needs Python 3.9 to 3.11, found {}.{}", python[0], python[1]);
        self.skipped.push((format!("triton-ascend {TRITON_ASCEND}"), reason));
        Ok(())
    }

    fn jax(&mut self) -> Result<(), String> {
        self.venv.install("jax", &[JAX])?;
        let version = self.version_of("jax")?;
        self.frameworks.push(Installed { name: "jax".to_owned(), version, packages: None });
        Ok(())
    }

    /// The environment's Python.
    pub(super) fn python(&self) -> PathBuf {
        self.venv.python()
    }

    /// The versions of Triton that pip finds. None at all: the index is not to be had, since it has them.
    fn versions_of_triton(&self) -> Result<Vec<String>, Skip> {
        let found = output(&mut self.venv.pip(&["index", "versions", "triton"]))?;
        let (printed, errors) = (text(&found.stdout), text(&found.stderr));
        if found.status.success() {
            return Ok(listed_versions(&printed));
        }
        if errors.contains("No matching distribution found") {
            let refused = errors.lines().rfind(|line| line.contains("connection broken"));
            let reason = refused.map_or_else(
                || {
                    "pip finds no Triton: the package index has none for this machine, or is not reachable"
                        .to_owned()
                },
                |line| format!("the package index is not reachable. pip printed: {line}"),
            );
            return Err(Skip::Skipped(reason));
        }
        Err(Skip::Failed(format!("`pip index versions triton` ended with {}: {errors}", found.status)))
    }

    /// Builds and installs our wheel, each time anew. In the profile and with the features of the tests, whose crates are often
    /// built already; the digests are optimized in it.
    fn wheel(&self) -> Result<(), String> {
        let arguments = format!("--config-settings=build-args=--profile=dev --features={AS_IN_TESTS}");
        self.venv.pip_install(&["--force-reinstall", "--no-deps", &arguments, "./crates/python"])
    }

    /// Installs a version of a package into a directory of its own: several versions cannot be in one environment.
    fn beside(&mut self, name: &str, version: &str) -> Result<(), String> {
        let directory = format!("{name}-{version}");
        let packages = self.directory.join(&directory);
        if !is_marked(&packages, name) {
            disk::empty_directory(&packages)?;
            let requirement = format!("{name}=={version}");
            self.venv.pip_install(&["--no-deps", "--target", &packages.to_string_lossy(), &requirement])?;
            mark(&packages, name)?;
        }
        self.frameworks.push(Installed {
            name: name.to_owned(),
            version: version.to_owned(),
            packages: Some(packages),
        });
        Ok(())
    }

    fn version_of(&self, package: &str) -> Result<String, String> {
        let program = format!("from importlib.metadata import version; print(version('{package}'))");
        let found = output(Command::new(self.python()).args(["-c", &program]))?;
        Ok(text(&found.stdout).trim().to_owned())
    }
}

/// The version of `python3`.
fn system_python() -> Result<[u32; 2], Skip> {
    let program = "import sys; print(*sys.version_info[:2])";
    let Ok(found) = Command::new("python3").args(["-c", program]).output() else {
        return Err(Skip::Skipped("there is no `python3` on the PATH".to_owned()));
    };
    let printed = text(&found.stdout);
    let mut numbers = printed.split_whitespace().map_while(|word| word.parse().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if [major, minor] >= PYTHON => Ok([major, minor]),
        (Some(major), Some(minor)) => {
            Err(Skip::Skipped(format!("the wheel needs Python 3.10 or later, `python3` is {major}.{minor}")))
        }
        _ => Err(Skip::Failed(format!("`python3` printed no version: {}", text(&found.stderr)))),
    }
}

/// The versions that `pip index versions` printed.
fn listed_versions(printed: &str) -> Vec<String> {
    let line = printed.lines().find_map(|line| line.strip_prefix("Available versions:")).unwrap_or_default();
    line.split(',').map(|version| version.trim().to_owned()).filter(|version| !version.is_empty()).collect()
}

/// Those of the versions that the adapter is for: the first of all, and the last of each minor one; from the oldest to the newest.
fn supported(versions: &[String]) -> Vec<String> {
    let mut known: Vec<Version> = versions.iter().filter_map(|text| version(text)).collect();
    known.retain(|version| (TRITON[0]..TRITON[1]).contains(version));
    known.sort_unstable();
    let is_last = |place: usize| known.get(place + 1).is_none_or(|next| next[..2] != known[place][..2]);
    let taken = known.iter().enumerate().filter(|(place, _)| *place == 0 || is_last(*place));
    taken.map(|(_, [major, minor, patch])| format!("{major}.{minor}.{patch}")).collect()
}

/// The numbers of a final version; `None` for others, such as `3.9.0rc1`.
fn version(text: &str) -> Option<Version> {
    let numbers: Vec<u32> = text.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
    numbers.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_each_minor_version_is_taken() {
        let printed = "triton (3.10.1)\nAvailable versions: 3.10.1, 3.9.1rc1, 3.9.0, 3.7.1, 3.7.0, 3.2.1, 3.2.0, 3.1.0, 2.3\n  L: 3";
        let versions = listed_versions(printed);
        assert_eq!(versions.len(), 9);
        assert_eq!(supported(&versions), ["3.2.0", "3.2.1", "3.7.1", "3.9.0"]);
        assert_eq!(supported(&["3.4.0".to_owned()]), ["3.4.0"]);
        assert!(supported(&["3.1.0".to_owned()]).is_empty());
        assert!(listed_versions("nothing").is_empty());
    }
}
