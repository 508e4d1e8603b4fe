//! CANN's FE: a fixed order of steps; the first step that fails ends the operator.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::json::raw::{self, Members, text};
use crate::lint::lints::{Effect, Lint, Lints, Vendor};
use crate::lint::value::{Cpp, int32, wide};
use crate::meta::document;
use crate::{Magic, MetaError};

/// The fields of this `.json` that CANN's FE would refuse, ignore or misread, in FE's reading order.
///
/// FE stops at the first [`Effect::Refuse`]. Fields that FE does not read have no lint.
pub fn fe_lints(json: &[u8]) -> Vec<Lint> {
    let mut fe = Lints::of(Vendor::Fe);
    match document(json) {
        Ok((_, Some(members))) if is_offline_model(&members) => {}
        Ok((_, Some(members))) => STEPS.iter().for_each(|step| step(&mut fe, &members)),
        Ok((raw, None)) => fe.refuse("(document)", "an object", Some(raw)),
        Err(MetaError::TooLarge { .. }) => {}
        Err(error) => fe.refuse("(document)", "JSON", Some(&error.to_string())),
    }
    fe.list
}

const STEPS: [fn(&mut Lints, &Members<'_>); 21] = [
    task_ration,
    core_types,
    magic,
    block_dim,
    schedule_mode,
    attributes,
    workspace,
    parameters,
    binary,
    names,
    compression,
    support_info,
    tiling_sizes,
    header,
    kernel_list,
    spec_workspace,
    argument_modes,
    knowledge_bank,
    debug,
    run_info,
    fat_binary,
];

/// FE reads no `.json` of an offline model.
fn is_offline_model(members: &Members<'_>) -> bool {
    string(members, "binFileSuffix").is_some_and(|suffix| suffix == ".om")
}

/// The text of a string field.
fn string<'a>(members: &Members<'a>, name: &str) -> Option<Cow<'a, str>> {
    members.get(name).and_then(text)
}

/// The value of an optional field that must be of `kind` if present.
fn optional<'a>(fe: &mut Lints, members: &Members<'a>, name: &str, kind: Cpp) -> Option<&'a str> {
    let raw = members.get(name)?;
    if kind.accepts(raw) {
        return Some(raw);
    }
    fe.refuse(name, kind.expected(), Some(raw));
    None
}

/// The same for a field of an object.
fn inner<'a>(
    fe: &mut Lints,
    object: (&str, &Members<'a>),
    name: &str,
    kind: Cpp,
    needed: bool,
) -> Option<&'a str> {
    let (at, members) = object;
    match members.get(name) {
        Some(raw) if kind.accepts(raw) => Some(raw),
        None if !needed => None,
        found => {
            fe.refuse(format!("{at}.{name}"), kind.expected(), found);
            None
        }
    }
}

fn task_ration(fe: &mut Lints, members: &Members<'_>) {
    let Some(raw) = optional(fe, members, "taskRation", Cpp::Text) else { return };
    match text(raw).as_deref() {
        None | Some("") => {}
        Some("tilingKey") => ration_of_each(fe, members),
        Some(ration) => ratio(fe, "taskRation".to_owned(), ration, raw),
    }
}

fn ratio(fe: &mut Lints, field: String, ration: &str, raw: &str) {
    let sides = ration.split_once(':').and_then(|(cube, vector)| {
        Some((cube.trim().parse::<i32>().ok()?, vector.trim().parse::<i32>().ok()?))
    });
    if sides.is_none_or(|sides| sides == (0, 0)) {
        fe.refuse(field, "`tilingKey`, or two numbers such as `1:2`, not both 0", Some(raw));
    }
}

