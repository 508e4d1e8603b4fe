//! Unexpected behaviour of the toolkit.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use opkeep_testkit::toolkit::{self, Part, Toolkit};
use serde_json::{Value, json};

use super::Case;
use super::bench::{Bench, conv2d, good_conv2d, reduce_sum, report, run, square, tensor, unary};

pub(crate) const CASES: &[Case] = &[
    ("convolutions_of_nchw_are_refused", formats),
    ("operators_with_a_deterministic_variant_are_compiled_twice", twins),
    ("directories_are_created_with_an_unusual_mode", odd_mode),
    ("a_lock_of_another_process_is_respected", locks),
    ("debug_levels_keep_the_files", debug_levels),
    ("a_newer_tool_reports_failures", asc_opc),
    ("the_environment_has_to_be_set", environment),
    ("a_python_that_lacks_something_cannot_start", pythons),
    ("the_python_of_tests_has_no_packages", packages),
    ("the_python_of_tests_compiles_no_library", no_sources),
    ("simplified_keys_are_made_when_asked_for", simplified_keys),
    ("the_text_of_descriptions_differs_from_step_to_step", text),
    ("without_a_compiler_one_directory_is_searched", no_compiler),
];

fn formats() {
    let bench = Bench::new();
    let run = bench.compile("Ascend910B1", &conv2d("NCHW", &[1, 16, 8, 8]), &[]);
    let expected = "the format of parameter[x] should be one of [NC1HWC0], but actually is [NCHW].";
    assert!(run.stdout.contains("'errCode': 'E60004'") && run.stdout.contains(expected), "{}", run.stdout);
    assert!(bench.pair("Conv2D_0123abcd").is_none());
    // The format requires five dimensions.
    let run = bench.compile("Ascend910B1", &conv2d("NC1HWC0", &[1, 16, 8, 8]), &[]);
    assert!(run.stdout.contains("'errCode': 'E80012'"), "{}", run.stdout);
    bench.compiled("Ascend910B1", &good_conv2d(), &[]);
    // Old chips do not compute in bfloat16.
    let x = tensor("bfloat16", "ND", &[3]);
    let square = unary("Square", &x, &[]);
    bench.compiled("Ascend910B1", &square, &[]);
    let run = bench.compile("Ascend910A", &square, &[]);
    assert!(run.stdout.contains("E80008"), "{}", run.stdout);
}

fn twins() {
    let bench = Bench::new();
    let (object, json) = bench.compiled("Ascend910B1", &reduce_sum(), &["--deterministic=all"]);
    let (twin_json, twin) = bench.pair("ReduceSum_0123abcd_deterministic").unwrap();
    let twin_fields: Value = serde_json::from_slice(&twin_json).unwrap();
    assert_ne!(object, twin);
    assert_eq!(twin_fields["binFileName"], "ReduceSum_0123abcd_deterministic");
    assert_eq!(twin_fields["kernelName"], json["kernelName"]);
    assert_eq!([&twin_fields["deterministic"], &json["deterministic"]], ["true", "false"]);
    let codes: Vec<_> =
        report("Ascend910B1", &twin_json, &twin).findings.iter().map(|it| it.code().to_string()).collect();
    assert_eq!(codes, ["OPV010"]);
    let asked: Vec<_> = bench.installed.compiles().unwrap().into_iter().map(|it| it.deterministic).collect();
    assert_eq!(asked, ["true", "false"]);
    // Other operators have one.
    bench.installed.forget().unwrap();
    bench.compiled("Ascend910B1", &square(), &["--deterministic=all"]);
    assert!(bench.pair("Square_0123abcd_deterministic").is_none());
    assert_eq!(bench.installed.compiles().unwrap().len(), 1);
}

fn odd_mode() {
    let bench = Bench::new();
    bench.compile("Ascend910B1", &square(), &[]);
    let mode = fs::metadata(bench.work().join("output")).unwrap().permissions().mode() & 0o7777;
    // 750 in decimal, less the process's umask.
    assert_eq!(mode & 0o700, 0o300, "{mode:o}");
}

