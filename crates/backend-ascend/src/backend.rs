//! The [`Backend`] itself.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use opbuild_artifact::{Artifact, Expectations};
use opbuild_backend::{
    Backend, BackendError, Cancel, CompileRequest, Entry, FileDigests, Loader, Support, Unsupported,
    asks_for_debug,
};
use opbuild_descriptor::options::check_value;
use opbuild_descriptor::{BuildSpec, EffectiveSpec, Job, Op};
use opbuild_digest::{Digest, Fingerprint};
use opbuild_ops::Graph;

use crate::answers::{self, Answers};
use crate::ask::{Asker, Once};
use crate::closure::Externals;
use crate::compile::{self, Extra, Process, Told};
use crate::device::Runtime;
use crate::domain::ReadDomain;
use crate::externals::first;
use crate::find::{Search, Toolkit, absolute};
use crate::loader::AscendLoader;
use crate::ops_info::OpsInfo;
use crate::platform::Soc;
use crate::pool::{Pool, Setup, merged};
use crate::prepare::Prepare;
use crate::probe::Probe;
use crate::record::Record;
use crate::sources::Sources;
use crate::{AscendError, NAME, banks, disk, fingerprint, input, options};

/// How often a compile is tried whose failure says that another attempt may go well.
const ATTEMPTS: u32 = 2;

/// How the backend finds its toolkit, and how it drives it.
#[derive(Clone, Debug)]
pub struct AscendConfig {
    /// Where to look for the toolkit.
    pub search: Search,
    /// How it is driven.
    pub driver: Driver,
    /// Where workers keep temporary files.
    pub scratch: PathBuf,
    /// Where answers of operators are kept, which the next process need not ask again, and beside them what importing the
    /// toolkit takes, and its bytecode: a directory that only this user can write to. Nowhere if None.
    pub answers: Option<PathBuf>,
    /// Says when nobody waits any more for what operators answer, whom preparing a network asks.
    pub cancel: Cancel,
    /// After how many jobs a worker is replaced: what operators leave behind in it does not add up for long.
    pub jobs_each: u32,
}

/// How the compiler is driven. Kernels are the same either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Driver {
    /// By workers, where the toolkit has what they need; else by processes.
    #[default]
    Auto,
    /// One process of `opc` or `asc_opc` a compile, which imports the toolkit each time.
    Process,
    /// Long-lived Python processes that import it once.
    Workers,
}

impl AscendConfig {
    /// Finds the toolkit by `search`. Nothing is kept between processes.
    pub fn new(search: Search) -> Self {
        let scratch = std::env::temp_dir();
        Self { search, driver: Driver::Auto, scratch, answers: None, cancel: Cancel::new(), jobs_each: 256 }
    }

    /// Keeps what operators answer in this user's folder below `folder`, which may be one for temporary files.
    #[must_use]
    pub fn keep_answers_below(self, folder: &Path) -> Self {
        Self { answers: answers::file_below(folder), ..self }
    }
}

/// The backend for one chip.
pub struct AscendBackend {
    toolkit: Toolkit,
    soc: Soc,
    /// All of the environment of the toolkit's programs.
    environment: Vec<(OsString, OsString)>,
    sources: Sources,
    probe: Probe,
    driver: Means,
    /// For those who only ask, where no workers compile.
    asking: OnceLock<Result<Pool, String>>,
    answers: Answers,
    /// What the user was not told yet.
    told: Mutex<Vec<String>>,
    /// Options without a meaning that were told of.
    strange: Mutex<BTreeSet<String>>,
    /// Where this host has such a chip.
    loader: OnceLock<Option<AscendLoader>>,
    scratch: PathBuf,
    cancel: Cancel,
    jobs_each: u32,
    /// What operators take from other places, by the digests of their jobs.
    externals: Mutex<HashMap<Digest, Externals>>,
    /// How workers are started, and the record that this follows from.
    setups: Mutex<Option<(Arc<Record>, Arc<Setup>)>>,
    /// What is known of operators, and the toolchain that it was read of.
    known: Mutex<(Option<Digest>, Arc<OpsInfo>)>,
}

/// What a compile is begun with.
struct Ready {
    setup: Arc<Setup>,
    record: Arc<Record>,
    extra: Extra,
}

/// How kernels are made.
enum Means {
    /// By `opc`, which has options for banks, or `asc_opc`, which has none.
    Process {
        program: PathBuf,
        has_banks: bool,
    },
    Workers(Pool),
}

