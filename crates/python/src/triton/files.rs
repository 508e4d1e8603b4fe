//! The files of Triton for one target.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opkeep_embed::{
    Digest, DirectoryError, EmbedError, FileCache, FileCacheConfig, FileKey, GroupClaim, GroupTicket,
    Options, StoreConfig, StoredExpectations, TargetFiles, WarningKind,
};
use opkeep_store::LimitSettings;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arguments::seconds;
use crate::cache::{finish_uploads, limit_settings};
use crate::call::{end_without_gil, keep, without_gil};
use crate::remote::{RemoteArguments, settings_error};
use crate::signals::Signals;
use crate::triton::directory::{Directory, store_error};
use crate::triton::new_group::{NewFiles, rules};
use crate::triton::ticket::TritonTicket;
use crate::triton::toolchain::Toolchain;

/// The longest wait for another thread of this process. It may need a lock of the program that this thread holds, as no compile
/// of Triton's own waits for another.
const WAIT_IN_PROCESS: Duration = Duration::from_secs(5);

/// The maximum time that the calls of one request to a remote cache may take together: most kernels compile in that time.
const REMOTE_LIMIT: Duration = Duration::from_secs(3);

/// The files of Triton for one target.
#[pyclass(frozen, module = "opkeep._native")]
pub(crate) struct TritonFiles {
    cache: FileCache,
    files: TargetFiles,
    rules: Option<Arc<StoredExpectations>>,
}

/// The name and the bytes of a file.
type NamedBytes<'py> = (String, Bound<'py, PyBytes>);

/// What a request found.
enum Found {
    Files(Result<Vec<String>, DirectoryError>),
    Ticket(GroupTicket),
    Nothing,
}

#[pymethods]
impl TritonFiles {
    /// If `is_local`, the files are for this machine: no remote cache is asked for them, and none gets them.
    #[new]
    fn new(
        py: Python<'_>,
        root: PathBuf,
        target: &str,
        limits: [Option<String>; 3],
        remote: RemoteArguments,
        is_local: bool,
    ) -> PyResult<Self> {
        let limits: LimitSettings = limit_settings(limits);
        let mut config = FileCacheConfig::new(StoreConfig::new(root).with_limits(limits), "triton")
            .with_on_warning(Arc::new(keep_warning));
        config.remote_limit = REMOTE_LIMIT;
        let invalid = without_gil(py, || {
            let cache = &mut config.cache;
            Ok(remote.apply_keys(cache).map(|()| if is_local { Ok(()) } else { remote.apply_remote(cache) }))
        })?;
        // Without valid keys, it is not known which files may be used. Without a valid URL, those of the store are used.
        let invalid = invalid.map_err(|error| settings_error(py, &error))?.err();
        let (cache, files) = without_gil(py, || {
            invalid.iter().for_each(|error| {
                keep_warning(WarningKind::Remote, &format!("no remote cache is used: {error}"));
            });
            let cache = FileCache::open(config)?;
            let files = cache.target(target)?;
            Ok((cache, files))
        })?;
        Ok(Self { cache, files, rules: rules(target).map(Arc::new) })
    }

    /// Returns the names of the files, which lie in `directory` now, or None.
    fn get(
        &self,
        py: Python<'_>,
        key: &str,
        name: &str,
        toolchain: &Toolchain,
        directory: &Directory,
    ) -> PyResult<Option<Vec<String>>> {
        let key = file_key(key, name, toolchain);
        let found = without_gil(py, || {
            if let Some(names) = self.placed(&key, directory, None)? {
                return Ok(Some(Ok(names)));
            }
            Ok(self.files.get(&key)?.map(|group| directory.place_hit(&group, None)))
        })?;
        found.transpose().map_err(|error| store_error(py, &error))
    }

    /// Returns the same, or a ticket. Waits while another caller makes the files. A group has Triton's list of its files, too.
    #[pyo3(signature = (key, name, toolchain, directory, is_group))]
    fn get_or_begin(
        &self,
        py: Python<'_>,
        key: &str,
        name: &str,
        toolchain: &Toolchain,
        directory: &Directory,
        is_group: bool,
    ) -> PyResult<(Option<Vec<String>>, Option<TritonTicket>)> {
        let key = file_key(key, name, toolchain);
        let listed = is_group.then_some(name);
        if let Some(names) = without_gil(py, || self.placed(&key, directory, listed))? {
            return Ok((Some(names), None));
        }
        let signals = Signals::new();
        let poll = || signals.poll();
        let mut options = Options::default().with_cancel(&signals.cancel).with_on_poll(&poll);
        options.wait_in_process = WAIT_IN_PROCESS;
        options.expectations = self.rules(listed);
        let found = without_gil(py, || {
            Ok(match signals.during(|| self.files.get_or_begin(&key, &options))? {
                GroupClaim::Hit(group) => Found::Files(directory.place_hit(&group, listed)),
                GroupClaim::Begin(ticket) | GroupClaim::Unshared(ticket, _) => Found::Ticket(ticket),
                _ => Found::Nothing,
            })
        })?;
        if let Some(error) = signals.take_raised() {
            if let Found::Ticket(ticket) = &found {
                end_without_gil(ticket);
            }
            return Err(error);
        }
        match found {
            Found::Files(names) => Ok((Some(names.map_err(|error| store_error(py, &error))?), None)),
            Found::Ticket(ticket) => Ok((None, Some(TritonTicket { ticket, rules: self.rules.clone() }))),
            Found::Nothing => Ok((None, None)),
        }
    }

