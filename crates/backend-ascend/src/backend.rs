//! The [`Backend`] itself.

mod attempt;
mod ready;

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use opkeep_artifact::{Artifact, Expectations};
use opkeep_backend::{
    Backend, BackendEntry, BackendError, CompileRequest, Context, Loader, Support, Unsupported,
};
use opkeep_cann_meta::targets;
use opkeep_cann_toolkit::{
    Externals, OpsInfo, Soc, Sources, Toolkit, ToolkitError, absolute, knowledge_bank, toolchain,
};
use opkeep_descriptor::options::check_value;
use opkeep_descriptor::{BuildSpec, Job, Op, ResolvedSpec, debug_enabled};
use opkeep_digest::{Digest, Fingerprint};
use opkeep_fs::{CancelToken, Fs};
use opkeep_ops::Graph;
use opkeep_text::counted;

use crate::NAME;
use crate::compile::driver::{ActiveDriver, active_driver, environment, pool, tool_dir};
use crate::compile::options;
use crate::compile::ready::{KnownConfig, unrepeatable};
use crate::config::{AscendConfig, Driver};
use crate::device::loader::AscendLoader;
use crate::device::runtime::Runtime;
use crate::error::{no_implementation, toolkit_error};
use crate::graph::prepare::Prepare;
use crate::probe::toolkit_probe::Probe;
use crate::worker::op_query::{OnceDigests, OpQuery};
use crate::worker::op_query_cache::OpQueryCache;
use crate::worker::pool::Pool;

/// The backend for one chip.
pub struct AscendBackend {
    toolkit: Toolkit,
    soc: Soc,
    /// The complete environment of the toolkit's programs.
    environment: Vec<(OsString, OsString)>,
    sources: Sources,
    probe: Probe,
    driver: ActiveDriver,
    /// The workers for operator queries, if the driver is [`ActiveDriver::Process`].
    query_pool: OnceLock<Result<Pool, String>>,
    answers: OpQueryCache,
    /// Warnings about the toolkit.
    warnings: Vec<String>,
    /// None if this host has no such chip.
    loader: OnceLock<Option<AscendLoader>>,
    scratch: PathBuf,
    /// Its clock shows which modules are new.
    fs: Fs,
    jobs_per_worker: u32,
    /// The files that the user declares as inputs.
    inputs: Vec<PathBuf>,
    /// The imports and own sources of operators, by the digests of their jobs.
    externals: Mutex<HashMap<Digest, Externals>>,
    /// The last workers' configuration.
    last_config: Mutex<Option<KnownConfig>>,
    /// The digest of the last toolchain, and its operator information.
    known: Mutex<(Option<Digest>, Arc<OpsInfo>)>,
}

impl AscendBackend {
    /// The targets of this backend, as text for users.
    pub const TARGETS: &str =
        "ascend (this machine's chip), or a chip that the CANN toolkit knows, such as Ascend910B1";

    /// The backend for the chip called `soc` in full.
    ///
    /// # Errors
    /// There is no usable toolkit, or it does not know the chip.
    pub fn open(config: &AscendConfig, soc: &str) -> Result<Self, ToolkitError> {
        let toolkit = config.search.find()?;
        let soc = toolkit.platforms.soc(soc)?;
        let ops = OpsInfo::read(&toolkit, &soc)?;
        let environment = environment(&toolkit, config);
        let driver = active_driver(&toolkit, config)?;
        let kept = config.answers.as_deref().and_then(Path::parent).map(Path::to_owned);
        let tool_dir = tool_dir(&toolkit);
        let scratch = absolute(config.scratch.clone());
        let probe = Probe::new(environment.clone(), tool_dir, kept, scratch.clone());
        let warnings = toolkit.warnings.iter().cloned().chain(toolkit.platforms.warning(&soc)).collect();
        Ok(Self {
            sources: Sources::new(&toolkit),
            probe,
            environment,
            driver,
            soc,
            toolkit,
            query_pool: OnceLock::new(),
            answers: OpQueryCache::open(config.answers.clone()),
            warnings,
            loader: OnceLock::new(),
            scratch,
            fs: config.fs.clone(),
            jobs_per_worker: config.jobs_per_worker,
            inputs: config.inputs.iter().cloned().map(absolute).collect(),
            externals: Mutex::default(),
            last_config: Mutex::default(),
            known: Mutex::new((None, Arc::new(ops))),
        })
    }

    /// The full name of the chip in this machine.
    ///
    /// # Errors
    /// No toolkit, runtime library or device.
    pub fn device(config: &AscendConfig) -> Result<String, BackendError> {
        let toolkit = config.search.find().map_err(toolkit_error)?;
        let name = Runtime::open(Some(&toolkit)).and_then(|runtime| runtime.soc_name());
        name.map_err(|error| BackendError::Toolchain {
            problem: format!("this machine's chip cannot be asked for its name: {error}"),
            help: format!("{}; or name the chip, such as Ascend910B1", error.help()),
            tool: None,
        })
    }

