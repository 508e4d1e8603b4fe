//! Builds of operator packages with GNU make, whose `opc` is a link to opkeep.
#![expect(clippy::disallowed_methods, reason = "tests look at files")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "these tests are functions without `#[test]`")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use libtest_mimic::{Failed, Trial};
use opkeep_testkit::far_dir;
use opkeep_testkit::toolkit::package::{
    PackageInstallation, PackageToolkit, Project, ProjectTask, ProjectTree, tools,
};
use serde_json::Value;
use tempfile::TempDir;

use crate::common::Place;

type Test = fn() -> Result<(), Failed>;

pub(crate) fn trials() -> Vec<Trial> {
    // clang, a linker, objdump and make.
    let has_tools = tools().is_some();
    let tests: [(&str, bool, Test); 7] = [
        (
            "three_kinds_of_builds_compile_nothing_twice",
            has_tools,
            three_kinds_of_builds_compile_nothing_twice,
        ),
        ("build_trees_of_all_kinds_agree", has_tools, build_trees_of_all_kinds_agree),
        ("launchers_at_both_levels_keep_the_task", has_tools, launchers_at_both_levels_keep_the_task),
        ("two_builds_at_once_compile_each_task_once", has_tools, two_builds_at_once_compile_each_task_once),
        ("a_change_of_one_source_compiles_its_tasks", has_tools, a_change_of_one_source_compiles_its_tasks),
        ("what_is_not_cached_runs_as_it_is", true, what_is_not_cached_runs_as_it_is),
        (
            "a_file_of_another_program_is_not_replaced_by_a_link",
            true,
            a_file_of_another_program_is_not_replaced_by_a_link,
        ),
    ];
    let trial = |(name, is_possible, test): (&str, bool, Test)| {
        Trial::test(format!("packages::{name}"), test).with_ignored_flag(!is_possible)
    };
    tests.into_iter().map(trial).collect()
}

/// A toolkit, a store, and a directory with links. The toolkit and the links are not beside the projects: no relative path leads to them.
pub(crate) struct Bench {
    pub(crate) place: Place,
    pub(crate) at: PathBuf,
    far: TempDir,
    pub(crate) installed: PackageInstallation,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let place = Place::new();
        let at = fs::canonicalize(place.dir.path()).unwrap();
        let far = far_dir().unwrap();
        let installed =
            PackageToolkit::new().write(&fs::canonicalize(far.path()).unwrap().join("Ascend")).unwrap();
        let shims = far.path().join("shims");
        place.run(&["shim", "install", shims.to_str().unwrap()]).ended_with(0).prints("export PATH=");
        Self { place, at, far, installed }
    }

    /// Writes a project whose builds use the store.
    pub(crate) fn project(&self, project: &Project, folder: &str) -> ProjectTree {
        let folder = self.at.join(folder);
        let log = fs::canonicalize(self.installed.root()).unwrap().join("opkeep_standin");
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let project = project
            .clone()
            .path(&self.far.path().join("shims"))
            .env("OPKEEP_CACHE_DIR", &text(&self.at.join("store")))
            .env("OPKEEP_CONFIG", "/dev/null")
            .env("OPKEEP_ROOTS", &format!("project={}", folder.display()))
            .env("OPKEEP_LOG_DIRS", &text(&log))
            .env("TMPDIR", &text(&self.at.join("tmp")));
        project.write(&folder, &self.installed).unwrap()
    }

    fn compiles(&self) -> usize {
        let compiles = self.installed.runs_of("asc_opc").unwrap().len();
        self.installed.forget().unwrap();
        compiles
    }
}

pub(crate) fn build(project: &ProjectTree, jobs: usize) -> Output {
    let ended = project.build(jobs).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    ended
}

