//! The options in descriptors of MindSpore r1.2 to r2.1, and their allowed values.
//!
//! The functions return the hashed value, or `None` for the default; an error states the expected values.

use crate::model::spec::BuildSpec;

/// The names of the options, sorted.
pub const OPTION_NAMES: [&str; 17] = {
    let mut names = [""; 17];
    let mut at = 0;
    while at < names.len() {
        names[at] = VALUES[at].0;
        at += 1;
    }
    names
};

/// The implementation modes (CANN 8.1, `opc_tool`); `,optional` may follow.
const MODES: [&str; 7] = [
    "high_performance",
    "high_precision",
    "super_performance",
    "enable_float_32_execution",
    "enable_hi_float_32_execution",
    "support_out_of_bound_index",
    "keep_fp16",
];

/// The values of `op_debug_config` (CANN 8.1, `opc`).
pub const DEBUG_WORDS: [&str; 8] =
    ["oom", "dump_cce", "dump_bin", "dump_loc", "ccec_O0", "ccec_g", "check_flag", "sanitizer"];

/// The core types of a kernel.
pub const CORE_TYPES: [&str; 4] = ["AiCore", "VectorCore", "AiCore,VectorCore", "VectorCore,AiCore"];

type Take = fn(&str) -> Result<Option<String>, String>;

/// Each option with the reader of its values.
const VALUES: [(&str, Take); 17] = [
    ("autoTilingMode", |value| one_of(value, &["NO_TUNE", "RL", "GA", "RL,GA"], "NO_TUNE")),
    ("coreNum", number),
    ("coreType", |value| one_of(value, &CORE_TYPES, "")),
    ("deterministic", |value| truth(value, false)),
    ("l1Fusion", |value| truth(value, false)),
    ("l2Fusion", |value| truth(value, false)),
    ("l2Mode", whole),
    ("mdl_bank_path", any),
    ("offlineTune", |value| truth(value, false)),
    ("op_bank_path", any),
    ("op_bank_update", |value| truth(value, false)),
    ("op_debug_config", |value| words(value, &DEBUG_WORDS)),
    ("op_debug_level", |value| one_of(value, &["0", "1", "2", "3", "4"], "0")),
    ("op_impl_mode", mode),
    ("op_impl_mode_list", mode_list),
    ("status_check", |value| truth(value, false)),
    ("vector_fp_ceiling", whole),
];

/// Whether `spec` has debug options: such kernels are compiled in every build and never stored.
pub fn debug_enabled(spec: &BuildSpec) -> bool {
    let level = spec.option("op_debug_level").is_some_and(|level| level != "0");
    level || !spec.words("op_debug_config").is_empty()
}

/// Checks the value of an option of [`OPTION_NAMES`]. An absent value and values of other options are accepted.
///
/// # Errors
/// The expected values.
pub fn check_value(name: &str, value: &str) -> Result<(), String> {
    let value = value.trim();
    match VALUES.iter().find(|(known, _)| *known == name) {
        Some((_, take)) if !value.is_empty() => take(value).map(drop),
        _ => Ok(()),
    }
}

fn any(value: &str) -> Result<Option<String>, String> {
    Ok(Some(value.to_owned()))
}

fn whole(value: &str) -> Result<Option<String>, String> {
    value
        .parse::<u32>()
        .map(|number| Some(number.to_string()))
        .map_err(|_| "a whole number, 0 or more".to_owned())
}

/// One of `allowed`.
///
/// # Errors
/// The allowed values, for any other value.
pub fn one_of(value: &str, allowed: &[&str], usual: &str) -> Result<Option<String>, String> {
    match allowed.contains(&value) {
        true => Ok((value != usual).then(|| value.to_owned())),
        false => Err(allowed.join(", ")),
    }
}

/// A boolean.
///
/// # Errors
/// It is none.
pub fn truth(value: &str, usual: bool) -> Result<Option<String>, String> {
    let truth = match value.to_ascii_lowercase().as_str() {
        "true" | "1" => true,
        "false" | "0" => false,
        _ => return Err("true, false, 1 or 0".to_owned()),
    };
    Ok((truth != usual).then(|| truth.to_string()))
}

