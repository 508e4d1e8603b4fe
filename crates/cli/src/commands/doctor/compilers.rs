//! The compilers: found, and able to make a kernel that can be loaded.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use opkeep::{Config, Engine, Graph, Session};
use opkeep_backend::{Backend, BackendError, check_dynamic_loading};
use opkeep_backend_cpu::{CpuBackend, landlock_abi};
use opkeep_descriptor::BuildSpec;
use opkeep_fs::{CancelToken, TempDir};

use super::row::Row;
use crate::commands::targets::ascend::ascend;
use crate::flags::compile::CompileArgs;
use crate::setup;
use crate::ui::env;
use crate::ui::hints::hints;
use crate::ui::output::chain;

/// The time limit of a query to a compiler, and of the compile of the test kernel.
const QUERY: Duration = Duration::from_secs(10);
const COMPILE: Duration = Duration::from_secs(30);

/// The C compiler, and a kernel that it compiles in a directory that is removed.
pub(super) fn cpu(common: &CompileArgs) -> Vec<Row> {
    let is_needed = is_cpu(common.target());
    let config = env::cpu_config(common.cc(), common.deadline().min(QUERY), &common.toolchain_inputs());
    let scratch = TempDir::create_in(&std::env::temp_dir(), "opkeep-doctor-");
    let (mut config, scratch) = match (config, scratch) {
        (Ok(config), Ok(scratch)) => (config, scratch),
        (Err(error), _) => return vec![Row::error("compiler", &error).prevents_builds(is_needed)],
        // The check of that directory reports it.
        (_, Err(_)) => {
            return vec![Row::note("compiler", "not checked: it needs a directory for temporary files")];
        }
    };
    // What a build would remember of the compiler is removed as well.
    config.scratch = scratch.path().to_owned();
    let backend = Arc::new(CpuBackend::new(config));
    let compiler = match backend.compiler() {
        Ok(compiler) => compiler,
        // The error says how to install one.
        Err(error) => return vec![Row::error("compiler", &error.into()).prevents_builds(is_needed)],
    };
    let mut rows = vec![Row::ok("compiler", compiler)];
    rows.push(match backend.confinement() {
        Ok(means) => Row::ok("reads", means),
        Err(error) => Row::error("reads", &error.into()).prevents_builds(is_needed),
    });
    let target = if is_needed { common.target() } else { "cpu" };
    let begin = Instant::now();
    rows.push(match try_kernel(backend, target, scratch.path(), common.deadline().min(COMPILE)) {
        Ok(Tried::Ran) => {
            let time = begin.elapsed().as_secs_f64();
            Row::ok("test kernel", format!("compiled for {target}, loaded and run in {time:.1} s"))
        }
        Ok(Tried::Compiled(reason)) => not_run(target, reason),
        Err(error) => Row::error("test kernel", &error)
            .help(
                "`opkeep build` keeps the source and the output of a failed compile, and names the directory",
            )
            .prevents_builds(is_needed),
    });
    rows
}

fn is_cpu(target: &str) -> bool {
    target == "cpu" || target.starts_with("cpu-")
}

/// What was done with the test kernel.
enum Tried {
    Ran,
    /// It was not run, since this program loads no kernels.
    Compiled(BackendError),
}

/// A build needs no more than that the kernel was compiled.
fn not_run(target: &str, reason: BackendError) -> Row {
    let error = anyhow::Error::new(reason);
    let row = Row::note("test kernel", format!("compiled for {target}, not run: {error}"));
    hints(&error).into_iter().fold(row, Row::help)
}

