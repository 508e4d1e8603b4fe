//! Whole builds, by each of the three systems.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::Duration;

use opkeep_testkit::toolkit::package::{Project, tools};
use opkeep_testkit::toolkit::{Fault, Rule};

use super::Case;
use super::bench::{Bench, Hanging, Run, pair, run, wait_until};

pub(super) const CASES: &[Case] = &[
    ("vllm_builds", vllm_builds),
    ("nn_builds", nn_builds),
    ("msopgen_builds", msopgen_builds),
    ("parts_of_super_kernels_are_tasks_of_their_own", parts_of_super_kernels_are_tasks_of_their_own),
    ("nn_collides_between_units", nn_collides_between_units),
    ("debug_words_are_in_any_order", debug_words_are_in_any_order),
    ("tokens_of_make_reach_the_compiles_of_a_task", tokens_reach_the_compiles_of_a_task),
];

/// Without Ninja it shows as ignored.
pub(super) const NINJA: Case = ("ninja_builds", ninja_builds);

pub(super) fn has_ninja() -> bool {
    tools().is_some_and(|machine| machine.ninja.is_some())
}

fn built(bench: &Bench, jobs: usize) -> Run {
    let ran = run(&mut bench.project.build(jobs));
    assert_eq!(ran.code, Some(0), "{}{}{}", ran.stdout, ran.stderr, bench.logs());
    ran
}

/// Each task has its files, which the validator takes, and stands in the index.
fn check(bench: &Bench, count: usize) {
    let tasks = bench.project.tasks().unwrap();
    assert_eq!(tasks.len(), count);
    let names: BTreeSet<_> = tasks.iter().map(|task| (&task.unit, &task.name)).collect();
    assert_eq!(names.len(), count);
    for task in &tasks {
        assert_eq!(Bench::findings(task), [""; 0]);
        let folder = task.output.parent().unwrap().parent().unwrap().join("config").join(&task.unit);
        let file = task.output.file_name().unwrap().to_str().unwrap();
        let index = fs::read_to_string(folder.join(format!("{file}.json"))).unwrap();
        assert!(index.contains(&format!("{}/{file}/{}.json", task.unit, task.name)));
        assert!(fs::read_to_string(folder.join("binary_info_config.json")).unwrap().contains(&task.name));
    }
    assert_eq!(bench.installed.runs_of("asc_opc").unwrap().len(), count);
}

fn vllm_builds() {
    let bench = Bench::of(&Project::vllm().tasks(6).units(&["ascend910b", "ascend910_93"]));
    built(&bench, 3);
    check(&bench, 12);
    // Both families have equal kernels, but for their names.
    let tasks = bench.project.tasks().unwrap();
    assert_eq!(pair(&tasks[0]).0, pair(&tasks[6]).0);
    // A build tree that is removed is built again.
    bench.project.clean().unwrap();
    bench.installed.forget().unwrap();
    built(&bench, 3);
    check(&bench, 12);
}

fn nn_builds() {
    let bench = Bench::of(&Project::nn().tasks(5));
    built(&bench, 3);
    check(&bench, 5);
    let task = &bench.project.tasks().unwrap()[0];
    let logs = task.output.parent().unwrap().parent().unwrap().join("build_logs");
    let mut count = 0;
    for entry in fs::read_dir(logs).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("] Build started: asc_opc "), "{text}");
        assert!(lines[1] == "Opc tool start working now, please wait for a moment.", "{text}");
        assert!(lines.last().unwrap().contains("] exe_time: ") && text.ends_with(" s\n"), "{text}");
        count += 1;
    }
    assert_eq!(count, 5);
    // Nothing is kept: a second build compiles all of it again, over the same names.
    built(&bench, 3);
    assert_eq!(bench.installed.runs_of("asc_opc").unwrap().len(), 10);
    // A task that takes too long is said to, and fails the build.
    bench.installed.rules(&[Rule::new(Fault::Exit { code: 124 }).op("AddCustom").times(1)]).unwrap();
    let ran = run(&mut bench.project.build(3));
    assert_eq!(ran.code, Some(2));
    assert!(ran.stdout.contains("TIMEOUT: asc_opc "), "{ran:?}");
}

fn msopgen_builds() {
    let bench = Bench::of(&Project::msopgen().tasks(6));
    built(&bench, 3);
    check(&bench, 6);
    let dirs: BTreeSet<_> =
        bench.installed.runs_of("asc_opc").unwrap().into_iter().map(|run| run.dir).collect();
    assert_eq!(dirs.len(), 6, "each has a directory of its own");
    assert!(dirs.iter().all(|dir| !dir.parent().unwrap().exists()), "which is removed");
}

