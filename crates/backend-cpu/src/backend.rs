//! The [`Backend`] itself.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use opkeep_artifact::{Artifact, Expectations};
use opkeep_backend::{
    Backend, BackendEntry, BackendError, CompileRequest, Context, FileDigests, Loader, Support, Unsupported,
};
use opkeep_cann_meta::targets;
use opkeep_descriptor::options::{DEBUG_WORDS, check_value};
use opkeep_descriptor::{BuildSpec, Job, OPTION_NAMES, ResolvedSpec, debug_enabled};
use opkeep_digest::{Digest, Fingerprint, PartChange};
use opkeep_fs::{CancelToken, Fs};
use opkeep_text::counted;

use crate::codegen::generate::{Generated, generate};
use crate::compile::{self, CompileError};
use crate::config::{CpuConfig, Features, Rewrite};
use crate::loader::CpuLoader;
use crate::source_cache::{Source, SourceCache};
use crate::toolchain::{self, Ahead, SharedQuery, Toolchain};

/// The name of a kernel for a question that has no kernel name.
const STAND_IN: &str = "KERNEL";

/// The CPU reference backend.
pub struct CpuBackend {
    config: CpuConfig,
    toolchain: SharedQuery<Toolchain>,
    /// Questions that were asked ahead of the first caller.
    ahead: Mutex<Option<Ahead>>,
    known: SourceCache,
    loader: CpuLoader,
}

impl CpuBackend {
    /// The targets it serves, for people.
    pub const TARGETS: &str = "cpu, cpu-native";

    /// A backend. The compiler is looked for when it is first needed.
    pub fn new(config: CpuConfig) -> Self {
        Self {
            config,
            toolchain: SharedQuery::default(),
            ahead: Mutex::default(),
            known: SourceCache::default(),
            loader: CpuLoader,
        }
    }

    /// An entry for a registry: serves `cpu` and `cpu-native`.
    pub fn entry(config: CpuConfig) -> BackendEntry {
        let about = "compiles C with the system's compiler, for this machine";
        // The exact name of this machine's target is as good.
        let level = |target: &str| {
            let exact = format!("cpu-{}", std::env::consts::ARCH);
            match target.strip_prefix(&exact).or_else(|| target.strip_prefix("cpu")) {
                Some("") => Some(Features::Portable),
                Some("-native") => Some(Features::Native),
                _ => None,
            }
        };
        let serves = move |target: &str| level(target).is_some();
        BackendEntry::new("cpu", about, Self::TARGETS, serves, move |target| {
            let features = level(target).unwrap_or_default();
            Ok(Arc::new(Self::new(CpuConfig { features, ..config.clone() })))
        })
    }

    /// The compiler in use, for people.
    ///
    /// # Errors
    /// [`BackendError::Toolchain`], if there is none.
    pub fn compiler(&self) -> Result<String, BackendError> {
        self.in_use(&uncached(&CancelToken::new())).map(|toolchain| toolchain.summary())
    }

    /// How compiles are kept from reading what no key covers, for people; and why not by a better means.
    ///
    /// # Errors
    /// [`BackendError::Toolchain`], if there is no compiler.
    pub fn confinement(&self) -> Result<String, BackendError> {
        self.in_use(&uncached(&CancelToken::new())).map(|toolchain| toolchain.confinement())
    }

    /// The toolchain, as it was when it was last asked for.
    fn in_use(&self, cx: &Context<'_>) -> Result<Arc<Toolchain>, BackendError> {
        self.toolchain.get(cx.cancel, |_| true, || self.find(cx))
    }

    /// The toolchain as it is now.
    fn current(&self, cx: &Context<'_>) -> Result<Arc<Toolchain>, BackendError> {
        let holds = |toolchain: &Toolchain| toolchain.still_holds(&self.config, cx.files);
        self.toolchain.get(cx.cancel, holds, || self.find(cx))
    }

    fn find(&self, cx: &Context<'_>) -> Result<Toolchain, BackendError> {
        let ahead = self.ahead().take();
        Toolchain::find(&self.config, cx, ahead)
    }

