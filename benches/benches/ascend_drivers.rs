//! Question: how much faster are workers, which import the toolkit once, than a process of `opc` for each kernel?
//!
//! The stand-in toolkit is configured to take 1.5 s for its import and 20 ms for a compile, the times of the real one
//! for small operators by published reports. As many threads as processors compile small kernels, each in its own
//! directory; a kernel's time is the total time divided by their number. Workers compile 200 of them, including the
//! workers' start; processes compile a few, since each takes as long.
//!
//! Budget: ten times the rate, so a tenth of the time.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot be set up has no figures")]
#![expect(clippy::print_stdout, reason = "the table is what this is for")]
#![expect(clippy::disallowed_methods, reason = "the toolkit's programs are found where the user's are")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use opkeep_backend::{Backend, CompileRequest};
use opkeep_backend_ascend::{AscendBackend, AscendConfig, Driver, Search};
use opkeep_benches::{Budgets, Figure, directory, is_measured, time};
use opkeep_descriptor::{BuildSpec, KernelName, KeyParts};
use opkeep_testkit::toolkit::{self, Installation, Toolkit};
use opkeep_testkit::{TestContext, job};

const SOC: &str = "Ascend910B1";
const START_UP: Duration = Duration::from_millis(1500);
const COMPILE: Duration = Duration::from_millis(20);
/// The share of the time of separate processes.
const SHARE: f64 = 0.1;

fn main() {
    let Some(python) = toolkit::python() else {
        println!("there is no Python that the stand-in toolkit runs with: no figures");
        return;
    };
    let scratch = directory().unwrap();
    let plan = Toolkit::new().start_up(START_UP).compile_time(COMPILE);
    let installed = plan.write(&scratch.path().join("Ascend")).unwrap();
    // Workers do not trust files that were written just before they read them.
    std::thread::sleep(Duration::from_millis(2100));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let variables = [("PATH", path), ("HI_PYTHON", python.into_os_string())];
    let environment: BTreeMap<_, _> =
        variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let search = Search { explicit: Some(installed.root().to_owned()), ..Search::new(environment, None) };
    let config = AscendConfig::new(search);
    let threads = std::thread::available_parallelism().unwrap().get();
    let (few, many) = if is_measured() { (4 * threads, 200) } else { (1, 2) };
    println!("small kernels by {threads} threads; milliseconds a kernel");
    let processes = each(&config, Driver::Process, few, threads, &installed);
    let workers = each(&config, Driver::Workers, many, threads, &installed);
    let (mut budgets, share) = (Budgets::default(), workers / processes);
    let verdict = budgets.judge([share; 3], SHARE);
    let figure = Figure::new("ascend_drivers", "workers, each kernel").entries(many);
    let figure = figure.values("s", workers / 1e3, processes / 1e3).ratio([share; 3]);
    figure.budget(format!("{SHARE} times"), [share, SHARE], verdict).note();
    println!("  {few:>3} by a process each  {processes:>8.1}");
    println!("  {many:>3} by workers         {workers:>8.1}");
    println!(
        "  rate of workers: {:.1} times that of processes, budget {:.0}: {verdict}",
        1.0 / share,
        1.0 / SHARE
    );
    budgets.settle();
}

/// The time of a kernel, in milliseconds.
fn each(config: &AscendConfig, driver: Driver, kernels: usize, threads: usize, log: &Installation) -> f64 {
    let before = log.compiles().unwrap().len();
    let mut config = config.clone();
    config.driver = driver;
    let backend = AscendBackend::open(&config, SOC).unwrap();
    let backend: Arc<dyn Backend> = Arc::new(backend);
    let spec = backend.resolve(&TestContext::new().cx(), &BuildSpec::new(SOC)).unwrap();
    let caller = TestContext::new();
    let toolchain = Arc::new(backend.toolchain(&caller.cx()).unwrap());
    let jobs: Vec<_> = (1..=kernels)
        .map(|count| {
            let job = job("Square", &[&[i64::try_from(count).unwrap()]]);
            let parts = KeyParts {
                backend: backend.name().to_owned(),
                job: job.digest(),
                spec: spec.digest(),
                toolchain: Arc::clone(&toolchain),
                op_sources: backend.op_sources(&caller.cx(), &job, &spec).unwrap(),
            };
            let name = KernelName::new(&job, &parts.key());
            (job, name)
        })
        .collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((job, name)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let work = directory().unwrap();
            let request = CompileRequest { job, spec: &spec, name, work_dir: work.path() };
            drop(backend.compile(&TestContext::new().cx(), &request).unwrap());
        }
    };
    let took = time(|| {
        std::thread::scope(|scope| {
            (0..threads).for_each(|_| drop(scope.spawn(work)));
        });
    });
    assert_eq!(log.compiles().unwrap().len() - before, kernels, "each is compiled once");
    took.as_secs_f64() * 1000.0 / kernels as f64
}