/// The bytes of both files of each task.
fn kernels(tasks: &[ProjectTask]) -> BTreeMap<String, Vec<u8>> {
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    let files = tasks.iter().flat_map(ProjectTask::files);
    files
        .map(|path| {
            (name(&path), fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
        })
        .collect()
}

fn three_kinds_of_builds_compile_nothing_twice() -> Result<(), Failed> {
    let bench = Bench::new();
    let kinds = [Project::vllm(), Project::nn().tasks(2), Project::msopgen().tasks(2)];
    for (number, kind) in kinds.iter().enumerate() {
        let first = bench.project(kind, &format!("{number}/first"));
        build(&first, 4);
        let tasks = first.tasks().unwrap();
        assert_eq!(bench.compiles(), tasks.len(), "{number}");
        let built = kernels(&tasks);
        // A new build tree has new dates, the other directory another home directory.
        first.clean().unwrap();
        build(&first, 2);
        assert_eq!((bench.compiles(), kernels(&tasks)), (0, built.clone()), "{number}");
        let second = bench.project(kind, &format!("{number}/another/place"));
        build(&second, 2);
        assert_eq!(bench.compiles(), 0, "{number}");
        assert_eq!(kernels(&second.tasks().unwrap()), built, "{number}");
        verified(&bench, &second.build_dir());
        // Without the links on PATH.
        let plain = kind.write(&bench.at.join(format!("{number}/plain")), &bench.installed).unwrap();
        build(&plain, 4);
        assert_eq!(bench.compiles(), tasks.len(), "{number}");
        assert_eq!(kernels(&plain.tasks().unwrap()), built, "{number}");
    }
    // The store knows the kernels.
    let listed = bench.place.run(&["ls", "--cache-dir", "store", "--format", "json"]).ended_with(0).json();
    let of_opc = listed["kernels"].as_array().unwrap().iter().filter(|kernel| kernel["framework"] == "opc");
    assert!(of_opc.count() >= 8, "{listed}");
    Ok(())
}

/// The result of the check of a build tree, whose files agree.
fn verified(bench: &Bench, build: &Path) -> Value {
    let args = ["package", "verify", build.to_str().unwrap(), "--format", "json"];
    let report = bench.place.run(&args).ended_with(0).json();
    let counts = &report["counts"];
    // Deterministic twins are called otherwise than their kernels, which is a note.
    assert_eq!((&counts["error"], &counts["warning"]), (&0.into(), &0.into()), "{report}");
    report
}

/// Kernels for several units, deterministic twins and relocatable ones.
fn build_trees_of_all_kinds_agree() -> Result<(), Failed> {
    let bench = Bench::new();
    let units = ["ascend910b", "ascend910_93"];
    for (number, project) in [
        Project::vllm().units(&units).relocatable(),
        Project::nn().units(&units),
        Project::msopgen().units(&units),
    ]
    .iter()
    .enumerate()
    {
        let project = bench.project(project, &format!("project{number}"));
        build(&project, 4);
        let report = verified(&bench, &project.build_dir());
        let units = report["packages"][0]["units"].as_array().unwrap();
        assert_eq!(units.len(), 2, "{report}");
        let of_tasks = project.tasks().unwrap().len();
        let kernels = report["kernels"].as_u64().unwrap();
        // Deterministic twins have no task of their own.
        assert!(usize::try_from(kernels).unwrap() >= of_tasks, "{kernels} {of_tasks}");
        if number > 0 {
            continue;
        }
        // A kernel that is damaged after the build, and one that is lost.
        let tasks = project.tasks().unwrap();
        let [object, json] = tasks[0].files();
        let mut bytes = fs::read(&object).unwrap();
        bytes[100] ^= 1;
        fs::write(&object, bytes).unwrap();
        tasks[1].files().iter().for_each(|file| fs::remove_file(file).unwrap());
        let build = project.build_dir();
        let ran = bench.place.run(&["package", "verify", build.to_str().unwrap()]).ended_with(1);
        let (damaged, lost) = (json.display().to_string(), tasks[1].files()[1].display().to_string());
        let lost = lost.rsplit('/').next().unwrap().to_owned();
        let ran = ran.prints(&format!("{damaged}: OPV005")).prints(&lost).prints("and there is no such file");
        ran.prints("1 refused");
    }
    Ok(())
}

/// Below an observed task, the compilers run as they are, and the task is kept.
fn launchers_at_both_levels_keep_the_task() -> Result<(), Failed> {
    let bench = Bench::new();
    let names = "opc,asc_opc,bisheng,ccec,opkeep-ccache";
    let shims = bench.far.path().join("shims");
    bench.place.run(&["shim", "install", shims.to_str().unwrap(), "--for", names]).ended_with(0);
    let kind = Project::nn().tasks(1).operators(&["AddCustom"])?.ccache(&shims.join("opkeep-ccache"));
    let first = bench.project(&kind, "first");
    build(&first, 4);
    assert_eq!(bench.compiles(), first.tasks().unwrap().len());
    let built = kernels(&first.tasks().unwrap());
    first.clean().unwrap();
    build(&first, 4);
    assert_eq!((bench.compiles(), kernels(&first.tasks().unwrap())), (0, built.clone()));
    let plain = Project::nn().tasks(1).operators(&["AddCustom"])?;
    let plain = plain.write(&bench.at.join("plain"), &bench.installed).unwrap();
    build(&plain, 4);
    assert_eq!(kernels(&plain.tasks().unwrap()), built);
    Ok(())
}

fn two_builds_at_once_compile_each_task_once() -> Result<(), Failed> {
    let bench = Bench::new();
    let projects = ["one", "other"].map(|name| bench.project(&Project::vllm(), name));
    std::thread::scope(|scope| {
        let builds = projects.each_ref().map(|project| scope.spawn(|| build(project, 4)));
        builds.into_iter().for_each(|build| drop(build.join().unwrap()));
    });
    assert_eq!(bench.compiles(), projects[0].tasks().unwrap().len());
    Ok(())
}

fn a_change_of_one_source_compiles_its_tasks() -> Result<(), Failed> {
    let bench = Bench::new();
    let project = bench.project(&Project::nn(), "project");
    build(&project, 4);
    bench.compiles();
    let source = project.source("AddCustom", "add_custom.cpp").unwrap();
    project.edit(&source, |text| text + "\n// changed\n").unwrap();
    project.clean().unwrap();
    build(&project, 4);
    let of_add = project.tasks().unwrap().iter().filter(|task| task.op_type == "AddCustom").count();
    assert_eq!(bench.compiles(), of_add);
    Ok(())
}

fn what_is_not_cached_runs_as_it_is() -> Result<(), Failed> {
    let place = Place::new();
    let real = place.script("real/opc", "echo \"$@\"; echo problem >&2; exit 7");
    place.run(&["shim", "install", "shims", "--for", "opc"]).ended_with(0);
    let path = format!("{}:{}", place.path("shims").display(), real.parent().unwrap().display());
    let link = place.path("shims/opc");
    let run = |args: &[&str], env: &[(&str, &str)]| {
        let mut command = place.program(&link, args);
        command.env("PATH", &path).envs(env.iter().copied());
        crate::common::ran(&mut command)
    };
    let as_it_is = |ran: &crate::common::Ran, args: &str| {
        assert_eq!((ran.stdout.trim_end(), ran.stderr.trim_end()), (args, "problem"), "{ran:?}");
    };
    as_it_is(&run(&["--help"], &[]).ended_with(7), "--help");
    as_it_is(
        &run(&["x.py", "--input_param=missing.json"], &[]).ended_with(7),
        "x.py --input_param=missing.json",
    );
    // The arguments of opc are no arguments of opkeep.
    as_it_is(&run(&["--version", "--", "-v"], &[]).ended_with(7), "--version -- -v");
    let command = ["opc", "-v", "--", real.to_str().unwrap(), "--graph=x"];
    place.run(&command).ended_with(7).says("not cached: it compiles a graph").prints("--graph=x");
    // A store that cannot be used costs nothing.
    place.write("task.json", r#"{"op_type": "Add", "op_list": [{"bin_filename": "Add_1"}]}"#);
    let task = ["a.py", "--input_param=task.json", "--soc_version=Ascend910B1", "--output=out"];
    let env = [("OPKEEP_CACHE_DIR", "/proc/nothing")];
    let ran = run(&task, &env).ended_with(7);
    assert!(ran.stdout.contains("--input_param=task.json") && ran.stderr.trim_end() == "problem", "{ran:?}");
    let missing =
        crate::common::ran(place.program(&link, &["x"]).env("PATH", place.path("shims"))).ended_with(2);
    missing.says("`opc` is not on PATH, apart from links to this program");
    Ok(())
}

fn a_file_of_another_program_is_not_replaced_by_a_link() -> Result<(), Failed> {
    let place = Place::new();
    place.script("shims/opc", "echo theirs");
    place
        .run(&["shim", "install", "shims"])
        .ended_with(2)
        .says("is not a link to this program: it stays as it is");
    assert_eq!(fs::read_to_string(place.path("shims/opc")).unwrap().lines().last(), Some("echo theirs"));
    Ok(())
}
