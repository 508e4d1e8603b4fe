//! The options of a build: their names, their allowed values, and whether they change kernels.

use std::collections::BTreeMap;

use opkeep_backend::BackendError;
use opkeep_descriptor::options::{CORE_TYPES, DEBUG_WORDS, mode, mode_list, number, one_of, truth, words};
use opkeep_descriptor::{BuildSpec, OPTION_NAMES};

/// The names of an option for frameworks and for the compiler, and its effective value.
struct Known {
    /// Its name here.
    name: &'static str,
    /// Its other names.
    others: &'static [&'static str],
    /// The effective value of a stated one; None if it is the default.
    take: fn(&str) -> Result<Option<String>, String>,
}

const fn known(
    name: &'static str,
    others: &'static [&'static str],
    take: fn(&str) -> Result<Option<String>, String>,
) -> Known {
    Known { name, others, take }
}

/// Every known option. Of the last two, only the values without effect are accepted.
const KNOWN: [Known; 14] = [
    known("op_debug_level", &[], |value| one_of(value, &["0", "1", "2", "3", "4"], "0")),
    known("op_debug_config", &[], |value| words(value, &DEBUG_WORDS)),
    known("deterministic", &["op_deterministic"], |value| truth(value, false)),
    known("impl_mode", &["op_impl_mode", "op_select_implmode"], mode),
    known("impl_mode_list", &["op_impl_mode_list"], mode_list),
    known("aicore_num", &["coreNum", "core_num"], number),
    known("core_type", &["coreType"], |value| one_of(value, &CORE_TYPES, "")),
    known("mdl_bank_path", &[], |value| Ok(Some(value.to_owned()))),
    known("op_bank_path", &[], |value| Ok(Some(value.to_owned()))),
    known("status_check", &[], |value| truth(value, false)),
    known("l1Fusion", &["l1_fusion"], |value| truth(value, false)),
    known("l2Fusion", &["l2_fusion"], |value| truth(value, false)),
    known("autoTilingMode", &[], |value| only(value, &["NO_TUNE"])),
    known("offlineTune", &[], |value| only(value, &["false"])),
];

/// Options of frameworks that the compiler of single operators does not have.
const WITHOUT_EFFECT: [&str; 4] = ["l2Mode", "op_bank_update", "vector_fp_ceiling", "deviceId"];

/// The effective options by their names here, without default values.
///
/// # Errors
/// [`BackendError::Option`].
pub(crate) fn resolve(spec: &BuildSpec) -> Result<BTreeMap<String, String>, BackendError> {
    let mut effective = BTreeMap::new();
    for given in spec.options.keys() {
        let Some(value) = spec.option(given).filter(|value| value != "[]") else { continue };
        let Some(known) =
            KNOWN.iter().find(|known| known.name == given || known.others.contains(&given.as_str()))
        else {
            if !WITHOUT_EFFECT.contains(&given.as_str()) {
                // The effect of such an option is unknown here.
                effective.insert(given.clone(), value);
            }
            continue;
        };
        let taken = (known.take)(value.trim()).map_err(|expected| BackendError::Option {
            name: given.clone(),
            value: value.clone(),
            expected,
        })?;
        if let Some(taken) = taken {
            let before = effective.insert(known.name.to_owned(), taken.clone());
            if let Some(before) = before.filter(|before| *before != taken) {
                let expected = format!("`{before}`, as the same option says under another name");
                return Err(BackendError::Option { name: given.clone(), value, expected });
            }
        }
    }
    Ok(effective)
}

/// The names of all known options, and of those that descriptors have.
pub(crate) fn names() -> Vec<&'static str> {
    let known = KNOWN.iter().flat_map(|known| [known.name].into_iter().chain(known.others.iter().copied()));
    let mut names: Vec<&str> = known.chain(WITHOUT_EFFECT).chain(OPTION_NAMES).collect();
    opkeep_order::sort(&mut names);
    names.dedup();
    names
}