impl AscendBackend {
    /// The targets it serves, for people.
    pub const TARGETS: &str =
        "Ascend910B1 and all other chips that the CANN toolkit knows, ascend (the one in this machine)";

    /// The backend for the chip called `soc` in full.
    ///
    /// # Errors
    /// There is no usable toolkit, or it does not know the chip.
    pub fn open(config: &AscendConfig, soc: &str) -> Result<Self, AscendError> {
        let toolkit = config.search.find()?;
        let soc = toolkit.platforms.soc(soc)?;
        let ops = OpsInfo::read(&toolkit, &soc)?;
        let environment = environment(&toolkit, config);
        let driver = means(&toolkit, config)?;
        let kept = config.answers.as_deref().and_then(Path::parent).map(Path::to_owned);
        let tool_folder = tool_folder(&toolkit);
        let scratch = absolute(config.scratch.clone());
        let probe = Probe::new(environment.clone(), tool_folder, kept, scratch, config.cancel.clone());
        let warnings = toolkit.warnings.iter().cloned().chain(toolkit.platforms.warning(&soc)).collect();
        Ok(Self {
            sources: Sources::new(&toolkit),
            probe,
            environment,
            driver,
            soc,
            toolkit,
            asking: OnceLock::new(),
            answers: Answers::open(config.answers.clone()),
            told: Mutex::new(warnings),
            strange: Mutex::default(),
            loader: OnceLock::new(),
            scratch: config.scratch.clone(),
            cancel: config.cancel.clone(),
            jobs_each: config.jobs_each,
            externals: Mutex::default(),
            setups: Mutex::default(),
            known: Mutex::new((None, Arc::new(ops))),
        })
    }

    /// The full name of the chip in this machine.
    ///
    /// # Errors
    /// There is none, or nobody to ask.
    pub fn device(config: &AscendConfig) -> Result<String, BackendError> {
        let toolkit = config.search.find()?;
        let name = Runtime::open(Some(&toolkit)).and_then(|runtime| runtime.soc_name());
        name.map_err(|error| BackendError::Toolchain {
            problem: format!("this machine's chip cannot be asked for its name: {error}"),
            way_out: format!("{}; or name the chip, such as Ascend910B1", error.way_out()),
        })
    }

    /// An entry for a registry: serves the names of chips, and `ascend`, which is the chip in this machine.
    pub fn entry(config: AscendConfig) -> Entry {
        let about = "operators by the CANN toolkit's compiler";
        let serves = |target: &str| {
            let is_chip = Expectations::named(target)
                .is_some_and(|expected| expected.machines == [Expectations::ASCEND]);
            target == NAME || is_chip
        };
        Entry::new(NAME, about, Self::TARGETS, serves, move |target| {
            let device = if target == NAME { Some(Self::device(&config)?) } else { None };
            Ok(Arc::new(Self::open(&config, device.as_deref().unwrap_or(target))?))
        })
        .reading(Self::read)
    }

    /// For what a kernel was built that a framework had compiled by `spec`: as [`resolve`](Backend::resolve) of the
    /// backend for its chip would say, which needs a toolkit.
    ///
    /// # Errors
    /// An option that is out of range, or that means a folder: what was in it then, nobody knows.
    pub fn read(spec: &BuildSpec) -> Result<EffectiveSpec, BackendError> {
        let options = options::resolve(spec)?;
        if let Some((name, value)) = banks::OPTIONS.iter().find_map(|name| options.get_key_value(*name)) {
            return Err(BackendError::Option {
                name: name.clone(),
                value: value.clone(),
                expected: "none, for a kernel that is there already: what was in that folder is not known"
                    .to_owned(),
            });
        }
        Ok(EffectiveSpec { target: spec.target.clone(), options, debug: asks_for_debug(spec) })
    }

    /// The toolkit.
    pub fn toolkit(&self) -> &Toolkit {
        &self.toolkit
    }

    /// The chip.
    pub fn soc(&self) -> &Soc {
        &self.soc
    }

    /// How it is driven: never [`Driver::Auto`].
    pub fn driver(&self) -> Driver {
        match self.driver {
            Means::Process { .. } => Driver::Process,
            Means::Workers(_) => Driver::Workers,
        }
    }

    fn ops(&self) -> Arc<OpsInfo> {
        Arc::clone(&self.known().1)
    }

    fn known(&self) -> MutexGuard<'_, (Option<Digest>, Arc<OpsInfo>)> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Workers that operators can be asked through.
    fn asking(&self) -> Result<&Pool, BackendError> {
        if let Means::Workers(pool) = &self.driver {
            return Ok(pool);
        }
        let start = || pool(&self.toolkit).map_err(|error| error.to_string());
        self.asking.get_or_init(start).as_ref().map_err(|problem| BackendError::Toolchain {
            problem: problem.clone(),
            way_out: "let this user have more processes and threads".to_owned(),
        })
    }