    fn ahead(&self) -> MutexGuard<'_, Option<Ahead>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn generate(&self, job: &Job, symbol: &str) -> Result<Generated, BackendError> {
        let mut made = generate(job, symbol, |op_type| self.config.expressions.get(op_type).cloned())?;
        if let (Some(Rewrite(change)), [op]) = (&self.config.rewrite, job.ops.as_slice()) {
            made.text = change(op, made.text);
        }
        Ok(made)
    }
}

/// A question without a caller is not killed amid its work: that would leave the compiler's temporary files behind.
impl Drop for CpuBackend {
    fn drop(&mut self) {
        if let Some(ahead) = self.ahead().take() {
            ahead.terminate();
        }
    }
}

/// The options that change a kernel of the CPU, or how it is built. All others are those of chips.
const OWN_OPTIONS: [&str; 2] = ["op_debug_config", "op_debug_level"];

impl Backend for CpuBackend {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn align_changes(&self, changes: Vec<PartChange>) -> Vec<PartChange> {
        toolchain::align_changes(changes)
    }

    fn is_consequence(&self, change: &PartChange) -> bool {
        toolchain::is_consequence(change)
    }

    fn describe_change(&self, change: &PartChange) -> Option<String> {
        toolchain::describe_change(change)
    }

    fn toolchain(&self, cx: &Context<'_>) -> Result<Fingerprint, BackendError> {
        let toolchain = self.current(cx)?;
        for launcher in toolchain.left_out() {
            cx.warn(format_args!(
                "`{}` is left out: what it keeps or sends elsewhere would take part in kernels without being in their keys",
                launcher.display()
            ));
        }
        Ok(toolchain.fingerprint())
    }

    fn warm_up(&self, cx: &Context<'_>) {
        let mut ahead = self.ahead();
        // A thread that asks already took what was begun.
        if ahead.is_none() && !self.toolchain.is_asked_for() {
            // `toolchain` tries again and reports the failure.
            *ahead = Ahead::begin(&self.config, cx).ok().flatten();
        }
    }

    /// The C that would be compiled, under a stand-in for its name; and the math library, if the C calls it.
    fn op_sources(
        &self,
        cx: &Context<'_>,
        job: &Job,
        _spec: &ResolvedSpec,
    ) -> Result<Fingerprint, BackendError> {
        // A change to C may be another one each time.
        if self.config.rewrite.is_some() {
            return self.sources(cx, Source::of(&self.stand_in(job)?));
        }
        let source = match self.known.get(job) {
            Some(source) => source,
            None => {
                let source = Source::of(&self.stand_in(job)?);
                self.known.note(job, source);
                source
            }
        };
        self.sources(cx, source)
    }

    fn supports(&self, job: &Job, _spec: &ResolvedSpec) -> Support {
        match self.stand_in(job) {
            Ok(_) => Support::Yes,
            Err(reason) => Support::No(reason),
        }
    }

    fn expectations(&self, spec: &ResolvedSpec) -> Expectations {
        targets::host(&spec.target, host_machine())
    }

    fn compile(&self, cx: &Context<'_>, request: &CompileRequest<'_>) -> Result<Artifact, BackendError> {
        let source = self.generate(request.job, &request.name.symbol())?;
        let toolchain = self.in_use(cx)?;
        match compile::compile(cx, &self.config, &toolchain, &source, request) {
            Err(CompileError::Moved(error)) => {
                let now = self.current(cx)?;
                // Nothing changed: the next time would come to the same.
                if Arc::ptr_eq(&now, &toolchain) {
                    return Err(error);
                }
                compile::compile(cx, &self.config, &now, &source, request).map_err(CompileError::into_inner)
            }
            Err(CompileError::Failed(error)) => Err(error),
            Ok(artifact) => Ok(artifact),
        }
    }

