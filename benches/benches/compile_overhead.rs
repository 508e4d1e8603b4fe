//! Question: how much longer does a compile take that may read only what its key covers?
//!
//! Each kernel of a network of ours is compiled by the CPU backend as in a cold build: the C is generated and written, the
//! compiler is confined and runs, its object is read. Beside it the same compiler runs with the same arguments on the same
//! C, confined by nothing. `probe` is what a machine pays once for a toolchain, beside four plain compiles of a small
//! source, which is what a probe consists of.
//!
//! Budget: 3 % more than the plain compiles.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot be set up has no figures")]
#![expect(clippy::print_stdout, reason = "the table is what this is for")]

#[path = "common/networks.rs"]
mod networks;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use opbuild_backend::{Backend, Cancel, CompileRequest, FileDigests};
use opbuild_backend_cpu::CpuBackend;
use opbuild_benches::{Budgets, Figure, Turns, folder, is_measured, read, search_path, time, write};
use opbuild_descriptor::{BuildSpec, EffectiveSpec, Job, KernelName, KeyParts};
use opbuild_digest::{Digest, Fingerprint};
use opbuild_process::{Run, Sandbox};
use tempfile::TempDir;

const BUDGET: f64 = 1.03;
/// Like the kernels: `-lm` stands behind what needs it.
const SMALL: &str = "void f(float *x) { for (int i = 0; i < 64; ++i) x[i] += 1; }\n";

/// Remembers nothing from one process to the next.
struct Files;

impl FileDigests for Files {
    fn digest(&self, path: &Path) -> std::io::Result<Digest> {
        read(path).map(|bytes| Digest::of(&bytes))
    }
}

/// One kernel to compile.
struct Kernel {
    job: Job,
    name: KernelName,
    /// Where it was compiled once: the C is there.
    dir: PathBuf,
    args: Vec<OsString>,
}

fn main() {
    let mut budgets = Budgets::default();
    println!(
        "all kernels one after the other; ratios are to plain compiles: lower quartile, median, upper quartile"
    );
    println!(
        "{:<12} {:>7} {:>10} {:>10} {:>20} {:>6}  budget",
        "network", "kernels", "plain", "ours", "ratio", "turns"
    );
    for name in if is_measured() { &["squeezenet", "resnet18"][..] } else { &["lenet"] } {
        network(name, &mut budgets);
    }
    probe();
    budgets.settle();
}

fn network(name: &str, budgets: &mut Budgets) {
    let (place, backend) = (folder().unwrap(), networks::cpu());
    let flags = flags(&backend);
    let kernels: Vec<Kernel> = networks::ours(name)
        .jobs()
        .into_iter()
        .map(|(_, job)| kernel(job, &place, &backend, &flags))
        .collect();
    let turns = Turns::take(
        Duration::from_secs(15),
        [&mut || kernels.iter().map(|kernel| time(|| plain(&kernel.dir, &kernel.args))).sum(), &mut || {
            kernels.iter().map(|kernel| ours(&backend, kernel)).sum()
        }],
    );
    let (ratios @ [low, ratio, high], wall) = (turns.ratio(1, 0), turns.median(1));
    let verdict = budgets.judge(ratios, BUDGET);
    let figure = Figure::new("compile_overhead", name).entries(kernels.len()).times(wall, turns.median(0));
    figure.ratio(ratios).budget("1.03 times".to_owned(), [ratio, BUDGET], verdict).note();
    println!(
        "{name:<12} {:>7} {:>10.1?} {wall:>10.1?} {low:>6.3} {ratio:>6.3} {high:>6.3} {:>6}  {BUDGET} {verdict}",
        kernels.len(),
        turns.median(0),
        turns.count()
    );
}

fn probe() {
    let (place, flags) = (folder().unwrap(), flags(&networks::cpu()));
    write(&place.path().join("kernel.c"), SMALL.as_bytes()).unwrap();
    let args = args(&flags, SMALL);
    let turns = Turns::take(
        Duration::from_secs(3),
        [&mut || time(|| (0..4).for_each(|_| plain(place.path(), &args))), &mut || {
            let backend = networks::cpu();
            time(|| backend.toolchain(&Files).unwrap())
        }],
    );
    let ([low, ratio, high], wall) = (turns.ratio(1, 0), turns.median(1));
    Figure::new("compile_overhead", "probe").times(wall, turns.median(0)).ratio([low, ratio, high]).note();
    println!(
        "{:<12} {:>7} {:>10.1?} {wall:>10.1?} {low:>6.3} {ratio:>6.3} {high:>6.3} {:>6}",
        "probe",
        "",
        turns.median(0),
        turns.count()
    );
}

/// The flags that the backend gives its compiler.
fn flags(backend: &CpuBackend) -> Vec<String> {
    let toolchain = backend.toolchain(&Files).unwrap();
    let part = toolchain.parts().iter().find(|part| part.name == "flags").unwrap();
    part.note.split(' ').map(str::to_owned).collect()
}

fn kernel(job: Job, place: &TempDir, backend: &CpuBackend, flags: &[String]) -> Kernel {
    let dir = tempfile::tempdir_in(place).unwrap().keep();
    let (toolchain, sources) = (Fingerprint::new(), Fingerprint::new());
    let name = KernelName::new(
        &job,
        &KeyParts::new("cpu", &job, &EffectiveSpec::default(), toolchain, sources).key(),
    );
    compile(backend, &job, &name, &dir);
    let source = String::from_utf8(read(&dir.join("kernel.c")).unwrap()).unwrap();
    let kernel = Kernel { args: args(flags, &source), job, name, dir };
    let object = || read(&kernel.dir.join("kernel.o")).unwrap();
    let confined = object();
    plain(&kernel.dir, &kernel.args);
    assert!(object() == confined, "both ways are the same compile");
    kernel
}

/// All arguments for C in `kernel.c`.
fn args(flags: &[String], source: &str) -> Vec<OsString> {
    let words = flags.iter().map(String::as_str).chain(["-o", "kernel.o", "kernel.c"]);
    words.chain(source.contains("__builtin_exp").then_some("-lm")).map(OsString::from).collect()
}

fn ours(backend: &CpuBackend, kernel: &Kernel) -> Duration {
    let dir = tempfile::tempdir_in(&kernel.dir).unwrap();
    time(|| compile(backend, &kernel.job, &kernel.name, dir.path()))
}

fn compile(backend: &CpuBackend, job: &Job, name: &KernelName, work_dir: &Path) {
    let spec = backend.resolve(&BuildSpec::new("cpu")).unwrap();
    let cancel = &Cancel::new();
    let request = CompileRequest { job, spec: &spec, name, work_dir, deadline: None, cancel };
    backend.compile(&request).unwrap();
}

/// Runs the compiler as a plain program.
fn plain(dir: &Path, args: &[OsString]) {
    let path = search_path();
    let driver = std::env::split_paths(&path).map(|dir| dir.join("cc")).find(|cc| cc.is_file()).unwrap();
    let environment = [("PATH", path.as_os_str()), ("TMPDIR", dir.as_os_str()), ("LC_ALL", OsStr::new("C"))];
    let environment = environment.map(|(name, value)| (OsStr::new(name), value));
    let run = Run {
        program: &driver,
        args,
        environment: &environment,
        dir,
        log: None,
        deadline: None,
        cancel: &Cancel::new(),
        sandbox: Sandbox::default(),
    };
    assert!(run.to_end().unwrap().status.success());
}
