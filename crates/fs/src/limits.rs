//! Limits of the process and the file system.

use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// The number of files that this process may have open.
pub fn max_open_files() -> usize {
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX))
}

/// Whether a file cannot be opened because the process, or the machine, has too many open files.
pub fn is_out_of_files(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Whether locking failed because the file system has no locks.
pub fn has_no_locks(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOLCK | Errno::NOTSUP | Errno::NOSYS))
}
