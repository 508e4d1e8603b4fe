//! How others take part in a compile: a ccache, make, and the shell line for 310P.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use opkeep_testkit::toolkit::package::{Project, ToolRun};
use opkeep_testkit::toolkit::{Fault, Rule};

use super::Case;
use super::bench::{Bench, run};

pub(super) const CASES: &[Case] = &[
    ("a_ccache_goes_before_the_compiler", a_ccache_goes_before_the_compiler),
    ("names_have_the_process_number_by_default", names_have_the_process_number_by_default),
    ("a_ccache_of_vllm_is_a_script_on_the_path", a_ccache_of_vllm_is_a_script_on_the_path),
    ("a_failed_compile_is_missed_by_the_linker", a_failed_compile_is_missed_by_the_linker),
    ("python_repeats_what_fails_and_make_does_not", python_repeats_what_fails_and_make_does_not),
    ("a_failed_compile_for_310p_is_repeated", a_failed_compile_for_310p_is_repeated),
    ("chips_of_whole_cores_compile", chips_of_whole_cores_compile),
];

/// A program at `path` that notes its words in `<path>.log`, and runs them.
fn noting(path: &Path) -> PathBuf {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let log = PathBuf::from(format!("{}.log", path.display()));
    fs::write(path, format!("#!/bin/sh\necho \"$@\" >> {}\nexec \"$@\"\n", log.display())).unwrap();
    run(Command::new("chmod").arg("755").arg(path));
    log
}

fn lines(log: &Path) -> Vec<String> {
    fs::read_to_string(log).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// If its text ends so. It gets both preprocessors, the trial and all keys, and neither links nor the selection of structs.
fn a_ccache_goes_before_the_compiler() {
    let bench = Bench::new();
    let program = bench.at("bin/opkeep-ccache");
    let log = noting(&program);
    let with = [("ASCENDC_CCACHE_EXECUTABLE", program.to_str().unwrap())];
    for (op_type, through) in [("AddCustom", 5), ("FusedMatmul", 4)] {
        let task = bench.task(op_type);
        let (object, _) = bench.compiled(&task, &["--deterministic=false"], &[]);
        bench.installed.forget().unwrap();
        let _ = fs::remove_file(&log);
        let (same, _) = bench.compiled(&task, &["--deterministic=false"], &with);
        assert!(object == same);
        let noted = lines(&log);
        assert_eq!(noted.len(), through, "{noted:#?}");
        let bisheng = bench.installed.path("compiler/ccec_compiler/bin/bisheng");
        for line in &noted {
            assert!(line.starts_with(&format!("{} ", bisheng.display())), "{line}");
            assert!(line.contains(" --cce-aicore-lang") && !line.contains(" -x cce"), "{line}");
        }
        let selects: Vec<ToolRun> = bench.installed.runs_of("bisheng").unwrap();
        assert_eq!(selects.iter().filter(|run| run.has("-DASCENDC_TILING_SELECT")).count(), through % 5 / 4);
    }
    // Its name has to end so.
    let task = bench.task("AddCustom");
    for name in ["ccache-4", "launcher"] {
        let other = bench.at(&format!("bin/{name}"));
        let log = noting(&other);
        bench.compiled(&task, &[], &[("ASCENDC_CCACHE_EXECUTABLE", other.to_str().unwrap())]);
        assert_eq!(lines(&log), [""; 0]);
    }
    let project = Project::nn().operators(&["GatherRows"]).unwrap().ccache(&program);
    let _ = fs::remove_file(&log);
    let bench = Bench::of(&project);
    assert_eq!(run(&mut bench.project.build(2)).code, Some(0));
    assert_eq!(lines(&log).len(), 4);
}

fn names_have_the_process_number_by_default() {
    let bench = Bench::new();
    let task = bench.task("GatherRows");
    let stub = |variables: &[(&str, &str)]| {
        bench.installed.forget().unwrap();
        bench.compiled(&task, &[], variables);
        let pid = bench.installed.runs_of("asc_opc").unwrap()[0].pid.to_string();
        let make = bench.installed.runs_of("make").unwrap().remove(0);
        assert!(make.value_of("-f").unwrap().ends_with(&format!("_tmp_aiv_{pid}.mk")), "{make:?}");
        let compile = bench.installed.kernel_compiles().unwrap().remove(0);
        let header = compile.value_of("-include").unwrap().to_owned();
        let source = compile.args.iter().find(|word| word.ends_with("_kernel.cpp")).unwrap().clone();
        [source, header].map(|path| path.rsplit_once(&task.name).unwrap().1.replace(&pid, "PID"))
    };
    assert_eq!(stub(&[("BIN_FILENAME_HASHED", "1")]), ["_kernel.cpp", "_tiling_data.h"]);
    assert_eq!(stub(&[("BIN_FILENAME_HASHED", "0")]), ["_PID_kernel.cpp", "_PID_tiling_data.h"]);
    let ccache = bench.at("ccache");
    noting(&ccache);
    let variables = [("BIN_FILENAME_HASHED", "0"), ("ASCENDC_CCACHE_EXECUTABLE", ccache.to_str().unwrap())];
    assert_eq!(stub(&variables), ["_kernel.cpp", "_tiling_data.h"]);
}

/// The compiler package knows nothing of it: `-x cce` stays.
fn a_ccache_of_vllm_is_a_script_on_the_path() {
    let folder = tempfile::TempDir::new().unwrap();
    let program = folder.path().join("ccache");
    let log = noting(&program);
    let bench = Bench::of(&Project::vllm().operators(&["GatherRows"]).unwrap().ccache(&program));
    let ran = run(&mut bench.project.build(2));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let noted = lines(&log);
    assert_eq!(noted.len(), 4, "{noted:#?}");
    assert!(noted.iter().all(|line| line.contains(" -x cce ") && !line.contains("--cce-aicore-lang")));
    assert_eq!(Bench::findings(&bench.project.tasks().unwrap()[0]), [""; 0]);
}

/// The exit code of make is ignored, unless there is a directory for logs.
fn a_failed_compile_is_missed_by_the_linker() {
    let bench = Bench::new();
    let task = bench.task("AddCustom");
    bench.installed.rules(&[Rule::new(Fault::Exit { code: 7 }).tool("bisheng").kernel("_2.o")]).unwrap();
    let ran = bench.compile(&task, &[], &[]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.contains("ld.lld -m aicorelinux -r") && ran.stdout.contains("_2.o"), "{ran:?}");
    assert!(!ran.stdout.contains("make failed"), "{ran:?}");
    let logs = bench.at("logs");
    let ran = bench.compile(
        &task,
        &[],
        &[("ASCENDC_BUILD_LOG_DIR", logs.to_str().unwrap()), ("ASCEND_SLOG_PRINT_TO_STDOUT", "1")],
    );
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.contains("make failed") && !ran.stdout.contains("ld.lld -m"), "{ran:?}");
    assert!(logs.join(format!("{}.log", task.name)).exists());
}

