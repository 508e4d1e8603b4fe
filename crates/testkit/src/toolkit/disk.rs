//! Writing the tree, and changing it.
#![expect(clippy::disallowed_methods, reason = "this is the toolkit's I/O module")]

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Writes a file, and the directories that lead to it.
pub(super) fn write(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, bytes)
}

/// The same for a program.
pub(super) fn write_program(path: &Path, text: &str) -> io::Result<()> {
    write(path, text)?;
    fs::set_permissions(path, Permissions::from_mode(0o755))
}

/// Writes a file so that no process reads half of it.
pub(super) fn replace(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let beside = path.with_extension(format!("new-{}", std::process::id()));
    write(&beside, bytes)?;
    fs::rename(beside, path)
}

/// The same for an edit, which must have another date than the file before: Python takes bytecode of that second for it.
pub(super) fn edit(path: &Path, change: impl FnOnce(String) -> String) -> io::Result<()> {
    let before = fs::metadata(path)?.modified()?;
    replace(path, change(read(path)?))?;
    let file = OpenOptions::new().append(true).open(path)?;
    let second = Duration::from_secs(1);
    if file.metadata()?.modified()? < before + second { file.set_modified(before + second) } else { Ok(()) }
}

/// Makes a link, in place of one that is there.
pub(super) fn link(target: &str, path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => symlink(target, path),
    }
}

/// Makes a link in one step, beside processes that do the same.
pub(super) fn link_at_once(target: &Path, path: &Path) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let beside = folder.join(format!("new-{}", std::process::id()));
    remove(&beside)?;
    symlink(target, &beside)?;
    fs::rename(beside, path)
}

/// Has `make` fill a directory that gets its name once it is complete, unless it is there. Several processes may do this at once.
pub(super) fn at_once(path: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let beside = path.with_extension(format!("new-{}", std::process::id()));
    remove(&beside)?;
    make(&beside)?;
    match fs::rename(&beside, path) {
        // Another process was faster.
        Err(_) if path.is_dir() => remove(&beside),
        result => result,
    }
}

/// Where a link leads.
pub(super) fn target(path: &Path) -> io::Result<PathBuf> {
    fs::read_link(path)
}

/// Makes a directory and those that lead to it.
pub(super) fn folder(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// The text of a file.
pub(super) fn read(path: &Path) -> io::Result<String> {
    fs::read_to_string(path)
}

/// The bytes of a file.
pub(super) fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    fs::read(path)
}

/// Sets who may do what with a file.
pub(super) fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))
}

/// The names and the targets of all links in a directory, by name; none where it is missing.
pub(super) fn links(folder: &Path) -> io::Result<Vec<(String, String)>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut links = Vec::new();
    for entry in entries {
        let entry = entry?;
        let target = fs::read_link(entry.path())?;
        let [name, target] = [entry.file_name(), target.into_os_string()];
        links.push((name.to_string_lossy().into_owned(), target.to_string_lossy().into_owned()));
    }
    links.sort();
    Ok(links)
}

/// The text of a file, empty where there is none.
pub(super) fn read_if_there(path: &Path) -> io::Result<String> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        result => result,
    }
}

/// Writes at the end of a file.
pub(super) fn append(path: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().append(true).open(path)?.write_all(text.as_bytes())
}

/// Removes a file, a link or a directory with all that is in it, if it is there.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let result = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Keeps a text in the targets of links, which are read without opening a file. Readers see the old one or the new one.
pub(super) fn replace_links(path: &Path, text: &str) -> io::Result<()> {
    const LONGEST: usize = 4000;
    let parent = path.parent().unwrap_or(Path::new("."));
    let earlier = fs::read_link(path).ok().map(|name| parent.join(name));
    let number = (0..).find(|number| !parent.join(format!("control-{number}")).exists()).unwrap_or(0);
    let name = format!("control-{number}");
    fs::create_dir_all(parent.join(&name))?;
    let mut rest = text;
    let mut count = 0;
    while !rest.is_empty() {
        let at =
            (0..=rest.len().min(LONGEST)).rev().find(|at| rest.is_char_boundary(*at)).unwrap_or(rest.len());
        let (part, more) = rest.split_at(at);
        symlink(part, parent.join(&name).join(count.to_string()))?;
        (rest, count) = (more, count + 1);
    }
    let beside = path.with_extension("new");
    link(&name, &beside)?;
    fs::rename(beside, path)?;
    earlier.map_or(Ok(()), |earlier| remove(&earlier))
}

/// The text that `replace_links` kept.
pub(super) fn read_links(path: &Path) -> io::Result<String> {
    let target = |number: usize| fs::read_link(path.join(number.to_string()));
    let parts = (0..).map_while(|number| target(number).ok());
    Ok(parts.map(|part| part.to_string_lossy().into_owned()).collect())
}
