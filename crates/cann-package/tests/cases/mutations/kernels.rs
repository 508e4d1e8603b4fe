//! Kernels, and which of them the indexes name.
#![expect(clippy::unwrap_used, reason = "these are functions without `#[test]`")]

use serde_json::json;

use super::{
    ADD, BINARY, ERROR, Mutation, PARTS, UNIT, add_index, fused, half_json, half_object, mutation, rename,
};
use crate::common::Package;

pub(super) const MUTATIONS: &[Mutation] = &[
    mutation(
        "an object is missing",
        |it| it.remove(&half_object()),
        half_json,
        (ERROR, "no-object"),
        &["found no file"],
    ),
    mutation(
        "a description is missing",
        |it| it.remove(&half_json()),
        half_object,
        (ERROR, "no-json"),
        &["found no file"],
    ),
    mutation(
        "both files of a kernel are missing",
        |it| {
            it.remove(&half_json());
            it.remove(&half_object());
        },
        add_index,
        (ERROR, "missing-file"),
        &["binList[0].binInfo.jsonFilePath"],
    ),
    mutation(
        "a byte of an object is changed",
        |it| {
            let mut object = it.read(&half_object());
            let last = object.len() / 2;
            object[last] ^= 1;
            it.write(&half_object(), object);
        },
        half_json,
        (ERROR, "OPV005"),
        &["sha256"],
    ),
    mutation(
        "an object is truncated",
        |it| {
            let object = it.read(&half_object());
            it.write(&half_object(), &object[..object.len() / 2]);
        },
        half_json,
        (ERROR, "OPV005"),
        &[],
    ),
    mutation("an object is empty", |it| it.write(&half_object(), ""), half_json, (ERROR, "OPV020"), &[]),
    mutation(
        "a digest is changed",
        |it| it.edit(&half_json(), |meta| meta["sha256"] = json!("0".repeat(64))),
        half_json,
        (ERROR, "OPV005"),
        &["0000"],
    ),
    mutation(
        "a description is truncated",
        |it| {
            let text = it.read(&half_json());
            it.write(&half_json(), &text[..text.len() / 2]);
        },
        half_json,
        (ERROR, "OPV001"),
        &[],
    ),
    mutation(
        "the objects of two kernels are exchanged",
        |it| {
            let other = format!("{}.o", Package::add(UNIT, "float32"));
            let (one, two) = (it.read(&half_object()), it.read(&other));
            it.write(&half_object(), two);
            it.write(&other, one);
        },
        half_json,
        (ERROR, "OPV005"),
        &[],
    ),
    mutation(
        "a kernel has another kernel's binFileName",
        |it| it.edit(&half_json(), |meta| meta["binFileName"] = json!("AddCustom_other")),
        half_json,
        (ERROR, "file-name"),
        &["`AddCustom_other.o`", "AddCustom_0000"],
    ),
    mutation(
        "kernelList names a kernel that the object lacks",
        |it| it.edit(&half_json(), |meta| meta["kernelList"][0]["kernelName"] = json!("AddCustom_9")),
        half_json,
        (ERROR, "OPV050"),
        &["AddCustom_9"],
    ),
    mutation(
        "both files of a kernel are renamed",
        |it| {
            let to = format!("kernel/{UNIT}/add_custom/AddCustom_renamed");
            rename(it, &half_json(), &format!("{to}.json"));
            rename(it, &half_object(), &format!("{to}.o"));
        },
        || format!("kernel/{UNIT}/add_custom/AddCustom_renamed.json"),
        (ERROR, "not-listed"),
        &["binary_info_config.json"],
    ),
    mutation(
        "a kernel without supportInfo",
        |it| it.edit(&half_json(), |meta| drop(meta.as_object_mut().unwrap().remove("supportInfo"))),
        half_json,
        (ERROR, "no-support-info"),
        &["supportInfo"],
    ),
    mutation(
        "an entry of an operator's index is missing",
        |it| it.edit(ADD, |index| drop(index["binList"].as_array_mut().unwrap().remove(0))),
        half_json,
        (ERROR, "not-listed"),
        &["`add_custom.json`"],
    ),
    mutation(
        "an entry of the index of all kernels is missing",
        |it| {
            it.edit(BINARY, |index| drop(index["AddCustom"]["binaryList"].as_array_mut().unwrap().remove(0)))
        },
        half_json,
        (ERROR, "not-listed"),
        &["`binary_info_config.json`"],
    ),
    mutation(
        "an operator is missing in the index of all kernels",
        |it| it.edit(BINARY, |index| drop(index.as_object_mut().unwrap().remove("AddCustom"))),
        half_json,
        (ERROR, "not-listed"),
        &["`binary_info_config.json`"],
    ),
    mutation(
        "an operator's index is missing",
        |it| it.remove(ADD),
        half_json,
        (ERROR, "not-listed"),
        &["`add_custom.json`"],
    ),
    mutation(
        "a relocatable kernel is in no index",
        |it| {
            it.edit(PARTS, |index| drop(index["FusedMatmul"]["binaryList"].as_array_mut().unwrap().remove(0)))
        },
        || fused(UNIT, "_relocatable.json"),
        (ERROR, "not-listed"),
        &["relocatable_kernel_info_config.json"],
    ),
    mutation(
        "the indexes of a unit are missing",
        |it| it.remove("kernel/config/ascend910b"),
        || format!("kernel/{UNIT}"),
        (ERROR, "not-listed"),
        &["config/ascend910b"],
    ),
];
