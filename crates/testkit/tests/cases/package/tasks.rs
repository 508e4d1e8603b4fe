//! One task: what `asc_opc` makes, and what it runs for that.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use opkeep_testkit::toolkit::package::{OPERATORS, Project};

use super::Case;
use super::bench::{Bench, pair, run};

pub(super) const CASES: &[Case] = &[
    ("all_operators_compile", all_operators_compile),
    ("runs_of_a_task", runs_of_a_task),
    ("objects_are_the_same_in_another_directory", objects_are_the_same_in_another_directory),
    ("a_link_to_the_command_works_and_a_copy_does_not", a_link_works_and_a_copy_does_not),
    ("exit_codes", exit_codes),
    ("locks", locks),
    ("the_work_folder_is_removed_or_kept", the_work_folder_is_removed_or_kept),
    ("rights_of_the_output", rights_of_the_output),
    ("tiling_keys_that_are_asked_for", tiling_keys_that_are_asked_for),
    ("deterministic_twins", deterministic_twins),
    ("a_later_success_hides_an_earlier_failure", a_later_success_hides_an_earlier_failure),
];

fn all_operators_compile() {
    let bench = Bench::new();
    let built = run(&mut bench.project.build(2));
    assert_eq!(built.code, Some(0), "{}{}", built.stdout, built.stderr);
    let tasks = bench.project.tasks().unwrap();
    assert_eq!(tasks.len(), OPERATORS.len());
    for (task, operator) in tasks.iter().zip(OPERATORS) {
        assert_eq!(Bench::findings(task), [""; 0], "{task:?}");
        let (_, json) = pair(task);
        let listed: Vec<u64> = json["kernelList"]
            .as_array()
            .unwrap()
            .iter()
            .map(|kernel| kernel["tilingKey"].as_u64().unwrap())
            .collect();
        assert_eq!(listed, operator.keys);
        assert_eq!(json["supportInfo"]["implMode"], "high_performance");
        // A mode that is optional counts for neither.
        assert!(json["supportInfo"]["simplifiedKey"].to_string().contains(",p=0/"));
        assert_eq!(json["supportInfo"]["opMode"], "dynamic");
    }
    // A second build does nothing, whatever has changed: stamps depend on nothing.
    bench
        .project
        .edit(&bench.project.source("AddCustom", "add_custom.cpp").unwrap(), |text| text + "#error\n")
        .unwrap();
    bench.installed.forget().unwrap();
    assert_eq!(run(&mut bench.project.build(2)).code, Some(0));
    assert_eq!(bench.installed.log().unwrap(), []);
}

