//! One test for each row of FE's table.

use super::fe_lints;
use crate::lint::Vendor;
use crate::lint::testing::{self, Change, ExpectedLints};

fn row(without_lints: &[Change<'_>], with_lints: &[ExpectedLints<'_>]) {
    testing::row(Vendor::Fe, without_lints, with_lints);
}

#[test]
fn document() {
    row(&[&[]], &[]);
    let messages = |json: &[u8]| fe_lints(json).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        messages(b"[1]"),
        ["CANN's FE would refuse: field `(document)`: expected an object, found [1]"]
    );
    let truncated = messages(b"{\"magic\": \"RT_");
    assert_eq!(truncated.len(), 1);
    assert!(
        truncated[0].starts_with("CANN's FE would refuse: field `(document)`: expected JSON, found"),
        "{truncated:?}"
    );
    // FE does not open the file.
    assert_eq!(messages(br#"{"binFileName": "net", "binFileSuffix": ".om"}"#), [""; 0]);
}

#[test]
fn the_number_of_lints_is_bounded() {
    let list = format!("[{}]", vec!["1"; 1000].join(","));
    let change = [("taskRation", "\"tilingKey\""), ("kernelList", &*list)];
    assert_eq!(testing::messages(fe_lints, &change).len(), 100);
}

#[test]
fn task_ration() {
    const EXPECTED: &str = "refuse: field `taskRation`: expected `tilingKey`, or two numbers such as `1:2`, not both 0, \
                            found ";
    row(
        &[&[("taskRation", "\"1:2\"")], &[("taskRation", "\"0:1\"")], &[("taskRation", "\"\"")]],
        &[
            (&[("taskRation", "0")], &["refuse: field `taskRation`: expected a string, found 0"]),
            (&[("taskRation", "\"0:0\"")], &[&format!("{EXPECTED}\"0:0\"")]),
            (&[("taskRation", "\"1:2:3\"")], &[&format!("{EXPECTED}\"1:2:3\"")]),
            (&[("taskRation", "\"1\"")], &[&format!("{EXPECTED}\"1\"")]),
        ],
    );
}

#[test]
fn task_ration_of_each_kernel() {
    const RATION: &str = r#""tilingKey": 10000000000000000000, "taskRation": "1:2""#;
    const NO_RATIO: &str = "expected `tilingKey`, or two numbers such as `1:2`, not both 0, found";
    let says = |list: &str, messages: &[&str]| {
        let change = [("taskRation", "\"tilingKey\""), ("kernelList", list)];
        row(&[], &[(&change, messages)]);
    };
    let says_of = |items: &[&str], messages: &[&str]| {
        let items: Vec<String> =
            items.iter().map(|item| format!("{{\"kernelName\": \"a\", {item}}}")).collect();
        says(&format!("[{}]", items.join(",")), messages);
    };
    says_of(&[RATION, r#""tilingKey": 10000000000000000001, "taskRation": "1:2""#], &[]);
    for (list, found) in [("", "nothing"), ("[]", "[]")] {
        let expected = "expected a list, since `taskRation` is `tilingKey`, found";
        says(list, &[&format!("refuse: field `kernelList`: {expected} {found}")]);
    }
    says_of(
        &[RATION, RATION],
        &["refuse: field `kernelList[1].tilingKey`: expected a key that no other kernel has, \
           found 10000000000000000000"],
    );
    says_of(
        &[r#""taskRation": "1:2""#],
        &["refuse: field `kernelList[0].tilingKey`: expected a whole number, found nothing"],
    );
    says_of(
        &[r#""tilingKey": 1"#],
        &["refuse: field `kernelList[0].taskRation`: expected a string, found nothing"],
    );
    for ration in ["\"0:0\"", "\"tilingKey\""] {
        let messages = format!("refuse: field `kernelList[0].taskRation`: {NO_RATIO} {ration}");
        says_of(&[&format!("\"tilingKey\": 1, \"taskRation\": {ration}")], &[&messages]);
    }
}

#[test]
fn old_core_type() {
    row(
        &[&[("core_type", "\"AIC\"")], &[("core_type", "\"AIV\"")]],
        &[
            (
                &[("core_type", "\"AiCore\"")],
                &["refuse: field `core_type`: expected `AIC` or `AIV`, found \"AiCore\""],
            ),
            (&[("core_type", "1")], &["refuse: field `core_type`: expected a string, found 1"]),
        ],
    );
}

#[test]
fn core_type() {
    for core in ["VectorCore", "CubeCore", "AiCore", "MIX_VECTOR_CORE", "MIX_AICORE", "MIX"] {
        row(&[&[("coreType", &format!("\"{core}\""))]], &[]);
    }
    row(
        &[],
        &[
            (
                &[("coreType", "\"AIC\"")],
                &["ignore: field `coreType`: expected AiCore, CubeCore, VectorCore, MIX, MIX_AICORE or \
                   MIX_VECTOR_CORE, found \"AIC\"; the kernel has no core type"],
            ),
            (&[("coreType", "2")], &["refuse: field `coreType`: expected a string, found 2"]),
        ],
    );
}

#[test]
fn magic() {
    const EXPECTED: &str = "refuse: field `magic`: expected one of the six names of ELF binaries, such as RT_DEV_BINARY_MAGIC_ELF, found ";
    for magic in ["_AICPU", "", "_AIVEC", "_AICUBE"] {
        row(&[&[("magic", &format!("\"RT_DEV_BINARY_MAGIC_ELF{magic}\""))]], &[]);
    }
    row(&[&[("magic", "\"FFTS_BINARY_MAGIC_ELF_MIX_AIC\"")]], &[]);
    row(&[&[("magic", "\"FFTS_BINARY_MAGIC_ELF_MIX_AIV\"")]], &[]);
    for (magic, found) in [
        ("\"RT_DEV_BINARY_MAGIC_PLAIN\"", "\"RT_DEV_BINARY_MAGIC_PLAIN\""),
        ("\"RT_DEV_BINARY_MAGIC_OM\"", "\"RT_DEV_BINARY_MAGIC_OM\""),
        ("1128612421", "1128612421"),
        ("", "nothing"),
    ] {
        row(&[], &[(&[("magic", magic)], &[&format!("{EXPECTED}{found}")])]);
    }
}

#[test]
fn block_dim() {
    const EXPECTED: &str = "field `blockDim`: expected a whole number from -1 to 65535, found ";
    row(
        &[&[("blockDim", "-1")], &[("blockDim", "65535")], &[("blockDim", "")], &[("blockDim", "1.0")]],
        &[
            (&[("blockDim", "-2")], &[&format!("refuse: {EXPECTED}-2")]),
            (&[("blockDim", "65536")], &[&format!("refuse: {EXPECTED}65536")]),
            (&[("blockDim", "4294967297")], &[&format!("misread: {EXPECTED}4294967297; as 1")]),
            (
                &[("blockDim", "\"1\"")],
                &["refuse: field `blockDim`: expected a whole number of 32 bits, found \"1\""],
            ),
        ],
    );
}

#[test]
fn schedule_mode() {
    const EXPECTED: &str = "field `schedule_mode`: expected a whole number from 0 to 4294967295, found ";
    row(
        &[&[("schedule_mode", "1")], &[("schedule_mode", "4294967295")]],
        &[
            (&[("schedule_mode", "-1")], &[&format!("refuse: {EXPECTED}-1")]),
            (&[("schedule_mode", "4294967296")], &[&format!("refuse: {EXPECTED}4294967296")]),
            (&[("schedule_mode", "\"1\"")], &[&format!("ignore: {EXPECTED}\"1\"; it counts as 0")]),
        ],
    );
}

#[test]
fn attributes() {
    for name in ["modeInArgsFirstField", "intercoreSync", "batchBindOnly"] {
        row(
            &[&[(name, "1")], &[(name, "true")]],
            &[(
                &[(name, "\"1\"")],
                &[&format!("refuse: field `{name}`: expected a whole number of 32 bits, found \"1\"")],
            )],
        );
    }
}

#[test]
fn workspace() {
    row(
        &[
            &[("workspace", "")],
            &[("workspace", r#"{"num": 1, "size": [-1]}"#)],
            &[("workspace", r#"{"num": 1, "size": [32.0], "type": []}"#)],
        ],
        &[
            (&[("workspace", "[]")], &["refuse: field `workspace`: expected an object, found []"]),
            (
                &[("workspace", r#"{"size": [1]}"#)],
                &["refuse: field `workspace.num`: expected a whole number of 32 bits, found nothing"],
            ),
            (
                &[("workspace", r#"{"num": 1}"#)],
                &["refuse: field `workspace.size`: expected a list of whole numbers, found nothing"],
            ),
            (
                &[("workspace", r#"{"num": 1, "size": [null]}"#)],
                &["refuse: field `workspace.size`: expected a list of whole numbers, found [null]"],
            ),
            (
                &[("workspace", r#"{"num": 1, "size": [1, 2]}"#)],
                &["refuse: field `workspace.num`: expected the number of items in `workspace.size`, found 1"],
            ),
            (
                &[("workspace", r#"{"num": 1, "size": [1], "type": [0, 0]}"#)],
                &["refuse: field `workspace.type`: expected as many items as `workspace.num`, or none, \
                   found [0,0]"],
            ),
            (
                &[("workspace", r#"{"num": 1, "size": [1], "type": "HBM"}"#)],
                &["ignore: field `workspace.type`: expected a list of whole numbers, found \"HBM\"; \
                   all is in HBM"],
            ),
            (
                &[("workspace", r#"{"num": 1, "size": [1], "type": [3]}"#)],
                &["ignore: field `workspace.type`: expected 0 HBM, 1 L1 or 2 L2, found [3]; \
                   other areas are in HBM"],
            ),
        ],
    );
}

#[test]
fn parameters() {
    row(
        &[
            &[("parameters", "[]")],
            &[("parameters", "[null, null]")],
            &[("parameters", r#"[null, {"dtype": "float32", "init_value": 0.5}, null]"#)],
            &[("parameters", r#"[{"dtype": "uint8", "init_value": 0}]"#)],
        ],
        &[
            (&[("parameters", "{}")], &["refuse: field `parameters`: expected a list, found {}"]),
            (
                &[("parameters", "[null, 0]")],
                &["refuse: field `parameters`: expected whole numbers only, since the first is no object, \
                   found [null,0]"],
            ),
            (
                &[("parameters", r#"[{"dtype": "int8", "init_value": 0}, 1]"#)],
                &[
                    "refuse: field `parameters[1]`: expected null or an object, since the first is one, found 1",
                ],
            ),
            (
                &[("parameters", r#"[{"dtype": "bool", "init_value": 0}]"#)],
                &["refuse: field `parameters[0].dtype`: expected a type with `int` or `float` in its name, \
                   found \"bool\""],
            ),
            (
                &[("parameters", r#"[{"init_value": 0}]"#)],
                &["refuse: field `parameters[0].dtype`: expected a string, found nothing"],
            ),
            (
                &[("parameters", r#"[{"dtype": "int8", "init_value": "0"}]"#)],
                &["refuse: field `parameters[0].init_value`: expected a whole number, found \"0\""],
            ),
        ],
    );
}

#[test]
fn wsp_mode() {
    row(
        &[&[("wspMode", "true")]],
        &[(&[("wspMode", "1")], &["refuse: field `wspMode`: expected true or false, found 1"])],
    );
}

#[test]
fn binary() {
    for name in ["binFileName", "binFileSuffix"] {
        for (value, found) in [("", "nothing"), ("\"\"", "\"\""), ("1", "1")] {
            let messages =
                format!("refuse: field `{name}`: expected a string that is not empty, found {found}");
            row(&[], &[(&[(name, value)], &[&messages])]);
        }
    }
}

#[test]
fn sha256() {
    row(
        &[&[("sha256", "")], &[("sha256", "\"\"")], &[("binFileSuffix", "\".so\"")]],
        &[
            (&[("sha256", "0")], &["refuse: field `sha256`: expected a string, found 0"]),
            (
                &[("binFileSuffix", "\".so\""), ("sha256", "\"\"")],
                &[
                    "refuse: field `sha256`: expected a string that is not empty, since `binFileSuffix` is `.so`, \
                   found \"\"",
                ],
            ),
        ],
    );
}

#[test]
fn kernel_name() {
    row(
        &[&[("kernelName", "")]],
        &[(&[("kernelName", "null")], &["refuse: field `kernelName`: expected a string, found null"])],
    );
}

#[test]
fn compression() {
    row(
        &[&[("compress_parameters", "[1, 2]"), ("weight_repeat", "3")]],
        &[
            (
                &[("compress_parameters", "[true]")],
                &["refuse: field `compress_parameters`: expected a list of whole numbers, found [true]"],
            ),
            (
                &[("weight_repeat", "true")],
                &["refuse: field `weight_repeat`: expected a whole number, found true"],
            ),
        ],
    );
}

#[test]
fn support_info() {
    row(
        &[&[("supportInfo", r#"{"op_debug_config": ["oom"]}"#)], &[("supportInfo", "{}")]],
        &[
            (
                &[("supportInfo", "1")],
                &["ignore: field `supportInfo`: expected an object, found 1; memory is not checked"],
            ),
            (
                &[("supportInfo", r#"{"op_debug_config": "oom"}"#)],
                &["ignore: field `supportInfo.op_debug_config`: expected a list, found \"oom\"; \
                   memory is not checked"],
            ),
        ],
    );
}

#[test]
fn tiling_sizes() {
    for name in ["opParaSize", "oriOpParaSize"] {
        let messages =
            format!("ignore: field `{name}`: expected a whole number, found \"8\"; it counts as 0");
        row(&[&[(name, "8")]], &[(&[(name, "\"8\"")], &[&messages])]);
    }
}

#[test]
fn header() {
    row(
        &[&[("headerFileSuffix", "\".h\"")]],
        &[(&[("headerFileSuffix", "0")], &["refuse: field `headerFileSuffix`: expected a string, found 0"])],
    );
}

#[test]
fn kernel_list() {
    row(
        &[&[("kernelList", r#"[{"kernelName": "a"}, 1]"#)], &[("kernelList", "[]")]],
        &[
            (
                &[("kernelList", "{}")],
                &["ignore: field `kernelList`: expected a list, found {}; there is no first kernel"],
            ),
            (
                &[("kernelList", "[{}]")],
                &["ignore: field `kernelList[0].kernelName`: expected a string, found nothing; \
                   there is no first kernel"],
            ),
        ],
    );
}

#[test]
fn spec_workspace() {
    const NAME: &str = "globalworkspace_spec_workspace";
    row(
        &[&[(NAME, r#"{"size": 32, "type": 0}"#)], &[(NAME, r#"{"size": 32}"#)]],
        &[
            (&[(NAME, "32")], &[&format!("refuse: field `{NAME}`: expected an object, found 32")]),
            (
                &[(NAME, "{}")],
                &[&format!("refuse: field `{NAME}.size`: expected a whole number, found nothing")],
            ),
            (
                &[(NAME, r#"{"size": 32, "type": "0"}"#)],
                &[&format!("refuse: field `{NAME}.type`: expected a whole number, found \"0\"")],
            ),
        ],
    );
}

#[test]
fn optional_input_mode() {
    row(
        &[&[("optionalInputMode", "\"gen_placeholder\"")]],
        &[(
            &[("optionalInputMode", "1")],
            &["refuse: field `optionalInputMode`: expected a string, found 1"],
        )],
    );
}

#[test]
fn optional_output_mode() {
    row(
        &[&[("optionalOutputMode", "\"gen_placeholder\"")], &[("optionalOutputMode", "\"no_placeholder\"")]],
        &[(
            &[("optionalOutputMode", "\"other\"")],
            &["refuse: field `optionalOutputMode`: expected `no_placeholder` or `gen_placeholder`, \
               found \"other\""],
        )],
    );
}

#[test]
fn dynamic_param_mode() {
    row(
        &[&[("dynamicParamMode", "\"folded_with_desc\"")], &[("dynamicParamMode", "\"other\"")]],
        &[(
            &[("dynamicParamMode", "null")],
            &["refuse: field `dynamicParamMode`: expected a string, found null"],
        )],
    );
}

#[test]
fn knowledge_bank() {
    row(
        &[&[("KBHit", "false")]],
        &[(&[("KBHit", "1")], &["refuse: field `KBHit`: expected true or false, found 1"])],
    );
}

#[test]
fn debug_options() {
    const EXPECTED: &str = "refuse: field `debugBufSize`: expected a whole number above 0, since there are `debugOptions`, found ";
    row(
        &[
            &[("debugOptions", "\"printf,assert\""), ("debugBufSize", "75")],
            &[("debugOptions", "\"\"")],
            &[("debugBufSize", "\"none\"")],
        ],
        &[
            (
                &[("debugOptions", "[\"printf\"]")],
                &["refuse: field `debugOptions`: expected a string, found [\"printf\"]"],
            ),
            (&[("debugOptions", "\"printf\"")], &[&format!("{EXPECTED}nothing")]),
            (&[("debugOptions", "\"printf\""), ("debugBufSize", "0")], &[&format!("{EXPECTED}0")]),
        ],
    );
}

#[test]
fn local_memory_size() {
    const EXPECTED: &str =
        "ignore: field `localMemorySize`: expected a whole number from 1 to 4294967295, found ";
    row(
        &[&[("localMemorySize", "1")], &[("localMemorySize", "4294967295")]],
        &[
            (&[("localMemorySize", "0")], &[&format!("{EXPECTED}0; no local memory is reserved")]),
            (&[("localMemorySize", "[]")], &[&format!("{EXPECTED}[]; no local memory is reserved")]),
        ],
    );
}

#[test]
fn run_info() {
    const GOOD: &str = r#""block_dim": 1, "clear_atomic": true, "local_memory_size": 0, "schedule_mode": 0,
        "tiling_cond": 0, "tiling_key": 1"#;
    let with = |rest: &str| format!("{{{GOOD}, {rest}}}");
    row(
        &[&[("runInfo", &with(r#""tiling_data": "0aF""#))]],
        &[
            (&[("runInfo", "[]")], &["refuse: field `runInfo`: expected an object, found []"]),
            (
                &[("runInfo", &with(r#""tiling_data": """#))],
                &["refuse: field `runInfo.tiling_data`: expected hexadecimal digits, found \"\""],
            ),
            (
                &[("runInfo", &with(r#""tiling_data": "0x""#))],
                &["refuse: field `runInfo.tiling_data`: expected hexadecimal digits, found \"0x\""],
            ),
            (
                &[("runInfo", &with(r#""tiling_data": "0", "clear_atomic": 1"#))],
                &["refuse: field `runInfo.clear_atomic`: expected true or false, found 1"],
            ),
            (
                &[("runInfo", &with(r#""tiling_data": "0", "aicpu_block_dim": "1""#))],
                &["refuse: field `runInfo.aicpu_block_dim`: expected a whole number of 32 bits, found \"1\""],
            ),
        ],
    );
    let missing = testing::messages(fe_lints, &[("runInfo", "{}")]);
    assert_eq!(missing.len(), 7, "{missing:?}");
}

#[test]
fn support_super_kernel() {
    row(
        &[&[("supportSuperKernel", "1")]],
        &[(
            &[("supportSuperKernel", "\"1\"")],
            &["refuse: field `supportSuperKernel`: expected a whole number, found \"1\""],
        )],
    );
}

#[test]
fn fat_binary() {
    const GOOD: &str = r#"{"kernelName": "a", "configKey": 1, "blockDim": 2, "workspaceSize": 0}"#;
    row(
        &[&[("kernelList", &format!("[{GOOD}, {GOOD}]"))]],
        &[(
            &[("kernelList", &format!("[{GOOD}, {{\"kernelName\": \"b\", \"blockDim\": 1}}]"))],
            &[
                "refuse: field `kernelList[1].configKey`: expected a whole number, found nothing",
                "refuse: field `kernelList[1].workspaceSize`: expected a whole number, found nothing",
            ],
        )],
    );
}

#[test]
fn json_list() {
    // FE has a parser for this field, but no step calls it.
    row(&[&[("jsonList", "1")]], &[]);
}
