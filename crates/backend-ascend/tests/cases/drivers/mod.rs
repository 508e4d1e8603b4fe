//! Both drivers on the stand-in toolkit, with all that goes wrong. Everything is ignored where there is no Python.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are not themselves marked as tests")]
#![expect(clippy::disallowed_methods, reason = "tests look at what programs left")]

mod attempts;
mod memory;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::common::{Place, SOC, driven};
use libtest_mimic::{Failed, Trial};
use opkeep_artifact::Artifact;
use opkeep_backend::{Backend, BackendError, CompileRequest};
use opkeep_backend_ascend::{AscendBackend, AscendConfig, Driver};
use opkeep_cann_meta::KernelMeta;
use opkeep_descriptor::{BuildSpec, Job, KernelName, KeyParts, ResolvedSpec};
use opkeep_fs::{CancelToken, Clock, Fs};
use opkeep_testkit::toolkit::{self, Fault, Layout, Part, Rule, Toolkit, Vendor};
use opkeep_testkit::{TestContext, job};
use serde_json::{Value, json};
use tempfile::TempDir;

const DRIVERS: [Driver; 2] = [Driver::Process, Driver::Workers];

/// The kernel of a compiler that is held, for a process that is to be killed.
const HELD: &str = "OPKEEP_TEST_HELD";

/// Whether this process is the one that is to be killed; then its compile never ends.
pub(crate) fn plays_the_killed_one() -> bool {
    let dir = std::env::var_os(HELD);
    dir.iter().for_each(|dir| hold(Path::new(dir)));
    dir.is_some()
}

pub(crate) fn trials() -> Vec<Trial> {
    let has_python = toolkit::python().is_some();
    let cases: &[(&str, fn())] = &[
        ("both_drivers_make_the_same", same),
        ("options_reach_the_compiler", options),
        ("each_job_is_compiled_once", once),
        ("failures_are_told_with_code_text_and_log", failures),
        ("exit_statuses_prove_nothing", statuses),
        ("what_is_missing_is_named", missing),
        ("mixed_kernels_may_be_two", split),
        ("late_compiles_end_with_their_children", late),
        ("cancelled_compiles_end_with_their_children", cancelled),
        ("floods_are_bounded", floods),
        ("a_crash_fails_its_own_job_only", crashes),
        ("a_lock_that_was_left_is_no_obstacle", attempts::locks),
        ("what_may_go_well_is_tried_again_once", attempts::again),
        ("workers_are_replaced_after_some_jobs", memory::recycled),
        ("edited_operators_are_compiled_as_they_are", edited),
        ("what_is_known_of_operators_is_read_again", known_again),
        ("many_workers_may_be_out_of_date_at_once", memory::many_out_of_date),
        ("workers_know_the_toolkit_as_it_is", memory::dismissed),
        ("packages_of_one_name_are_told_apart", memory::namesakes),
        ("paths_may_be_named_from_here", memory::relative),
        ("custom_operators_are_found", vendors),
        ("a_toolkit_with_asc_opc_only_will_do", newer),
        ("a_python_that_will_not_do_is_told", pythons),
        ("nothing_is_left_when_we_are_killed", killed),
    ];
    let trial = |(name, run): &(&'static str, fn())| {
        let run = *run;
        Trial::test(*name, move || {
            run();
            Ok::<(), Failed>(())
        })
        .with_ignored_flag(!has_python)
    };
    cases.iter().map(trial).collect()
}

/// A clock that is an hour ahead.
struct HourAhead;

impl Clock for HourAhead {
    fn now(&self) -> SystemTime {
        SystemTime::now() + Duration::from_secs(3600)
    }
}

/// As [`driven`], by a clock to which all files of the place are old.
fn settled(place: &Place, driver: Driver) -> AscendConfig {
    let mut config = driven(place, driver);
    config.fs = Fs::new().with_clock(Arc::new(HourAhead));
    config
}

/// A backend with a directory to work in.
struct Bench {
    place: Arc<Place>,
    backend: AscendBackend,
    spec: ResolvedSpec,
}

/// What came of a compile, and the directory that it was in.
type Outcome = (TempDir, Result<Artifact, BackendError>);

impl Bench {
    fn new(driver: Driver) -> Self {
        Self::of(Place::new(), driver)
    }

