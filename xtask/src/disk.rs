//! The files that tasks read and write, and the output of cargo, git and other programs. The other modules get text only.

#![expect(clippy::disallowed_methods, reason = "the one module of xtask that touches the disk")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The output of `cargo metadata` about the members. Needs no network: nothing is resolved.
pub(crate) fn metadata() -> Result<Value, String> {
    parsed(&output("cargo", &["metadata", "--format-version", "1", "--no-deps", "--offline"], None)?)
}

/// The output of `cargo metadata` about the members and all crates that they use on `platform`, as Cargo.lock has them.
pub(crate) fn resolved(platform: &str) -> Result<Value, String> {
    resolved_by(Command::new("cargo"), platform)
}

/// The same, of the workspace in which this cargo runs.
pub(crate) fn resolved_by(mut cargo: Command, platform: &str) -> Result<Value, String> {
    cargo.args(["metadata", "--format-version", "1", "--locked", "--filter-platform", platform]);
    parsed(&output_of(&mut cargo)?)
}

fn parsed(json: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(json).map_err(|error| format!("`cargo metadata` wrote no JSON: {error}"))
}

/// The files in git, and those that the next `git add` would add, relative to `root`; sorted. A file that git lists but
/// that is missing on disk is left out, as is a symbolic link.
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

/// The names directly below the root, derived from `files`; sorted. A directory's name ends in `/`. Files that git
/// ignores, such as kernels that a build left, do not count.
pub(crate) fn top_level(files: &[String]) -> Vec<String> {
    let first = |file: &String| file.split_inclusive('/').next().unwrap_or_default().to_owned();
    let mut names: Vec<String> = files.iter().map(first).collect();
    names.sort();
    names.dedup();
    names
}

/// The names in the directory `path`; sorted.
pub(crate) fn names(path: &Path) -> Result<Vec<String>, String> {
    let message = |error| format!("cannot list `{}`: {error}", path.display());
    let entries = fs::read_dir(path).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(message)?;
    let mut names: Vec<String> =
        entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

/// The bytes of `path` below `root`.
pub(crate) fn bytes(root: &Path, path: &str) -> Result<Vec<u8>, String> {
    fs::read(root.join(path)).map_err(|error| format!("cannot read `{path}`: {error}"))
}

/// The text of `path` below `root`; `None` if the file is missing.
pub(crate) fn text_if_exists(root: &Path, path: &str) -> Result<Option<String>, String> {
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

/// Writes a file, and its directory.
pub(crate) fn write_bytes(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let message = |error| format!("cannot write `{}`: {error}", path.display());
    fs::create_dir_all(path.parent().unwrap_or(Path::new(""))).map_err(message)?;
    fs::write(path, bytes).map_err(message)
}

/// Creates an empty file for the output of a program, and its directory.
pub(crate) fn create(path: &Path) -> Result<fs::File, String> {
    let message = |error| format!("cannot create `{}`: {error}", path.display());
    fs::create_dir_all(path.parent().unwrap_or(Path::new(""))).map_err(message)?;
    fs::File::create(path).map_err(message)
}

/// Creates an empty directory, removing an existing one.
pub(crate) fn empty_directory(path: &Path) -> Result<(), String> {
    let message = |error| format!("cannot create `{}`: {error}", path.display());
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(message(error)),
        _ => {}
    }
    fs::create_dir_all(path).map_err(message)
}

/// Creates a directory and those above it; an existing one stays.
pub(crate) fn create_directory(path: &Path) -> Result<(), String> {
    fs::create_dir_all(path).map_err(|error| format!("cannot create `{}`: {error}", path.display()))
}

/// Renames a file, replacing an existing one.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<(), String> {
    fs::rename(from, to)
        .map_err(|error| format!("cannot rename `{}` to `{}`: {error}", from.display(), to.display()))
}

/// Copies a file, or a directory with all that is in it.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let names = [from, to].map(|path| path.to_string_lossy().into_owned());
    output("cp", &["-a", "--", &names[0], &names[1]], None).map(drop)
}

/// Lets all users run a file.
#[cfg(test)]
pub(crate) fn make_executable(path: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt as _;
    let done = fs::set_permissions(path, fs::Permissions::from_mode(0o755));
    done.map_err(|error| format!("cannot make `{}` executable: {error}", path.display()))
}

/// Removes a file or a directory.
pub(crate) fn remove(path: &Path) -> Result<(), String> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.map_err(|error| format!("cannot remove `{}`: {error}", path.display()))
}

/// The entries of a directory.
pub(crate) fn entries(path: &Path) -> Result<Vec<PathBuf>, String> {
    let message = |error| format!("cannot read `{}`: {error}", path.display());
    let entries = fs::read_dir(path).map_err(message)?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(message)).collect()
}

/// The output of a program, which must succeed.
pub(crate) fn output(program: &str, args: &[&str], directory: Option<&Path>) -> Result<Vec<u8>, String> {
    let directory = directory.map_or_else(|| PathBuf::from("."), Path::to_path_buf);
    output_of(Command::new(program).args(args).current_dir(directory))
}

/// The output of a program, which must succeed.
pub(crate) fn output_of(command: &mut Command) -> Result<Vec<u8>, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let args = command.get_args().map(|arg| arg.to_string_lossy().into_owned());
    let line = std::iter::once(program.clone()).chain(args).collect::<Vec<_>>().join(" ");
    match command.output() {
        Ok(output) if output.status.success() => Ok(output.stdout),
        Ok(output) => {
            Err(format!("`{line}` ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr)))
        }
        Err(error) => Err(format!("`{line}` did not start: {error}; is {program} on the PATH?")),
    }
}

/// The output of a program as text.
pub(crate) fn printed(command: &mut Command) -> Result<String, String> {
    output_of(command).map(|output| String::from_utf8_lossy(&output).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_level_follows_from_the_files() {
        let files =
            ["Cargo.toml", "crates/a/src/lib.rs", "crates/b/src/lib.rs", ".ci/run"].map(str::to_owned);
        assert_eq!(top_level(&files), [".ci/", "Cargo.toml", "crates/"]);
    }
}
