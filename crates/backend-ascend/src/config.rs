//! The configuration of the backend.

use std::path::{Path, PathBuf};

use opkeep_cann_toolkit::Search;
use opkeep_fs::Fs;

use crate::worker::op_query_cache;

/// The configuration of an [`AscendBackend`](crate::AscendBackend).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AscendConfig {
    /// Where to look for the toolkit.
    pub search: Search,
    /// The driver of the compiler.
    pub driver: Driver,
    /// The directory for workers' temporary files.
    pub scratch: PathBuf,
    /// The file for operators' answers, so that later processes need not repeat queries. Its directory, to which only
    /// this user can write, also gets the record of importing the toolkit, and bytecode. None keeps nothing.
    pub answers: Option<PathBuf>,
    /// The number of jobs after which a worker is replaced, so that data which operators leave in it does not add up.
    pub jobs_per_worker: u32,
    /// Files and directories that the toolkit reads for some kernels only: their contents are part of the toolchain
    /// fingerprint.
    pub inputs: Vec<PathBuf>,
    /// The file system whose clock decides which modules of the toolkit were changed just now: a worker that imported
    /// such a module compiles once, then it is replaced.
    pub fs: Fs,
}

/// The driver of the compiler. Kernels are the same by either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Driver {
    /// Workers, if the toolkit has the package that they need; otherwise processes.
    #[default]
    Auto,
    /// One process of `opc` or `asc_opc` per compile, which imports the toolkit each time.
    Process,
    /// Long-lived Python processes that import it once.
    Workers,
}

impl AscendConfig {
    /// A configuration that finds the toolkit by `search`, and keeps nothing between processes.
    pub fn new(search: Search) -> Self {
        let scratch = std::env::temp_dir();
        Self {
            search,
            driver: Driver::Auto,
            scratch,
            answers: None,
            jobs_per_worker: 256,
            inputs: Vec::new(),
            fs: Fs::new(),
        }
    }

    /// Keeps operators' answers in this user's directory below `dir`, which may be one for temporary files.
    #[must_use]
    pub fn keep_answers_below(self, dir: &Path) -> Self {
        Self { answers: op_query_cache::file_below(dir), ..self }
    }
}