    /// One for each driver, one after the other on one toolkit: it is probed once.
    fn each() -> impl Iterator<Item = (Driver, Self)> {
        let place = Arc::new(Place::new());
        DRIVERS.into_iter().map(move |driver| {
            place.installed.rules(&[]).unwrap();
            if !place.installed.compiles().unwrap().is_empty() {
                place.installed.forget().unwrap();
            }
            let config = driven(&place, driver);
            (driver, Self::with(Arc::clone(&place), &config))
        })
    }

    /// One whose workers take no file for one that was changed just now.
    fn settled(driver: Driver) -> Self {
        let place = Place::new();
        let config = settled(&place, driver);
        Self::with(place, &config)
    }

    fn of(place: Place, driver: Driver) -> Self {
        let config = driven(&place, driver);
        Self::with(place, &config)
    }

    fn with(place: impl Into<Arc<Place>>, config: &AscendConfig) -> Self {
        let place = place.into();
        let backend = AscendBackend::open(config, SOC).unwrap();
        let spec = backend.resolve(&TestContext::new().cx(), &BuildSpec::new(SOC)).unwrap();
        Self { place, backend, spec }
    }

    fn rules(&self, rules: &[Rule]) {
        self.place.installed.rules(rules).unwrap();
    }

    fn compile(&self, job: &Job) -> Outcome {
        self.compile_within(job, None, &CancelToken::new())
    }

    fn compile_within(&self, job: &Job, limit: Option<Duration>, cancel: &CancelToken) -> Outcome {
        let work = TempDir::new().unwrap();
        let name = name_of(&self.backend, job, &self.spec);
        let deadline = limit.map(|limit| Instant::now() + limit);
        let (spec, work_dir) = (&self.spec, work.path());
        let caller = TestContext::cancelled_by(cancel).with_deadline(deadline);
        let made = self.backend.compile(&caller.cx(), &CompileRequest { job, spec, name: &name, work_dir });
        (work, made)
    }

    fn made(&self, job: &Job) -> Artifact {
        let (_work, made) = self.compile(job);
        made.unwrap_or_else(|error| panic!("{error}"))
    }

    fn error(&self, job: &Job) -> String {
        self.compile(job).1.unwrap_err().to_string()
    }

    fn compiles(&self) -> usize {
        self.place.installed.compiles().unwrap().len()
    }
}

fn name_of(backend: &AscendBackend, job: &Job, spec: &ResolvedSpec) -> KernelName {
    let caller = TestContext::new();
    let parts = KeyParts {
        backend: backend.name().to_owned(),
        job: job.digest(),
        spec: spec.digest(),
        toolchain: Arc::new(backend.toolchain(&caller.cx()).unwrap()),
        op_sources: backend.op_sources(&caller.cx(), job, spec).unwrap(),
    };
    KernelName::new(job, &parts.key())
}

fn square() -> Job {
    job("Square", &[&[8]])
}

fn relu() -> Job {
    job("Relu", &[&[8]])
}

/// The kernel without the path that it was compiled at.
fn placeless(artifact: &Artifact) -> (Value, &[u8]) {
    let mut json: Value = serde_json::from_slice(&artifact.metadata).unwrap();
    json.as_object_mut().unwrap().remove("filePath");
    (json, &artifact.object)
}

fn same() {
    let place = Arc::new(Place::new());
    let [process, workers] = DRIVERS.map(|driver| AscendBackend::open(&driven(&place, driver), SOC).unwrap());
    assert_eq!((process.driver(), workers.driver()), (Driver::Process, Driver::Workers));
    let jobs = [
        square(),
        relu(),
        job("Add", &[&[4, 8], &[4, 8]]),
        job("SoftmaxV2", &[&[3, 5]]),
        job("Sqrt", &[&[3, 5]]),
    ];
    let options =
        [json!({}), json!({"deterministic": "true", "op_impl_mode": "high_precision", "coreNum": "8"})];
    let mut objects = BTreeSet::new();
    let mut pairs = 0;
    for options in &options {
        let mut spec = BuildSpec::new(SOC);
        let options = options.as_object().unwrap().iter();
        spec.options = options.map(|(name, value)| (name.clone(), value.clone())).collect();
        for job in jobs.iter().filter(|job| {
            !matches!(process.supports(job, &ResolvedSpec::default()), opkeep_backend::Support::No(_))
        }) {
            let made = [&process, &workers].map(|backend| {
                let spec = backend.resolve(&TestContext::new().cx(), &spec).unwrap();
                let work = TempDir::new().unwrap();
                let name = name_of(backend, job, &spec);
                let request = CompileRequest { job, spec: &spec, name: &name, work_dir: work.path() };
                backend
                    .compile(&TestContext::new().cx(), &request)
                    .unwrap_or_else(|error| panic!("{}: {error}", job.ops[0].op_type))
            });
            assert_eq!(placeless(&made[0]), placeless(&made[1]), "{}", job.ops[0].op_type);
            objects.insert(made[0].object.clone());
            pairs += 1;
        }
    }
    assert!(pairs >= 6 && objects.len() == pairs, "{} objects of {pairs}", objects.len());
}

