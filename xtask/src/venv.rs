//! Virtual environments of Python below `target/`. What is installed stays for the next run.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::disk;

/// Why something is not there.
#[derive(Debug)]
pub(crate) enum Skip {
    /// This machine cannot have it.
    Skipped(String),
    Failed(String),
}

impl From<String> for Skip {
    fn from(message: String) -> Self {
        Self::Failed(message)
    }
}

/// A virtual environment.
pub(crate) struct Venv {
    directory: PathBuf,
}

impl Venv {
    /// Creates the environment, unless an earlier run did.
    pub(crate) fn create(directory: &Path) -> Result<Self, Skip> {
        // Absolute, for programs that change their directory.
        let directory =
            std::path::absolute(directory).map_err(|error| format!("`{}`: {error}", directory.display()))?;
        let venv = Self { directory };
        if venv.has("venv") {
            return Ok(venv);
        }
        disk::empty_directory(&venv.directory)?;
        let made = Command::new("python3").args(["-m", "venv"]).arg(&venv.directory).output();
        let Ok(made) = made else {
            return Err(Skip::Skipped("there is no `python3` on the PATH".to_owned()));
        };
        if !made.status.success() {
            let reason = text(&made.stdout);
            return Err(Skip::Skipped(format!("`python3 -m venv` does not work here: {}", reason.trim())));
        }
        mark(&venv.directory, "venv")?;
        Ok(venv)
    }

    /// Its Python.
    pub(crate) fn python(&self) -> PathBuf {
        self.directory.join("bin/python")
    }

    /// Its pip.
    pub(crate) fn pip(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.python());
        command.args(["-m", "pip", "--disable-pip-version-check"]).args(args);
        command
    }

    /// Runs `pip install`.
    pub(crate) fn pip_install(&self, args: &[&str]) -> Result<(), String> {
        println!("==> pip install {}", args.join(" "));
        let installed = output(self.pip(&["install", "--quiet"]).args(args))?;
        if installed.status.success() {
            return Ok(());
        }
        Err(format!(
            "`pip install {}` ended with {}: {}",
            args.join(" "),
            installed.status,
            text(&installed.stderr)
        ))
    }

    /// Installs packages, unless an earlier run did under this name.
    pub(crate) fn install(&self, name: &str, requirements: &[&str]) -> Result<(), String> {
        if self.has(name) {
            return Ok(());
        }
        self.pip_install(requirements)?;
        mark(&self.directory, name)
    }

    fn has(&self, name: &str) -> bool {
        is_marked(&self.directory, name)
    }
}

/// Whether all of a package was installed into this directory: a file there says so, since an interrupted pip leaves a part.
pub(crate) fn is_marked(directory: &Path, name: &str) -> bool {
    mark_of(directory, name).exists()
}

/// Records that all of a package is installed.
pub(crate) fn mark(directory: &Path, name: &str) -> Result<(), String> {
    disk::write(&mark_of(directory, name), "")
}

fn mark_of(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.installed"))
}

/// The output of a program.
pub(crate) fn output(command: &mut Command) -> Result<Output, String> {
    command.output().map_err(|error| format!("`{}` did not start: {error}", command.get_program().display()))
}

/// What a program printed.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