/// The preprocessor twice, once more where a struct is selected, a trial where the source does not say which cores it is for, a
/// compile for each key and kind of core, vector cores first, and two links.
fn runs_of_a_task() {
    let bench = Bench::new();
    let of = |op_type: &str| {
        bench.installed.forget().unwrap();
        bench.compiled(&bench.task(op_type), &["--deterministic=false"], &[]);
        let log = bench.installed.log().unwrap();
        let word = |run: &opkeep_testkit::toolkit::package::ToolRun| match run.tool.as_str() {
            "bisheng" if run.has("-DASCENDC_TILING_SELECT") => "select".to_owned(),
            "bisheng" if run.has("-E") => "E".to_owned(),
            "bisheng" if run.value_of("-o").unwrap().contains("_infer_channel") => "trial".to_owned(),
            "bisheng" => {
                let key = run.args.iter().find_map(|word| word.strip_prefix("-DTILING_KEY_VAR="));
                let side = if run.has("--cce-aicore-arch=dav-c220-cube") { "cube" } else { "vec" };
                format!("{}{side}", key.unwrap())
            }
            "ld.lld" if run.has("-r") => "link".to_owned(),
            "ld.lld" => "place".to_owned(),
            tool => tool.to_owned(),
        };
        log.iter().map(word).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(of("AddCustom"), "asc_opc E E trial llvm-objdump make 1ULvec 2ULvec link llvm-objdump place");
    assert_eq!(of("ScaleCustom"), "asc_opc E E make 264ULvec 272ULvec 1ULvec link llvm-objdump place");
    assert_eq!(of("GatherRows"), "asc_opc E E llvm-objdump make 10ULvec 11ULvec link place");
    assert_eq!(of("FusedMatmul"), "asc_opc E E select make 1ULvec make 1ULcube link llvm-objdump place");
}

/// Nothing of the directory is in what is made, though sources and outputs are named by absolute paths.
fn objects_are_the_same_in_another_directory() {
    let [one, other] = [Bench::new(), Bench::new()];
    for operator in OPERATORS {
        let [first, second] = [&one, &other].map(|bench| {
            let task = bench.task(operator.op_type);
            let (object, _) = bench.compiled(&task, &[], &[]);
            (object, fs::read(&task.files()[1]).unwrap())
        });
        assert!(first == second, "{}", operator.op_type);
        for bytes in [&first.0, &first.1] {
            let text = String::from_utf8_lossy(bytes);
            assert!(!text.contains("csrc") && !text.contains("kernel_meta") && !text.contains(".cpp"));
        }
    }
}

fn a_link_works_and_a_copy_does_not() {
    let bench = Bench::new();
    let task = bench.task("ScaleCustom");
    let (link, copied) = (bench.at("link/asc_opc"), bench.at("copy/bin/asc_opc"));
    for path in [&link, &copied] {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
    }
    symlink(bench.installed.tool("asc_opc"), &link).unwrap();
    run(Command::new("cp").args([&bench.installed.tool("asc_opc"), &copied]));
    let ran = |program: &Path| {
        let command = bench.project.asc_opc(&task).unwrap();
        let mut through = bench.project.command(program);
        through.args(command.get_args()).current_dir(&task.dir);
        through.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        run(&mut through)
    };
    assert_eq!(ran(&link).code, Some(0));
    let failed = ran(&copied);
    assert_eq!(failed.code, Some(2));
    assert!(failed.stderr.contains("can't open file"), "{failed:?}");
}

fn exit_codes() {
    let bench = Bench::new();
    let task = bench.task("AddCustom");
    let of = |arguments: &[&str]| {
        let mut command = bench.project.command(&bench.installed.tool("asc_opc"));
        run(command.args(arguments).current_dir(&task.dir))
    };
    for (arguments, code, text) in [
        (&[][..], 0, "usage: asc_opc"),
        (&["--no_such_option=1"], 0, "usage: asc_opc"),
        (&["--help"], 0, "usage: asc_opc"),
        (&["--help", "--soc_version=Ascend910B1"], 1, "usage: asc_opc"),
        (&["--soc_version=Ascend910B1"], 1, ""),
        (&["--op_debug_level=x"], 1, ""),
    ] {
        let ran = of(arguments);
        assert_eq!(ran.code, Some(code), "{arguments:?} {ran:?}");
        assert!(ran.stdout.starts_with("Opc tool start working now, please wait for a moment.\n"), "{ran:?}");
        assert!(ran.stdout.contains(text), "{ran:?}");
    }
    assert_eq!(bench.compile(&task, &["--kernel-template-input=1"], &[]).code, Some(0));
    // A compile that fails, and an exception that nothing expects.
    assert_eq!(bench.compile(&task, &[], &[("PATH", "/usr/bin:/bin")]).code, Some(1));
    fs::write(&task.python, "import no_such_module\n").unwrap();
    assert_eq!(bench.compile(&task, &[], &[]).code, Some(1));
}

/// The folder has the kernel's name and nothing of the process, and a lock that a killed process left keeps everybody out.
fn locks() {
    let bench = Bench::new();
    let task = bench.task("AddCustom");
    let lock = task.dir.join(format!("kernel_meta_{}/kernel_meta.lock", task.name));
    fs::create_dir_all(lock.parent().unwrap()).unwrap();
    fs::write(&lock, "2147483647").unwrap();
    let ran = bench.compile(&task, &[], &[("ASCEND_SLOG_PRINT_TO_STDOUT", "1")]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.contains("Another process is using this dir"), "{ran:?}");
    assert!(lock.exists());
    // A directory of its own avoids it.
    bench.compiled(&task, &["--debug_dir=mine"], &[]);
    fs::remove_file(&lock).unwrap();
    bench.compiled(&task, &[], &[]);
}

fn the_work_folder_is_removed_or_kept() {
    let bench = Bench::new();
    let task = bench.task("GatherRows");
    let folder = task.dir.join(format!("kernel_meta_{}", task.name));
    bench.compiled(&task, &[], &[]);
    assert!(!folder.exists());
    bench.compiled(&task, &["--op_debug_config=dump_cce"], &[]);
    let names: Vec<String> = fs::read_dir(folder.join("kernel_meta"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap().replace(&task.name, "K"))
        .collect();
    for name in
        ["K.o", "K.json", "K_kernel.cpp", "K_tiling_data.h", "K_cube.i", "K_vec.i", "K_10.i", "K_11.i"]
    {
        assert!(names.iter().any(|found| found == name), "{name} is not among {names:?}");
    }
    assert!(!folder.join("kernel_meta.lock").exists());
}

fn rights_of_the_output() {
    let bench = Bench::new();
    let mut task = bench.task("AddCustom");
    bench.compiled(&task, &[], &[]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(task.files().map(|path| mode(&path)), [0o640, 0o640]);
    // 750 as a number of base ten is 0o1356.
    task.output = bench.at("output");
    let output = format!("--output={}", task.output.display());
    let ran = run(bench.project.asc_opc(&task).unwrap().arg(output));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(mode(&task.output) & 0o700, 0o200 | 0o100, "{:o}", mode(&task.output));
}

fn tiling_keys_that_are_asked_for() {
    let bench = Bench::new();
    let task = bench.task("ScaleCustom");
    let (_, json) = bench.compiled(&task, &["--tiling_key=272,4711"], &[]);
    assert_eq!(json["kernelList"].as_array().unwrap().len(), 1);
    assert_eq!(Bench::findings(&task), [""; 0]);
    for path in task.files() {
        fs::remove_file(path).unwrap();
    }
    let ran = bench.compile(&task, &["--tiling_key=4711"], &[]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.contains("None of the given tiling keys are in the supported list"), "{ran:?}");
    assert!(!task.files()[0].exists());
    // The script takes that for a success, of a build that asks for keys.
    let bench = Bench::of(&Project::vllm().tiling_keys("264"));
    let built = run(&mut bench.project.build(2));
    assert_eq!(built.code, Some(0), "{built:?}");
    let made: Vec<bool> =
        bench.project.tasks().unwrap().iter().map(|task| task.files()[0].exists()).collect();
    assert_eq!(made, [false, true, false, false]);
}

fn deterministic_twins() {
    let bench = Bench::new();
    let task = bench.task("FusedMatmul");
    let (object, json) = bench.compiled(&task, &[], &[]);
    let mut twin = task.clone();
    twin.name += "_deterministic";
    let (repeating, described) = pair(&twin);
    assert!(object != repeating);
    assert_eq!(json["supportInfo"]["deterministic"], "false");
    assert_eq!(described["supportInfo"]["deterministic"], "true");
    assert_eq!(described["binFileName"], twin.name.as_str());
    assert_eq!(described["kernelName"], task.name.as_str());
    let modes: Vec<bool> = bench
        .installed
        .kernel_compiles()
        .unwrap()
        .iter()
        .map(|run| run.has("-DDETERMINISTIC_MODE=1"))
        .collect();
    assert_eq!(modes, [true, true, false, false]);
    let compiles = bench.installed.compiles().unwrap();
    let asked: Vec<&str> = compiles.iter().map(|compile| compile.deterministic.as_str()).collect();
    assert_eq!(asked, ["true", "false"]);
    assert!(compiles.iter().all(|compile| compile.ended.is_some() && !compile.failed));
}

fn a_later_success_hides_an_earlier_failure() {
    let bench = Bench::new();
    let task = bench.task("AddCustom");
    let mut params: serde_json::Value = serde_json::from_slice(&fs::read(&task.params).unwrap()).unwrap();
    let mut broken = params["op_list"][0].clone();
    broken["bin_filename"] = "AddCustom_broken".into();
    broken["inputs"][0]["dtype"] = "complex64".into();
    params["op_list"].as_array_mut().unwrap().insert(0, broken);
    fs::write(&task.params, params.to_string()).unwrap();
    bench.compiled(&task, &[], &[]);
    params["op_list"].as_array_mut().unwrap().reverse();
    fs::write(&task.params, params.to_string()).unwrap();
    assert_eq!(bench.compile(&task, &[], &[]).code, Some(1));
    assert!(!task.output.join("AddCustom_broken.o").exists());
}
