//! Finds the files that importing the toolkit reads, by one run of Python for each interpreter, environment and
//! toolkit.
//!
//! The probe never depends on the operators that are compiled, so the key of a kernel depends neither on earlier
//! compiles nor on the host.

mod headers;
mod run;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use opkeep_backend::{BackendError, Context};
use opkeep_cann_toolkit::{Toolkit, imported_below};
use opkeep_digest::{Digest, Hasher};
use opkeep_fs::{Fs, idle};
use opkeep_process::{Declared, Observer, is_short_of_resources};

use self::run::{Ask, HelpExit, PROGRAMS, Runner, Watched, help_programs};
use crate::error::toolkit_error;
use crate::probe::guards::{self, Guards};
use crate::probe::interpreter::Interpreter;
use crate::probe::reach::Reach;
use crate::probe::read_domain::{self, ReadDomain};
use crate::probe::record::Record;
use crate::probe::report::Report;
use crate::probe::unkeyed::Directories;
use crate::worker::pool::{SCRIPT, python};

/// The interval at which a thread that waits for another thread's probe checks for cancellation.
const PAUSE: Duration = Duration::from_millis(5);

/// The maximum length of a stored record.
const LONGEST: u64 = 64 << 20;

/// Bytecode older than this is removed: each edit of a source leaves the previous bytecode behind.
const UNUSED: Duration = Duration::from_secs(30 * 24 * 3600);

/// Why the directory of bytecode may be read.
const BYTECODE: &str = "bytecode of our own, by the content of sources";

/// Makes records, and remembers the last one.
pub(crate) struct Probe {
    runner: Runner,
    known: Mutex<Option<Arc<Record>>>,
    /// A record that a new probe confirmed.
    confirmed: Mutex<Option<Arc<Record>>>,
    making: Mutex<()>,
}

impl Probe {
    pub(crate) fn new(
        environment: Vec<(OsString, OsString)>,
        tool_dir: Option<PathBuf>,
        kept: Option<PathBuf>,
        scratch: PathBuf,
    ) -> Self {
        Self {
            runner: Runner { environment, tool_dir, kept, scratch },
            known: Mutex::default(),
            confirmed: Mutex::default(),
            making: Mutex::default(),
        }
    }

    /// A current record that covers the modules called `names`. `toolchain` is the digest of the toolkit.
    ///
    /// # Errors
    /// There is no Python, or it cannot be run.
    pub(crate) fn record(
        &self,
        cx: &Context<'_>,
        toolkit: &Toolkit,
        toolchain: &Digest,
        names: &BTreeSet<String>,
    ) -> Result<Arc<Record>, BackendError> {
        let named = python(&self.runner.environment)?;
        let interpreter = Interpreter::resolve(cx, &named, &self.runner.environment)?;
        let id = self.id(&interpreter, toolchain);
        let holds = |record: &Record| {
            record.id == id && names.iter().all(|name| record.knows(name)) && record.is_current(cx.files)
        };
        if let Some(record) = self.last().filter(|record| holds(record)) {
            return Ok(record);
        }
        // Concurrent threads share one probe.
        let _turn = self.turn(cx)?;
        let earlier = self.last().filter(|record| record.id == id).or_else(|| self.read(&id).map(Arc::new));
        let record = match earlier {
            Some(record) if holds(&record) => record,
            earlier => {
                let mut wanted = names.clone();
                wanted.extend(earlier.iter().flat_map(|record| record.names().cloned()));
                let record = Arc::new(self.make(cx, toolkit, &interpreter, id, wanted)?);
                if record.problem().is_none() {
                    self.write(&record);
                }
                record
            }
        };
        *self.known() = Some(Arc::clone(&record));
        Ok(record)
    }

    /// The last record that was current when it was checked.
    pub(crate) fn last(&self) -> Option<Arc<Record>> {
        self.known().clone()
    }

    /// Discards the last record, which lacks a file: the next call of [`record`](Self::record) probes again.
    pub(crate) fn forget(&self) {
        if let Some(record) = self.known().take()
            && let Some(path) = self.path(&record.id)
        {
            let _ = Fs::new().remove(&path);
        }
    }

    /// Whether a new probe confirmed `record`.
    pub(crate) fn is_confirmed(&self, record: &Arc<Record>) -> bool {
        let confirmed = self.confirmed.lock().unwrap_or_else(PoisonError::into_inner);
        confirmed.as_ref().is_some_and(|confirmed| Arc::ptr_eq(confirmed, record))
    }