fn options() {
    for (driver, mut bench) in Bench::each() {
        let bank = bench.place.below("bank");
        bench.place.installed.write_bank(Some(&bank), SOC, "square", &json!({"tiling": 7})).unwrap();
        let mut objects = vec![bench.made(&square()).object];
        for (name, value) in [
            ("op_debug_level", "2"),
            ("op_debug_config", "oom"),
            ("deterministic", "true"),
            ("aicore_num", "4"),
            ("op_bank_path", bank.to_str().unwrap()),
        ] {
            let mut spec = BuildSpec::new(SOC);
            spec.options.insert(name.to_owned(), value.into());
            bench.spec = bench.backend.resolve(&TestContext::new().cx(), &spec).unwrap();
            objects.push(bench.made(&square()).object);
        }
        let different: BTreeSet<&Vec<u8>> = objects.iter().collect();
        assert!(different.len() >= 4, "{driver:?}: {} kinds of {}", different.len(), objects.len());
        let spec = |name: &str, value: &str| {
            let mut spec = BuildSpec::new(SOC);
            spec.options.insert(name.to_owned(), value.into());
            spec
        };
        let refused = bench
            .backend
            .resolve(&TestContext::new().cx(), &spec("op_bank_path", "/nowhere"))
            .unwrap_err()
            .to_string();
        assert!(refused.contains("op_bank_path") && refused.contains("/nowhere"), "{refused}");
    }
}

fn once() {
    for (driver, bench) in Bench::each() {
        let names: Vec<_> = [square(), relu()].iter().map(|job| bench.made(job)).collect();
        let compiles = bench.place.installed.compiles().unwrap();
        assert_eq!(compiles.len(), 2, "{driver:?}");
        assert!(compiles.iter().all(|compile| compile.deterministic == "false" && compile.soc == SOC));
        for (made, compile) in names.iter().zip(&compiles) {
            let meta = KernelMeta::parse(&made.metadata).unwrap();
            assert_eq!(meta.bin_file_name.unwrap(), compile.kernel);
        }
    }
}

fn failures() {
    for (driver, bench) in Bench::each() {
        let fail = |code: &str, message: &str| {
            Rule::new(Fault::Fail { code: code.to_owned(), message: message.to_owned() }).times(1)
        };
        bench.rules(&[fail("E80012", "the number of dimensions of `x` must be in [0, 8]")]);
        let (_work, failed) = bench.compile(&square());
        let BackendError::Compile { command, log_tail, log, .. } = failed.unwrap_err() else {
            panic!("{driver:?}: another error")
        };
        assert!(log_tail.contains("E80012") && log_tail.contains("must be in [0, 8]"), "{log_tail}");
        assert!(log_tail.contains("fewer or more dimensions"), "no hint: {log_tail}");
        assert!(command.contains(if driver == Driver::Process { "opc" } else { "compile_op" }), "{command}");
        let log = std::fs::read_to_string(log.unwrap()).unwrap();
        assert!(log.contains("E80012"), "{log}");
        // What failed once is no verdict.
        bench.made(&square());
        bench.rules(&[Rule::new(Fault::CompilerFails { attempts: 3 })]);
        assert!(bench.error(&square()).contains("E40021"), "{}", bench.error(&square()));
    }
}