    /// An entry for a registry: serves the names of chips, and `ascend`, which is the chip in this machine.
    pub fn entry(config: AscendConfig) -> BackendEntry {
        let about = "compiles operators with the CANN toolkit";
        let serves = |target: &str| {
            let is_chip = targets::named(target).is_some_and(|expected| targets::is_ai_core(&expected));
            target == NAME || is_chip
        };
        BackendEntry::new(NAME, about, Self::TARGETS, serves, move |target| {
            let device = if target == NAME { Some(Self::device(&config)?) } else { None };
            let backend = Self::open(&config, device.as_deref().unwrap_or(target)).map_err(toolkit_error)?;
            Ok(Arc::new(backend))
        })
        .with_option_reader(Self::resolve_without_toolkit)
    }

    /// The resolved specification of a kernel that a framework compiled by `spec`: the result of
    /// [`resolve`](Backend::resolve), but without a toolkit.
    ///
    /// # Errors
    /// An option has an invalid value, or names a directory: its content at that time is unknown.
    pub fn resolve_without_toolkit(spec: &BuildSpec) -> Result<ResolvedSpec, BackendError> {
        let options = options::resolve(spec)?;
        if let Some((name, value)) =
            knowledge_bank::OPTIONS.iter().find_map(|name| options.get_key_value(*name))
        {
            return Err(BackendError::Option {
                name: name.clone(),
                value: value.clone(),
                expected: "none, for an existing kernel: the directory's content at its compile is unknown"
                    .to_owned(),
            });
        }
        Ok(ResolvedSpec { target: spec.target.clone(), options, debug: debug_enabled(spec) })
    }

    /// A text for users: the guards that keep compiles from reading files that no key covers, and the reason if one of
    /// them is missing.
    ///
    /// # Errors
    /// The toolkit cannot be probed.
    pub fn confinement(&self) -> Result<String, BackendError> {
        let (files, cancel) = (OnceDigests::default(), CancelToken::new());
        let cx = Context::new(&files, &cancel, &|_| {});
        let (record, _) = self.record(&cx, &Externals::default())?;
        if let Some(problem) = record.problem() {
            return Ok(format!("none, since Python cannot import the toolkit: {problem}"));
        }
        let (files, directories) = self.config(&cx, &record)?.reach().counts();
        let watched = record.watched();
        Ok(format!(
            "compiles are {}: keys cover {files} and all of {directories}; if one of {watched} other \
             directories changes, the toolkit is probed again",
            record.guards,
            files = counted(files, "file"),
            directories = counted(directories, "directory")
        ))
    }

    /// The toolkit.
    pub fn toolkit(&self) -> &Toolkit {
        &self.toolkit
    }

    /// The chip.
    pub fn soc(&self) -> &Soc {
        &self.soc
    }

    /// The driver in use: never [`Driver::Auto`].
    pub fn driver(&self) -> Driver {
        match self.driver {
            ActiveDriver::Process { .. } => Driver::Process,
            ActiveDriver::Workers(_) => Driver::Workers,
        }
    }

    fn ops(&self) -> Arc<OpsInfo> {
        Arc::clone(&self.known().1)
    }

    fn known(&self) -> MutexGuard<'_, (Option<Digest>, Arc<OpsInfo>)> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The workers through which operators are queried.
    fn query_pool(&self) -> Result<&Pool, BackendError> {
        if let ActiveDriver::Workers(pool) = &self.driver {
            return Ok(pool);
        }
        let start = || pool(&self.toolkit).map_err(|error| error.to_string());
        self.query_pool.get_or_init(start).as_ref().map_err(|problem| BackendError::Toolchain {
            problem: problem.clone(),
            help: "let this user have more processes and threads".to_owned(),
            tool: None,
        })
    }

    /// Ends the idle workers, which imported an older state of the toolkit.
    fn dismiss_workers(&self) {
        if let ActiveDriver::Workers(pool) = &self.driver {
            pool.dismiss();
        }
        if let Some(Ok(pool)) = self.query_pool.get() {
            pool.dismiss();
        }
    }

    /// The effective options of `spec` for this chip.
    fn resolved(&self, spec: &BuildSpec) -> Result<ResolvedSpec, BackendError> {
        let mut options = options::resolve(spec)?;
        for name in knowledge_bank::OPTIONS {
            let Some(path) = options.get_mut(name) else { continue };
            if !Fs::new().is_dir(path.as_ref()) {
                return Err(BackendError::Option {
                    name: name.to_owned(),
                    value: path.clone(),
                    expected: "an existing directory: the compiler ignores a missing one".to_owned(),
                });
            }
            // The compiler runs in another directory, where a relative path would name another one.
            *path = absolute(PathBuf::from(&*path)).to_string_lossy().into_owned();
        }
        Ok(ResolvedSpec { target: self.soc.name.clone(), options, debug: debug_enabled(spec) })
    }

    /// Checks that the toolkit has an implementation of `job`.
    fn implemented(&self, job: &Job) -> Result<(), Unsupported> {
        let op = self.single(job)?;
        match self.sources.implementation(op, &self.ops()) {
            Ok(_) => Ok(()),
            Err(error) => Err(no_implementation(&op.op_type, &error)),
        }
    }

