//! A backend without a compiler.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use opkeep_artifact::{Artifact, Expectations};
use opkeep_backend::{Backend, BackendError, CompileRequest, Context, Support, Unsupported};
use opkeep_cann_meta::{BlockDim, KernelMeta, Magic, targets};
use opkeep_descriptor::{Job, OPTION_NAMES, ResolvedSpec};
use opkeep_digest::{Digest, Fingerprint};

use crate::{CompileLog, elf};

type Hook =
    dyn Fn(&Context<'_>, &CompileRequest<'_>, Artifact) -> Result<Artifact, BackendError> + Send + Sync;

/// Compiles any static job to a valid kernel that does nothing.
pub struct NullBackend {
    version: Mutex<String>,
    source: Mutex<String>,
    warning: Mutex<Option<String>>,
    compiles: AtomicUsize,
    log: Option<CompileLog>,
    hook: Box<Hook>,
}

impl Default for NullBackend {
    fn default() -> Self {
        Self::new(|_, artifact| Ok(artifact))
    }
}

impl NullBackend {
    /// A backend whose `hook` determines the result of compiles: it may pass the artifact on, change it, fail, or be
    /// slow.
    pub fn new(
        hook: impl Fn(&CompileRequest<'_>, Artifact) -> Result<Artifact, BackendError> + Send + Sync + 'static,
    ) -> Self {
        Self::in_context(move |_, request, artifact| hook(request, artifact))
    }

    /// The same with a `hook` that gets the context of each compile.
    pub fn in_context(
        hook: impl Fn(&Context<'_>, &CompileRequest<'_>, Artifact) -> Result<Artifact, BackendError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self {
            version: Mutex::new("1".to_owned()),
            source: Mutex::new("nothing".to_owned()),
            warning: Mutex::default(),
            compiles: AtomicUsize::new(0),
            log: None,
            hook: Box::new(hook),
        }
    }

    /// A backend whose compiles take the `time` of their job without using a processor: any number of them run at once
    /// on any machine.
    pub fn sleeping(time: impl Fn(&Job) -> Duration + Send + Sync + 'static) -> Self {
        Self::new(move |request, artifact| {
            std::thread::sleep(time(request.job));
            Ok(artifact)
        })
    }

    /// Adds each compile to `log` at its start.
    #[must_use]
    pub fn logging(mut self, log: CompileLog) -> Self {
        self.log = Some(log);
        self
    }

    /// The number of started compiles.
    pub fn compiles(&self) -> usize {
        self.compiles.load(Ordering::SeqCst)
    }

    /// Upgrades the toolchain. Versions of further parts follow after commas.
    pub fn upgrade(&self, version: &str) {
        set(&self.version, version);
    }

    /// Edits the source of every operator.
    pub fn edit(&self, source: &str) {
        set(&self.source, source);
    }

    /// Warns with `text` on each call of `toolchain`.
    pub fn warn_of(&self, text: &str) {
        if let Ok(mut warning) = self.warning.lock() {
            *warning = Some(text.to_owned());
        }
    }
}

fn set(text: &Mutex<String>, new: &str) {
    if let Ok(mut text) = text.lock() {
        new.clone_into(&mut text);
    }
}

fn get(text: &Mutex<String>) -> String {
    text.lock().map(|text| text.clone()).unwrap_or_default()
}

impl Backend for NullBackend {
    fn name(&self) -> &'static str {
        "null"
    }

    fn toolchain(&self, cx: &Context<'_>) -> Result<Fingerprint, BackendError> {
        cx.check_cancelled()?;
        if let Some(warning) = self.warning.lock().ok().and_then(|warning| warning.clone()) {
            cx.warn(warning);
        }
        let mut fingerprint = Fingerprint::new();
        let versions = get(&self.version);
        let (version, others) = versions.split_once(',').unwrap_or((&versions, ""));
        fingerprint.text("version", version);
        let others = others.split(',').filter(|version| !version.is_empty()).enumerate();
        others.for_each(|(at, version)| fingerprint.text(format!("tool{at}"), version));
        Ok(fingerprint)
    }

    fn op_sources(
        &self,
        _cx: &Context<'_>,
        job: &Job,
        spec: &ResolvedSpec,
    ) -> Result<Fingerprint, BackendError> {
        if let Support::No(reason) = self.supports(job, spec) {
            return Err(reason.into());
        }
        let mut fingerprint = Fingerprint::new();
        for op in &job.ops {
            fingerprint.text(format!("{}.c", op.func_name), get(&self.source));
        }
        Ok(fingerprint)
    }

    fn supports(&self, job: &Job, _spec: &ResolvedSpec) -> Support {
        match job.ops.iter().find(|op| opkeep_ops::find(&op.op_type).is_none()) {
            Some(op) => Support::No(Unsupported::Op { backend: "null", op_type: op.op_type.clone() }),
            None => Support::Yes,
        }
    }

    fn option_names(&self) -> Vec<&'static str> {
        OPTION_NAMES.to_vec()
    }

    fn expectations(&self, spec: &ResolvedSpec) -> Expectations {
        targets::host(&spec.target, elf::HOST_MACHINE)
    }

    fn compile(&self, cx: &Context<'_>, request: &CompileRequest<'_>) -> Result<Artifact, BackendError> {
        self.compiles.fetch_add(1, Ordering::SeqCst);
        if let Some(log) = &self.log {
            let no_log = |source| BackendError::Io {
                action: "log the compile",
                path: request.work_dir.to_owned(),
                source,
            };
            log.add(request.name.as_str()).map_err(no_log)?;
        }
        if let Support::No(reason) = self.supports(request.job, request.spec) {
            return Err(reason.into());
        }
        cx.check_running("null")?;
        let symbol = request.name.symbol();
        let object = elf::host_object(&[&symbol], &get(&self.version));
        let meta = KernelMeta {
            bin_file_name: Some(request.name.to_string()),
            bin_file_suffix: Some(".o".to_owned()),
            block_dim: Some(BlockDim::Fixed(1)),
            kernel_name: Some(symbol),
            magic: Some(Magic::Elf.into()),
            sha256: Some(Digest::of(&object).to_string()),
            ..KernelMeta::default()
        };
        let artifact = Artifact { metadata: meta.to_json().into_bytes(), object, extra: Vec::new() };
        (self.hook)(cx, request, artifact)
    }
}