fn locks() {
    let bench = Bench::new();
    let dir = bench.work().join("kernel_meta_Square_0123abcd");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("kernel_meta.lock"), "1").unwrap();
    let run = bench.compile("Ascend910B1", &square(), &[]);
    assert_eq!(run.code, Some(0));
    assert!(run.stdout.contains("Another process is using this dir"), "{}", run.stdout);
    assert!(bench.pair("Square_0123abcd").is_none() && dir.join("kernel_meta.lock").exists());
    fs::remove_dir_all(&dir).unwrap();
    bench.compiled("Ascend910B1", &square(), &[]);
    assert!(!dir.exists());
}

fn debug_levels() {
    let bench = Bench::new();
    let dir = bench.work().join("kernel_meta_Square_0123abcd/kernel_meta");
    let kept = |options: &[&str]| {
        let _ = fs::remove_dir_all(dir.parent().unwrap());
        bench.compiled("Ascend910B1", &square(), options);
        ["o", "json", "cce"].map(|suffix| dir.join(format!("Square_0123abcd.{suffix}")).exists())
    };
    assert_eq!(kept(&[]), [false; 3]);
    assert_eq!(kept(&["--op_debug_level=3"]), [true, true, false]);
    assert_eq!(kept(&["--op_debug_level=1"]), [true; 3]);
    assert_eq!(kept(&["--op_debug_config=dump_cce"]), [true; 3]);
    assert_eq!(kept(&["--op_debug_config=oom"]), [false; 3]);
}

fn asc_opc() {
    let bench = Bench::of(&Toolkit::new().version("9.1.0", "9.1.0.1.300"));
    let asc_opc = bench.installed.tool("asc_opc");
    let compile = |params: &Value, option: &str| {
        run(bench.command(&asc_opc).args(bench.arguments("Ascend910B1", params)).arg(option))
    };
    let failed = compile(&conv2d("NCHW", &[1, 16, 8, 8]), "--deterministic=false");
    assert_eq!(failed.code, Some(1));
    let compiled = compile(&square(), "--simplified_key_mode=0");
    assert_eq!(compiled.code, Some(0), "{}", compiled.stdout);
    assert!(bench.pair("Square_0123abcd").is_some());
    let unknown = compile(&square(), "--op_bank_path=somewhere");
    assert!(unknown.stdout.contains("option --op_bank_path not recognized"), "{}", unknown.stdout);
    assert!(!Bench::new().installed.tool("asc_opc").exists());
}

fn environment() {
    let bench = Bench::new();
    let opc = bench.installed.tool("opc");
    let without = |name: &str| {
        run(bench.command(&opc).args(bench.arguments("Ascend910B1", &square())).env_remove(name))
    };
    let run_without_path = without("PYTHONPATH");
    assert_eq!(run_without_path.code, Some(1));
    assert!(run_without_path.stderr.contains("No module named 'tbe'"), "{}", run_without_path.stderr);
    assert!(without("ASCEND_OPP_PATH").stdout.contains("op Square op_func_attr is None."));
    // Without Python, the shell reports the error.
    let mut command = bench.command("/bin/sh".as_ref());
    command.arg(&opc).env("HI_PYTHON", "no-such-python");
    let run = run(&mut command);
    assert_eq!(run.code, Some(127));
    assert!(run.stderr.contains("not found"), "{}", run.stderr);
}

/// What the machine's Python has does not reach the tests, and costs them no time.
fn packages() {
    let code = "import sys; print(sys.prefix == sys.base_prefix, [one for one in sys.path if one.endswith('-packages')])";
    let run = run(Bench::new().command(&super::bench::python()).env_remove("PYTHONPATH").args(["-c", code]));
    assert_eq!((run.stdout.lines().last(), run.code), (Some("False []"), Some(0)), "{}", run.stderr);
}