fn python_repeats_what_fails_and_make_does_not() {
    let bench = Bench::new();
    let task = bench.task("ScaleCustom");
    let (object, _) = bench.compiled(&task, &[], &[]);
    let rule =
        Rule::new(Fault::Fail { code: String::new(), message: "not at once".to_owned() }).tool("bisheng");
    // Two failures, and the third attempt is well.
    bench.installed.forget().unwrap();
    bench.installed.rules(&[rule.clone().kernel("_cube.i").times(2)]).unwrap();
    assert!(bench.compiled(&task, &[], &[]).0 == object);
    let tried: Vec<ToolRun> = bench.installed.runs_of("bisheng").unwrap().into_iter().take(3).collect();
    let flags = |run: &ToolRun| [run.has("-disable-machine-licm"), run.has("-disable-lsr")];
    assert_eq!(tried.iter().map(flags).collect::<Vec<_>>(), [[false, false], [true, false], [false, true]]);
    bench.installed.rules(&[rule.clone().kernel("_cube.i").times(3)]).unwrap();
    let ran = bench.compile(&task, &[], &[]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stdout.contains("run cmd compile error: ") && ran.stdout.contains("error: not at once"),
        "{ran:?}"
    );
    // Words that mean that no attempt will help.
    bench.installed.forget().unwrap();
    let unsupported = Fault::Fail { code: String::new(), message: "unsupported API".to_owned() };
    bench.installed.rules(&[Rule::new(unsupported).tool("bisheng").kernel("_cube.i")]).unwrap();
    assert_eq!(bench.compile(&task, &[], &[]).code, Some(1));
    assert_eq!(bench.installed.runs_of("bisheng").unwrap().len(), 1);
    // Make's only attempt.
    bench.installed.rules(&[rule.kernel("_264.o").times(1)]).unwrap();
    assert_eq!(bench.compile(&task, &[], &[]).code, Some(1));
    bench.compiled(&task, &[], &[]);
}

/// The first attempt's words are lost. The flag of the second is kept where clang knows nothing of it: in the object.
fn a_failed_compile_for_310p_is_repeated() {
    let bench = Bench::of(&Project::vllm().operators(&["GatherRows"]).unwrap().units(&["ascend310p"]));
    let task = bench.task("GatherRows");
    let (object, _) = bench.compiled(&task, &[], &[]);
    bench.installed.forget().unwrap();
    let too_far = Fault::Fail { code: String::new(), message: "jump is too far".to_owned() };
    bench.installed.rules(&[Rule::new(too_far).tool("ccec").times(1)]).unwrap();
    let ran = bench.compile(&task, &[], &[]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert!(fs::read(&task.files()[0]).unwrap() != object);
    let compiles = bench.installed.kernel_compiles().unwrap();
    let flags: Vec<bool> = compiles.iter().map(|run| run.has("-cce-aicore-jump-expand=true")).collect();
    assert_eq!(flags, [false, true, false]);
    assert!(compiles.iter().all(|run| run.has("--cce-aicore-arch=dav-m200") && run.has("-O2")));
    assert_eq!(Bench::findings(&task), [""; 0]);
}

fn chips_of_whole_cores_compile() {
    let bench = Bench::of(&Project::vllm().units(&["ascend310p"]));
    let ran = run(&mut bench.project.build(2));
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    for task in bench.project.tasks().unwrap() {
        assert_eq!(Bench::findings(&task), [""; 0], "{task:?}");
    }
    // One kind of cores, one preprocessor a task: and a twin, and a struct to be selected in both.
    let runs = bench.installed.runs_of("bisheng").unwrap();
    assert_eq!(runs.iter().filter(|run| run.has("-E") && !run.has("-DASCENDC_TILING_SELECT")).count(), 5);
}