/// A number of cores.
///
/// # Errors
/// It is none.
pub fn number(value: &str) -> Result<Option<String>, String> {
    match value.parse::<u32>() {
        Ok(number) if number > 0 => Ok(Some(number.to_string())),
        _ => Err("a number of cores, 1 or more".to_owned()),
    }
}

/// A set of words in any order.
///
/// # Errors
/// A word is not in `allowed`.
pub fn words(value: &str, allowed: &[&str]) -> Result<Option<String>, String> {
    let mut words: Vec<&str> = value.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
    if words.iter().any(|word| !allowed.contains(word)) {
        return Err(format!("any of {}", allowed.join(", ")));
    }
    opkeep_order::sort(&mut words);
    words.dedup();
    Ok((!words.is_empty()).then(|| words.join(",")))
}

/// A mode, and whether it is optional.
///
/// # Errors
/// A word is no mode.
pub fn mode(value: &str) -> Result<Option<String>, String> {
    let words: Vec<&str> = value.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
    let (modes, rest): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| **word != "optional");
    match modes.iter().all(|word| MODES.contains(word)) && (!modes.is_empty() || rest.is_empty()) {
        true => Ok((!words.is_empty()).then(|| words.join(","))),
        false => Err(format!("{}; `,optional` may follow", MODES.join(", "))),
    }
}

/// `Type:mode` items, as text or as a JSON list, sorted by type.
///
/// # Errors
/// An item has another form, or a type has two modes.
pub fn mode_list(value: &str) -> Result<Option<String>, String> {
    let expected = || format!("items such as `MatMul:high_precision`, with {}", MODES.join(", "));
    let list: Vec<String> = match serde_json::from_str::<Vec<String>>(value) {
        Ok(list) => list,
        Err(_) => value.split(',').map(str::to_owned).collect(),
    };
    let mut items = Vec::new();
    for item in list.iter().map(|item| item.trim()).filter(|item| !item.is_empty()) {
        let (op_type, mode) = item.split_once(':').ok_or_else(expected)?;
        let is_name = op_type.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_name || op_type.is_empty() || !MODES.contains(&mode) {
            return Err(expected());
        }
        items.push(item.to_owned());
    }
    opkeep_order::sort(&mut items);
    items.dedup();
    if items.windows(2).any(|two| two[0].split(':').next() == two[1].split(':').next()) {
        return Err("one mode for each operator type".to_owned());
    }
    Ok((!items.is_empty()).then(|| items.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_checked() {
        assert!(OPTION_NAMES.is_sorted());
        for (name, good, bad, expected) in [
            ("autoTilingMode", "RL,GA", "rl", "NO_TUNE, RL, GA"),
            ("coreNum", "8", "0", "1 or more"),
            ("coreType", "VectorCore", "Cube", "AiCore, VectorCore"),
            ("deterministic", "True", "maybe", "true, false, 1 or 0"),
            ("l1Fusion", "0", "on", "true, false"),
            ("l2Fusion", "false", "yes", "true, false"),
            ("l2Mode", "2", "two", "whole number"),
            ("offlineTune", "false", "2", "true, false"),
            ("op_bank_update", "true", "no", "true, false"),
            ("op_debug_config", "oom, ccec_g", "oom,all", "dump_cce"),
            ("op_debug_level", "4", "5", "0, 1, 2, 3, 4"),
            ("op_impl_mode", "high_precision,optional", "best", "high_precision"),
            ("op_impl_mode_list", "Add:high_precision", "Add", "MatMul:high_precision"),
            ("status_check", "1", "-1", "true, false"),
            ("vector_fp_ceiling", "0", "0.5", "whole number"),
        ] {
            assert_eq!(check_value(name, good), Ok(()), "{name}");
            assert_eq!(check_value(name, " "), Ok(()), "{name}");
            let error = check_value(name, bad).unwrap_err();
            assert!(error.contains(expected), "{name}: {error}");
        }
        for (name, value) in [("op_bank_path", "/a b"), ("mdl_bank_path", "x"), ("brand_new", "7")] {
            assert_eq!(check_value(name, value), Ok(()));
        }
    }
}