    pub(crate) fn confirm(&self, record: &Arc<Record>) {
        *self.confirmed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(record));
    }

    /// The directory for bytecode.
    pub(crate) fn bytecode(&self) -> Option<PathBuf> {
        self.runner.bytecode()
    }

    fn known(&self) -> MutexGuard<'_, Option<Arc<Record>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The identifier of the probe. It begins with a digest that changes with the interpreter and its environment, but
    /// not with the toolkit's content.
    fn id(&self, interpreter: &Interpreter, toolchain: &Digest) -> String {
        use std::os::unix::ffi::OsStrExt;
        let mut hasher = Hasher::new("probe of a toolkit");
        hasher.str(env!("CARGO_PKG_VERSION"));
        hasher.bytes(SCRIPT.as_bytes());
        hasher.bytes(headers::source().as_bytes());
        PROGRAMS.iter().for_each(|name| hasher.str(name));
        hasher.bytes(interpreter.program.as_os_str().as_bytes());
        // A virtual environment's modules are found by the link's target.
        let real = Fs::new().resolved(&interpreter.program);
        hasher.list(interpreter.arguments.len());
        interpreter.arguments.iter().for_each(|argument| hasher.bytes(argument.as_bytes()));
        hasher.list(interpreter.environment.len());
        for (name, value) in &interpreter.environment {
            hasher.bytes(name.as_bytes());
            hasher.bytes(value.as_bytes());
        }
        let dir = self.runner.tool_dir.as_ref().map_or(&b""[..], |dir| dir.as_os_str().as_bytes());
        hasher.bytes(dir);
        let place = hasher.clone().finish().to_string();
        hasher.bytes(real.as_os_str().as_bytes());
        hasher.digest(toolchain);
        // The guards depend on the host.
        let system = rustix::system::uname();
        for text in [system.nodename(), system.release(), system.machine()] {
            hasher.bytes(text.to_bytes());
        }
        hasher.bool(guards::landlock().is_ok());
        hasher.bool(Observer::is_available());
        format!("{place:.16}{}", hasher.finish())
    }

    /// Waits for the right to probe, which one thread at a time has.
    fn turn(&self, cx: &Context<'_>) -> Result<MutexGuard<'_, ()>, BackendError> {
        loop {
            match self.making.try_lock() {
                Ok(turn) => return Ok(turn),
                Err(TryLockError::Poisoned(error)) => return Ok(error.into_inner()),
                Err(TryLockError::WouldBlock) => cx.check_cancelled()?,
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn make(
        &self,
        cx: &Context<'_>,
        toolkit: &Toolkit,
        interpreter: &Interpreter,
        id: String,
        mut names: BTreeSet<String>,
    ) -> Result<Record, BackendError> {
        if let Some(bytecode) = self.bytecode() {
            remove_older(&bytecode, UNUSED);
        }
        let modules = toolkit.module_names();
        let lazy = imported_below(&toolkit.python_packages(), &modules).map_err(toolkit_error)?;
        let scanned = imported_below(&toolkit.operator_packages(), &modules).map_err(toolkit_error)?;
        names.extend(scanned.iter().cloned());
        let mut own = read_domain::of_toolkit(toolkit);
        own.extend(self.bytecode().map(|path| (path, BYTECODE)));
        let own = Directories::of(&own);
        let ask = Ask { interpreter, lazy: &lazy, names: &names, children: false };
        let Found { mut report, help_exits, mut guards } = self.observed(cx, toolkit, &ask, &own)?;
        let pending: BTreeSet<String> = opkeep_order::set(std::mem::take(&mut report.pending));
        if !pending.is_empty() {
            let more = self
                .runner
                .run_probe(cx, &Ask { names: &pending, children: true, ..ask }, Watched::default())?
                .0;
            report.names.extend(more.names);
        }
        let packages = toolkit.operator_packages();
        let mut record = Record::new(id, interpreter.clone(), report, scanned, (&own, &packages), cx.files);
        let ask = Ask { children: false, ..ask };
        guards.without_landlock = self.without_landlock(cx, toolkit, &record, &ask, &own, &help_exits)?;
        record.guards = guards;
        Ok(record)
    }

    /// The files that importing the toolkit and running its programs reads, as far as reads can be observed on this
    /// host.
    fn observed(
        &self,
        cx: &Context<'_>,
        toolkit: &Toolkit,
        ask: &Ask<'_>,
        own: &Directories,
    ) -> Result<Found, BackendError> {
        let unobserved = |why: String| {
            let guards = Guards { without_observer: Some(why), ..Guards::default() };
            let report = self.runner.run_probe(cx, ask, Watched::default())?.0;
            let run_help = |program: &PathBuf| {
                Ok(self.runner.run_help(cx, program, ask.interpreter, Watched::default())?.0)
            };
            let help_exits = help_programs(toolkit).map(run_help).collect::<Result<_, BackendError>>()?;
            Ok(Found { report, help_exits, guards })
        };
        let watched = Watched { is_observed: true, reach: None };
        let (mut report, seen) = match self.runner.run_probe(cx, ask, watched) {
            Ok(found) => found,
            // Either this host has no observer, or no program can be run: a run without the observer shows which.
            Err(BackendError::Io { source, .. }) if !is_short_of_resources(&source) => {
                return unobserved(format!("programs cannot be observed: {source}"));
            }
            Err(error) => return Err(error),
        };
        let mut all = vec![seen];
        let mut help_exits = Vec::new();
        for program in help_programs(toolkit) {
            let (exit, seen) = self.runner.run_help(cx, program, ask.interpreter, watched)?;
            help_exits.push(exit);
            all.push(seen);
        }
        for compiler in report.compilers() {
            all.push(self.runner.preprocess(cx, &compiler, ask.interpreter, watched)?);
        }
        for seen in all {
            match (seen.error(), &seen.foreign) {
                (Some(source), _) if is_short_of_resources(&source) => {
                    let path = self.runner.scratch.clone();
                    return Err(BackendError::Io { action: "observe programs in", path, source });
                }
                (Some(why), _) => return unobserved(format!("programs cannot be observed: {why}")),
                (None, Some(program)) => {
                    let program = program.display();
                    return unobserved(format!("`{program}` makes system calls of another architecture"));
                }
                (None, None) => report.add_observed(&seen, own),
            }
        }
        Ok(Found { report, help_exits, guards: Guards::default() })
    }

    /// The reason if the record's domain cannot be used on this host, since the toolkit behaves differently in it.
    fn without_landlock(
        &self,
        cx: &Context<'_>,
        toolkit: &Toolkit,
        record: &Record,
        ask: &Ask<'_>,
        own: &Directories,
        help_exits: &[HelpExit],
    ) -> Result<Option<String>, BackendError> {
        if let Err(why) = guards::landlock() {
            return Ok(Some(why));
        }
        if record.problem().is_some() {
            return Ok(None);
        }
        let reach = Reach::of(&self.domain(toolkit, record, &[]));
        let watched = Watched { is_observed: false, reach: Some(&reach) };
        for (program, free) in help_programs(toolkit).zip(help_exits) {
            if self.runner.run_help(cx, program, ask.interpreter, watched)?.0 != *free {
                return Ok(Some(format!("in a domain `{}` does not run as without", program.display())));
            }
        }
        match self.runner.run_probe(cx, ask, watched) {
            Ok((again, _)) if record.is_confirmed_by(&again, own) => Ok(None),
            Ok((Report { problem: Some(problem), .. }, _)) => {
                Ok(Some(format!("in a domain the toolkit cannot be imported: {problem}")))
            }
            Ok(_) => Ok(Some("in a domain the toolkit imports something else".to_owned())),
            Err(error @ (BackendError::Cancelled | BackendError::TimedOut { .. })) => Err(error),
            Err(BackendError::Io { action, path, source }) if is_short_of_resources(&source) => {
                Err(BackendError::Io { action, path, source })
            }
            Err(error) => Ok(Some(error.to_string())),
        }
    }

    /// The paths that every compile may read; `declared` are files that the user added.
    pub(crate) fn domain(&self, toolkit: &Toolkit, record: &Record, declared: &[Declared]) -> ReadDomain {
        let mut domain = ReadDomain::new(toolkit, record);
        domain.beneath.extend(self.bytecode().map(|path| (path, BYTECODE)));
        const REASON: &str = "declared by the user, in the toolchain fingerprint";
        let (directories, files): (Vec<_>, Vec<_>) = declared.iter().partition(|one| one.is_directory);
        domain.add_files(files.into_iter().map(|one| one.path.clone()), REASON);
        domain.listed.extend(directories.into_iter().map(|one| (one.path.clone(), REASON)));
        domain
    }

    fn path(&self, id: &str) -> Option<PathBuf> {
        Some(self.runner.kept.as_ref()?.join(format!("ascend-python-{id:.16}.json")))
    }

    fn read(&self, id: &str) -> Option<Record> {
        let bytes = Fs::new().read_own(&self.path(id)?, LONGEST).ok()?;
        let (digest, body) = bytes.split_at_checked(64)?;
        let is_whole = Digest::of(body).to_string().as_bytes() == digest;
        let record: Record = is_whole.then(|| serde_json::from_slice(body).ok())??;
        (record.id == id).then_some(record)
    }

    fn write(&self, record: &Record) {
        let Some(path) = self.path(&record.id) else { return };
        let Ok(body) = serde_json::to_vec(record) else { return };
        // If this fails, the old file stays valid.
        let _ = Fs::new().replace(&path, &[Digest::of(&body).to_string().as_bytes(), &body], 0o600);
    }
}

/// The observed behaviour of a toolkit without a domain.
struct Found {
    report: Report,
    /// One for each of [`help_programs`], in order.
    help_exits: Vec<HelpExit>,
    guards: Guards,
}

/// Removes the files in a directory of opkeep that were not modified for `age`.
fn remove_older(directory: &Path, age: Duration) {
    let fs = Fs::new();
    for (name, _) in fs.list(directory).unwrap_or_default() {
        let path = directory.join(name);
        if fs.look(&path).is_ok_and(|found| idle(found.modified(), fs.now()) > age) {
            let _ = fs.remove(&path);
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test makes files of various ages")]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn only_old_files_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        for (name, hours) in [("old", 49), ("young", 47), ("new", 0)] {
            let file = std::fs::File::create(directory.path().join(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(hours * 3600)).unwrap();
        }
        remove_older(directory.path(), Duration::from_secs(48 * 3600));
        let mut left: Vec<_> =
            std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        opkeep_order::sort(&mut left);
        assert_eq!(left, ["new", "young"]);
        remove_older(&directory.path().join("missing"), Duration::ZERO);
    }
}
