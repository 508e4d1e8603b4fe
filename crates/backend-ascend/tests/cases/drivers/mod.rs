//! Both drivers on the stand-in toolkit, with all that goes wrong. Everything is ignored where there is no Python.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are not themselves marked as tests")]
#![expect(clippy::disallowed_methods, reason = "tests look at what programs left")]

mod attempts;
mod endings;
mod failures;
mod memory;
mod results;
mod toolkits;

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
    dir.iter().for_each(|dir| endings::hold(Path::new(dir)));
    dir.is_some()
}

pub(crate) fn trials() -> Vec<Trial> {
    let has_python = toolkit::python().is_some();
    let cases: &[(&str, fn())] = &[
        ("both_drivers_make_the_same", results::same),
        ("options_reach_the_compiler", results::options),
        ("each_job_is_compiled_once", results::once),
        ("failures_are_reported_with_code_text_and_log", failures::failures),
        ("exit_statuses_prove_nothing", failures::statuses),
        ("the_missing_part_is_named", failures::missing),
        ("mixed_kernels_may_be_two", results::split),
        ("late_compiles_end_with_their_children", endings::late),
        ("cancelled_compiles_end_with_their_children", endings::cancelled),
        ("floods_are_bounded", failures::floods),
        ("a_crash_fails_its_own_job_only", failures::crashes),
        ("a_lock_that_was_left_is_no_obstacle", attempts::locks),
        ("a_failure_that_may_not_repeat_is_retried_once", attempts::again),
        ("workers_are_replaced_after_some_jobs", memory::recycled),
        ("edited_operators_are_compiled_as_they_are", toolkits::edited),
        ("operator_information_is_read_again", toolkits::known_again),
        ("many_workers_may_be_out_of_date_at_once", memory::many_out_of_date),
        ("workers_know_the_toolkit_as_it_is", memory::dismissed),
        ("packages_of_one_name_are_distinguished", memory::namesakes),
        ("paths_may_be_named_from_here", memory::relative),
        ("custom_operators_are_found", toolkits::vendors),
        ("a_toolkit_with_asc_opc_only_will_do", toolkits::newer),
        ("an_unusable_python_is_reported", toolkits::pythons),
        ("nothing_is_left_when_we_are_killed", endings::killed),
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

/// The result of a compile, and its directory.
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
