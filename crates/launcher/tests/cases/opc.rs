//! `asc_opc` of the stand-in toolkit, run with a launcher, each hit compared with a run without one.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use opkeep_embed::{FileCacheConfig, StoreConfig};
use opkeep_launcher::opc::{NotCached, Opc};
use opkeep_launcher::{How, Invocation, Launcher, LauncherConfig, Reason, Roots};
use opkeep_testkit::toolkit::package::{
    PackageInstallation, PackageToolkit, Project, ProjectTask, ProjectTree,
};
use opkeep_testkit::{PlainDigests, far_dir};

use crate::outputs::{Sink, Texts, snapshot};

struct Bench {
    dir: tempfile::TempDir,
    /// The toolkit's place.
    _far: tempfile::TempDir,
    installed: PackageInstallation,
    digests: Arc<PlainDigests>,
}

struct Built {
    how: How,
    code: Option<i32>,
    texts: Texts,
}

impl Bench {
    fn new() -> Self {
        let (dir, far) = (tempfile::tempdir().unwrap(), far_dir().unwrap());
        let at = fs::canonicalize(far.path()).unwrap();
        let installed = PackageToolkit::new().write(&at.join("Ascend")).unwrap();
        Self { dir, _far: far, installed, digests: Arc::default() }
    }

    fn project(&self, project: &Project, name: &str) -> ProjectTree {
        let at = fs::canonicalize(self.dir.path()).unwrap();
        let project = project.write(&at.join(name), &self.installed).unwrap();
        project.copy_sources().unwrap();
        project
    }

    fn run(&self, project: &ProjectTree, task: &ProjectTask, further: &[&str]) -> Built {
        self.run_with(project, task, further, &[])
    }

    /// Runs a task with further roots.
    fn run_with(
        &self,
        project: &ProjectTree,
        task: &ProjectTask,
        further: &[&str],
        roots: &[(&str, &Path)],
    ) -> Built {
        let command = project.asc_opc(task).unwrap();
        let mut invocation = invocation(&command);
        invocation.args.extend(further.iter().map(OsString::from));
        let log = fs::canonicalize(self.installed.root()).unwrap().join("opkeep_standin");
        let opc = Opc::read(invocation).unwrap().with_logs([log]);
        let cache = FileCacheConfig::new(StoreConfig::new(self.dir.path().join("store")), "opc");
        let mut config = LauncherConfig::new(cache, self.digests.clone());
        let own = [("project", project.folder())];
        let roots = roots.iter().chain(&own);
        config.roots =
            Roots::new(roots.map(|(name, path)| ((*name).to_owned(), (*path).to_owned()))).unwrap();
        let launcher = Launcher::open(config).unwrap();
        let work = tempfile::tempdir().unwrap();
        let mut sink = Sink { texts: Texts::default(), on_write: &|_| {} };
        opc.make_output_dir().unwrap();
        let ran = opc.with_task(work.path(), |task| launcher.run(task, &mut sink)).unwrap();
        Built { how: ran.how, code: ran.status.code(), texts: sink.texts }
    }

    /// Runs a task that is a hit, and compares its files and its texts with those of the command itself.
    fn hit(&self, project: &ProjectTree, task: &ProjectTask) {
        empty(&task.output);
        let built = self.run(project, task, &[]);
        assert_eq!((&built.how, built.code), (&How::Hit, Some(0)));
        let files = snapshot(&task.output);
        assert!(!files.is_empty());
        empty(&task.output);
        let ended = project.asc_opc(task).unwrap().output().unwrap();
        assert_eq!(Texts { out: ended.stdout, err: ended.stderr }, built.texts);
        assert_eq!(snapshot(&task.output), files);
    }
}

/// Removes the files in a directory. The directory itself stays, with its mode, which a task sees.
fn empty(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
}

fn invocation(command: &Command) -> Invocation {
    let env = command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
    Invocation {
        program: command.get_program().into(),
        args: command.get_args().map(OsString::from).collect(),
        env: env.collect(),
        dir: command.get_current_dir().map(Path::to_owned).unwrap(),
    }
}

fn task(project: &ProjectTree, op_type: &str) -> ProjectTask {
    project.tasks().unwrap().into_iter().find(|task| task.op_type == op_type).unwrap()
}

/// Sets the date of every file below a directory to now.
fn touch(dir: &Path) {
    let found = Command::new("find").arg(dir).args(["-exec", "touch", "-h", "{}", "+"]).status().unwrap();
    assert!(found.success());
}

pub(crate) fn every_task_is_compiled_once_whatever_lies_where() {
    let bench = Bench::new();
    for (number, project) in
        [Project::vllm(), Project::nn().tasks(2), Project::msopgen().tasks(2)].iter().enumerate()
    {
        let first = bench.project(project, &format!("{number}/first"));
        let tasks = first.tasks().unwrap();
        for task in &tasks {
            let built = bench.run(&first, task, &[]);
            assert_eq!((built.how, built.code), (How::Compiled, Some(0)), "{task:?}");
        }
        touch(first.folder());
        bench.installed.forget().unwrap();
        tasks.iter().for_each(|task| bench.hit(&first, task));
        // The other directory has another home directory and other paths in the generated Python.
        let second = bench.project(project, &format!("{number}/another/second"));
        for task in second.tasks().unwrap() {
            bench.hit(&second, &task);
        }
        // Those to compare with.
        assert_eq!(bench.installed.runs_of("asc_opc").unwrap().len(), 2 * tasks.len());
    }
}

