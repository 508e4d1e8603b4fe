//! The cache of one framework and one target.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opkeep_digest::Fingerprint;
use opkeep_embed::{
    FileCache, FileCacheConfig, FileKey, GroupClaim, GroupTicket, Options, StoreConfig, TargetFiles,
};
use opkeep_store::{CacheMode, LimitSettings};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

use crate::arguments::{self, flag, optional_seconds, seconds, text, user_ids};
use crate::call::{keep_warning, without_gil};
use crate::error::{exception, exception_with_help};
use crate::files::Files;
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
    toolchain: Fingerprint,
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
        target: &Bound<'_, PyAny>,
        framework: &Bound<'_, PyAny>,
        mode: &Bound<'_, PyAny>,
        trusted_owners: &Bound<'_, PyAny>,
        stale_after: &Bound<'_, PyAny>,
        hold_limit: &Bound<'_, PyAny>,
        toolchain: &Bound<'_, PyAny>,
        limits: [Option<String>; 3],
    ) -> PyResult<Self> {
        let (target, framework) = (text("target", target)?, text("framework", framework)?);
        let mode: CacheMode =
            text("mode", mode)?.parse().map_err(|error: opkeep_store::ParseModeError| {
                exception(py, "ArgumentValueError", &format!("mode: {error}"))
            })?;
        let trusted_owners = user_ids("trusted_owners", trusted_owners)?;
        let (stale_after, hold_limit) =
            (seconds("stale_after", stale_after)?, seconds("hold_limit", hold_limit)?);
        let toolchain = arguments::toolchain("toolchain", toolchain)?;
        let store =
            StoreConfig::new(root).with_trusted_owners(trusted_owners).with_limits(limit_settings(limits));
        let config = FileCacheConfig::new(store, framework)
            .with_mode(mode)
            .with_on_warning(Arc::new(|_, text| keep_warning(text)));
        Ok(Self {
            files: without_gil(py, || FileCache::open(config)?.target(&target))?,
            stale_after,
            hold_limit,
            toolchain,
        })
    }

    fn get(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        name: &Bound<'_, PyAny>,
    ) -> PyResult<Option<Group>> {
        let key = self.file_key(key, name)?;
        Ok(without_gil(py, || self.files.get(&key))?.map(Group::new))
    }

    #[pyo3(signature = (key, name, timeout, wait))]
    fn get_or_begin(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        name: &Bound<'_, PyAny>,
        timeout: &Bound<'_, PyAny>,
        wait: &Bound<'_, PyAny>,
    ) -> PyResult<Claim> {
        let key = self.file_key(key, name)?;
        let (timeout, wait) = (optional_seconds("timeout", timeout)?, flag("wait", wait)?);
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
        name: &Bound<'_, PyAny>,
        files: &Bound<'_, PyAny>,
        kernel: &Bound<'_, PyAny>,
        framework_version: &Bound<'_, PyAny>,
        compile_time: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let key = self.file_key(key, name)?;
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

impl Cache {
    fn file_key(&self, key: &Bound<'_, PyAny>, name: &Bound<'_, PyAny>) -> PyResult<FileKey> {
        Ok(file_key(key)?.with_name(text("name", name)?).with_toolchain(self.toolchain.clone()))
    }
}

/// Returns the Python object for a claim.
fn claimed(py: Python<'_>, claim: GroupClaim) -> PyResult<Claim> {
    let ticket = |ticket: GroupTicket, unshared_reason: Option<String>| {
        Ok(Claim::Begin(Py::new(py, Ticket { ticket, unshared_reason })?))
    };
    match claim {
        GroupClaim::Hit(group) => Ok(Claim::Hit(Py::new(py, Group::new(group))?)),
        GroupClaim::Begin(begun) => ticket(begun, None),
        GroupClaim::Unshared(begun, reason) => ticket(begun, Some(reason.to_string())),
        GroupClaim::HolderFailed(reason) => Err(exception(py, "HolderFailedError", &reason)),
        GroupClaim::TimedOut => Err(exception_with_help(
            py,
            "WaitTimeoutError",
            "another caller did not finish the files within the timeout",
            &["wait longer, or use wait=False to make the files as well"],
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
    limits.max_entries_name = opkeep_cli::MAX_ENTRIES_VARIABLE;
    limits
}
