//! Where the programs of servers are.
#![expect(clippy::disallowed_methods, reason = "a test may read where its servers are")]

use std::path::{Path, PathBuf};

/// Where `cargo xtask remote-servers` installs, unless `OPKEEP_REMOTE_SERVERS` names another directory.
const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/remote-servers");

fn directory() -> PathBuf {
    std::env::var_os("OPKEEP_REMOTE_SERVERS").map_or_else(|| PathBuf::from(DIRECTORY), PathBuf::from)
}

/// A program that `cargo xtask remote-servers` installs for tests alone, in the versions that they were written for.
///
/// # Errors
/// It is not there. The message says what installs it.
pub fn of_tests(program: &str) -> Result<PathBuf, String> {
    let directory = directory();
    let found = ["bin", "venv/bin"].map(|bin| directory.join(bin).join(program));
    found.into_iter().find(|path| path.is_file()).ok_or_else(|| {
        let directory = directory.display();
        format!(
            "{program} is not installed; `cargo xtask remote-servers --install` does that, in `{directory}`"
        )
    })
}

/// A program of the system, from a package that `cargo xtask remote-servers` installs.
///
/// # Errors
/// As [`of_tests`].
pub fn of_system(program: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Debian has servers where only root looks.
    let directories = std::env::split_paths(&path).chain(["/usr/sbin", "/usr/bin"].map(PathBuf::from));
    let mut programs = directories.map(|directory| directory.join(program));
    programs
        .find(|path: &PathBuf| Path::is_file(path))
        .ok_or_else(|| format!("{program} is not installed; `cargo xtask remote-servers` does that, as root"))
}
