//! The files that tasks read and write, and the output of cargo, git and other programs. The other modules get text only.

#![expect(clippy::disallowed_methods, reason = "the one module of xtask that touches the disk")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// What `cargo metadata` says about the members. Needs no network: nothing is resolved.
pub(crate) fn metadata() -> Result<Value, String> {
    let json = output("cargo", &["metadata", "--format-version", "1", "--no-deps", "--offline"], None)?;
    serde_json::from_slice(&json).map_err(|error| format!("`cargo metadata` wrote no JSON: {error}"))
}

/// The files in git, and those that would go in with the next `git add`, relative to `root`; sorted. A file that
/// git still lists but that is gone from the disk is not among them, nor is a symbolic link.
pub(crate) fn files(root: &Path) -> Result<Vec<String>, String> {
    let list = output("git", &["ls-files", "-z", "-co", "--exclude-standard"], Some(root))?;
    let names = list.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let mut names: Vec<String> = names
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .filter(|name| fs::symlink_metadata(root.join(name)).is_ok_and(|found| found.is_file()))
        .collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// The names directly below the root that `files` lead to, sorted; a directory's ends in `/`. What git ignores, such as
/// kernels that a build left, is not looked at.
pub(crate) fn top_level(files: &[String]) -> Vec<String> {
    let first = |file: &String| file.split_inclusive('/').next().unwrap_or_default().to_owned();
    let mut names: Vec<String> = files.iter().map(first).collect();
    names.sort();
    names.dedup();
    names
}

/// The bytes of `path` below `root`.
pub(crate) fn bytes(root: &Path, path: &str) -> Result<Vec<u8>, String> {
    fs::read(root.join(path)).map_err(|error| format!("cannot read `{path}`: {error}"))
}

/// The text of `path` below `root`, or nothing if it does not exist.
pub(crate) fn text_if_there(root: &Path, path: &str) -> Result<Option<String>, String> {
    match fs::read_to_string(root.join(path)) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("cannot read `{path}`: {error}")),
    }
}

/// Writes `text` to `path`.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("cannot write `{}`: {error}", path.display()))
}

/// Makes the directory, with nothing in it.
pub(crate) fn empty_directory(path: &Path) -> Result<(), String> {
    let told = |error| format!("cannot make `{}` anew: {error}", path.display());
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(told(error)),
        _ => {}
    }
    fs::create_dir_all(path).map_err(told)
}

/// What a program says. It has to do well.
pub(crate) fn output(program: &str, args: &[&str], directory: Option<&Path>) -> Result<Vec<u8>, String> {
    let line = format!("{program} {}", args.join(" "));
    let directory = directory.map_or_else(|| PathBuf::from("."), Path::to_path_buf);
    match Command::new(program).args(args).current_dir(directory).output() {
        Ok(output) if output.status.success() => Ok(output.stdout),
        Ok(output) => {
            Err(format!("`{line}` ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr)))
        }
        Err(error) => Err(format!("`{line}` did not start: {error}; is {program} on the PATH?")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_level_is_what_files_lead_to() {
        let files =
            ["Cargo.toml", "crates/a/src/lib.rs", "crates/b/src/lib.rs", ".ci/run"].map(str::to_owned);
        assert_eq!(top_level(&files), [".ci/", "Cargo.toml", "crates/"]);
    }
}