/// Each kernel has its own ratio, found by its tiling key.
fn ration_of_each(fe: &mut Lints, members: &Members<'_>) {
    let list = members.get("kernelList");
    let Some(items) = list.and_then(raw::items).filter(|items| !items.is_empty()) else {
        fe.refuse("kernelList", "a list, since `taskRation` is `tilingKey`", list);
        return;
    };
    let mut keys = HashSet::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        let at = format!("kernelList[{index}]");
        let Ok(entry) = Members::read(item) else {
            fe.refuse(at, "an object", Some(item));
            continue;
        };
        if let Some(key) = inner(fe, (&at, &entry), "tilingKey", Cpp::Wide, true)
            && wide(key).is_some_and(|key| !keys.insert(key))
        {
            fe.refuse(format!("{at}.tilingKey"), "a key that no other kernel has", Some(key));
        }
        if let Some(raw) = inner(fe, (&at, &entry), "taskRation", Cpp::Text, true) {
            ratio(fe, format!("{at}.taskRation"), &text(raw).unwrap_or_default(), raw);
        }
    }
}

fn core_types(fe: &mut Lints, members: &Members<'_>) {
    if let Some(raw) = optional(fe, members, "core_type", Cpp::Text)
        && !matches!(text(raw).as_deref(), Some("AIC" | "AIV"))
    {
        fe.refuse("core_type", "`AIC` or `AIV`", Some(raw));
    }
    const KNOWN: [&str; 6] = ["VectorCore", "CubeCore", "AiCore", "MIX_VECTOR_CORE", "MIX_AICORE", "MIX"];
    if let Some(raw) = optional(fe, members, "coreType", Cpp::Text)
        && text(raw).is_none_or(|core| !KNOWN.contains(&&*core))
    {
        let expected = "AiCore, CubeCore, VectorCore, MIX, MIX_AICORE or MIX_VECTOR_CORE";
        fe.ignore("coreType", expected, Some(raw), "the kernel has no core type");
    }
}

fn magic(fe: &mut Lints, members: &Members<'_>) {
    let known = |raw| text(raw).and_then(|name| Magic::from_name(&name)).is_some_and(Magic::accepted_by_fe);
    let raw = members.get("magic");
    if !raw.is_some_and(known) {
        fe.refuse("magic", "one of the six names of ELF binaries, such as RT_DEV_BINARY_MAGIC_ELF", raw);
    }
}

fn block_dim(fe: &mut Lints, members: &Members<'_>) {
    let Some(raw) = optional(fe, members, "blockDim", Cpp::Int32) else { return };
    match int32(raw) {
        Some((read, meant)) if (-1..=65535).contains(&read) => {
            if i128::from(read) != meant {
                fe.add(
                    Effect::Misread,
                    "blockDim",
                    "a whole number from -1 to 65535",
                    Some(raw),
                    format!("as {read}"),
                );
            }
        }
        _ => fe.refuse("blockDim", "a whole number from -1 to 65535", Some(raw)),
    }
}

fn schedule_mode(fe: &mut Lints, members: &Members<'_>) {
    let Some(raw) = members.get("schedule_mode") else { return };
    let expected = "a whole number from 0 to 4294967295";
    if !Cpp::Wide.accepts(raw) {
        fe.ignore("schedule_mode", expected, Some(raw), "it counts as 0");
    } else if wide(raw).is_none_or(|mode| !(0..=0xffff_ffff).contains(&mode)) {
        fe.refuse("schedule_mode", expected, Some(raw));
    }
}

fn attributes(fe: &mut Lints, members: &Members<'_>) {
    optional(fe, members, "modeInArgsFirstField", Cpp::Uint32);
    optional(fe, members, "intercoreSync", Cpp::Int32);
    optional(fe, members, "batchBindOnly", Cpp::Int32);
}

fn workspace(fe: &mut Lints, members: &Members<'_>) {
    let Some(raw) = optional(fe, members, "workspace", Cpp::Object) else { return };
    let Ok(workspace) = Members::read(raw) else { return };
    let at = ("workspace", &workspace);
    let num = inner(fe, at, "num", Cpp::Int32, true);
    let size = inner(fe, at, "size", Cpp::WideList, true).and_then(raw::items);
    let (Some(num), Some(size)) = (num, size) else { return };
    let num_of = |len: usize| int32(num).is_some_and(|(read, _)| i64::from(read) == len as i64);
    if !num_of(size.len()) {
        fe.refuse("workspace.num", "the number of items in `workspace.size`", Some(num));
    }
    let Some(raw) = workspace.get("type") else { return };
    match raw::items(raw).filter(|kinds| kinds.iter().all(|kind| Cpp::Int32.accepts(kind))) {
        None => fe.ignore("workspace.type", "a list of whole numbers", Some(raw), "all is in HBM"),
        Some(kinds) if !kinds.is_empty() && !num_of(kinds.len()) => {
            fe.refuse("workspace.type", "as many items as `workspace.num`, or none", Some(raw));
        }
        Some(kinds) => {
            let known = |kind: &&str| int32(kind).is_some_and(|(kind, _)| (0..=2).contains(&kind));
            if !kinds.iter().all(known) {
                fe.ignore("workspace.type", "0 HBM, 1 L1 or 2 L2", Some(raw), "other areas are in HBM");
            }
        }
    }
}

