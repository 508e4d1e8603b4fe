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
use crate::remote::{RemoteArguments, settings_error};
use crate::signals::Signals;
use crate::ticket::Ticket;

/// The cache of one framework and one target.
#[pyclass(frozen, module = "opkeep._native")]
pub(crate) struct Cache {
    cache: FileCache,
    files: TargetFiles,
    stale_after: Duration,
    hold_limit: Duration,
    toolchain: Fingerprint,
    stays_here: bool,
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
        stays_here: &Bound<'_, PyAny>,
        limits: [Option<String>; 3],
        remote: RemoteArguments,
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
        let stays_here = flag("stays_here", stays_here)?;
        let store =
            StoreConfig::new(root).with_trusted_owners(trusted_owners).with_limits(limit_settings(limits));
        let mut config =
            FileCacheConfig::new(store, framework).with_mode(mode).with_on_warning(Arc::new(keep_warning));
        without_gil(py, || Ok(remote.apply(&mut config.cache)))?
            .map_err(|error| settings_error(py, &error))?;
        let (cache, files) = without_gil(py, || {
            let cache = FileCache::open(config)?;
            let files = cache.target(&target)?;
            Ok((cache, files))
        })?;
        Ok(Self { cache, files, stale_after, hold_limit, toolchain, stays_here })
    }

    fn get(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        name: &Bound<'_, PyAny>,
    ) -> PyResult<Option<Group>> {
        let key = self.file_key(key, name)?;
        let signals = Signals::new();
        let options = self.options(&signals);
        let found = without_gil(py, || signals.during(|| self.files.get_with(&key, &options)))?;
        signals.take_raised().map_or_else(|| Ok(found.map(Group::new)), Err)
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
        let mut options = self.options(&signals).with_on_poll(&poll);
        options.wait = wait;
        options.deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let claim = without_gil(py, || signals.during(|| self.files.get_or_begin(&key, &options)))?;
        match signals.take_raised() {
            None => claimed(py, claim),
            Some(error) => {
                drop_without_gil(py, claim);
                Err(error)
            }
        }
    }

    /// Returns the files of many keys, or tickets to make them, of which there are at most `max_tickets`. None: another caller makes
    /// the files, or there are as many tickets.
    fn get_or_begin_many(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        name: &Bound<'_, PyAny>,
        max_tickets: usize,
    ) -> PyResult<Vec<Option<Claim>>> {
        let named = text("name", name)?;
        let key = |key: PyResult<Bound<'_, PyAny>>| {
            Ok(file_key(&key?)?.with_name(named.as_str()).with_toolchain(self.toolchain.clone()))
        };
        let keys = keys.try_iter()?.map(key).collect::<PyResult<Vec<_>>>()?;
        let signals = Signals::new();
        let options = self.options(&signals);
        let claims = without_gil(py, || {
            signals.during(|| {
                let claims = self.files.get_or_begin_many(&keys, max_tickets, &options)?;
                if !signals.cancel.is_cancelled() {
                    return Ok(claims);
                }
                // A handler has raised an exception: other hosts wait for none of them.
                GroupTicket::abandon_all(claims.into_iter().filter_map(ticket_of));
                Ok(Vec::new())
            })
        })?;
        if let Some(error) = signals.take_raised() {
            // It was raised at the end of the call.
            py.detach(|| GroupTicket::abandon_all(claims.into_iter().filter_map(ticket_of)));
            return Err(error);
        }
        let claim = |claim| match claim {
            GroupClaim::Pending => Ok(None),
            claim => claimed(py, claim).map(Some),
        };
        claims.into_iter().map(claim).collect()
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
        let mut group = files.group();
        group.is_local = self.stays_here;
        without_gil(py, || self.files.publish(&key, &group))
    }

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

impl Cache {
    /// The conditions of a request, which a signal ends.
    fn options<'a>(&self, signals: &'a Signals) -> Options<'a> {
        let mut options = Options::default().with_cancel(&signals.cancel);
        (options.stale_after, options.hold_limit) = (self.stale_after, self.hold_limit);
        options.stays_here = self.stays_here;
        options
    }

    fn file_key(&self, key: &Bound<'_, PyAny>, name: &Bound<'_, PyAny>) -> PyResult<FileKey> {
        Ok(file_key(key)?.with_name(text("name", name)?).with_toolchain(self.toolchain.clone()))
    }
}

/// Waits until the published files of a cache are sent, at most for `limit`, then sends what earlier processes left. Returns the
/// number of entries that are not sent.
pub(crate) fn finish_uploads(py: Python<'_>, cache: &FileCache, limit: Duration) -> PyResult<usize> {
    if cache.config().cache.remote.is_none() {
        return Ok(0);
    }
    let signals = Signals::new();
    let left = without_gil(py, || {
        // Without a thread, nothing is waited for: a later process sends the rest.
        let finish = |_: &dyn Fn(())| cache.finish_uploads(limit, Some(&signals.cancel));
        Ok(signals.deliver(finish, |()| {}).unwrap_or(0))
    })?;
    signals.take_raised().map_or(Ok(left), Err)
}

/// Drops what an exception takes the place of: a ticket in it is given back, also to other hosts.
fn drop_without_gil(py: Python<'_>, dropped: impl Send) {
    py.detach(|| drop(dropped));
}

/// The ticket in a claim.
fn ticket_of(claim: GroupClaim) -> Option<GroupTicket> {
    match claim {
        GroupClaim::Begin(ticket) | GroupClaim::Unshared(ticket, _) => Some(ticket),
        _ => None,
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