fn statuses() {
    for (driver, bench) in Bench::each() {
        // Well, whatever the status says.
        if driver == Driver::Process {
            bench.rules(&[Rule::new(Fault::ExitAfter { code: 3 })]);
            bench.made(&square());
        }
        for fault in [Fault::Nothing, Fault::NoObject, Fault::NoJson] {
            bench.rules(&[Rule::new(fault.clone())]);
            let error = bench.error(&square());
            assert!(error.contains("ended without an error, but"), "{driver:?} {fault:?}: {error}");
            assert!(error.contains("is not there"), "{driver:?} {fault:?}: {error}");
        }
        bench.rules(&[Rule::new(Fault::CutJson { bytes: 40 })]);
        assert!(bench.error(&square()).contains("cannot be used"), "{}", bench.error(&square()));
        bench.rules(&[Rule::new(Fault::Exit { code: 9 })]);
        let error = bench.error(&square());
        assert!(error.contains("exit status: 9"), "{driver:?}: {error}");
    }
}

fn missing() {
    let place = Place::new();
    let open = |soc: &str| AscendBackend::open(&driven(&place, Driver::Process), soc);
    let error = open("Ascend910B9").err().unwrap().to_string();
    assert!(error.contains("Ascend910B9") && error.contains("Ascend910B1"), "{error}");
    let bench = Bench::of(Place::new(), Driver::Process);
    let mut none = square();
    none.ops[0].op_type = "Nonsense".to_owned();
    none.ops[0].func_name = "nonsense".to_owned();
    none.ops[0].module_name = "impl.nonsense".to_owned();
    let opkeep_backend::Support::No(reason) = bench.backend.supports(&none, &bench.spec) else { panic!() };
    assert!(reason.to_string().contains("Nonsense") && reason.to_string().contains("ASCEND_CUSTOM_OPP_PATH"));
    let half = Place::of(&Toolkit::new().without(Part::Compiler));
    let error = AscendBackend::open(&driven(&half, Driver::Workers), SOC).err().unwrap().to_string();
    assert!(error.contains("ccec") && error.contains("not complete"), "{error}");
}

fn split() {
    for (driver, bench) in Bench::each() {
        bench.rules(&[Rule::new(Fault::SplitMix)]);
        let made = bench.made(&square());
        let names: Vec<&str> = made.extra.iter().map(|member| member.name.as_str()).collect();
        assert!(made.object.is_empty() && names.len() == 4, "{driver:?}: {names:?}");
        assert!(names.iter().filter(|name| name.ends_with(".o")).count() == 2, "{names:?}");
    }
}

/// How many processes have `marker` on their command line, or work in a directory below it.
fn processes(marker: &Path) -> usize {
    let marker = marker.to_str().unwrap();
    let mut count = 0;
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let is = |link: &str| {
            std::fs::read_link(entry.path().join(link))
                .is_ok_and(|target| target.to_string_lossy().starts_with(marker))
        };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let own = entry.file_name().to_string_lossy() == std::process::id().to_string();
        let alive =
            std::fs::read_to_string(entry.path().join("stat")).is_ok_and(|stat| !stat.contains(") Z "));
        count += usize::from(!own && alive && (is("cwd") || String::from_utf8_lossy(&line).contains(marker)));
    }
    count
}