    /// Says once that an option has no meaning here: it may be misspelt.
    fn tell_of_strange(&self, name: &str) {
        if self.strange.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned()) {
            self.told.lock().unwrap_or_else(PoisonError::into_inner).push(format!(
                "option `{name}` is not handed to the compiler, which has none that opbuild knows by this name; kernels \
                 made with it are kept apart all the same"
            ));
        }
    }

    /// Who knows the toolkit as it was makes nothing any more.
    fn dismiss_workers(&self) {
        if let Means::Workers(pool) = &self.driver {
            pool.dismiss();
        }
        if let Some(Ok(pool)) = self.asking.get() {
            pool.dismiss();
        }
    }

    fn single<'j>(&self, job: &'j Job) -> Result<&'j Op, Unsupported> {
        match &job.ops[..] {
            [op] => Ok(op),
            ops => Err(Unsupported::Fused { backend: NAME, ops: ops.len() }),
        }
    }

    fn attempt(
        &self,
        request: &CompileRequest<'_>,
        attempt: u32,
    ) -> Result<(Result<Artifact, BackendError>, bool), BackendError> {
        let (op, ops) = (self.single(request.job)?, self.ops());
        let info = ops.get(&op.op_type);
        let implementation = self.sources.implementation(op, &ops)?;
        let parameters = input::parameters(request.job, request.name.as_str(), info, &request.spec.options)?;
        let told = Told::new(request, op, parameters, &implementation, &self.toolkit, attempt)?;
        let ready = self.ready(request.job, request.spec)?;
        Ok(match &self.driver {
            Means::Process { program, has_banks } => {
                let environment = ready.record.interpreter().for_programs(&self.environment);
                Process { program, has_banks: *has_banks, environment: &environment }.compile(&told)
            }
            Means::Workers(pool) => {
                let (made, beyond) = compile::by_worker(pool, &ready.setup, &ready.extra, &told);
                match beyond.first() {
                    Some(_) => (Err(self.beyond(op, &beyond)), false),
                    None => made,
                }
            }
        })
    }

    /// The error of a compile that read what is in no key. The next one starts with another look at the toolkit.
    fn beyond(&self, op: &Op, paths: &[String]) -> BackendError {
        self.probe.forget();
        let shown = paths.iter().take(4).map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ");
        let more = if paths.len() > 4 { format!(" and {} more", paths.len() - 4) } else { String::new() };
        BackendError::Unsupported(Unsupported::Other {
            backend: NAME,
            op_type: op.op_type.clone(),
            problem: format!(
                "its compile read {shown}{more}, which neither importing the toolkit nor an import in the operator's \
                 sources leads to, so that a change there would go unseen; import it by its name, or keep it beside \
                 the operators"
            ),
        })
    }

    /// What a compile of `job` may read, and a worker's start.
    fn ready(&self, job: &Job, spec: &EffectiveSpec) -> Result<Ready, BackendError> {
        let files = Once::default();
        let known = self.externals().get(&job.digest()).cloned();
        let externals = match known {
            Some(externals) => externals,
            None => self.sources.inputs(job, spec, &self.ops(), &files)?.1,
        };
        let (record, names) = self.record(&externals, &files)?;
        let setup = self.setup(&record);
        let files = record.files_of(&names);
        Ok(Ready { setup, record, extra: Extra { names, files } })
    }

    /// How workers are started that import what `record` says.
    fn setup(&self, record: &Arc<Record>) -> Arc<Setup> {
        let mut setups = self.setups.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, setup)) = &*setups
            && Arc::ptr_eq(known, record)
        {
            return Arc::clone(setup);
        }
        let vendors = self.toolkit.vendors.iter().map(|vendor| vendor.tbe.clone());
        let mut domain = ReadDomain::new(&self.toolkit, record);
        let own = self.probe.bytecode();
        domain.beneath.extend(own.map(|path| (path, "bytecode of our own, by the content of sources")));
        let setup = Arc::new(Setup {
            interpreter: record.interpreter().clone(),
            bytecode: self.probe.bytecode(),
            domain,
            tool_folder: tool_folder(&self.toolkit),
            roots: vendors.chain(self.toolkit.python_path()).collect(),
            jobs_each: self.jobs_each,
        });
        *setups = Some((Arc::clone(record), Arc::clone(&setup)));
        setup
    }

    /// The record of what importing the toolkit takes, and of it the names that concern an operator.
    fn record(
        &self,
        externals: &Externals,
        files: &dyn FileDigests,
    ) -> Result<(Arc<Record>, BTreeSet<String>), BackendError> {
        let own = fingerprint::module_names(&self.toolkit);
        let asked = externals.names.iter().filter(|name| !own.contains(first(name)));
        let asked: BTreeSet<String> = asked.cloned().collect();
        let last = self.probe.last().filter(|record| asked.iter().all(|name| record.knows(name)));
        let record = match last {
            // It was looked at when the toolchain was asked for, to which this key belongs.
            Some(record) => record,
            None => {
                let toolkit = fingerprint::toolchain(&self.toolkit, files)?.digest();
                self.probe.record(&self.toolkit, &toolkit, &asked, files)?
            }
        };
        let names = self.names(externals, &record);
        Ok((record, names))
    }

    fn names(&self, externals: &Externals, record: &Record) -> BTreeSet<String> {
        let open = record.scanned.iter().filter(|_| externals.is_open);
        let all = externals.names.iter().chain(open).filter(|name| record.takes_more(name));
        all.cloned().collect()
    }

    fn externals(&self) -> MutexGuard<'_, HashMap<Digest, Externals>> {
        self.externals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backend for AscendBackend {
    fn name(&self) -> &'static str {
        NAME
    }

    fn toolchain(&self, files: &dyn FileDigests) -> Result<Fingerprint, BackendError> {
        let mut found = fingerprint::toolchain(&self.toolkit, files)?;
        let record = self.probe.record(&self.toolkit, &found.digest(), &BTreeSet::new(), files)?;
        record.fingerprint(&mut found);
        record.fingerprint_shadows(&fingerprint::operator_packages(&self.toolkit), files, &mut found)?;
        let digest = found.digest();
        let mut known = self.known();
        if known.0 != Some(digest) {
            if known.0.is_some() {
                self.dismiss_workers();
            }
            // What operators take is part of the toolchain, and goes with it.
            if !known.1.is_current(files) {
                known.1 = Arc::new(OpsInfo::read(&self.toolkit, &self.soc)?);
            }
            known.0 = Some(digest);
        }
        Ok(found)
    }

    fn op_sources(
        &self,
        job: &Job,
        spec: &EffectiveSpec,
        files: &dyn FileDigests,
    ) -> Result<Fingerprint, BackendError> {
        let (mut found, externals) = self.sources.inputs(job, spec, &self.ops(), files)?;
        let (record, names) = self.record(&externals, files)?;
        record.fingerprint_of(&names, &mut found);
        self.externals().insert(job.digest(), externals);
        Ok(found)
    }

    fn supports(&self, job: &Job, _spec: &EffectiveSpec) -> Support {
        let op = match self.single(job) {
            Ok(op) => op,
            Err(fused) => return Support::No(fused),
        };
        match self.sources.implementation(op, &self.ops()) {
            // Which shapes and types it takes, only its own code can tell.
            Ok(_) => Support::Maybe,
            Err(error) => Support::No(Unsupported::Other {
                backend: NAME,
                op_type: op.op_type.clone(),
                problem: format!("{error}; {}", error.way_out()),
            }),
        }
    }

    fn expectations(&self, spec: &EffectiveSpec) -> Expectations {
        Expectations::ascend(&spec.target)
    }

    fn compile(&self, request: &CompileRequest<'_>) -> Result<Artifact, BackendError> {
        for attempt in 1..ATTEMPTS {
            let (made, is_transient) = self.attempt(request, attempt)?;
            if made.is_ok() || !is_transient {
                return made;
            }
        }
        self.attempt(request, ATTEMPTS)?.0
    }

    fn option_names(&self) -> Vec<&'static str> {
        options::names()
    }

    fn check_option(&self, name: &str, value: &str) -> Result<(), BackendError> {
        let mut spec = BuildSpec::new(&self.soc.name);
        spec.options.insert(name.to_owned(), value.into());
        self.resolve(&spec)?;
        // What the compiler has no option for counts for nothing, and is an option all the same.
        check_value(name, value).map_err(|expected| BackendError::Option {
            name: name.to_owned(),
            value: value.to_owned(),
            expected,
        })
    }

    fn resolve(&self, spec: &BuildSpec) -> Result<EffectiveSpec, BackendError> {
        let mut options = options::resolve(spec)?;
        for name in options.keys().filter(|name| !options::has_meaning(name)) {
            self.tell_of_strange(name);
        }
        for name in banks::OPTIONS {
            let Some(path) = options.get_mut(name) else { continue };
            if !disk::is_folder(path.as_ref()) {
                return Err(BackendError::Option {
                    name: name.to_owned(),
                    value: path.clone(),
                    expected: "a folder that is there: the compiler would go on without a word".to_owned(),
                });
            }
            // The compiler runs elsewhere, and would not find what is named from here.
            *path = absolute(PathBuf::from(&*path)).to_string_lossy().into_owned();
        }
        Ok(EffectiveSpec { target: self.soc.name.clone(), options, debug: asks_for_debug(spec) })
    }

    fn warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.told.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Module, function and attributes of each operator, and conversions to what it takes.
    fn prepare(&self, graph: Graph, spec: &EffectiveSpec) -> Result<Graph, BackendError> {
        let ops = self.ops();
        let (record, _) = self.record(&Externals::default(), &Once::default())?;
        let asker = Asker {
            setup: self.setup(&record),
            record: &record,
            toolkit: &self.toolkit,
            soc: &self.soc,
            sources: &self.sources,
            ops: &ops,
            spec,
            answers: &self.answers,
            cancel: &self.cancel,
            pool: &|| self.asking(),
            files: Once::default(),
        };
        let prepared = Prepare::new(&ops, &asker).run(&graph);
        self.answers.save();
        let (graph, warnings) = prepared?;
        self.told.lock().unwrap_or_else(PoisonError::into_inner).extend(warnings);
        Ok(graph)
    }

    /// Where this machine has such a chip.
    fn loader(&self) -> Option<&dyn Loader> {
        let open = || {
            let runtime = Runtime::open(Some(&self.toolkit)).ok()?;
            let is_here = runtime.soc_name().is_ok_and(|name| name == self.soc.name);
            if is_here { AscendLoader::new(&runtime, self.scratch.clone()).ok() } else { None }
        };
        self.loader.get_or_init(open).as_ref().map(|loader| loader as &dyn Loader)
    }
}