    /// Publishes files without a ticket, in place of those that are there. Returns whether they were written.
    fn publish(
        &self,
        py: Python<'_>,
        key: &str,
        name: &str,
        toolchain: &Toolchain,
        files: NewFiles,
    ) -> PyResult<bool> {
        let key = file_key(key, name, toolchain);
        without_gil(py, || files.publish(self.rules.as_deref(), |group| self.files.publish(&key, group)))
    }

    /// Makes the files of a group lie in `directory`, as at a hit.
    fn place(
        &self,
        py: Python<'_>,
        key: &str,
        name: &str,
        toolchain: &Toolchain,
        directory: &Directory,
        files: NewFiles,
    ) -> PyResult<()> {
        let entry = self.files.entry_key(&file_key(key, name, toolchain));
        let placed = without_gil(py, || {
            Ok(files.with_digests(|files| directory.place_files(&entry, files, Some(name))))
        })?;
        placed.map(drop).map_err(|error| store_error(py, &error))
    }

    /// Returns the files of a group that are to be taken over: a record beside them says that they are those of this entry. None are with
    /// keys: anyone who writes into the directory can write such a record, and it has no signature.
    fn restored<'py>(
        &self,
        py: Python<'py>,
        key: &str,
        name: &str,
        toolchain: &Toolchain,
        directory: &Directory,
    ) -> PyResult<Option<Vec<NamedBytes<'py>>>> {
        let entry = self.files.entry_key(&file_key(key, name, toolchain));
        let files = without_gil(py, || match self.files.keeps_found()? {
            true => Ok(directory.restored(&entry, name)),
            false => Ok(None),
        })?;
        let to_python = |(name, bytes): (String, Vec<u8>)| (name, PyBytes::new(py, &bytes));
        Ok(files.map(|files| files.into_iter().map(to_python).collect()))
    }

    /// Returns the directory of the files of Triton's key `key` that a toolchain makes. `json_prefix` is the start of the paths
    /// in the directory of that key. With `checks_copies`, a hit also has copies there.
    fn directory(
        &self,
        py: Python<'_>,
        base: PathBuf,
        key: &str,
        toolchain: &Toolchain,
        json_prefix: String,
        checks_copies: bool,
    ) -> PyResult<Directory> {
        let digest = self.files.entry_key(&file_key(key, "", toolchain));
        let directory = Directory::of_toolchain(base, key, &digest, json_prefix, checks_copies);
        directory.map_err(|error| store_error(py, &error))
    }

    /// Writes the counts of hits and misses to the store.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        without_gil(py, || {
            self.files.flush();
            Ok(())
        })
    }

    /// Waits until the published files are in the remote cache, at most for some seconds. Returns the number of entries that are
    /// still being sent.
    fn finish_uploads(&self, py: Python<'_>, limit: &Bound<'_, PyAny>) -> PyResult<usize> {
        finish_uploads(py, &self.cache, seconds("limit", limit)?)
    }
}

impl TritonFiles {
    /// The names of the files, if they lie in `directory` with the bytes of the entry: most hits. The bytes in the entry are not
    /// read, since nothing of them is used. `listed` is the name of a group.
    fn placed(
        &self,
        key: &FileKey,
        directory: &Directory,
        listed: Option<&str>,
    ) -> Result<Option<Vec<String>>, EmbedError> {
        let entry = self.files.entry_key(key);
        self.files.find_placed(key, self.rules(listed), |files| directory.placed(&entry, files, listed))
    }

    /// The rules for the kernel of a group.
    fn rules(&self, listed: Option<&str>) -> Option<&StoredExpectations> {
        self.rules.as_deref().filter(|_| listed.is_some())
    }
}

/// Keeps a warning until the end of the call. Of those of remote caches, this process keeps one: the others are notes. A program
/// that compiles for hours would have one each time an engine is tried again.
fn keep_warning(kind: WarningKind, text: &str) {
    static HAS_WARNED: AtomicBool = AtomicBool::new(false);
    let is_further = kind == WarningKind::Remote && HAS_WARNED.swap(true, Ordering::Relaxed);
    keep((if is_further { "note" } else { "warning" }, text.to_owned()));
}

/// The key of Triton's files, from the text of its own key.
fn file_key(key: &str, name: &str, toolchain: &Toolchain) -> FileKey {
    FileKey::new(*Digest::of(key.as_bytes()).as_bytes()).with_name(name).with_toolchain(toolchain.0.clone())
}