/// Waits until it is so.
fn wait_for(what: &str, mut so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !so() {
        assert!(Instant::now() < until, "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn late() {
    for (driver, bench) in Bench::each() {
        // The toolkit is imported, so that the deadline meets the compile.
        bench.made(&relu());
        for fault in [Fault::Hang { deaf: true }, Fault::CompilerHangs] {
            bench.rules(&[Rule::new(fault.clone()).op("Square")]);
            let begun = bench.compiles();
            let limit = Some(Duration::from_secs(4));
            let (work, failed) = bench.compile_within(&square(), limit, &CancelToken::new());
            let error = failed.unwrap_err();
            assert!(matches!(error, BackendError::TimedOut { .. }), "{driver:?} {fault:?}: {error}");
            assert_eq!(bench.compiles(), begun + 1, "it never began");
            wait_for("no process works there", || processes(work.path()) == 0);
            bench.rules(&[]);
            bench.made(&square());
        }
    }
}

fn cancelled() {
    for (_, bench) in Bench::each() {
        bench.rules(&[Rule::new(Fault::Hang { deaf: true })]);
        let cancel = CancelToken::new();
        let ended = std::thread::scope(|scope| {
            let compile = scope.spawn(|| bench.compile_within(&square(), None, &cancel));
            wait_for("a compile began", || bench.compiles() == 1);
            cancel.cancel();
            compile.join().unwrap()
        });
        assert!(matches!(ended.1, Err(BackendError::Cancelled)), "{:?}", ended.1);
        wait_for("no process works there", || processes(ended.0.path()) == 0);
    }
}

fn floods() {
    for (driver, bench) in Bench::each() {
        bench.rules(&[
            Rule::new(Fault::Flood { bytes: 20 << 20 }),
            Rule::new(Fault::Fail { code: "E60004".to_owned(), message: "after the flood".to_owned() }),
        ]);
        let (_work, failed) = bench.compile(&square());
        let BackendError::Compile { log_tail, log, .. } = failed.unwrap_err() else { panic!("{driver:?}") };
        assert!(log_tail.contains("after the flood"), "{log_tail}");
        let length = std::fs::metadata(log.unwrap()).unwrap().len();
        assert!((1000..200_000).contains(&length), "{length}");
    }
}

fn crashes() {
    for (driver, bench) in Bench::each() {
        bench.rules(&[Rule::new(Fault::Crash).op("Relu")]);
        std::thread::scope(|scope| {
            let well: Vec<_> = (1..4)
                .map(|count| {
                    let bench = &bench;
                    scope.spawn(move || bench.made(&job("Square", &[&[count]])))
                })
                .collect();
            let error = bench.error(&relu());
            // The shell around `opc` reports a signal by its exit status.
            assert!(
                error.contains("signal: 11") || error.contains("exit status: 139"),
                "{driver:?}: {error}"
            );
            well.into_iter().for_each(|one| drop(one.join().unwrap()));
        });
        bench.rules(&[]);
        bench.made(&relu());
    }
}

fn edited() {
    for driver in DRIVERS {
        let bench = Bench::settled(driver);
        let first = bench.made(&square()).object;
        assert_eq!(bench.made(&square()).object, first);
        let file = bench.place.installed.impl_file("dynamic/square.py");
        bench.place.installed.append(&file, "\n# another\n").unwrap();
        let second = bench.made(&square()).object;
        assert_ne!(first, second, "{driver:?}: the operator's file");
        let file = bench.place.installed.impl_file("util/util_common.py");
        bench.place.installed.append(&file, "\n# another\n").unwrap();
        assert_ne!(bench.made(&square()).object, second, "{driver:?}: what it imports");
    }
}

fn known_again() {
    let bench = Bench::new(Driver::Process);
    bench.made(&square());
    // One that was opened before, and has not been asked yet what its toolchain is.
    let opened = AscendBackend::open(&driven(&bench.place, Driver::Process), SOC).unwrap();
    let path = bench.place.installed.op_info("ascend910b");
    let info = std::fs::read_to_string(&path).unwrap();
    let mut ops: Value = serde_json::from_str(&info).unwrap();
    let none = json!({"value": "Null"});
    ops["Square"]["opFile"] = none;
    std::fs::write(&path, ops.to_string()).unwrap();
    let caller = TestContext::new();
    for backend in [&bench.backend, &opened] {
        backend.toolchain(&caller.cx()).unwrap();
        let error = backend.op_sources(&caller.cx(), &square(), &bench.spec).unwrap_err().to_string();
        assert!(error.contains("opFile"), "{error}");
    }
}

fn vendors() {
    for driver in DRIVERS {
        let place = Place::of(&Toolkit::new().vendor(Vendor::new("listed").op("ListedOp", "Square")));
        let dir = place.below("mine");
        place.installed.write_vendor(&Vendor::new("mine").op("MyOp", "Square"), &dir).unwrap();
        let mut config = driven(&place, driver);
        let custom = dir.clone().into_os_string();
        config.search.environment.insert("ASCEND_CUSTOM_OPP_PATH".to_owned(), custom);
        let bench = Bench::with(place, &config);
        for op_type in ["ListedOp", "MyOp"] {
            let made = bench.made(&crate::common::job(op_type));
            assert!(!made.object.is_empty());
        }
        let types: Vec<String> =
            bench.place.installed.compiles().unwrap().into_iter().map(|compile| compile.op).collect();
        assert_eq!(types, ["ListedOp", "MyOp"]);
    }
}

fn newer() {
    let place = Place::of(&Toolkit::new().version("9.1.0", "9.1.0.1").layout(Layout::Cann));
    let toolkit = driven(&place, Driver::Process).search.find().unwrap();
    if let Some(opc) = &toolkit.opc {
        place.installed.remove(opc).unwrap();
    }
    let bench = Bench::of(place, Driver::Process);
    assert!(bench.backend.toolkit().asc_opc.is_some() && bench.backend.toolkit().opc.is_none());
    bench.made(&square());
    bench.rules(&[Rule::new(Fault::Fail { code: "E80008".to_owned(), message: "no int4".to_owned() })]);
    assert!(bench.error(&square()).contains("exit status: 1"), "{}", bench.error(&square()));
    let mut spec = BuildSpec::new(SOC);
    let bank = bench.place.below("home");
    std::fs::create_dir_all(&bank).unwrap();
    spec.options.insert("op_bank_path".to_owned(), bank.to_str().unwrap().into());
    let bench = Bench { spec: bench.backend.resolve(&TestContext::new().cx(), &spec).unwrap(), ..bench };
    assert!(bench.error(&square()).contains("asc_opc"), "{}", bench.error(&square()));
}

fn pythons() {
    for driver in DRIVERS {
        for (plan, says) in [
            (Toolkit::new().protobuf("4.25.1"), "protobuf<=3.20.3"),
            (Toolkit::new().without_module("google"), "install that module"),
        ] {
            let bench = Bench::of(Place::of(&plan), driver);
            let (_work, failed) = bench.compile(&square());
            let error = failed.unwrap_err();
            assert!(matches!(error, BackendError::Toolchain { .. }), "{driver:?}: {error}");
            assert!(error.to_string().contains(says), "{driver:?}: {error}");
        }
        let place = Place::new();
        let mut config = driven(&place, driver);
        config.search.environment.insert("HI_PYTHON".to_owned(), "/nowhere/python3".into());
        let bench = Bench::with(place, &config);
        let error = bench.backend.toolchain(&TestContext::new().cx()).unwrap_err();
        assert!(error.to_string().contains("/nowhere/python3"), "{driver:?}: {error}");
    }
}

/// Starts a compile that never ends; the test kills this process.
fn hold(dir: &Path) {
    let driver = match dir.join("workers").exists() {
        true => Driver::Workers,
        false => Driver::Process,
    };
    let mut search = crate::common::search_below(dir);
    search.environment.extend([("PATH".to_owned(), std::env::var_os("PATH").unwrap())]);
    search.environment.extend(toolkit::python().map(|path| ("HI_PYTHON".to_owned(), path.into_os_string())));
    let mut config = AscendConfig::new(search);
    config.driver = driver;
    let backend = AscendBackend::open(&config, SOC).unwrap();
    let spec = backend.resolve(&TestContext::new().cx(), &BuildSpec::new(SOC)).unwrap();
    let work_dir = dir.join("work");
    let job = square();
    let name = name_of(&backend, &job, &spec);
    let request = CompileRequest { job: &job, spec: &spec, name: &name, work_dir: &work_dir };
    drop(backend.compile(&TestContext::new().cx(), &request));
}

fn killed() {
    for driver in DRIVERS {
        let place = Place::new();
        let dir = place.dir.path().to_owned();
        std::fs::create_dir(dir.join("work")).unwrap();
        if driver == Driver::Workers {
            std::fs::write(dir.join("workers"), "").unwrap();
        }
        place.installed.rules(&[Rule::new(Fault::Hang { deaf: true })]).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env(HELD, &dir)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        wait_for("a compile began", || !place.installed.compiles().unwrap().is_empty());
        let pid = place.installed.compiles().unwrap()[0].pid;
        let alive = || {
            Path::new(&format!("/proc/{pid}/cmdline")).exists()
                && !std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default().contains(") Z ")
        };
        assert!(alive());
        child.kill().unwrap();
        child.wait().unwrap();
        // What `opc`, a shell script, had started may run to its own end; a worker's group may not.
        if driver == Driver::Workers {
            wait_for("the worker is gone", || !alive());
            wait_for("no process works there", || processes(&dir.join("work")) == 0);
        } else if alive() {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
    }
}
