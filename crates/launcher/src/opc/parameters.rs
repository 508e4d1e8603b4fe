//! The parameter file of a task: for which operators it compiles kernels, and how these are named.

use std::path::Path;

use opkeep_fs::Fs;
use serde::Deserialize;

use super::NotCached;

/// The maximum size of a parameter file. Those of packages have some kilobytes.
const MAX_BYTES: u64 = 16 << 20;

/// What of a parameter file decides about the results. All of it counts in the key.
#[derive(Debug, Deserialize)]
pub(crate) struct Parameters {
    /// The type of the operator.
    pub(crate) op_type: String,
    op_list: Vec<Kernel>,
}

#[derive(Debug, Deserialize)]
struct Kernel {
    /// The name of the files and of the symbol. Without one, the command makes a name of it all.
    bin_filename: Option<String>,
}

impl Parameters {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// It cannot be read, or is none: the command says what is wrong with it.
    pub(crate) fn read(fs: &Fs, path: &Path) -> Result<Self, NotCached> {
        let problem = |why: String| NotCached::Parameters { path: path.to_owned(), why };
        let bytes = fs.read(path, MAX_BYTES).map_err(|error| problem(error.to_string()))?;
        let parameters: Self = serde_json::from_slice(&bytes).map_err(|error| problem(error.to_string()))?;
        match parameters.op_list.is_empty() {
            true => Err(problem("it has no operator".to_owned())),
            false => Ok(parameters),
        }
    }

    /// The names of the kernels that the file names.
    pub(crate) fn kernel_names(&self) -> impl Iterator<Item = &str> {
        self.op_list
            .iter()
            .filter_map(|kernel| kernel.bin_filename.as_deref())
            .filter(|name| !name.is_empty())
    }

    /// The number of kernels.
    pub(crate) fn kernels(&self) -> usize {
        self.op_list.len()
    }
}
