//! One test for each row of MindSpore's table.

use super::mindspore_lints;
use crate::lint::Vendor;
use crate::lint::testing::{self, Change};

fn row(without_lints: &[Change<'_>], with_lints: &[(Change<'_>, &str)]) {
    testing::row(Vendor::MindSpore, without_lints, &[]);
    for (change, messages) in with_lints {
        testing::row(Vendor::MindSpore, &[], &[(change, &[messages])]);
    }
}

#[test]
fn document() {
    row(&[&[]], &[]);
    let messages = |json: &[u8]| mindspore_lints(json).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        messages(b"null"),
        ["MindSpore 2.0 would refuse: field `(document)`: expected an object, found null"]
    );
    let truncated = messages(b"{\"magic\": \"RT_");
    assert_eq!(truncated.len(), 1);
    assert!(
        truncated[0].starts_with("MindSpore 2.0 would abort: field `(document)`: expected JSON"),
        "{truncated:?}"
    );
}

#[test]
fn magic() {
    const MESSAGE: &str =
        "refuse: field `magic`: expected one of the seven names with RT_DEV_BINARY_MAGIC_, found ";
    for magic in ["PLAIN", "PLAIN_AICPU", "PLAIN_AIVEC", "ELF", "ELF_AICPU", "ELF_AIVEC", "ELF_AICUBE"] {
        row(&[&[("magic", &format!("\"RT_DEV_BINARY_MAGIC_{magic}\""))]], &[]);
    }
    for (magic, found) in [
        ("", "nothing"),
        ("\"FFTS_BINARY_MAGIC_ELF_MIX_AIC\"", "\"FFTS_BINARY_MAGIC_ELF_MIX_AIC\""),
        ("1", "1"),
    ] {
        let message = format!("{MESSAGE}{found}; when it registers the kernel with the device");
        row(&[], &[(&[("magic", magic)], &message)]);
    }
}

#[test]
fn block_dim() {
    const MESSAGE: &str = "misread: field `blockDim`: expected a whole number from 0 to 4294967295, found ";
    row(
        &[&[("blockDim", "65536")]],
        &[
            (&[("blockDim", "")], &format!("{MESSAGE}nothing; as the number that was in memory")),
            (&[("blockDim", "\"1\"")], &format!("{MESSAGE}\"1\"; as the number that was in memory")),
            (&[("blockDim", "-1")], &format!("{MESSAGE}-1; as 4294967295")),
        ],
    );
}

#[test]
fn kernel_name() {
    const MESSAGE: &str = "misread: field `kernelName`: expected a string, found ";
    row(
        &[],
        &[
            (&[("kernelName", "")], &format!("{MESSAGE}nothing; as an empty name")),
            (&[("kernelName", "1")], &format!("{MESSAGE}1; as an empty name")),
        ],
    );
}

#[test]
fn bin_file_name() {
    // MindSpore derives the path from that of the `.json`.
    row(&[&[("binFileName", "")], &[("binFileName", "\"../other\"")], &[("binFileName", "1")]], &[]);
}

#[test]
fn bin_file_suffix() {
    const MESSAGE: &str = "refuse: field `binFileSuffix`: expected a string that is not empty, found ";
    const OUTCOME: &str = "; it looks for a binary without suffix, and compiles again";
    row(
        &[&[("binFileSuffix", "\".so\"")]],
        &[
            (&[("binFileSuffix", "")], &format!("{MESSAGE}nothing{OUTCOME}")),
            (&[("binFileSuffix", "\"\"")], &format!("{MESSAGE}\"\"{OUTCOME}")),
        ],
    );
}

#[test]
fn core_type() {
    row(&[&[("core_type", "\"AIC\"")], &[("core_type", "1")], &[("coreType", "1")]], &[]);
}

#[test]
fn task_ration() {
    row(
        &[&[("taskRation", "2")]],
        &[(
            &[("taskRation", "\"1:2\"")],
            "misread: field `taskRation`: expected a whole number of 32 bits, found \"1:2\"; as 4294967295",
        )],
    );
}