fn parts_of_super_kernels_are_tasks_of_their_own() {
    let bench = Bench::of(&Project::vllm().relocatable());
    built(&bench, 3);
    let tasks = bench.project.tasks().unwrap();
    let (parts, whole): (Vec<_>, Vec<_>) = tasks.iter().partition(|task| task.name.ends_with("_relocatable"));
    assert_eq!([parts.len(), whole.len()], [4, 4]);
    for (part, whole) in parts.iter().zip(whole) {
        assert_eq!(part.name, format!("{}_relocatable", whole.name));
        assert_eq!([Bench::findings(part), Bench::findings(whole)], [[""; 0]; 2]);
        let (object, json) = pair(part);
        assert_eq!(object[16], 1, "it is relocatable");
        assert_eq!(json["sub_operator_op_type"], part.op_type.as_str());
        let config = part.output.parent().unwrap().parent().unwrap().join("config/ascend910b");
        let index = fs::read_to_string(config.join("relocatable_kernel_info_config.json")).unwrap();
        assert!(index.contains(&format!("{}.o", part.name)) && !index.contains(&format!("{}.o", whole.name)));
    }
    let second: Vec<_> =
        bench.installed.runs_of("ld.lld").unwrap().into_iter().filter(|run| !run.has("-r")).collect();
    assert_eq!(second.len(), 5, "none for parts, two for the one that has a twin");
}

fn ninja_builds() {
    let bench = Bench::of(&Project::vllm().tasks(5).ninja());
    built(&bench, 3);
    check(&bench, 5);
    built(&bench, 3);
    check(&bench, 5);
}

/// Kernels have the same names for all units, and all tasks run in one directory, so two units get in each other's way.
fn nn_collides_between_units() {
    let project = Project::nn().operators(&["GatherRows"]).unwrap().units(&["ascend910b", "ascend910_93"]);
    let bench = Bench::of(&project);
    let tasks = bench.project.tasks().unwrap();
    assert_eq!(tasks[0].name, tasks[1].name);
    assert_eq!(tasks[0].dir, tasks[1].dir);
    bench.project.copy_sources().unwrap();
    bench.installed.rules(&[Rule::new(Fault::Hang { deaf: false }).soc("Ascend910B1")]).unwrap();
    let first = Hanging::start(&mut bench.project.asc_opc(&tasks[0]).unwrap());
    let lock = tasks[0].dir.join(format!("kernel_meta_{}/kernel_meta.lock", tasks[0].name));
    wait_until(|| lock.exists());
    let second = bench.compile(&tasks[1], &[], &[]);
    first.kill();
    assert_eq!(second.code, Some(1));
    assert!(second.stdout.contains("Another process is using this dir"), "{second:?}");
    // The lock stays when its process is killed, so every later run fails.
    bench.installed.rules(&[]).unwrap();
    assert_eq!(bench.compile(&tasks[0], &[], &[]).code, Some(1));
}

/// They go through a set of Python's, whose order is another in each process.
fn debug_words_are_in_any_order() {
    let bench =
        Bench::of(&Project::vllm().operators(&["AddCustom"]).unwrap().debug_config("oom,ccec_g,check_flag"));
    let order = || {
        bench.project.configure().unwrap();
        let task = bench.project.tasks().unwrap().remove(0);
        task.arguments.iter().find_map(|word| word.strip_prefix("--op_debug_config=")).unwrap().to_owned()
    };
    let first = order();
    assert!((0..100).any(|_| order() != first), "{first}");
}

/// The inner make takes part in the outer one's job server, if `TILINGKEY_PAR_COMPILE` says that others compile as well.
fn tokens_reach_the_compiles_of_a_task() {
    let bench = Bench::of(&Project::vllm().operators(&["ScaleCustom"]).unwrap());
    let ran = built(&bench, 3);
    assert!(!ran.stderr.contains("jobserver unavailable"), "{}", ran.stderr);
    let makes = bench.installed.runs_of("make").unwrap();
    assert!(makes.iter().all(|run| !run.has("-j")), "{makes:?}");
    // While the compile of the first key hangs, another one begins.
    let task = bench.task("ScaleCustom");
    let begun = || {
        let compiles = bench.installed.kernel_compiles().unwrap();
        compiles
            .iter()
            .filter_map(|run| run.value_of("-o")?.rsplit('_').next())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    bench
        .installed
        .rules(&[Rule::new(Fault::Hang { deaf: false }).tool("bisheng").kernel("_264.o")])
        .unwrap();
    let starts = |command: &mut Command, waits_for: usize| {
        bench.installed.forget().unwrap();
        let hanging = Hanging::start(command);
        wait_until(|| begun().len() >= waits_for);
        std::thread::sleep(Duration::from_millis(200));
        hanging.kill();
        begun()
    };
    bench.project.clean().unwrap();
    let beside = starts(&mut bench.project.build(3), 3);
    assert_eq!(beside.len(), 3, "{beside:?}");
    // By itself, or below Ninja, a task compiles one key after the other.
    bench.project.copy_sources().unwrap();
    let alone = starts(bench.project.asc_opc(&task).unwrap().arg("--debug_dir=alone"), 1);
    assert_eq!(alone, ["264.o"]);
    bench.installed.rules(&[]).unwrap();
    bench.installed.forget().unwrap();
    bench.compiled(
        &task,
        &["--debug_dir=more"],
        &[("TILINGKEY_PAR_COMPILE", "0"), ("TILINGKEY_PARALLEL_JOB", "7")],
    );
    assert_eq!(bench.installed.runs_of("make").unwrap()[0].value_of("-j"), Some("7"));
}
