//! Finds out what importing the toolkit takes, by one run of Python for each interpreter, environment and toolkit.
//!
//! What is probed never depends on the operators that are compiled, so the key of a kernel depends neither on those that
//! were compiled before it nor on the host.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use opbuild_backend::{BackendError, Cancel, FileDigests};
use opbuild_digest::{Digest, Hasher};
use opbuild_process::{Run, Sandbox, tail};
use serde_json::json;

use crate::find::Toolkit;
use crate::interpreter::Interpreter;
use crate::pool::{SCRIPT, python, text};
use crate::record::{Record, Report};
use crate::{disk, domain, externals, fingerprint};

/// How long the toolkit may take to be imported, with all that its operators name.
const LIMIT: Duration = Duration::from_secs(600);
/// Records that are longer are none of ours.
const LONGEST: u64 = 64 << 20;

/// The programs that the toolkit looks for on `PATH`: the device compiler and its companions, and what its Python and the
/// generated build scripts run.
const PROGRAMS: [&str; 12] = [
    "sh",
    "bash",
    "which",
    "ccec",
    "bisheng",
    "ld.lld",
    "llvm-objdump",
    "llvm-objcopy",
    "llvm-ar",
    "ar",
    "make",
    "python3",
];

/// Makes records, and remembers the last one.
pub(crate) struct Probe {
    /// All of the environment of the toolkit's programs.
    environment: Vec<(OsString, OsString)>,
    /// The folder of the package `opc_tool`, without which operators can only be asked.
    tool_folder: Option<PathBuf>,
    /// Where records are kept for the next process, and bytecode.
    kept: Option<PathBuf>,
    scratch: PathBuf,
    cancel: Cancel,
    known: Mutex<Option<Arc<Record>>>,
    making: Mutex<()>,
}

impl Probe {
    pub(crate) fn new(
        environment: Vec<(OsString, OsString)>,
        tool_folder: Option<PathBuf>,
        kept: Option<PathBuf>,
        scratch: PathBuf,
        cancel: Cancel,
    ) -> Self {
        Self {
            environment,
            tool_folder,
            kept,
            scratch,
            cancel,
            known: Mutex::default(),
            making: Mutex::default(),
        }
    }

    /// A record that holds now and covers the modules called `names`. `toolchain` is the digest of the toolkit.
    ///
    /// # Errors
    /// There is no Python, or it cannot be run.
    pub(crate) fn record(
        &self,
        toolkit: &Toolkit,
        toolchain: &Digest,
        names: &BTreeSet<String>,
        files: &dyn FileDigests,
    ) -> Result<Arc<Record>, BackendError> {
        let named = python(&self.environment)?;
        let interpreter = Interpreter::resolve(&named, &self.environment, &self.cancel)?;
        let id = self.id(&interpreter, toolchain);
        let holds = |record: &Record| {
            record.id == id && names.iter().all(|name| record.knows(name)) && record.is_current(files)
        };
        if let Some(record) = self.last().filter(|record| holds(record)) {
            return Ok(record);
        }
        // Threads that ask at once get one probe.
        let _one = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let earlier = self.last().filter(|record| record.id == id).or_else(|| self.read(&id).map(Arc::new));
        let record = match earlier {
            Some(record) if holds(&record) => record,
            earlier => {
                let mut wanted = names.clone();
                wanted.extend(earlier.iter().flat_map(|record| record.names().cloned()));
                let record = Arc::new(self.make(toolkit, &interpreter, id, wanted, files)?);
                if record.problem().is_none() {
                    self.write(&record);
                }
                record
            }
        };
        *self.known() = Some(Arc::clone(&record));
        Ok(record)
    }

    /// The last record that was found to hold.
    pub(crate) fn last(&self) -> Option<Arc<Record>> {
        self.known().clone()
    }

    /// Has the next one who asks get a new record: this one lacks something.
    pub(crate) fn forget(&self) {
        if let Some(record) = self.known().take()
            && let Some(path) = self.path(&record.id)
        {
            disk::remove_own(&path);
        }
    }

    /// The directory for bytecode.
    pub(crate) fn bytecode(&self) -> Option<PathBuf> {
        disk::private_below(self.kept.as_deref()?, "ascend-bytecode")
    }