fn parameters(fe: &mut Lints, members: &Members<'_>) {
    let Some(list) = optional(fe, members, "parameters", Cpp::List) else { return };
    let items = raw::items(list).unwrap_or_default();
    let Some(first) = items.iter().find(|item| **item != "null") else { return };
    if !Cpp::Object.accepts(first) {
        if !Cpp::WideList.accepts(list) {
            fe.refuse("parameters", "whole numbers only, since the first is no object", Some(list));
        }
        return;
    }
    for (index, item) in items.into_iter().enumerate().filter(|(_, item)| *item != "null") {
        let at = format!("parameters[{index}]");
        let Ok(clear) = Members::read(item) else {
            fe.refuse(at, "null or an object, since the first is one", Some(item));
            continue;
        };
        let Some(dtype) = inner(fe, (&at, &clear), "dtype", Cpp::Text, true) else { continue };
        if text(dtype).is_none_or(|dtype| !dtype.contains("int") && !dtype.contains("float")) {
            fe.refuse(format!("{at}.dtype"), "a type with `int` or `float` in its name", Some(dtype));
        }
        inner(fe, (&at, &clear), "init_value", Cpp::Wide, true);
    }
}

fn binary(fe: &mut Lints, members: &Members<'_>) {
    optional(fe, members, "wspMode", Cpp::Bool);
    for name in ["binFileName", "binFileSuffix"] {
        if string(members, name).is_none_or(|text| text.is_empty()) {
            fe.refuse(name, "a string that is not empty", members.get(name));
        }
    }
    let shared = string(members, "binFileSuffix").is_some_and(|suffix| suffix == ".so");
    match members.get("sha256") {
        found if shared && string(members, "sha256").is_none_or(|text| text.is_empty()) => {
            fe.refuse("sha256", "a string that is not empty, since `binFileSuffix` is `.so`", found);
        }
        _ => {
            optional(fe, members, "sha256", Cpp::Text);
        }
    }
}

fn names(fe: &mut Lints, members: &Members<'_>) {
    optional(fe, members, "kernelName", Cpp::Text);
}

fn compression(fe: &mut Lints, members: &Members<'_>) {
    optional(fe, members, "compress_parameters", Cpp::WideList);
    optional(fe, members, "weight_repeat", Cpp::Wide);
}

fn support_info(fe: &mut Lints, members: &Members<'_>) {
    let Some(raw) = members.get("supportInfo") else { return };
    let debug = Members::read(raw).map(|info| info.get("op_debug_config"));
    let (field, expected, found) = match debug {
        Err(_) => ("supportInfo", "an object", raw),
        Ok(Some(debug)) if !Cpp::List.accepts(debug) => ("supportInfo.op_debug_config", "a list", debug),
        Ok(_) => return,
    };
    fe.ignore(field, expected, Some(found), "memory is not checked");
}

fn tiling_sizes(fe: &mut Lints, members: &Members<'_>) {
    for name in ["opParaSize", "oriOpParaSize"] {
        if let Some(raw) = members.get(name).filter(|raw| !Cpp::Wide.accepts(raw)) {
            fe.ignore(name, Cpp::Wide.expected(), Some(raw), "it counts as 0");
        }
    }
}

fn header(fe: &mut Lints, members: &Members<'_>) {
    optional(fe, members, "headerFileSuffix", Cpp::Text);
}

