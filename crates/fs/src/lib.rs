//! The floor under all I/O of the workspace. No other product crate calls `std::fs`.
//!
//! Three types reach files, each for its kind of path:
//!
//! - [`Fs`]: paths from a caller or the environment. Links are followed, as in every other program.
//! - [`RootedFs`]: paths below a root that must not be left. No link is followed, neither on the way nor at the end.
//! - [`Dir`]: names in one open directory. Renaming the directory, or putting a link in its place, changes nothing.
//!
//! A [`Watcher`] is called before each call to the system and may refuse it: so tests fail, count, or kill a process at
//! each single one. A [`Clock`] replaces the time, so that no test has to wait.
//!
//! Also here: [`FileLock`] (ends with its process, whatever forked children do), [`ProcessId`], [`parallel`](map) work with
//! a bounded number of threads, [`CancelToken`], the [files](OpenFiles) that other processes have open, and directories that
//! only [this user](private_dir) can write to.
//!
//! Other code may close the file of a lock, and open its own with the same number: such a file is not used, unlocked or closed.
//!
//! The first lock installs handlers around `fork` for the life of the process: the only state that is not in a value.
//!
//! ```
//! use opkeep_fs::{Fs, TryLock};
//!
//! let (fs, dir) = (Fs::new(), tempfile::tempdir()?);
//! let path = dir.path().join("lock");
//! let TryLock::Held(lock) = fs.try_lock(&path, 0o600)? else { unreachable!("nothing else locks it") };
//! assert!(matches!(fs.try_lock(&path, 0o600)?, TryLock::Busy(_)));
//! drop(lock);
//! assert!(matches!(fs.try_lock(&path, 0o600)?, TryLock::Held(_)));
//! # Ok::<(), std::io::Error>(())
//! ```

#![expect(clippy::disallowed_methods, reason = "this crate is what the others reach files through")]

mod call;
mod cancel;
mod change_time;
mod clock;
mod date;
mod dir;
mod ffi;
mod fork_safe;
mod limits;
mod lock;
mod new_file;
mod open_files;
mod output;
mod parallel;
mod private;
mod process;
mod pseudo;
mod removal;
mod rooted;
mod state;
mod system;
mod temp;
mod temp_dir;
mod temporaries;
mod tree;
mod volume;

pub use call::{FsCall, FsOp, Permit, Watcher};
pub use cancel::CancelToken;
pub use change_time::ChangeTimes;
pub use clock::{Clock, FileClock, idle, unix};
pub use date::{date_of_day, utc};
pub use dir::{Dir, DirEntry, FileRead, Names};
pub use ffi::is_ignored_signal;
pub use fork_safe::ForkSafeCell;
pub use limits::{has_no_locks, is_out_of_files, max_open_files};
pub use lock::{FileLock, LockFile, TryLock};
pub use open_files::OpenFiles;
pub use output::{OutputFile, PreparedFile};
pub use parallel::{Mapped, map};
pub use private::{NotPrivate, private_dir, private_user_dir};
pub use process::{ForkMark, ProcessId, at_exit, thread_number, without_fork};
pub use pseudo::{descend, pseudo_below, pseudo_file_system};
pub use removal::remove_temporaries;
pub use rooted::RootedFs;
pub use state::{FileId, FileKind, FileStat, FileState};
pub use system::Fs;
pub use temp::{TempFile, cannot_rename_new, unique_name};
pub use temp_dir::TempDir;
pub use temporaries::on_first_temporary;
pub use volume::Volume;