    fn single<'j>(&self, job: &'j Job) -> Result<&'j Op, Unsupported> {
        match &job.ops[..] {
            [op] => Ok(op),
            ops => Err(Unsupported::Fused { backend: NAME, ops: ops.len() }),
        }
    }
}

impl Backend for AscendBackend {
    fn name(&self) -> &'static str {
        NAME
    }

    fn toolchain(&self, cx: &Context<'_>) -> Result<Fingerprint, BackendError> {
        self.warnings.iter().for_each(|warning| cx.warn(warning));
        let files = cx.files;
        let mut found = toolchain(&self.toolkit, files).map_err(toolkit_error)?;
        let record = self.probe.record(cx, &self.toolkit, &found.digest(), &BTreeSet::new())?;
        record.fingerprint(&mut found);
        let packages = self.toolkit.operator_packages();
        record.fingerprint_shadows(&packages, files, &mut found)?;
        self.add_declared(&mut found, files)?;
        let digest = found.digest();
        let mut known = self.known();
        if known.0 != Some(digest) {
            if known.0.is_some() {
                self.dismiss_workers();
            }
            // The operator information is part of the toolchain.
            if !known.1.is_current(files) {
                known.1 = Arc::new(OpsInfo::read(&self.toolkit, &self.soc).map_err(toolkit_error)?);
            }
            known.0 = Some(digest);
        }
        if let Some(why) = record.guards.unkept() {
            found.text("what cannot be known", unrepeatable(&why));
        }
        Ok(found)
    }

    fn op_sources(
        &self,
        cx: &Context<'_>,
        job: &Job,
        spec: &ResolvedSpec,
    ) -> Result<Fingerprint, BackendError> {
        self.implemented(job)?;
        let inputs = self.sources.inputs(job, spec, &self.ops(), cx.files);
        let (mut found, externals) = inputs.map_err(toolkit_error)?;
        let (record, names) = self.record(cx, &externals)?;
        record.fingerprint_of(&names, &mut found);
        self.externals().insert(job.digest(), externals);
        Ok(found)
    }

    fn supports(&self, job: &Job, _spec: &ResolvedSpec) -> Support {
        match self.implemented(job) {
            // Only the operator's own code knows which shapes and types it takes.
            Ok(()) => Support::Unknown,
            Err(reason) => Support::No(reason),
        }
    }

    fn expectations(&self, spec: &ResolvedSpec) -> Expectations {
        targets::ascend(&spec.target)
    }

    fn compile(&self, cx: &Context<'_>, request: &CompileRequest<'_>) -> Result<Artifact, BackendError> {
        self.compile_job(cx, request)
    }

    fn option_names(&self) -> Vec<&'static str> {
        options::names()
    }

    fn check_option(&self, name: &str, value: &str) -> Result<(), BackendError> {
        let mut spec = BuildSpec::new(&self.soc.name);
        spec.options.insert(name.to_owned(), value.into());
        self.resolved(&spec)?;
        // An option without effect on the compiler is valid, too.
        check_value(name, value).map_err(|expected| BackendError::Option {
            name: name.to_owned(),
            value: value.to_owned(),
            expected,
        })
    }

    fn resolve(&self, cx: &Context<'_>, spec: &BuildSpec) -> Result<ResolvedSpec, BackendError> {
        let resolved = self.resolved(spec)?;
        for name in resolved.options.keys().filter(|name| !options::has_meaning(name)) {
            cx.warn(format_args!(
                "option `{name}` is not passed to the compiler: opkeep knows no such option of it; kernels made with it \
                 are still kept apart"
            ));
        }
        Ok(resolved)
    }

    /// Adds the module, function and attributes of each operator, and conversions to the types and formats that it
    /// takes.
    fn rewrite_graph(
        &self,
        cx: &Context<'_>,
        graph: Graph,
        spec: &ResolvedSpec,
    ) -> Result<Graph, BackendError> {
        let ops = self.ops();
        let asker = OpQuery {
            cx,
            ready: &|job| self.ready(cx, job, spec),
            has_changed: &|record| self.has_changed(cx, record),
            record: &|| Ok(self.record(cx, &Externals::default())?.0),
            toolkit: &self.toolkit,
            soc: &self.soc,
            sources: &self.sources,
            ops: &ops,
            spec,
            answers: &self.answers,
            pool: &|| self.query_pool(),
            files: OnceDigests::default(),
        };
        let prepared = Prepare::new(&ops, &asker).run(&graph);
        self.answers.save();
        let (graph, warnings) = prepared?;
        warnings.iter().for_each(|warning| cx.warn(warning));
        Ok(graph)
    }

    /// None if this machine has no such chip.
    fn loader(&self) -> Option<&dyn Loader> {
        let open = || {
            let runtime = Runtime::open(Some(&self.toolkit)).ok()?;
            let is_here = runtime.soc_name().is_ok_and(|name| name == self.soc.name);
            if is_here { AscendLoader::new(&runtime, self.scratch.clone()).ok() } else { None }
        };
        self.loader.get_or_init(open).as_ref().map(|loader| loader as &dyn Loader)
    }
}