#[test]
fn workspace() {
    const MESSAGE: &str = "ignore: field `workspace.num`: expected the number of items in `workspace.size` and in \
                        `workspace.type`, found ";
    const OUTCOME: &str = "; the kernel runs without workspace";
    row(
        &[&[("workspace", r#"{"num": 1, "size": [32]}"#)], &[("workspace", "")]],
        &[
            (&[("workspace", r#"{"num": 2, "size": [32]}"#)], &format!("{MESSAGE}2{OUTCOME}")),
            (&[("workspace", r#"{"num": 1, "size": [32], "type": []}"#)], &format!("{MESSAGE}1{OUTCOME}")),
            (
                &[("workspace", r#"{"num": 2, "size": [32, -1], "type": [0, 0]}"#)],
                "misread: field `workspace.size[1]`: expected a whole number from 0, found -1; \
                 as a number close to 2^64",
            ),
        ],
    );
}

#[test]
fn parameters() {
    const MESSAGE: &str = "ignore: field `parameters`: expected a list of whole numbers, found ";
    const OUTCOME: &str = "; the whole list is dropped, and nothing is cleared before the launch";
    row(
        &[&[("parameters", "[]")]],
        &[
            (&[("parameters", "[1, null]")], &format!("{MESSAGE}[1,null]{OUTCOME}")),
            (&[("parameters", "[{}]")], &format!("{MESSAGE}[{{}}]{OUTCOME}")),
        ],
    );
}

#[test]
fn op_para_size() {
    row(
        &[&[("opParaSize", "")], &[("opParaSize", "4294967295")]],
        &[
            (
                &[("opParaSize", "\"8\"")],
                "abort: field `opParaSize`: expected a whole number of 32 bits, found \"8\"; \
                 the exception is not caught",
            ),
            (
                &[("opParaSize", "null")],
                "abort: field `opParaSize`: expected a whole number of 32 bits, found null; \
                 the exception is not caught",
            ),
            (
                &[("opParaSize", "4294967304")],
                "misread: field `opParaSize`: expected a whole number from 0 to 4294967295, found 4294967304; \
                 as 8",
            ),
        ],
    );
}

#[test]
fn sha256() {
    row(
        &[],
        &[
            (
                &[("sha256", "")],
                "refuse: field `sha256`: expected the digest of the binary, found nothing; \
                 it compiles again in every run",
            ),
            (
                &[("sha256", "1")],
                "abort: field `sha256`: expected a string, found 1; the exception is not caught",
            ),
        ],
    );
}

#[test]
fn knowledge_bank() {
    const MESSAGE: &str =
        "abort: field `KBHit`: expected a whole number of 32 bits, found \"1\"; the exception is not caught";
    row(&[&[("KBHit", "1")], &[("KBHit", "true")]], &[(&[("KBHit", "\"1\"")], MESSAGE)]);
}

#[test]
fn kernel_list() {
    row(&[&[("kernelList", "[]")], &[("kernelList", "1")]], &[]);
}

#[test]
fn attributes() {
    for name in ["modeInArgsFirstField", "batchBindOnly"] {
        let message = format!(
            "abort: field `{name}`: expected a whole number of 32 bits, found \"1\"; the exception is not caught"
        );
        row(&[&[(name, "1")]], &[(&[(name, "\"1\"")], &message)]);
    }
}

#[test]
fn args_remap() {
    row(
        &[&[("args_remap", "[[0, 1], [2]]")]],
        &[(
            &[("args_remap", "[[0]]")],
            "ignore: field `args_remap`: expected two lists, for inputs and outputs, found [[0]]; \
             arguments keep their order",
        )],
    );
}

#[test]
fn spec_workspace() {
    row(
        &[],
        &[(
            &[("globalworkspace_spec_workspace", r#"{"size": 32}"#)],
            "ignore: field `globalworkspace_spec_workspace`: expected MindSpore 2.1 or later, \
             found {\"size\":32}; it sees no overflow of this kernel",
        )],
    );
}

#[test]
fn build_result() {
    row(&[&[("build_result", "\"\"")], &[("build_result", "1")]], &[]);
}

#[test]
fn kernels_for_the_host_have_a_digest_and_no_more() {
    let count = |json: &str| mindspore_lints(json.as_bytes()).len();
    assert_eq!(count(r#"{"kernelName": "a_kernel", "threadNumber": "null", "sha256": "00"}"#), 0);
    assert_eq!(count(r#"{"kernelName": "a_kernel", "threadNumber": "null"}"#), 1);
    // A `threadNumber` alone does not make a device kernel a host kernel.
    row(&[&[("threadNumber", "\"null\"")]], &[]);
    assert_eq!(count(r#"{"magic": "RT_DEV_BINARY_MAGIC_ELF", "threadNumber": "null"}"#), 4);
}