/// As far as the machine had bytecode when the library was copied: a Python makes some when it imports a module.
fn no_sources() {
    let said = |python: &Path, code: &str| {
        let run =
            run(Bench::new().command(python).env("PYTHONPYCACHEPREFIX", "/dev/null").args(["-c", code]));
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        run.stdout.trim_end().to_owned()
    };
    let (python, machines) = (super::bench::python(), toolkit::python_with_sources().unwrap());
    let code = "import json.decoder, sys; file = json.decoder.__file__\n\
        print(file.replace('decoder.py', '__pycache__/decoder.%s.pyc' % sys.implementation.cache_tag))";
    let changed = |path: &Path| fs::metadata(path).and_then(|found| found.modified());
    let library = changed(&python.with_file_name("../base")).unwrap();
    let had_bytecode = changed(said(&machines, code).as_ref()).is_ok_and(|bytecode| bytecode < library);
    let has_none = said(&python, "import json.decoder; print(json.decoder.__file__)").ends_with(".py");
    assert_eq!(has_none, !had_bytecode);
}

fn pythons() {
    let ended = |toolkit: Toolkit, code| {
        let bench = Bench::of(&toolkit);
        let run = bench.compile("Ascend910B1", &square(), &[]);
        assert_eq!(run.code, Some(code), "{}", run.stdout);
        run.stderr
    };
    let said = |toolkit| ended(toolkit, 1);
    assert!(said(Toolkit::new().without_module("numpy")).contains("No module named 'numpy'"));
    assert!(said(Toolkit::new().without_module("google")).contains("No module named 'google"));
    assert!(
        said(Toolkit::new().protobuf("4.25.1"))
            .contains("TypeError: Descriptors cannot be created directly.")
    );
    assert!(ended(Toolkit::new().without(Part::Python), 2).contains("can't open file"));
    let bench = Bench::new();
    let is_new = run(bench
        .command("python3".as_ref())
        .args(["-c", "import sys; sys.exit(sys.version_info < (3, 10))"]));
    if is_new.code == Some(0) {
        assert!(
            said(Toolkit::new().for_old_python()).contains("cannot import name 'Mapping' from 'collections'")
        );
    }
}

fn simplified_keys() {
    let bench = Bench::new();
    let (_, json) = bench.compiled("Ascend910B1", &square(), &["--simplified_key_mode=0"]);
    let keys = ["d=0,p=1", "d=0,p=0", "d=1,p=1", "d=1,p=0"].map(|key| json!(format!("Square/{key}/0,2/0,2")));
    assert_eq!(json["supportInfo"]["simplifiedKey"], json!(keys));
    assert_eq!(json["supportInfo"]["optionalInputMode"], "gen_placeholder");
}

fn text() {
    let bench = Bench::new();
    bench.compiled("Ascend910B1", &square(), &["--op_debug_level=3"]);
    let made = bench.work().join("kernel_meta_Square_0123abcd/kernel_meta/Square_0123abcd.json");
    let (made, given) = (fs::read_to_string(made).unwrap(), bench.pair("Square_0123abcd").unwrap().0);
    assert_eq!(made.as_bytes(), given);
    assert!(made.starts_with("{\n    \"KBHit\": false,\n    \"binFileName\": "), "{made}");
    // A master is not completed, so it is as TBE wrote it.
    bench
        .installed
        .rules(&[opkeep_testkit::toolkit::Rule::new(opkeep_testkit::toolkit::Fault::SplitMix)])
        .unwrap();
    bench.compile("Ascend910B1", &square(), &[]);
    let master = fs::read_to_string(bench.output("Square_0123abcd.json")).unwrap();
    assert!(master.starts_with("{\n    \"jsonList\":[\n"), "{master}");
}

fn no_compiler() {
    let bench = Bench::of(&Toolkit::new().without(Part::Compiler));
    let run = bench.compile("Ascend910B1", &square(), &[]);
    assert_eq!(run.code, Some(0));
    assert!(
        run.stdout.contains("run cmd compile error: ") && run.stdout.contains("CANN-1.84"),
        "{}",
        run.stdout
    );
    assert!(run.stdout.contains("'errCode': 'E40021'"), "{}", run.stdout);
}
