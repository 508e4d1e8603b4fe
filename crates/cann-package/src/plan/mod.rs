//! The tasks of a build tree, by the commands that the build generated.
//!
//! A task compiles one operator for one row of types and formats. Three systems of builds have a script for each task
//! (`gen/*.sh`, vllm-ascend and msopgen), or a line of one file (`opc_cmd.sh`, ops-nn). What a task reads is known as far as the
//! tree shows it: its parameter file, its Python, the copied sources, and what these include.

mod commands;
mod inputs;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use opkeep_fs::CancelToken;

use crate::error::PackageError;
use crate::locate::{PackageFiles, PackageKind, UnitFiles};
use crate::package_dir::PackageDir;
use crate::tree::FileTree;
use commands::Command;
use inputs::{Inputs, InputsOf};

/// The tasks of a build tree.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BuildPlan {
    /// The directory of the build, below the one that was named; empty for that itself.
    pub path: PathBuf,
    /// The tasks, by unit and command.
    pub tasks: Vec<PlannedTask>,
    /// Commands that cannot be read, with the reason.
    pub unreadable: Vec<(PathBuf, String)>,
}

/// A task of a build.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PlannedTask {
    /// The chip family.
    pub unit: String,
    /// The operator.
    pub operator: String,
    /// The name of the kernel, which is that of its files.
    pub kernel: String,
    /// The script, or the file with the command's line.
    pub command: PathBuf,
    /// The number of the line, if the file has a line for each task.
    pub line: Option<usize>,
    /// The program that it runs: `opc` or `asc_opc`.
    pub compiler: String,
    /// Which of its files are there.
    pub state: TaskState,
    /// The files that are there.
    pub files: Vec<PathBuf>,
    inputs: Inputs,
}

/// Which files of a task are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskState {
    /// The object and its `.json`.
    Built,
    /// One of the two.
    Partial,
    /// Neither.
    NotBuilt,
}

impl TaskState {
    /// Its name for messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Built => "built",
            Self::Partial => "partial",
            Self::NotBuilt => "not built",
        }
    }
}

impl PlannedTask {
    /// Whether the task reads the file at an absolute path. `inner` is its path in the tree, if it is in it, and `is_made` whether the
    /// build made it: all else the tree may have a copy of.
    fn reads(&self, source: &Path, inner: Option<&Path>, is_made: bool) -> bool {
        inner.is_some_and(|inner| self.inputs.in_tree.contains(inner))
            || !is_made && (self.inputs.outside.contains(source) || self.inputs.is_copy(source))
    }
}

impl PackageDir {
    /// The tasks of the build trees in the directory.
    ///
    /// # Errors
    /// [`PackageError::NoBuildTree`], [`PackageError::Cancelled`].
    pub fn plan(&self, cancel: &CancelToken) -> Result<Vec<BuildPlan>, PackageError> {
        let builds = self.packages.iter().filter(|package| package.kind == PackageKind::BuildTree);
        let plans: Vec<BuildPlan> =
            builds.map(|package| plan(&self.tree, package, cancel)).collect::<Result<_, _>>()?;
        match plans.is_empty() {
            true => Err(PackageError::NoBuildTree { path: self.tree.root().to_owned() }),
            false => Ok(plans),
        }
    }

    /// The tasks of a plan that read `source`, as far as the tree shows it. A missing file counts by its path.
    pub fn readers<'p>(&self, plan: &'p BuildPlan, source: &Path) -> Vec<&'p PlannedTask> {
        let source = self.tree.real(source);
        let inner = source.strip_prefix(self.tree.root()).ok();
        let is_made = inner
            .is_some_and(|inner| ["binary", "tbe"].iter().any(|dir| inner.starts_with(plan.path.join(dir))));
        plan.tasks.iter().filter(|task| task.reads(&source, inner, is_made)).collect()
    }
}

fn plan(tree: &FileTree, package: &PackageFiles, cancel: &CancelToken) -> Result<BuildPlan, PackageError> {
    let mut plan = BuildPlan { path: package.path.clone(), ..BuildPlan::default() };
    for unit in &package.units {
        // Found by name, since a command has paths of the directory in which the tree was made.
        let unit_dir = unit.base.parent().unwrap_or(Path::new(""));
        let mut by_name: BTreeMap<&str, Vec<&Path>> = BTreeMap::new();
        for (path, _) in tree.below(unit_dir) {
            if let Some(name) = path.file_name().and_then(|name| name.to_str()) {
                by_name.entry(name).or_default().push(path);
            }
        }
        let built = built_files(unit);
        let mut inputs = InputsOf::new(tree, &package.path, &unit.name);
        let (commands, unreadable) = commands::of_unit(tree, unit_dir);
        plan.unreadable.extend(unreadable);
        for command in commands {
            if cancel.is_cancelled() {
                return Err(PackageError::Cancelled);
            }
            match command.kernels(tree, &by_name) {
                Ok((params, kernels)) => {
                    let inputs = inputs.of(&command, &params);
                    plan.tasks.extend(kernels.into_iter().map(|(operator, kernel)| {
                        task(unit, &command, (operator, kernel), &built, inputs.clone())
                    }));
                }
                Err(why) => plan.unreadable.push((command.file.clone(), why)),
            }
        }
    }
    Ok(plan)
}

/// The files of kernels, by the names of the kernels.
fn built_files(unit: &UnitFiles) -> BTreeMap<&str, Vec<&Path>> {
    let mut built: BTreeMap<&str, Vec<&Path>> = BTreeMap::new();
    for (place, files) in &unit.kernels {
        let name = place.rsplit('/').next().unwrap_or_default();
        let found = [&files.object, &files.json].into_iter().flatten().map(PathBuf::as_path);
        built.entry(name).or_default().extend(found);
    }
    built
}

fn task(
    unit: &UnitFiles,
    command: &Command,
    (operator, kernel): (String, String),
    built: &BTreeMap<&str, Vec<&Path>>,
    inputs: Inputs,
) -> PlannedTask {
    let files = |name: &str| built.get(name).cloned().unwrap_or_default();
    let own = files(&kernel);
    let kinds: BTreeSet<_> = opkeep_order::set(own.iter().filter_map(|path| path.extension()));
    let state = match kinds.len() {
        0 => TaskState::NotBuilt,
        1 => TaskState::Partial,
        _ => TaskState::Built,
    };
    let twins = files(&format!("{kernel}_deterministic"));
    PlannedTask {
        unit: unit.name.clone(),
        operator,
        kernel,
        command: command.file.clone(),
        line: command.line,
        compiler: command.compiler.clone(),
        state,
        files: own.into_iter().chain(twins).map(Path::to_owned).collect(),
        inputs,
    }
}
