//! The options of `opc`, its exit status, and its output.

use serde_json::{Value, json};

use super::Case;
use super::bench::{Bench, attr, params, run, square, tensor, unary};

pub(crate) const CASES: &[Case] = &[
    ("exit_codes_say_little", exit_codes),
    ("help_is_a_success_only_alone", help),
    ("checks_of_options_are_those_of_the_vendor", checks),
    ("banks_that_are_not_there_are_only_warned_about", banks),
    ("parameter_files_are_checked", parameter_files),
    ("attributes_are_checked_and_filled_in", attributes),
    ("without_attributes_the_name_lands_in_their_place", no_attributes),
    ("the_log_is_where_it_is_asked_for", log),
];

const FIRST_LINE: &str = "Opc tool start working now, please wait for a moment.";

fn exit_codes() {
    let bench = Bench::new();
    let nchw = super::bench::conv2d("NCHW", &[1, 16, 8, 8]);
    for (run, code) in [
        (bench.opc(&[]), 0),
        (bench.opc(&["--nonsense=1"]), 0),
        (bench.opc(&["--aicore_num=two"]), 1),
        (bench.compile("Ascend910B1", &nchw, &[]), 0),
        (bench.compile("Ascend910B1", &square(), &["--deterministic=perhaps"]), 1),
        (bench.compile("Ascend910B1", &square(), &[]), 0),
    ] {
        assert_eq!(run.code, Some(code), "{}", run.stdout);
        assert_eq!(run.stdout.lines().next(), Some(FIRST_LINE));
        assert_eq!(run.stderr, "");
    }
}

fn help() {
    let bench = Bench::new();
    let (alone, mixed) = (bench.opc(&["--help"]), bench.opc(&["--help", "--log=info"]));
    assert_eq!((alone.code, mixed.code), (Some(0), Some(1)));
    assert!(alone.stdout.contains("--soc_version") && mixed.stdout.contains("--soc_version"));
}

fn checks() {
    let bench = Bench::new();
    let said = |options: &[&str]| {
        let run = bench.compile("Ascend910B1", &square(), options);
        assert_eq!(run.code, Some(1), "{options:?}: {}", run.stdout);
        assert!(run.stdout.contains("Opc tool compile failed."), "{}", run.stdout);
        assert!(bench.pair("Square_0123abcd").is_none(), "{options:?}");
        run.stdout
    };
    for (option, text) in [
        ("--deterministic=yes", "Invalid deterministic option yes, support all/true/false."),
        ("--op_debug_level=4", "Invalid op debug level 4, support values: 0 1 2 3."),
        ("--op_debug_config=oom,nonsense", "op_debug nonsense is invalid."),
        ("--simplified_key_mode=2", "Invalid simplified_key_mode option 2, support 0, 1."),
        ("--dynamic_param_mode=folded", "Invalid dynamic_param_mode option folded"),
        ("--core_type=AiCpu", "Opc tool compile failed."),
        ("--soc_version=", "Soc version is empty."),
        ("--input_param=nowhere.json", "Failed to check and update input_param."),
    ] {
        assert!(said(&[option]).contains(text), "{option}");
    }
    // Unknown placeholders are left unchanged.
    let run = bench.compile("Ascend910B1", &square(), &["--optional_input_mode=some"]);
    assert!(run.stdout.is_empty() || bench.pair("Square_0123abcd").is_some(), "{}", run.stdout);
}

fn banks() {
    let bench = Bench::new();
    let options = ["--op_bank_path=nowhere", "--log=warning"];
    let run = bench.compile("Ascend910B1", &square(), &options);
    assert!(run.stdout.contains("[WARNING] TBE(") && run.stdout.contains("Invalid op bank path nowhere."));
    assert!(bench.pair("Square_0123abcd").is_some());
}