/// What a task reads, and a change of it, with the operators whose tasks compile again.
pub(crate) fn a_change_compiles_what_reads_it() {
    let bench = Bench::new();
    let project = bench.project(&Project::vllm().tasks(2), "project");
    let tasks = project.tasks().unwrap();
    let compiled = || -> Vec<String> {
        let again = tasks.iter().filter(|task| {
            let built = bench.run(&project, task, &[]);
            assert_eq!(built.code, Some(0));
            assert!([How::Hit, How::Compiled].contains(&built.how), "{:?}", built.how);
            built.how != How::Hit
        });
        again.map(|task| task.op_type.clone()).collect()
    };
    let all: Vec<String> = tasks.iter().map(|task| task.op_type.clone()).collect();
    assert_eq!(compiled(), all);
    assert!(compiled().is_empty());
    let comment = |text: String| text + "\n// changed\n";
    let hash_comment = |text: String| text + "\n# changed\n";

    bench.installed.edit(&project.source("AddCustom", "add_custom.cpp").unwrap(), comment).unwrap();
    project.copy_sources().unwrap();
    assert_eq!(compiled(), ["AddCustom"]);

    let toolkit: [(PathBuf, &dyn Fn(String) -> String); 4] = [
        (bench.installed.host_path("tikcpp/tikcfw/kernel_operator.h"), &comment),
        (
            bench.installed.path("python/site-packages/asc_op_compile_base/asc_op_compiler/compile_op.py"),
            &hash_comment,
        ),
        (bench.installed.op_info("Ascend910B"), &|text| text + " "),
        (bench.installed.platform_config("Ascend910B1"), &|text| text + "\n"),
    ];
    for (path, change) in toolkit {
        bench.installed.edit(&path, change).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(compiled(), all, "{}", path.display());
    }
    assert!(compiled().is_empty());
}

pub(crate) fn failures_and_unusual_command_lines_are_as_they_are() {
    let bench = Bench::new();
    let project = bench.project(&Project::vllm(), "project");
    let add = task(&project, "AddCustom");
    // The only failure that the scripts take for a success.
    for _ in 0..2 {
        let built = bench.run(&project, &add, &["--tiling_key=777"]);
        assert_eq!((built.how, built.code), (How::NotKept(Reason::Failed), Some(1)));
        let text = String::from_utf8(built.texts.out).unwrap();
        assert!(text.contains("None of the given tiling keys are in the supported list"), "{text}");
    }
    let mut unusual = invocation(&project.asc_opc(&add).unwrap());
    unusual.args.push("--op_debug_config=dump_cce".into());
    assert!(matches!(Opc::read(unusual), Err(NotCached::KeepsWorkDir { .. })));
    // A lock of a killed run in the directory fails the command itself; a run with a directory of its own does not see it.
    let lock = add.dir.join(format!("kernel_meta_{}", add.name));
    fs::create_dir_all(&lock).unwrap();
    fs::write(lock.join("kernel_meta.lock"), "999999").unwrap();
    assert!(!project.asc_opc(&add).unwrap().output().unwrap().status.success());
    let built = bench.run(&project, &add, &[]);
    assert_eq!((built.how, built.code), (How::Compiled, Some(0)));
}

/// The order of a list that a script joins from a set is not that of its elements.
pub(crate) fn a_set_has_no_order() {
    let bench = Bench::new();
    let project = bench.project(&Project::vllm(), "project");
    let add = task(&project, "AddCustom");
    let how = |option: &str| bench.run(&project, &add, &[option]).how;
    assert_eq!(how("--op_debug_config=oom,check_flag"), How::Compiled);
    assert_eq!(how("--op_debug_config=check_flag,oom"), How::Hit);
    assert_eq!(how("--op_debug_config=check_flag"), How::Compiled);
}

/// A relative path may lead from a project to a toolkit beside it: the result is that of this place, unless the toolkit is a root as well and
/// both lie to each other as before.
pub(crate) fn a_toolkit_beside_a_project() {
    let mut bench = Bench::new();
    let mut how = |place: &str, is_root: bool| {
        let at = fs::canonicalize(bench.dir.path()).unwrap().join(place);
        let toolkit = at.join("Ascend");
        bench.installed = PackageToolkit::new().write(&toolkit).unwrap();
        let project = bench.project(&Project::vllm(), &format!("{place}/project"));
        let roots = [("toolkit", toolkit.as_path())];
        let task = task(&project, "AddCustom");
        let built = bench.run_with(&project, &task, &[], &roots[..usize::from(is_root)]);
        assert_eq!(built.code, Some(0));
        if built.how == How::Hit {
            let files = snapshot(&task.output);
            fs::remove_dir_all(&task.output).unwrap();
            let ended = project.asc_opc(&task).unwrap().output().unwrap();
            assert_eq!(Texts { out: ended.stdout, err: ended.stderr }, built.texts);
            assert_eq!(snapshot(&task.output), files);
        }
        built.how
    };
    assert_eq!((how("one", false), how("two/deeper", false)), (How::Compiled, How::Compiled));
    assert_eq!((how("three", true), how("four/deeper", true)), (How::Compiled, How::Hit));
}
