//! The cache of one framework and one target.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opkeep_embed::{
    FileCache, FileCacheConfig, FileKey, GroupClaim, GroupTicket, Options, StoreConfig, TargetFiles,
};
use opkeep_store::{CacheMode, LimitSettings};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

use crate::call::{keep_warning, without_gil};
use crate::error::exception;
use crate::files::{Files, seconds_of};
use crate::group::Group;
use crate::key::file_key;
use crate::signals::Signals;
use crate::ticket::Ticket;

/// The cache of one framework and one target.
#[pyclass(frozen, module = "opkeep._native")]
pub(crate) struct Cache {
    files: TargetFiles,
    stale_after: Duration,
    hold_limit: Duration,
}

/// The result of a request.
#[derive(IntoPyObject)]
enum Claim {
    Hit(Py<Group>),
    Begin(Py<Ticket>),
}

#[pymethods]
impl Cache {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python function")]
    fn open(
        py: Python<'_>,
        root: PathBuf,
        target: String,
        framework: String,
        mode: String,
        trusted_owners: Vec<u32>,
        stale_after: f64,
        hold_limit: f64,
        limits: [Option<String>; 3],
    ) -> PyResult<Self> {
        let mode: CacheMode = mode.parse().map_err(|error: opkeep_store::ParseModeError| {
            exception(py, "ArgumentError", &error.to_string())
        })?;
        let store =
            StoreConfig::new(root).with_trusted_owners(trusted_owners).with_limits(limit_settings(limits));
        let config = FileCacheConfig::new(store, framework)
            .with_mode(mode)
            .with_on_warning(Arc::new(|_, text| keep_warning(text)));
        Ok(Self {
            files: without_gil(py, || FileCache::open(config)?.target(&target))?,
            stale_after: seconds_of(py, "stale_after", stale_after)?,
            hold_limit: seconds_of(py, "hold_limit", hold_limit)?,
        })
    }

    fn get(&self, py: Python<'_>, key: &Bound<'_, PyAny>, name: &str) -> PyResult<Option<Group>> {
        let key = file_key(key, name)?;
        Ok(without_gil(py, || self.files.get(&key))?.map(Group))
    }

    #[pyo3(signature = (key, name, timeout, wait))]
    fn get_or_begin(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        name: &str,
        timeout: Option<f64>,
        wait: bool,
    ) -> PyResult<Claim> {
        let key = file_key(key, name)?;
        let timeout = timeout.map(|seconds| seconds_of(py, "timeout", seconds)).transpose()?;
        let signals = Signals::new();
        let poll = || signals.poll();
        let mut options = Options::default().with_cancel(&signals.cancel).with_on_poll(&poll);
        options.wait = wait;
        (options.stale_after, options.hold_limit) = (self.stale_after, self.hold_limit);
        options.deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let claim = without_gil(py, || self.files.get_or_begin(&key, &options))?;
        // If there is an exception, a ticket or a hit is dropped.
        signals.into_raised().map_or_else(|| claimed(py, claim), Err)
    }

    #[pyo3(signature = (key, name, files, kernel, framework_version, compile_time))]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python function")]
    fn publish(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        name: &str,
        files: &Bound<'_, PyAny>,
        kernel: String,
        framework_version: String,
        compile_time: Option<f64>,
    ) -> PyResult<bool> {
        let key: FileKey = file_key(key, name)?;
        let files = Files::new(files, kernel, framework_version, compile_time)?;
        without_gil(py, || self.files.publish(&key, &files.group()))
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        without_gil(py, || {
            self.files.flush();
            Ok(())
        })
    }
}

/// Returns the Python object for a claim.
fn claimed(py: Python<'_>, claim: GroupClaim) -> PyResult<Claim> {
    let ticket = |ticket: GroupTicket, unshared_reason: Option<String>| {
        Ok(Claim::Begin(Py::new(py, Ticket { ticket, unshared_reason })?))
    };
    match claim {
        GroupClaim::Hit(group) => Ok(Claim::Hit(Py::new(py, Group(group))?)),
        GroupClaim::Begin(begun) => ticket(begun, None),
        GroupClaim::Unshared(begun, reason) => ticket(begun, Some(reason.to_string())),
        GroupClaim::HolderFailed(reason) => Err(exception(py, "HolderFailedError", &reason)),
        GroupClaim::TimedOut => Err(exception(
            py,
            "WaitTimeoutError",
            "another caller did not finish the files within the timeout",
        )),
        _ => Err(PyKeyboardInterrupt::new_err(())),
    }
}

/// Returns the limits of the store from the values of their variables.
pub(crate) fn limit_settings([max_size, remain_ratio, max_entries]: [Option<String>; 3]) -> LimitSettings {
    let mut limits = LimitSettings::new();
    limits.max_op_cache_size = max_size;
    limits.remain_cache_size_ratio = remain_ratio;
    limits.max_entries = max_entries;
    limits
}