fn parameter_files() {
    let bench = Bench::new();
    let said = |params: &Value| {
        let run = bench.compile("Ascend910B1", params, &["--log=warning"]);
        assert_eq!(run.code, Some(0));
        assert!(bench.pair("Square_0123abcd").is_none(), "{params}");
        run.stdout
    };
    assert!(said(&json!([])).contains("is not dict."));
    assert!(said(&json!({"op_type": "Square"})).contains("There is no op_list in json file"));
    let mut nameless = square();
    nameless.as_object_mut().unwrap().remove("op_type");
    assert!(said(&nameless).contains("op_type is None."));
    let mut commented = square();
    commented["comment"] = json!("fusion ops");
    assert!(said(&commented).contains("Current opc only support single op compile"));
    let mut unknown = square();
    unknown["op_type"] = json!("NoSuchOperator");
    assert!(said(&unknown).contains("op NoSuchOperator op_func_attr is None."));
    let text =
        said(&params("Square", &[tensor("string", "ND", &[3])], &[tensor("float32", "ND", &[3])], &[]));
    assert!(text.contains("'errCode': 'E80008'") && text.contains("but actually is [string]."), "{text}");
    let run = bench.compile("Ascend910B1", &square(), &["--optional_input_mode=gen_placeholder"]);
    assert!(bench.pair("Square_0123abcd").is_some(), "{}", run.stdout);
}

fn attributes() {
    let bench = Bench::new();
    let x = tensor("float32", "ND", &[4]);
    let exp = |attrs: &[Value]| unary("Exp", &x, attrs);
    let (full, json) = bench.compiled("Ascend910B1", &exp(&[attr("base", "float", 2.0)]), &[]);
    // The text of the operator information is inserted.
    let attrs = json["supportInfo"]["attrs"].clone();
    assert_eq!(attrs[1], json!({"name": "scale", "dtype": "float", "value": "1.0", "mode": "value"}));
    let dropped = [attr("base", "float", 2.0), attr("color", "string", "red")];
    assert_eq!(bench.compiled("Ascend910B1", &exp(&dropped), &[]).0, full);
    for (attr, text) in [
        (json!({"name": "base", "value": 1.0}), "Attr key:[dtype] is not exist in json."),
        (json!({"name": "base", "dtype": "float"}), "Only support one of [value,value_range,value_list]"),
        (
            json!({"name": "base", "dtype": "float", "value_list": [1.0]}),
            "simplified_key need be configured.",
        ),
    ] {
        let run = bench.compile("Ascend910B1", &exp(&[attr]), &[]);
        assert!(run.stdout.contains(text), "{}", run.stdout);
    }
}

fn no_attributes() {
    let bench = Bench::new();
    let x = tensor("float32", "ND", &[4]);
    let run = bench.compile("Ascend910B1", &unary("Exp", &x, &[]), &[]);
    assert_eq!((run.code, bench.pair("Exp_0123abcd").is_none()), (Some(0), true), "{}", run.stdout);
    // The object is now named after the function.
    let json: Value = serde_json::from_slice(&bench.pair("exp").unwrap().0).unwrap();
    assert_eq!(json["kernelName"], "exp__kernel0");
}

fn log() {
    let bench = Bench::new();
    let nchw = super::bench::conv2d("NCHW", &[1, 16, 8, 8]);
    let arguments = bench.arguments("Ascend910B1", &nchw);
    let opc = bench.installed.tool("opc");
    let silent = run(bench.command(&opc).args(&arguments).env_remove("ASCEND_SLOG_PRINT_TO_STDOUT"));
    assert_eq!((silent.stdout.as_str(), silent.stderr.as_str()), (format!("{FIRST_LINE}\n").as_str(), ""));
    let dir = bench.dir.path().join("home/ascend/log/debug/plog");
    let logs: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(logs.len(), 1);
    let text = std::fs::read_to_string(&logs[0]).unwrap();
    assert!(
        text.starts_with("[ERROR] TBE(") && text.contains(",python3):20") && text.contains("E60004"),
        "{text}"
    );
    let quiet = run(bench.command(&opc).args(&arguments).env("ASCEND_GLOBAL_LOG_LEVEL", "4"));
    assert_eq!(quiet.stdout, format!("{FIRST_LINE}\n"));
    let chatty = run(bench.command(&opc).args(&arguments).env("ASCEND_GLOBAL_LOG_LEVEL", "0"));
    assert!(chatty.stdout.contains("[DEBUG] TBE("), "{}", chatty.stdout);
    bench.installed.remove(&bench.installed.path("lib64/libascendalog.so")).unwrap();
    let printed = run(bench.command(&opc).args(&arguments).env_remove("ASCEND_SLOG_PRINT_TO_STDOUT"));
    assert_eq!(printed.stdout.lines().next(), Some("[Warning]Can not find libascendalog.so"));
    assert!(printed.stdout.contains("[ERROR]["), "{}", printed.stdout);
}