    /// Of the vendor's options only those for debugging mean anything here. The words `ccec_O0` and `ccec_g` are the C
    /// compiler's `-O0` and `-g`; the others are about the device, and change nothing.
    fn resolve(&self, _cx: &Context<'_>, spec: &BuildSpec) -> Result<ResolvedSpec, BackendError> {
        let mut options = BTreeMap::new();
        if let Some(level) = spec.option("op_debug_level") {
            if !matches!(level.as_str(), "0" | "1" | "2" | "3" | "4") {
                return Err(BackendError::Option {
                    name: "op_debug_level".to_owned(),
                    value: level,
                    expected: "0, 1, 2, 3 or 4".to_owned(),
                });
            }
            if level != "0" {
                options.insert("op_debug_level".to_owned(), level);
            }
        }
        let config = spec.words("op_debug_config");
        if let Some(unknown) = config.iter().find(|word| !DEBUG_WORDS.contains(&word.as_str())) {
            return Err(BackendError::Option {
                name: "op_debug_config".to_owned(),
                value: unknown.clone(),
                expected: DEBUG_WORDS.join(", "),
            });
        }
        if !config.is_empty() {
            options.insert("op_debug_config".to_owned(), config.join(","));
        }
        let level = match self.config.features {
            Features::Portable => "",
            Features::Native => "-native",
        };
        let target = format!("cpu-{}{level}", std::env::consts::ARCH);
        Ok(ResolvedSpec { target, options, debug: debug_enabled(spec) })
    }

    fn option_names(&self) -> Vec<&'static str> {
        OPTION_NAMES.to_vec()
    }

    fn ignored_options(&self) -> Vec<&'static str> {
        OPTION_NAMES.into_iter().filter(|name| !OWN_OPTIONS.contains(name)).collect()
    }

    fn check_option(&self, name: &str, value: &str) -> Result<(), BackendError> {
        check_value(name, value).map_err(|expected| BackendError::Option {
            name: name.to_owned(),
            value: value.to_owned(),
            expected,
        })
    }

    fn loader(&self) -> Option<&dyn Loader> {
        Some(&self.loader)
    }
}

impl CpuBackend {
    /// The C of `job` under a stand-in for its name; or why it cannot be compiled.
    fn stand_in(&self, job: &Job) -> Result<Generated, Unsupported> {
        let other = |problem| {
            let op_type = job.ops.first().map(|op| op.op_type.clone()).unwrap_or_default();
            Unsupported::Other { backend: "cpu", op_type, problem }
        };
        if host_machine() == 0 {
            return Err(other(format!("kernels for {} are not known here", std::env::consts::ARCH)));
        }
        self.generate(job, STAND_IN).map_err(|error| match error {
            BackendError::Unsupported(reason) => reason,
            error => other(error.to_string()),
        })
    }

    /// The inputs of a kernel from `source`: the source itself, and the math library, if it calls that.
    fn sources(&self, cx: &Context<'_>, source: Source) -> Result<Fingerprint, BackendError> {
        let Source { digest, lines, calls_libm } = source;
        let mut fingerprint = Fingerprint::new();
        fingerprint.add("generated C", digest, counted(lines, "line"));
        if calls_libm {
            let (digest, note) = self.in_use(cx)?.libm();
            fingerprint.add(toolchain::LIBM, digest, note);
        }
        Ok(fingerprint)
    }
}

/// Digests that are taken each time.
struct Uncached;

/// The context of a question outside of a build.
fn uncached(cancel: &CancelToken) -> Context<'_> {
    Context::new(&Uncached, cancel, &|_| {})
}

impl FileDigests for Uncached {
    fn digest(&self, path: &Path) -> io::Result<Digest> {
        Digest::of_reader(Fs::new().open(path)?)
    }
}

/// The ELF machine of this host.
const fn host_machine() -> u16 {
    // Values of `e_machine` from the System V ABI and its processor supplements.
    if cfg!(target_arch = "x86_64") {
        62
    } else if cfg!(target_arch = "aarch64") {
        183
    } else if cfg!(target_arch = "riscv64") {
        243
    } else if cfg!(target_arch = "loongarch64") {
        258
    } else {
        0
    }
}