/// The environment of the toolkit's programs: its own, its log where we read it, and nothing else.
fn environment(toolkit: &Toolkit, config: &AscendConfig) -> Vec<(OsString, OsString)> {
    // Workers run elsewhere.
    let scratch = absolute(config.scratch.clone());
    let own = [
        ("LC_ALL", OsStr::new("C.UTF-8")),
        ("PYTHONUNBUFFERED", OsStr::new("1")),
        // Bytecode beside sources may be of other sources: none is read, and none is left. Nothing is below this file.
        ("PYTHONPYCACHEPREFIX", OsStr::new("/dev/null")),
        ("PYTHONDONTWRITEBYTECODE", OsStr::new("1")),
        ("TMPDIR", scratch.as_os_str()),
        // Errors would go to files below the home folder.
        ("ASCEND_SLOG_PRINT_TO_STDOUT", OsStr::new("1")),
        ("ASCEND_GLOBAL_LOG_LEVEL", OsStr::new("3")),
        ("ASCEND_GLOBAL_EVENT_ENABLE", OsStr::new("0")),
    ];
    let found = toolkit.environment();
    let found = found.iter().map(|(name, value)| (OsStr::new(name), value.as_os_str()));
    merged(found.chain(own.iter().map(|(name, value)| (OsStr::new(*name), *value))))
}

fn means(toolkit: &Toolkit, config: &AscendConfig) -> Result<Means, AscendError> {
    let is_there = tool_folder(toolkit).is_some();
    if config.driver == Driver::Workers || (config.driver == Driver::Auto && is_there) {
        return Ok(Means::Workers(pool(toolkit)?));
    }
    let (program, has_banks) = match (&toolkit.opc, &toolkit.asc_opc) {
        (Some(opc), _) => (opc.clone(), true),
        (None, Some(asc_opc)) => (asc_opc.clone(), false),
        // `find` takes no toolkit without either.
        (None, None) => (toolkit.root.join("bin/opc"), true),
    };
    Ok(Means::Process { program, has_banks })
}

/// The package through which workers compile, if the toolkit has it.
fn tool_folder(toolkit: &Toolkit) -> Option<PathBuf> {
    let folder = toolkit.site_packages.join("opc_tool");
    disk::is_file(&folder.join("opc_api.py")).then_some(folder)
}

fn pool(toolkit: &Toolkit) -> Result<Pool, AscendError> {
    Pool::new().map_err(|source| AscendError::Io {
        action: "start workers for",
        path: toolkit.root.clone(),
        source,
    })
}