fn kernel_list(fe: &mut Lints, members: &Members<'_>) {
    let Some(raw) = members.get("kernelList") else { return };
    let Some(items) = raw::items(raw) else {
        fe.ignore("kernelList", "a list", Some(raw), "there is no first kernel");
        return;
    };
    let Some(first) = items.first() else { return };
    let name = Members::read(first).ok().and_then(|entry| entry.get("kernelName"));
    if !name.is_some_and(|name| Cpp::Text.accepts(name)) {
        fe.ignore("kernelList[0].kernelName", "a string", name, "there is no first kernel");
    }
}

fn spec_workspace(fe: &mut Lints, members: &Members<'_>) {
    const NAME: &str = "globalworkspace_spec_workspace";
    let Some(raw) = optional(fe, members, NAME, Cpp::Object) else { return };
    let Ok(workspace) = Members::read(raw) else { return };
    inner(fe, (NAME, &workspace), "size", Cpp::Wide, true);
    inner(fe, (NAME, &workspace), "type", Cpp::Wide, false);
}

fn argument_modes(fe: &mut Lints, members: &Members<'_>) {
    optional(fe, members, "optionalInputMode", Cpp::Text);
    if let Some(raw) = optional(fe, members, "optionalOutputMode", Cpp::Text)
        && !matches!(text(raw).as_deref(), Some("no_placeholder" | "gen_placeholder"))
    {
        fe.refuse("optionalOutputMode", "`no_placeholder` or `gen_placeholder`", Some(raw));
    }
    optional(fe, members, "dynamicParamMode", Cpp::Text);
}

fn knowledge_bank(fe: &mut Lints, members: &Members<'_>) {
    optional(fe, members, "KBHit", Cpp::Bool);
}

fn debug(fe: &mut Lints, members: &Members<'_>) {
    let options = optional(fe, members, "debugOptions", Cpp::Text).and_then(text);
    if options.is_some_and(|options| !options.is_empty()) {
        let size = members.get("debugBufSize");
        if !size.is_some_and(|raw| Cpp::Wide.accepts(raw) && wide(raw).is_some_and(|size| size > 0)) {
            fe.refuse("debugBufSize", "a whole number above 0, since there are `debugOptions`", size);
        }
    }
    if let Some(raw) = members.get("localMemorySize")
        && !(Cpp::Wide.accepts(raw) && wide(raw).is_some_and(|size| (1..=0xffff_ffff).contains(&size)))
    {
        let expected = "a whole number from 1 to 4294967295";
        fe.ignore("localMemorySize", expected, Some(raw), "no local memory is reserved");
    }
}

fn run_info(fe: &mut Lints, members: &Members<'_>) {
    if let Some(raw) = optional(fe, members, "runInfo", Cpp::Object)
        && let Ok(info) = Members::read(raw)
    {
        let at = ("runInfo", &info);
        for name in ["block_dim", "local_memory_size", "schedule_mode", "tiling_cond", "tiling_key"] {
            inner(fe, at, name, Cpp::Int32, true);
        }
        inner(fe, at, "aicpu_block_dim", Cpp::Int32, false);
        inner(fe, at, "clear_atomic", Cpp::Bool, true);
        if let Some(data) = inner(fe, at, "tiling_data", Cpp::Text, true) {
            let digits = text(data).unwrap_or_default();
            if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                fe.refuse("runInfo.tiling_data", "hexadecimal digits", Some(data));
            }
        }
    }
    optional(fe, members, "supportSuperKernel", Cpp::Wide);
}

/// Only fat binaries have configuration keys, and every kernel of one needs its own.
fn fat_binary(fe: &mut Lints, members: &Members<'_>) {
    let items = members.get("kernelList").and_then(raw::items).unwrap_or_default();
    let has_key = |item: &&str| Members::read(item).is_ok_and(|entry| entry.get("configKey").is_some());
    if !items.iter().any(has_key) {
        return;
    }
    for (index, item) in items.into_iter().enumerate() {
        let at = format!("kernelList[{index}]");
        let Ok(entry) = Members::read(item) else { continue };
        for name in ["configKey", "blockDim", "workspaceSize"] {
            inner(fe, (&at, &entry), name, Cpp::Wide, true);
        }
        inner(fe, (&at, &entry), "kernelName", Cpp::Text, true);
    }
}

#[cfg(test)]
mod tests;