/// Compiles the kernel of a sum, loads it, and compares what it computes. Nothing is stored.
fn try_kernel(
    backend: Arc<CpuBackend>,
    target: &str,
    work_dir: &Path,
    timeout: Duration,
) -> anyhow::Result<Tried> {
    let mut graph = Graph::new("doctor");
    let (x, bias) = (graph.input("x", "float32", [2, 3]), graph.input("bias", "float32", [3]));
    let sum = graph.node("sum", "Add", &[x, bias], [])?;
    graph.output("sum", sum)?;
    let mut config = Config::default();
    (config.jobs, config.compile_timeout) = (Some(NonZeroUsize::MIN), Some(timeout));
    (config.machine_jobs, config.work_dir) = (config.jobs, Some(work_dir.to_owned()));
    let engine = Engine::new(Arc::clone(&backend) as Arc<dyn Backend>, config);
    let report = engine.build(&opkeep::requests(&graph, &BuildSpec::new(target)))?;
    if let Some(kernel) = report.kernels.iter().find(|kernel| kernel.artifact.is_none()) {
        anyhow::bail!(kernel.reason.clone().unwrap_or_else(|| "no reason was given".to_owned()));
    }
    if let Err(reason) = check_dynamic_loading() {
        return Ok(Tried::Compiled(reason));
    }
    let session = Session::new(&graph, &report, backend.loader().context("there is no loader here")?)?;
    let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>();
    let inputs = [bytes(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]), bytes(&[1.0, 2.0, 3.0])];
    let inputs = inputs.each_ref().map(Vec::as_slice);
    let outputs = session.run(&inputs, NonZeroUsize::MIN, &CancelToken::new(), |_| {})?;
    let sum = outputs.first().context("the kernel has no output")?;
    ensure!(sum.bytes() == bytes(&[1.0, 3.0, 5.0, 4.0, 6.0, 8.0]), "the kernel computes wrong values");
    Ok(Tried::Ran)
}

/// Landlock, by which compiles are confined.
pub(super) fn landlock() -> Vec<Row> {
    vec![match landlock_abi() {
        Some(abi) => Row::ok("landlock", format!("ABI {abi}")),
        None => Row::note(
            "landlock",
            "the kernel has none, or it is off: compiles are observed, which takes longer",
        )
        .help("Linux 5.13 or later has it; `lsm=landlock,...` on the kernel's command line turns it on"),
    }]
}

/// CANN. It is a note that there is none, unless the target needs it.
pub(super) fn cann(common: &CompileArgs) -> Vec<Row> {
    let is_needed = !is_cpu(common.target());
    let scratch = TempDir::create_in(&std::env::temp_dir(), "opkeep-doctor-");
    let config = match setup::ascend(common) {
        Ok(config) => config,
        Err(error) => return vec![Row::error("cann", &error).prevents_builds(is_needed)],
    };
    // The answers of a toolkit are removed as well.
    let config = match &scratch {
        Ok(scratch) => config.keep_answers_below(scratch.path()),
        Err(_) => config,
    };
    let found = ascend(&config);
    let mut rows = Vec::new();
    match found.toolkit() {
        Ok(toolkit) => {
            rows.push(Row::ok("cann", toolkit));
            rows.extend(found.warnings().iter().map(|warning| Row::note("cann", warning.clone())));
        }
        Err((problem, help)) if found.is_ok && !is_needed => rows.push(Row::note("cann", problem).help(help)),
        Err((problem, help)) => {
            let row = Row::problem("cann", problem).help(help).prevents_builds(is_needed);
            rows.push(found.missing().fold(row, Row::help));
        }
    }
    if is_needed && found.toolkit().is_ok() {
        rows.push(match setup::backend(common, common.target()) {
            Ok(_) => Row::ok("target", format!("{}: the toolkit has this chip", common.target())),
            Err(error) => Row::problem("target", chain(&error))
                .help("`opkeep targets` lists the chips of the toolkit")
                .prevents_builds(true),
        });
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::super::row::Status;
    use super::*;

    #[test]
    fn a_static_command_is_a_note_that_says_what_runs_kernels() {
        let row = not_run("cpu", BackendError::StaticProgram);
        assert_eq!((row.status, row.prevents_builds), (Status::Note, false));
        assert!(row.finding.starts_with("compiled for cpu, not run: this program is statically linked"));
        assert!(row.help[0].contains("dynamically linked opkeep"), "{:?}", row.help);
    }
}
