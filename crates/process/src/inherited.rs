//! The inputs that a program has through the descriptors of its caller.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use opkeep_fs::Fs;
use rustix::io::ioctl_fionread;

/// Upper bound of the size of a file of `/proc` about one descriptor.
const MAX_INFO: u64 = 1 << 16;

/// The positions in all files that a program inherits from this process, and the amount of data that waits at its standard input.
/// No key covers what a program reads there, so a caller compares them after the run.
///
/// A program can read from a pipe what came during the run, or from a file without a change of its position: this is a guard
/// against accidents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InheritedInputs {
    /// The number of each descriptor, its file and its position.
    files: Vec<(u32, PathBuf, u64)>,
    /// The number of bytes that can be read from standard input if that is no file.
    waiting: Option<u64>,
}

impl InheritedInputs {
    /// Their state now.
    pub fn now() -> Self {
        let fs = Fs::new();
        let names = fs.list(Path::new("/proc/self/fd")).unwrap_or_default();
        let numbers = names.iter().filter_map(|(name, _)| name.to_str()?.parse().ok());
        let mut files: Vec<_> = numbers.filter_map(readable_file).collect();
        files.sort_unstable();
        let stdin = io::stdin();
        let waiting = if stdin.is_terminal() { None } else { ioctl_fionread(&stdin).ok() };
        Self { files, waiting }
    }
}

/// A regular file that a program inherits and may read.
fn readable_file(number: u32) -> Option<(u32, PathBuf, u64)> {
    let fs = Fs::new();
    let info = fs.read_text(Path::new(&format!("/proc/self/fdinfo/{number}")), MAX_INFO).ok()?;
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let flags = i32::from_str_radix(field("flags:")?, 8).ok()?;
    if flags & libc::O_CLOEXEC != 0 || flags & libc::O_ACCMODE == libc::O_WRONLY {
        return None;
    }
    let link = format!("/proc/self/fd/{number}");
    // By the kind of what is open: its path says neither that it is a file nor that it is a device.
    let is_file = fs.metadata(Path::new(&link)).ok()?.is_file();
    let path = fs.read_link(Path::new(&link)).ok()?;
    is_file.then_some((number, path, field("pos:")?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_read_from_an_inherited_file_is_noticed() {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, b"text").unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        let inherited = rustix::io::dup(&file).unwrap();
        let number = u32::try_from(std::os::fd::AsRawFd::as_raw_fd(&inherited)).unwrap();
        let position = || readable_file(number).map(|(_, _, position)| position);
        assert_eq!(position(), Some(0));
        file.read_exact(&mut [0; 2]).unwrap();
        assert_eq!(position(), Some(2));
        // This process's own files are not inherited.
        let own = u32::try_from(std::os::fd::AsRawFd::as_raw_fd(&file)).unwrap();
        assert_eq!(readable_file(own), None);
    }
}
