//! The configuration of the backend.

use std::path::{Path, PathBuf};

use opkeep_cann_toolkit::Search;
use opkeep_fs::Fs;

use crate::worker::op_query_cache;

/// How the backend finds its toolkit, and how it drives it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AscendConfig {
    /// Where to look for the toolkit.
    pub search: Search,
    /// How it is driven.
    pub driver: Driver,
    /// The directory for workers' temporary files.
    pub scratch: PathBuf,
    /// Where answers of operators are kept, which the next process need not ask again, and beside them what importing
    /// the toolkit takes, and its bytecode: a directory that only this user can write to. Nowhere if None.
    pub answers: Option<PathBuf>,
    /// After how many jobs a worker is replaced: what operators leave behind in it does not add up for long.
    pub jobs_each: u32,
    /// Files, and directories of files, that the toolkit reads for some kernels only: they count by content.
    pub inputs: Vec<PathBuf>,
    /// The file system whose clock decides which modules of the toolkit were changed just now: a worker that imported
    /// such a module compiles once, then it is replaced.
    pub fs: Fs,
}

/// How the compiler is driven. Kernels are the same either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Driver {
    /// By workers, where the toolkit has what they need; else by processes.
    #[default]
    Auto,
    /// One process of `opc` or `asc_opc` a compile, which imports the toolkit each time.
    Process,
    /// Long-lived Python processes that import it once.
    Workers,
}

impl AscendConfig {
    /// Finds the toolkit by `search`. Nothing is kept between processes.
    pub fn new(search: Search) -> Self {
        let scratch = std::env::temp_dir();
        Self {
            search,
            driver: Driver::Auto,
            scratch,
            answers: None,
            jobs_each: 256,
            inputs: Vec::new(),
            fs: Fs::new(),
        }
    }

    /// Keeps what operators answer in this user's directory below `dir`, which may be one for temporary files.
    #[must_use]
    pub fn keep_answers_below(self, dir: &Path) -> Self {
        Self { answers: op_query_cache::file_below(dir), ..self }
    }
}