/// Whether an effective option is known here.
pub(crate) fn has_meaning(name: &str) -> bool {
    KNOWN.iter().any(|known| known.name == name)
}

/// The implementation mode of an operator: the list's mode for its type, or else the one for all operators.
pub(crate) fn mode_of<'a>(options: &'a BTreeMap<String, String>, op_type: &str) -> Option<&'a str> {
    let listed = options.get("impl_mode_list").and_then(|list| {
        list.split(',').find_map(|item| item.split_once(':').filter(|(name, _)| *name == op_type))
    });
    listed.map(|(_, mode)| mode).or(options.get("impl_mode").map(String::as_str))
}

/// Accepts only values without effect on the compiler of single operators.
fn only(value: &str, allowed: &[&str]) -> Result<Option<String>, String> {
    match allowed.contains(&value) {
        true => Ok(None),
        false => Err(format!("{}; the compiler of single operators has no such option", allowed.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resolved(options: serde_json::Value) -> Result<BTreeMap<String, String>, String> {
        let mut spec = BuildSpec::new("Ascend910B1");
        spec.options =
            options.as_object().unwrap().iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        resolve(&spec).map_err(|error| error.to_string())
    }

    #[test]
    fn default_values_do_not_count() {
        // The options that MindSpore writes for a plain build.
        let plain = json!({"autoTilingMode": "NO_TUNE", "coreNum": "", "coreType": "", "deviceId": "2",
            "l1Fusion": "false", "l2Fusion": "false", "l2Mode": "2", "mdl_bank_path": "", "offlineTune": false,
            "op_bank_path": "", "op_bank_update": false, "op_debug_level": "0", "op_impl_mode": "",
            "op_impl_mode_list": [], "vector_fp_ceiling": "", "deterministic": "false", "status_check": "0"});
        assert_eq!(resolved(plain).unwrap(), BTreeMap::new());
    }

    #[test]
    fn the_same_under_any_name_is_the_same() {
        let one = resolved(
            json!({"op_impl_mode": "high_precision", "coreNum": "8", "op_debug_config": "oom, ccec_g",
            "op_impl_mode_list": ["Relu:high_performance", "Add:high_precision"], "deterministic": "1"}),
        );
        let two = resolved(
            json!({"impl_mode": "high_precision", "aicore_num": 8, "op_debug_config": "ccec_g,oom,oom",
            "impl_mode_list": "Add:high_precision,Relu:high_performance", "deterministic": true}),
        );
        assert_eq!(one.unwrap(), two.clone().unwrap());
        let options = two.unwrap();
        assert_eq!(mode_of(&options, "Relu"), Some("high_performance"));
        assert_eq!(mode_of(&options, "Mul"), Some("high_precision"));
        assert_eq!(mode_of(&BTreeMap::new(), "Mul"), None);
        assert!(resolved(json!({"op_impl_mode": "high_precision", "impl_mode": "keep_fp16"})).is_err());
    }

    #[test]
    fn values_out_of_range_are_reported_with_the_range() {
        for (name, value, says) in [
            ("op_debug_level", "5", "0, 1, 2, 3, 4"),
            ("op_debug_config", "oom,all", "any of oom"),
            ("deterministic", "all", "true, false"),
            ("op_impl_mode", "best", "high_performance"),
            ("op_impl_mode", "optional", "high_performance"),
            ("op_impl_mode_list", "Add", "MatMul:high_precision"),
            ("op_impl_mode_list", "Add:keep_fp16,Add:high_precision", "one mode for each"),
            ("coreNum", "0", "1 or more"),
            ("coreNum", "-3", "1 or more"),
            ("coreType", "Cube", "AiCore"),
            ("autoTilingMode", "RL,GA", "NO_TUNE"),
        ] {
            let error = resolved(json!({name: value})).unwrap_err();
            assert!(error.contains(says) && error.contains(name) && error.contains(value), "{error}");
        }
        assert_eq!(resolved(json!({"something_new": "7"})).unwrap()["something_new"], "7");
    }
}
