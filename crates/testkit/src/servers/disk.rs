//! The files of servers: their configuration and their logs.
#![expect(clippy::disallowed_methods, reason = "this is the I/O module of the servers")]

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

pub(super) fn create_dir(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text)
}

/// Creates a file with this mode, which the process's umask may narrow.
pub(super) fn create(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    File::options().create_new(true).write(true).mode(mode).open(path)?.write_all(text.as_bytes())
}

/// The text of a file; what is no text is replaced.
pub(super) fn text(path: &Path) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}

/// A file whose end is written to.
pub(super) fn log(path: &Path) -> io::Result<File> {
    File::options().create(true).append(true).open(path)
}