    fn known(&self) -> MutexGuard<'_, Option<Arc<Record>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is probed, in one word, which begins with where the interpreter and the toolkit are.
    fn id(&self, interpreter: &Interpreter, toolchain: &Digest) -> String {
        use std::os::unix::ffi::OsStrExt;
        let mut hasher = Hasher::new("probe of a toolkit");
        hasher.bytes(SCRIPT.as_bytes());
        hasher.bytes(interpreter.program.as_os_str().as_bytes());
        // Where a link leads to is where its modules are.
        let real = disk::real(&interpreter.program);
        hasher.list(interpreter.arguments.len());
        interpreter.arguments.iter().for_each(|argument| hasher.bytes(argument.as_bytes()));
        hasher.list(interpreter.environment.len());
        for (name, value) in &interpreter.environment {
            hasher.bytes(name.as_bytes());
            hasher.bytes(value.as_bytes());
        }
        let folder = self.tool_folder.as_ref().map_or(&b""[..], |folder| folder.as_os_str().as_bytes());
        hasher.bytes(folder);
        let place = hasher.clone().finish().to_string();
        hasher.bytes(real.as_os_str().as_bytes());
        hasher.digest(toolchain);
        format!("{place:.16}{}", hasher.finish())
    }

    fn make(
        &self,
        toolkit: &Toolkit,
        interpreter: &Interpreter,
        id: String,
        mut names: BTreeSet<String>,
        files: &dyn FileDigests,
    ) -> Result<Record, BackendError> {
        let own = fingerprint::module_names(toolkit);
        let lazy = externals::below(&fingerprint::python_packages(toolkit), &own)?;
        let scanned = externals::below(&fingerprint::operator_packages(toolkit), &own)?;
        names.extend(scanned.iter().cloned());
        let report = self.run(interpreter, &lazy, &names)?;
        let mut beneath = domain::of_toolkit(toolkit);
        beneath.extend(self.bytecode().map(|path| (path, "bytecode of our own, by the content of sources")));
        let packages = fingerprint::operator_packages(toolkit);
        Ok(Record::new(id, interpreter.clone(), report, scanned, (&beneath, &packages), files))
    }

    fn run(
        &self,
        interpreter: &Interpreter,
        lazy: &BTreeSet<String>,
        names: &BTreeSet<String>,
    ) -> Result<Report, BackendError> {
        let io = |action, path: &Path| {
            let path = path.to_owned();
            move |source| BackendError::Io { action, path, source }
        };
        let work = tempfile::Builder::new().prefix("opbuild-probe-").tempdir_in(&self.scratch);
        let work = work.map_err(io("create a directory in", &self.scratch))?;
        let report = work.path().join("report.json");
        let request = json!({"do": "probe", "tool_folder": self.tool_folder.as_deref().map(text), "lazy": lazy,
            "names": names, "programs": PROGRAMS, "report": text(&report)});
        let ask = work.path().join("request.json");
        disk::write(&ask, request.to_string().as_bytes())?;
        let bytecode = self.bytecode().map(PathBuf::into_os_string).unwrap_or_default();
        let mut args = interpreter.arguments.clone();
        args.extend(["-S", "-u", "-c", SCRIPT].map(OsString::from));
        args.extend([bytecode, ask.clone().into_os_string()]);
        let environment: Vec<(&OsStr, &OsStr)> = interpreter
            .environment
            .iter()
            .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
            .collect();
        let run = Run {
            program: &interpreter.program,
            args: &args,
            environment: &environment,
            dir: Path::new("/"),
            log: None,
            deadline: Some(Instant::now() + LIMIT),
            cancel: &self.cancel,
            sandbox: Sandbox::default(),
        };
        let ended = run.to_end()?;
        let unusable = |problem: String| BackendError::Toolchain {
            problem: format!("`{}` {problem}: {}", interpreter.program.display(), tail(&ended.output)),
            way_out: "HI_PYTHON names the Python that the toolkit was installed for".to_owned(),
        };
        let bytes = disk::read(&report)
            .map_err(|_| unusable(format!("does not report what it imports ({})", ended.status)))?;
        serde_json::from_slice(&bytes)
            .map_err(|error| unusable(format!("reports what cannot be read ({error})")))
    }

    fn path(&self, id: &str) -> Option<PathBuf> {
        Some(self.kept.as_ref()?.join(format!("ascend-python-{id:.16}.json")))
    }

    fn read(&self, id: &str) -> Option<Record> {
        let bytes = disk::read_own(&self.path(id)?, LONGEST)?;
        let (digest, body) = bytes.split_at_checked(64)?;
        let is_whole = Digest::of(body).to_string().as_bytes() == digest;
        let record: Record = is_whole.then(|| serde_json::from_slice(body).ok())??;
        (record.id == id).then_some(record)
    }

    fn write(&self, record: &Record) {
        let Some(path) = self.path(&record.id) else { return };
        let Ok(body) = serde_json::to_vec(record) else { return };
        let whole = [Digest::of(&body).to_string().as_bytes(), &body].concat();
        disk::replace_own(&path, &whole);
    }
}
