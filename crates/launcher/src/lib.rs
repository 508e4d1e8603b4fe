//! The results of compile commands, kept under keys of all that the commands read.
//!
//! A build runs the same command again and again: `opc add.py --output=out`. This crate runs it in the place of its caller, or gives
//! the result of an earlier run: the files that it wrote and the texts of its two outputs. No list of what a command reads is written by hand: it is
//! observed ([`Observer`](opkeep_process::Observer)), with all programs that it starts.
//!
//! ```text
//! task key      digest of what is known before: tool, arguments, environment, working directory, program, declared inputs
//!   └─ manifest 0, 1, ..   the paths that a run looked at: read, listed, or looked for in vain; no content
//!        └─ result key     digest of the task key, the manifest, and the state of each of its paths now
//!             └─ result    output files with their modes, standard output, standard error
//! ```
//!
//! * **Look-up.** The state of each path of each manifest is taken: the content of files, the absence of missing ones, the names in listed
//!   directories, where links lead. If a result has that key, a run would read the same, and look for the same in vain.
//! * **Dates never count**, nor sizes alone: `touch` changes nothing. A file that is only looked at counts by its content as well. The bits of
//!   modes count, of files and of directories.
//! * **Each variable counts**, or the command does not get it ([`INERT`]). A caller can name others that have no effect.
//! * **Names in directories** count, as the command found them. What an adapter states of its tool ([`ToolFacts`]) makes exceptions: the names of
//!   results, and the directories of Python's compiled modules.
//! * **Old outputs** count by their kind and mode, as far as the command learns them: `mkdir` fails where a directory is, a file that is truncated keeps
//!   its mode. So do the states of paths at which the command makes a lock or a temporary file. A run that looks at an old output is not kept.
//! * **Nothing of a user is lost.** A result is written where each output is missing or a plain file of this user with one name, and no link is on the
//!   way; elsewhere, the command runs.
//! * **Roots** ([`Roots`]) are directories that may lie elsewhere in another build of a tool that is known to be movable. Their paths are replaced by
//!   names in arguments, variables and texts below roots. If an output shows a path, a C text has one, or the command leaves a root by a relative
//!   path, the key has the real paths. How roots lie to each other is in each key.
//! * **One process runs a command**, the others wait: tickets of [`opkeep_embed`].
//! * **What is not kept** is in [`Reason`]: failures, files that changed during the run, writes to other places than the expected ones,
//!   data that no key covers. The command's result is its caller's in each case.
//! * **What came from another host** is judged: a manifest and a result are decoded within limits, and a result writes only expected outputs.
//!
//! # What a key cannot cover
//!
//! A command whose result depends on one of these must not be given to this crate. An adapter knows that its tool uses none of them.
//!
//! * The clock, the host's name, the kernel's release, the number of processors, limits.
//! * Other processes: whether one holds a lock (`flock`, `fcntl`), whether a process number is in use, what comes to a socket that the command has
//!   bound, and what is in the pipes that `MAKEFLAGS` names. How many jobs it names is not in the key, though the command sees it.
//! * Of a file: its owner, dates, link count and extended attributes; whether two names are one file, by which `#pragma once` decides; what another
//!   process writes through a memory map while the command runs, in a file system that does not show it.
//! * Of a directory: the order of its names, and a default access list.
//! * For a movable tool ([`ToolFacts`]): what a program makes of its own path other than the name of a file, such as its length; a root's path
//!   within a file outside of all roots; `__FILE__` in a header outside of all roots.
//! * What an adapter calls a log: its name in a directory and its state before.

pub mod bisheng;
mod bytes;
mod environment;
mod error;
mod exclusive;
mod key;
mod keyed;
mod launcher;
mod manifest;
pub mod opc;
mod reason;
mod record;
mod replay;
mod result;
mod roots;
pub mod shim;
mod state;
mod streams;
mod task;

pub use environment::{INERT, InertVariable};
pub use error::LauncherError;
pub use launcher::{How, Launcher, LauncherConfig, Ran};
pub use reason::Reason;
pub use roots::Roots;
pub use streams::Streams;
pub use task::{Invocation, OutputCheck, Task, ToolFacts};

// The types of other crates in the signatures of this one.
pub use opkeep_digest::FileDigests;
pub use opkeep_embed::{CancelToken, FileCache, FileCacheConfig, StoreConfig};
pub use opkeep_process::{SignalRelay, Stream};
