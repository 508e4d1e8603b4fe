//! What the indexes state.
#![expect(clippy::unwrap_used, reason = "these are functions without `#[test]`")]

use serde_json::json;

use super::{
    ADD, BINARY, ERROR, Mutation, NOTE, UNIT, WARNING, add_index, binary_info, entry, half_json, listed,
    mutation,
};
use crate::common::stem;

pub(super) const MUTATIONS: &[Mutation] = &[
    mutation(
        "an index is truncated",
        |it| {
            let text = it.read(BINARY);
            it.write(BINARY, &text[..text.len() - 9]);
        },
        binary_info,
        (ERROR, "not-json"),
        &["line 1"],
    ),
    mutation(
        "an index of an operator has no list",
        |it| it.write(ADD, r#"{"binaries": []}"#),
        add_index,
        (ERROR, "field"),
        &["binList", "a list", "nothing"],
    ),
    mutation(
        "an index of an operator is empty",
        |it| it.write(ADD, r#"{"binList": []}"#),
        add_index,
        (NOTE, "empty-index"),
        &[],
    ),
    mutation(
        "the index of all kernels is a list",
        |it| it.write(BINARY, "[]"),
        binary_info,
        (ERROR, "field"),
        &["an object", "[]"],
    ),
    mutation(
        "a list of kernels has another type",
        |it| it.edit(BINARY, |index| index["AddCustom"]["binaryList"] = json!(7)),
        binary_info,
        (ERROR, "field"),
        &["AddCustom.binaryList", "found 7"],
    ),
    mutation(
        "an entry without a path",
        |it| entry(it, |entry| drop(entry.as_object_mut().unwrap().remove("binInfo"))),
        add_index,
        (ERROR, "field"),
        &["binList[0].binInfo.jsonFilePath", "found nothing"],
    ),
    mutation(
        "a path that leads to no file",
        |it| {
            entry(it, |entry| {
                entry["binInfo"]["jsonFilePath"] = json!("ascend910b/add_custom/AddCustom_none.json")
            })
        },
        add_index,
        (ERROR, "missing-file"),
        &["AddCustom_none.json"],
    ),
    mutation(
        "a path that begins at another directory",
        |it| entry(it, |entry| entry["binInfo"]["jsonFilePath"] = json!("add_custom/AddCustom_1.json")),
        add_index,
        (ERROR, "missing-file"),
        &["add_custom/AddCustom_1.json"],
    ),
    mutation(
        "a path out of the package",
        |it| listed(it, |entry| entry["binPath"] = json!("../../../../../outside.o")),
        binary_info,
        (ERROR, "path"),
        &["AddCustom.binaryList[0].binPath", "../outside.o"],
    ),
    mutation(
        "an absolute path",
        |it| listed(it, |entry| entry["jsonPath"] = json!("/etc/passwd.json")),
        binary_info,
        (ERROR, "path"),
        &["/etc/passwd.json"],
    ),
    mutation(
        "a path to another unit",
        |it| {
            listed(it, |entry| {
                let path = entry["jsonPath"].as_str().unwrap().replace("910b", "910_93");
                entry["jsonPath"] = json!(path);
            });
        },
        binary_info,
        (ERROR, "other-unit"),
        &["expected `ascend910b`", "found `ascend910_93`"],
    ),
    mutation(
        "binPath and jsonPath are of two kernels",
        |it| {
            listed(it, |entry| {
                entry["binPath"] = json!(format!("{UNIT}/add_custom/{}.o", stem("AddCustom", "float32")))
            })
        },
        binary_info,
        (ERROR, "differs"),
        &["AddCustom.binaryList[0].binPath"],
    ),
    mutation(
        "an index has another type of an input",
        |it| entry(it, |entry| entry["inputs"][1]["dtype"] = json!("int8")),
        add_index,
        (ERROR, "differs"),
        &["binList[0].inputs[1].dtype", "expected `float16`", "found `int8`"],
    ),
    mutation(
        "an index has another format of an output",
        |it| entry(it, |entry| entry["outputs"][0]["format"] = json!("NCHW")),
        add_index,
        (ERROR, "differs"),
        &["binList[0].outputs[0].format", "`NCHW`"],
    ),
    mutation(
        "an index has a further output",
        |it| entry(it, |entry| entry["outputs"].as_array_mut().unwrap().push(json!({"name": "w"}))),
        add_index,
        (ERROR, "differs"),
        &["binList[0].outputs[1]", "expected nothing"],
    ),
    mutation(
        "an index has another shape",
        |it| entry(it, |entry| entry["inputs"][0]["shape"] = json!([-1])),
        add_index,
        (ERROR, "differs"),
        &["binList[0].inputs[0].shape[0]", "expected -2", "found -1"],
    ),
    mutation(
        "an index has another value of an attribute",
        |it| entry(it, |entry| entry["attrs"][0]["value"] = json!(2.5)),
        add_index,
        (ERROR, "differs"),
        &["binList[0].attrs[0].value", "2.5"],
    ),
    mutation(
        "an index has another simplified key",
        |it| entry(it, |entry| entry["simplifiedKey"][0] = json!("AddCustom/d=0,p=1/2,2/2,2/2,2")),
        add_index,
        (ERROR, "differs"),
        &["binList[0].simplifiedKey[0]"],
    ),
    mutation(
        "an index has another static key",
        |it| entry(it, |entry| entry["staticKey"] = json!("11")),
        add_index,
        (ERROR, "differs"),
        &["staticKey", "expected `00`", "found `11`"],
    ),
    mutation(
        "an index has dynamicRankSupport, which the kernel lacks",
        |it| entry(it, |entry| entry["dynamicRankSupport"] = json!(true)),
        add_index,
        (ERROR, "differs"),
        &["binList[0].dynamicRankSupport", "expected nothing", "found true"],
    ),
    mutation(
        "a kernel was built again with other types",
        |it| {
            it.edit(&half_json(), |meta| {
                let text =
                    meta["supportInfo"].to_string().replace("float16", "bfloat16").replace("1,2", "27,2");
                meta["supportInfo"] = serde_json::from_str(&text).unwrap();
            });
        },
        binary_info,
        (ERROR, "differs"),
        &["AddCustom.binaryList[0].simplifiedKey[0]"],
    ),
    mutation(
        "the index of all kernels has another simplified key",
        |it| listed(it, |entry| entry["simplifiedKey"] = json!(["AddCustom/d=0,p=1/5,2"])),
        binary_info,
        (ERROR, "differs"),
        &["simplifiedKey[0]", "5,2"],
    ),
    mutation(
        "the index of all kernels has other cores",
        |it| listed(it, |entry| entry["coreType"] = json!(1)),
        binary_info,
        (ERROR, "differs"),
        &["coreType", "expected 2", "found 1"],
    ),
    mutation(
        "a kernel is listed for another operator",
        |it| {
            it.edit(BINARY, |index| {
                let item = index["AddCustom"].clone();
                index["SubCustom"] = item;
                index.as_object_mut().unwrap().remove("AddCustom");
            });
        },
        binary_info,
        (ERROR, "differs"),
        &["(operator)", "expected `AddCustom`", "found `SubCustom`"],
    ),
    mutation(
        "the index of all kernels has another name of an input",
        |it| it.edit(BINARY, |index| index["AddCustom"]["params"]["inputs"][1]["name"] = json!("w")),
        binary_info,
        (ERROR, "differs"),
        &["AddCustom.params.inputs[1].name", "expected `y`", "found `w`"],
    ),
    mutation(
        "the index of all kernels lacks an attribute",
        |it| it.edit(BINARY, |index| index["AddCustom"]["params"]["attrs"] = json!([])),
        binary_info,
        (ERROR, "differs"),
        &["AddCustom.params.attrs[0]", "found nothing"],
    ),
    mutation(
        "the index of all kernels has another mode",
        |it| it.edit(BINARY, |index| index["AddCustom"]["simplifiedKeyMode"] = json!(1)),
        binary_info,
        (ERROR, "differs"),
        &["AddCustom.simplifiedKeyMode", "expected 0", "found 1"],
    ),
    mutation(
        "dynamicRankSupport is no bool",
        |it| it.edit(BINARY, |index| index["AddCustom"]["dynamicRankSupport"] = json!("true")),
        binary_info,
        (ERROR, "field"),
        &["AddCustom.dynamicRankSupport", "true or false"],
    ),
    mutation(
        "dynamicRankSupport is false for kernels of any rank",
        |it| it.edit(BINARY, |index| index["AddCustom"]["dynamicRankSupport"] = json!(false)),
        binary_info,
        (WARNING, "dynamic-rank"),
        &["`AddCustom`", "expected true", "found false"],
    ),
    mutation(
        "an entry is listed twice",
        |it| {
            it.edit(ADD, |index| {
                let entry = index["binList"][0].clone();
                index["binList"].as_array_mut().unwrap().push(entry);
            });
        },
        add_index,
        (WARNING, "listed-twice"),
        &["two equal entries"],
    ),
    mutation(
        "a kernel is used for further types, as ops-nn does",
        |it| {
            it.edit(ADD, |index| {
                let mut entry = index["binList"][0].clone();
                entry["inputs"][0]["dtype"] = json!("bfloat16");
                index["binList"].as_array_mut().unwrap().push(entry);
            });
        },
        add_index,
        (NOTE, "reused"),
        &["inputs[0].dtype", "`bfloat16`"],
    ),
];
