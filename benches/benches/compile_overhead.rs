//! Question: how much longer does a compile take if it may read only the files that its key covers?
//!
//! Each kernel of a network is compiled by the CPU backend as in a cold build. For comparison, the same kernel is
//! compiled for debugging at level 1: the same compile with the same flags, but unconfined, since its kernel is not
//! kept. `probe` is the cost that a machine pays once for a toolchain.
//!
//! Budget: 3 % more than the unconfined compiles.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot be set up has no figures")]
#![expect(clippy::print_stdout, reason = "the table is what this is for")]

#[path = "common/networks.rs"]
mod networks;

use std::time::Duration;

use opkeep_backend::{Backend, CompileRequest};
use opkeep_backend_cpu::CpuBackend;
use opkeep_benches::{Budgets, Figure, Turns, directory, is_measured, time};
use opkeep_descriptor::{BuildSpec, Job, KernelName, KeyParts, ResolvedSpec};
use opkeep_digest::Fingerprint;
use opkeep_testkit::TestContext;

const BUDGET: f64 = 1.03;

fn main() {
    let mut budgets = Budgets::default();
    println!(
        "all kernels one after the other; ratios are to compiles that are not confined: lower quartile, median, upper \
         quartile"
    );
    println!(
        "{:<12} {:>7} {:>10} {:>10} {:>20} {:>6}  budget",
        "", "kernels", "free", "confined", "ratio", "turns"
    );
    for name in if is_measured() { &["squeezenet", "resnet18"][..] } else { &["lenet"] } {
        network(name, &mut budgets);
    }
    probe();
    budgets.settle();
}

fn network(name: &str, budgets: &mut Budgets) {
    let backend = networks::cpu();
    let jobs: Vec<Job> = networks::ours(name).jobs().into_iter().map(|(_, job)| job).collect();
    let spec = BuildSpec::new("cpu");
    let confined = backend.resolve(&TestContext::new().cx(), &spec).unwrap();
    let mut for_debugging = spec.clone();
    for_debugging.options.insert("op_debug_level".to_owned(), "1".into());
    let free = backend.resolve(&TestContext::new().cx(), &for_debugging).unwrap();
    assert!(free.debug && !confined.debug);
    for job in jobs.iter().take(3) {
        assert!(
            compile(&backend, job, &free).1 == compile(&backend, job, &confined).1,
            "one compile in both ways"
        );
    }
    let all = |spec: &ResolvedSpec| jobs.iter().map(|job| compile(&backend, job, spec).0).sum();
    let turns = Turns::take(Duration::from_secs(20), [&mut || all(&free), &mut || all(&confined)]);
    let (ratios @ [low, ratio, high], wall) = (turns.ratio(1, 0), turns.median(1));
    let verdict = budgets.judge(ratios, BUDGET);
    let figure = Figure::new("compile_overhead", name).entries(jobs.len()).times(wall, turns.median(0));
    figure.ratio(ratios).budget("1.03 times".to_owned(), [ratio, BUDGET], verdict).note();
    println!(
        "{name:<12} {:>7} {:>10.1?} {wall:>10.1?} {low:>6.3} {ratio:>6.3} {high:>6.3} {:>6}  {BUDGET} {verdict}",
        jobs.len(),
        turns.median(0),
        turns.count()
    );
}

fn probe() {
    let mut first = || {
        let backend = networks::cpu();
        time(|| backend.toolchain(&TestContext::new().cx()).unwrap())
    };
    let turns = Turns::take(Duration::from_secs(2), [&mut first]);
    Figure::new("compile_overhead", "probe").value("s", turns.median(0).as_secs_f64()).note();
    println!(
        "{:<12} {:>7} {:>10} {:>10.1?} {:>20} {:>6}",
        "probe",
        "",
        "",
        turns.median(0),
        "",
        turns.count()
    );
}

/// The time of a compile, and its object.
fn compile(backend: &CpuBackend, job: &Job, spec: &ResolvedSpec) -> (Duration, Vec<u8>) {
    let dir = directory().unwrap();
    let (toolchain, sources) = (Fingerprint::new(), Fingerprint::new());
    let name =
        KernelName::new(job, &KeyParts::new("cpu", job, &ResolvedSpec::default(), toolchain, sources).key());
    let (caller, work_dir) = (TestContext::new(), dir.path());
    let request = CompileRequest { job, spec, name: &name, work_dir };
    let mut object = Vec::new();
    let took = time(|| object = backend.compile(&caller.cx(), &request).unwrap().object);
    (took, object)
}
