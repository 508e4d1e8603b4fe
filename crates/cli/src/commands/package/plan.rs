//! `opkeep package plan`: the tasks of a build tree, and which of them read a source.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use opkeep_cann_package::{BuildPlan, PackageDir, PackageError, PlannedTask, TaskState};
use opkeep_fs::CancelToken;
use serde::Serialize;

use super::paths::path_in;
use crate::ui::config::Verbosity;
use crate::ui::json::{self, FileError};
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::{Text, columns, counted};

/// The details of plan.
const DETAILS: &str = "\
The tasks are those of the commands that the build generated: a script for each (gen/*.sh, as
vllm-ascend and msopgen write them), or a line of opc_cmd.sh for each (ops-nn). A task is built if its
object and its .json are there, and partial if one of them is; whether they are up to date is not
known. What is cached is not shown: opkeep opc finds it when the build runs the task.

Tasks that are built are counted, and listed with -v. With --source, the tasks that read the file are
listed, as far as the tree shows it: their parameter file, generated Python, copied sources and what
these include. Headers of the toolkit, and those that only headers outside DIR include, do not show.
A source is known by its path, which need not exist: the tree has a copy of its file, in a directory
of the operator's name.

Exit code 0: done; 2: DIR or a command in it cannot be read, or DIR has no build tree.

Examples:
  opkeep package plan csrc/build
    counts what is built, and lists what is not
  opkeep package plan csrc/build --source csrc/add/op_kernel/add.cpp
    lists the tasks that read a source";

/// List the tasks of a build tree, and which of them read a source
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    /// The tree of a build
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// List only tasks that read this file; may be repeated
    #[arg(long, value_name = "FILE")]
    source: Vec<PathBuf>,
}

/// The maximum number of tasks that are listed in text.
const MAX_LISTED: usize = 50;

/// The result as JSON.
#[derive(Serialize)]
struct PackagePlanOutput {
    tasks: usize,
    built: usize,
    partial: usize,
    not_built: usize,
    builds: Vec<BuildOutput>,
    sources: Vec<SourceOutput>,
    unusable: Vec<FileError>,
}

#[derive(Serialize)]
struct BuildOutput {
    build: String,
    tasks: Vec<TaskOutput>,
}

#[derive(Serialize)]
struct TaskOutput {
    unit: String,
    operator: String,
    kernel: String,
    state: &'static str,
    compiler: String,
    command: String,
    line: Option<usize>,
    files: Vec<String>,
}

#[derive(Serialize)]
struct SourceOutput {
    source: String,
    kernels: Vec<KernelOutput>,
}

#[derive(Serialize)]
struct KernelOutput {
    unit: String,
    kernel: String,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    let cancel = output.cancel_on_signal();
    let (dir, plans) = match planned(&args.dir, &cancel) {
        Err(PackageError::Cancelled) => {
            output.print_interrupted(false);
            return Ok(ExitStatus::Interrupted);
        }
        planned => planned?,
    };
    let found = dir.unreadable().iter().chain(plans.iter().flat_map(|plan| &plan.unreadable));
    let unusable: Vec<_> = found.map(|(path, why)| (path_in(&args.dir, path), why)).collect();
    for (path, why) in &unusable {
        output.print_error(&anyhow::anyhow!("cannot read `{}`: {why}", path.display()));
    }
    let readers: Vec<Vec<&PlannedTask>> = args
        .source
        .iter()
        .map(|source| plans.iter().flat_map(|plan| dir.readers(plan, source)).collect())
        .collect();
    let text = text_of(args, &plans, &readers, output.verbosity() > Verbosity::Normal);
    let unusable: Vec<FileError> = unusable.iter().map(|(path, why)| FileError::new(path, why)).collect();
    let status = if unusable.is_empty() { ExitStatus::Success } else { ExitStatus::Failed };
    output.print_result(&text, &output_of(args, &plans, &readers, unusable))?;
    Ok(status)
}

fn planned(dir: &Path, cancel: &CancelToken) -> Result<(PackageDir, Vec<BuildPlan>), PackageError> {
    let opened = PackageDir::open(dir, cancel)?;
    let plans = opened.plan(cancel)?;
    Ok((opened, plans))
}

fn tasks(plans: &[BuildPlan]) -> impl Iterator<Item = &PlannedTask> {
    plans.iter().flat_map(|plan| &plan.tasks)
}

fn text_of(args: &Args, plans: &[BuildPlan], readers: &[Vec<&PlannedTask>], lists_all: bool) -> Text {
    let mut text = Text::default();
    let is_listed = |task: &&PlannedTask| lists_all || task.state != TaskState::Built;
    match readers {
        [] => text.append(&table(tasks(plans).filter(is_listed))),
        _ => {
            for (source, readers) in args.source.iter().zip(readers) {
                text.append(&table(readers.iter().copied()));
                text.line(format_args!(
                    "{} is read by {} of {}",
                    source.display(),
                    readers.len(),
                    counted(tasks(plans).count(), "task")
                ));
            }
        }
    }
    let mut units: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for task in tasks(plans) {
        units.entry(&task.unit).or_default()[place(task.state)] += 1;
    }
    for (unit, [built, partial, not_built]) in units {
        let all = counted(built + partial + not_built, "task");
        text.line(format_args!("{unit}: {all}: {built} built, {partial} partial, {not_built} not built"));
    }
    if text.is_empty() {
        text.line("no task");
    }
    text
}

fn place(state: TaskState) -> usize {
    match state {
        TaskState::Built => 0,
        TaskState::Partial => 1,
        _ => 2,
    }
}

fn table<'t>(tasks: impl Iterator<Item = &'t PlannedTask>) -> Text {
    let row = |task: &PlannedTask| {
        [task.state.name(), &task.unit, &task.operator, &task.kernel].map(str::to_owned).to_vec()
    };
    let rows: Vec<Vec<String>> = tasks.map(row).collect();
    let mut text = columns("", &rows[..rows.len().min(MAX_LISTED)]);
    if rows.len() > MAX_LISTED {
        text.line(format_args!("and {} more: --format json lists all", rows.len() - MAX_LISTED));
    }
    text
}

fn output_of(
    args: &Args,
    plans: &[BuildPlan],
    readers: &[Vec<&PlannedTask>],
    unusable: Vec<FileError>,
) -> PackagePlanOutput {
    let count = |state: TaskState| tasks(plans).filter(|task| task.state == state).count();
    let kernel = |task: &&PlannedTask| KernelOutput { unit: task.unit.clone(), kernel: task.kernel.clone() };
    let sources = args.source.iter().zip(readers).map(|(source, readers)| SourceOutput {
        source: json::path(source),
        kernels: readers.iter().map(kernel).collect(),
    });
    PackagePlanOutput {
        tasks: tasks(plans).count(),
        built: count(TaskState::Built),
        partial: count(TaskState::Partial),
        not_built: count(TaskState::NotBuilt),
        builds: plans.iter().map(|plan| build_output(&args.dir, plan)).collect(),
        sources: sources.collect(),
        unusable,
    }
}

fn build_output(dir: &Path, plan: &BuildPlan) -> BuildOutput {
    let path = |path: &PathBuf| json::path(&path_in(dir, path));
    let task = |task: &PlannedTask| TaskOutput {
        unit: task.unit.clone(),
        operator: task.operator.clone(),
        kernel: task.kernel.clone(),
        state: task.state.name(),
        compiler: task.compiler.clone(),
        command: path(&task.command),
        line: task.line,
        files: task.files.iter().map(path).collect(),
    };
    BuildOutput { build: path(&plan.path), tasks: plan.tasks.iter().map(task).collect() }
}
