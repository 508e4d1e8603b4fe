//! Keys, units, operator information and Python.
#![expect(clippy::unwrap_used, reason = "these are functions without `#[test]`")]

use serde_json::json;

use super::{
    ADD, BINARY, ERROR, INFO, Mutation, NOTE, UNIT, WARNING, entry, half, half_json, info, listed, mutation,
};
use crate::common::Package;

pub(super) const MUTATIONS: &[Mutation] = &[
    mutation(
        "two kernels have one simplified key",
        |it| {
            let other = it.json(&half_json())["supportInfo"].clone();
            let float = Package::add(UNIT, "float32");
            it.edit(&format!("{float}.json"), |meta| meta["supportInfo"] = other.clone());
            it.edit(ADD, |index| {
                let path = index["binList"][1]["binInfo"].clone();
                index["binList"][1] = other.clone();
                index["binList"][1]["binInfo"] = path;
            });
            it.edit(BINARY, |index| {
                let list = &mut index["AddCustom"]["binaryList"];
                list[1]["simplifiedKey"] = other["simplifiedKey"].clone();
            });
        },
        || {
            let stems = ["float16", "float32"].map(|dtype| Package::add(UNIT, dtype));
            format!("{}.json", stems.iter().max().unwrap())
        },
        (ERROR, "duplicate-key"),
        &["AddCustom/d=0,p=1/1,2/1,2/1,2", "has it, too"],
    ),
    mutation(
        "a simplified key has other types than the inputs",
        |it| {
            let keys = json!(["AddCustom/d=0,p=1/1,2/3,2/1,2"]);
            it.edit(&half_json(), |meta| meta["supportInfo"]["simplifiedKey"] = keys.clone());
            entry(it, |entry| entry["simplifiedKey"] = keys.clone());
            listed(it, |entry| entry["simplifiedKey"] = keys.clone());
        },
        half_json,
        (WARNING, "key-mismatch"),
        &["`float16` at position 1", "`3,2`"],
    ),
    mutation(
        "simplified keys are of two operators",
        |it| {
            it.edit(&half_json(), |meta| {
                meta["supportInfo"]["simplifiedKey"][1] = json!("SubCustom/d=0,p=1/1,2/1,2/1,2")
            })
        },
        half_json,
        (WARNING, "key-mismatch"),
        &["operator `AddCustom`", "`SubCustom`"],
    ),
    mutation(
        "a kernel of another family of chips",
        |it| {
            for end in ["o", "json"] {
                let bytes = it.read(&format!("{}.{end}", Package::add("ascend310p", "float16")));
                it.write(&format!("{}.{end}", half()), bytes);
            }
        },
        half_json,
        (ERROR, "other-unit"),
        &["expected `ascend910b`", "found `ascend310p`"],
    ),
    mutation(
        "a kernel of another family of chips without filePath",
        |it| {
            for end in ["o", "json"] {
                let bytes = it.read(&format!("{}.{end}", Package::add("ascend310p", "float16")));
                it.write(&format!("{}.{end}", half()), bytes);
            }
            it.edit(&half_json(), |meta| drop(meta.as_object_mut().unwrap().remove("filePath")));
        },
        half_json,
        (ERROR, "OPV031"),
        &["Ascend 310P"],
    ),
    mutation(
        "a kernel of another unit of the same family",
        |it| {
            let bytes = it.read(&format!("{}.json", Package::add("ascend910_93", "float16")));
            it.write(&half_json(), bytes);
        },
        half_json,
        (ERROR, "other-unit"),
        &["filePath", "found `ascend910_93`"],
    ),
    mutation(
        "operator information is no JSON",
        |it| it.write(INFO, "{\"AddCustom\": "),
        info,
        (ERROR, "not-json"),
        &["EOF"],
    ),
    mutation("operator information is a list", |it| it.write(INFO, "[1]"), info, (ERROR, "field"), &["[1]"]),
    mutation(
        "operator information of another unit",
        |it| {
            let bytes = it.read(INFO);
            it.write("config/ascend910b/aic-ascend910_93-ops-info.json", bytes);
        },
        || "config/ascend910b/aic-ascend910_93-ops-info.json".to_owned(),
        (ERROR, "other-unit"),
        &["the file's name", "found `ascend910_93`"],
    ),
    mutation(
        "operator information lacks an operator",
        |it| it.edit(INFO, |info| drop(info.as_object_mut().unwrap().remove("AddCustom"))),
        || {
            let stems = ["float16", "float32"].map(|dtype| Package::add(UNIT, dtype));
            format!("{}.json", stems.iter().min().unwrap())
        },
        (WARNING, "unknown-operator"),
        &["`AddCustom`"],
    ),
    mutation(
        "operator information has an operator without kernels",
        |it| it.edit(INFO, |info| info["SubCustom"] = json!({})),
        info,
        (NOTE, "no-kernels"),
        &["1 operator", "SubCustom"],
    ),
    mutation(
        "operator information has another name of an input",
        |it| it.edit(INFO, |info| info["AddCustom"]["input1"]["name"] = json!("w")),
        half_json,
        (WARNING, "port"),
        &["input1", "`name`", "expected `w`", "found `y`"],
    ),
    mutation(
        "operator information lacks a type",
        |it| it.edit(INFO, |info| info["AddCustom"]["input0"]["dtype"] = json!("float32,int8")),
        half_json,
        (WARNING, "port"),
        &["input0", "`dtype`", "`float32,int8`", "found `float16`"],
    ),
    mutation(
        "operator information lacks an input",
        |it| it.edit(INFO, |info| drop(info["AddCustom"].as_object_mut().unwrap().remove("input1"))),
        half_json,
        (WARNING, "port"),
        &["no such port", "found `y`"],
    ),
    mutation(
        "a generated Python file is missing",
        |it| it.remove("vendor_impl/dynamic/add_custom.py"),
        info,
        (NOTE, "no-python"),
        &["`AddCustom`", "add_custom.py"],
    ),
    mutation(
        "a generated Python file is of another operator",
        |it| it.write("vendor_impl/dynamic/add_custom.py", "def sub_custom(x):\n    pass\n"),
        || "vendor_impl/dynamic/add_custom.py".to_owned(),
        (WARNING, "no-function"),
        &["`add_custom`", "`AddCustom`"],
    ),
    mutation(
        "a file among the kernels describes no kernel",
        |it| it.write("kernel/ascend910b/add_custom/notes.json", "{}"),
        || "kernel/ascend910b/add_custom/notes.json".to_owned(),
        (NOTE, "not-a-kernel"),
        &["no kernel"],
    ),
];
