//! Every field of the two documents, and what a change of it changes.

use std::collections::{BTreeMap, BTreeSet};

use opbuild_descriptor::{Descriptor, InfoError};
use serde_json::{Number, Value, json};

use crate::tree::{EXAMPLE, RICH, parse, paths, pattern, read_value, with, without};

/// Where a field counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counts {
    /// In the job's digest.
    Job,
    /// In the spec.
    Spec,
    /// Nowhere: another value is the same kernel.
    Not,
    /// A tensor's name: in the job's digest if it breaks a link, else nowhere.
    Link,
    /// Repeats other fields: counts once it no longer does, and its absence does not.
    Twin,
}

/// What an absent field means.
#[derive(Clone, Copy, Debug)]
enum Absent {
    /// Nothing: removing it is a change like any other.
    Counts,
    /// The file cannot be read without it.
    Refused,
    /// This value, as JSON.
    Means(&'static str),
    /// What its sibling says.
    Like(&'static str),
    /// From each dimension itself.
    Range,
    /// The same as whatever stands there.
    Nothing,
}

use Absent::{Like, Means, Nothing, Range, Refused};
use Counts::{Job, Link, Not, Spec, Twin};

/// Fields by pattern; `*` at the end is everything below. The first that fits is meant.
const FIELDS: &[(&str, Counts, Absent)] = &[
    ("job_type", Not, Nothing),
    ("job_id", Not, Nothing),
    ("source_id", Not, Nothing),
    ("future_top*", Job, Absent::Counts),
    ("job_content", Job, Refused),
    ("job_content.full_name", Not, Nothing),
    ("job_content.fusion_op_name", Not, Nothing),
    ("job_content.graph_name", Not, Nothing),
    ("job_content.scope_id", Not, Nothing),
    ("job_content.l1_size", Job, Means("-1")),
    ("job_content.future_content", Job, Absent::Counts),
    ("job_content.SocInfo", Spec, Refused),
    ("job_content.SocInfo.deviceId", Not, Nothing),
    ("job_content.SocInfo.op_debug_dir", Not, Nothing),
    ("job_content.SocInfo.kernel_meta_temp_dir", Not, Nothing),
    ("job_content.SocInfo.socVersion", Spec, Refused),
    // What they mean is a backend's word, absent or not.
    ("job_content.SocInfo.*", Spec, Absent::Counts),
    ("job_content.op_list", Job, Refused),
    ("job_content.op_list[data]", Job, Absent::Counts),
    ("job_content.op_list[op]", Job, Absent::Counts),
    ("job_content.op_list[data].name", Not, Nothing),
    ("job_content.op_list[data].type", Job, Refused),
    ("job_content.op_list[data].output_desc", Job, Refused),
    ("job_content.op_list[data].future_data", Job, Absent::Counts),
    ("job_content.op_list[op].name", Not, Nothing),
    ("job_content.op_list[op].op_name", Not, Nothing),
    ("job_content.op_list[op].ori_name*", Not, Nothing),
    ("job_content.op_list[op].py_module_path", Not, Nothing),
    ("job_content.op_list[op].type", Job, Refused),
    ("job_content.op_list[op].func_name", Job, Refused),
    ("job_content.op_list[op].module_name", Job, Refused),
    ("job_content.op_list[op].build_type", Job, Means(r#""accurately_build""#)),
    ("job_content.op_list[op].dynamic_compile_static", Job, Means("false")),
    ("job_content.op_list[op].is_dynamic_impl", Job, Means("false")),
    ("job_content.op_list[op].int64mode", Job, Means("false")),
    ("job_content.op_list[op].max_kernel_id", Job, Means("10")),
    ("job_content.op_list[op].miss_support_info", Job, Means(r#""""#)),
    ("job_content.op_list[op].pattern", Job, Means(r#""Opaque""#)),
    ("job_content.op_list[op].unknown_shape", Job, Means("false")),
    ("job_content.op_list[op].future_op*", Job, Absent::Counts),
    ("job_content.op_list[op].input_desc", Job, Absent::Counts),
    ("job_content.op_list[op].output_desc", Job, Refused),
    ("job_content.op_list[op].output_data_desc*", Twin, Absent::Counts),
    ("job_content.op_list[op].attr_desc*", Twin, Absent::Counts),
    ("job_content.op_list[op].attrs", Job, Means("[]")),
    ("job_content.op_list[op].attrs[]", Job, Absent::Counts),
    ("job_content.op_list[op].attrs[].name", Job, Refused),
    ("job_content.op_list[op].attrs[].dtype", Job, Absent::Counts),
    ("job_content.op_list[op].attrs[].value*", Job, Absent::Counts),
    ("job_content.op_list[op].attrs[].valid", Job, Means("true")),
    ("job_content.op_list[op].attrs[].future_attr*", Job, Absent::Counts),
];

/// Fields of a tensor, behind `input_desc[].` or `output_desc[].`.
const TENSOR: &[(&str, Counts, Absent)] = &[
    ("name", Link, Absent::Counts),
    ("dtype", Job, Like("data_type")),
    ("data_type", Job, Like("dtype")),
    ("format", Job, Absent::Counts),
    ("ori_format", Job, Like("format")),
    ("shape*", Job, Refused),
    ("ori_shape*", Job, Like("shape")),
    ("range*", Job, Range),
    ("param_type", Job, Means(r#""required""#)),
    ("valid", Job, Means("true")),
    ("const_value*", Job, Absent::Counts),
    ("L1_addr_offset", Job, Means("0")),
    ("L1_fusion_type", Job, Means("-1")),
    ("L1_workspace_size", Job, Means("-1")),
    ("addr_type", Job, Means("0")),
    ("split_index", Job, Means("0")),
    ("slice_offset*", Job, Means("[]")),
    ("total_shape*", Job, Means("[]")),
    ("valid_shape*", Job, Means("[]")),
    ("output_index", Job, Absent::Counts),
    ("future_tensor*", Job, Absent::Counts),
    ("future_data_tensor*", Job, Absent::Counts),
];

/// Fields of a tensor that is not given.
const NO_TENSOR: &[(&str, Counts, Absent)] = &[
    ("name", Not, Nothing),
    ("shape", Job, Refused),
    ("data_type", Job, Means("0")),
    ("valid", Job, Means("false")),
    ("param_type", Job, Means(r#""optional""#)),
    ("future_absent", Job, Absent::Counts),
];

/// The rule for the value at `at`, and its name; a value without one fails the test.
fn rule(document: &Value, at: &str) -> (String, Counts, Absent) {
    let fits = |rule: &str, pattern: &str| match rule.strip_suffix('*') {
        Some(start) => pattern.starts_with(start),
        None => pattern == rule,
    };
    let pattern = pattern(document, at);
    for desc in ["input_desc[]", "output_desc[]"] {
        let Some((_, field)) = pattern.split_once(desc) else { continue };
        let Some(field) = field.strip_prefix('.') else { return (pattern, Job, Absent::Counts) };
        let name = field.split(['.', '[']).next().unwrap();
        let tensor = &at[..at.rfind(&format!("/{name}")).unwrap()];
        let absent = document.pointer(tensor).unwrap()["shape"] == "NULL";
        let (kind, rules) = if absent { ("absent", NO_TENSOR) } else { ("tensor", TENSOR) };
        let found = rules.iter().find(|(rule, ..)| fits(rule, field));
        let (name, counts, missing) =
            found.unwrap_or_else(|| panic!("say in {kind} what a change of `{field}` changes ({at})"));
        return (format!("{kind}.{name}"), *counts, *missing);
    }
    let found = FIELDS.iter().find(|(rule, ..)| fits(rule, &pattern));
    let (name, counts, missing) =
        found.unwrap_or_else(|| panic!("say in FIELDS what a change of `{pattern}` changes ({at})"));
    ((*name).to_owned(), *counts, *missing)
}

/// The documents; each also without its twins, so that a twin that no longer fits is not what counts.
fn documents() -> Vec<(&'static str, Value)> {
    let bare = |text| {
        let mut document = parse(text);
        for op in document.pointer_mut("/job_content/op_list").unwrap().as_array_mut().unwrap() {
            op.as_object_mut().unwrap().remove("output_data_desc");
            op.as_object_mut().unwrap().remove("attr_desc");
        }
        document
    };
    let (example, rich) = (parse(EXAMPLE), parse(RICH));
    vec![
        ("example", example),
        ("rich", rich),
        ("example without twins", bare(EXAMPLE)),
        ("rich without twins", bare(RICH)),
    ]
}

/// Other values of the same type, and one of another.
fn others(value: &Value) -> Vec<Value> {
    let mut others = match value {
        Value::Null => vec![],
        Value::Bool(value) => vec![json!(!value)],
        Value::Number(number) => {
            let (int, float) = (number.as_i64(), number.as_f64().unwrap());
            let next = int.map(|int| (int + 1).into());
            vec![Value::Number(next.unwrap_or_else(|| Number::from_f64(float + 1.5).unwrap()))]
        }
        Value::String(text) => vec![json!(format!("{text}_")), json!(format!("_{text}"))],
        Value::Array(items) => {
            let last = items.last().cloned().unwrap_or_else(|| json!(1));
            let mut longer = items.clone();
            longer.push(last);
            let mut shorter = items.clone();
            let mut both = vec![Value::Array(longer)];
            if shorter.pop().is_some() {
                both.push(Value::Array(shorter));
            }
            both
        }
        Value::Object(map) => {
            let mut map = map.clone();
            map.insert("another".into(), json!(1));
            vec![Value::Object(map)]
        }
    };
    others.push(if value.is_string() { json!(123) } else { json!("of another type") });
    others
}

/// How often a tensor has this name.
fn uses(document: &Value, name: &Value) -> usize {
    let named = paths(document).into_iter().filter(|at| {
        let rule = pattern(document, at);
        rule.ends_with("put_desc[].name") && document.pointer(at) == Some(name)
    });
    named.count()
}

/// Asserts that `after` differs from `before` where it should and nowhere else. A refusal is no wrong kernel.
fn check(what: &str, before: &Descriptor, after: Result<Descriptor, InfoError>, counts: Counts) -> bool {
    let Ok(after) = after else { return false };
    let job = after.job.digest() != before.job.digest();
    let spec = after.spec != before.spec;
    let expected = (counts == Job, counts == Spec);
    assert_eq!((job, spec), expected, "(job, spec) changed, by {what}");
    assert_ne!(after, *before, "{what} is not even in the envelope");
    true
}

#[test]
fn a_changed_value_counts_where_the_table_says() {
    let mut changes: BTreeMap<String, usize> = BTreeMap::new();
    for (title, document) in documents() {
        let before = read_value(&document).unwrap();
        for at in paths(&document) {
            let value = document.pointer(&at).unwrap();
            let (name, counts, _) = rule(&document, &at);
            let counts = match counts {
                Link if uses(&document, value) > 1 => Job,
                Link => Not,
                Twin => Job,
                counts => counts,
            };
            for other in others(value) {
                let what = format!("{title} {at}: {value:.60} -> {other:.60}");
                let read = check(&what, &before, read_value(&with(&document, &at, other)), counts);
                *changes.entry(name.clone()).or_default() += usize::from(read);
            }
        }
    }
    // Every rule was put to the test, but for those whose every change makes the file unreadable.
    let unread: BTreeSet<&str> =
        changes.iter().filter(|(_, count)| **count == 0).map(|(name, _)| name.as_str()).collect();
    let expected = ["absent.shape", "job_content.op_list[data].type"];
    assert_eq!(unread, BTreeSet::from(expected));
}

#[test]
fn the_table_has_no_rule_without_a_field() {
    let used: BTreeSet<String> = documents()
        .iter()
        .flat_map(|(_, document)| {
            paths(document).into_iter().map(|at| rule(document, &at).0).collect::<Vec<_>>()
        })
        .collect();
    let named = |kind: &str, rules: &[(&str, Counts, Absent)]| -> Vec<String> {
        rules.iter().map(|(rule, ..)| format!("{kind}{rule}")).collect()
    };
    for rule in [named("", FIELDS), named("tensor.", TENSOR), named("absent.", NO_TENSOR)].concat() {
        assert!(used.contains(&rule), "no document has `{rule}`");
    }
}

#[test]
fn a_removed_field_is_its_default_or_counts() {
    // Rules with a default, by whether the field stood at it.
    let mut defaults: BTreeMap<String, BTreeSet<bool>> = BTreeMap::new();
    for (title, document) in documents().into_iter() {
        let before = read_value(&document).unwrap();
        let twins = !title.ends_with("twins");
        for at in paths(&document) {
            let Some(changed) = without(&document, &at) else { continue };
            let value = document.pointer(&at).unwrap();
            let parent = document.pointer(at.rsplit_once('/').unwrap().0).unwrap();
            let (name, counts, absent) = rule(&document, &at);
            let what = format!("{title} {at}: {value:.60} removed");
            let top = at.ends_with("_desc") && counts == Twin;
            // With twins, removing what they repeat makes them say something of their own.
            if twins && !top && counts != Twin {
                continue;
            }
            let same = match absent {
                _ if top => true,
                Nothing => true,
                Means(default) => *value == parse(default),
                Like(sibling) => parent.get(sibling) == Some(value),
                Range => {
                    let shape = parent["shape"].as_array().unwrap();
                    let own = shape.iter().map(|dim| match dim.as_i64() {
                        Some(dim) if dim < 0 => json!([1, -1]),
                        _ => json!([dim, dim]),
                    });
                    *value == own.collect::<Value>()
                }
                Refused => {
                    let error = read_value(&changed).expect_err(&what);
                    // Without its shape, an absent tensor is one whose type is no text.
                    let missing = matches!(error, InfoError::Missing { .. } | InfoError::Generation { .. });
                    assert!(missing || name == "absent.shape", "{what}: {error}");
                    continue;
                }
                Absent::Counts => false,
            };
            if matches!(absent, Means(_) | Like(_) | Range) {
                defaults.entry(name.clone()).or_default().insert(same);
            }
            let counts = match counts {
                _ if same => Not,
                Link if uses(&document, value) > 1 => Job,
                Link => Not,
                Twin => Job,
                counts => counts,
            };
            match read_value(&changed) {
                Ok(after) => {
                    let job = after.job.digest() != before.job.digest();
                    let spec = after.spec != before.spec;
                    assert_eq!((job, spec), (counts == Job, counts == Spec), "{what} ({name})");
                }
                // Only a tensor's type is neither optional nor without an alternative.
                Err(error) => {
                    assert!(matches!(error, InfoError::Missing { .. }), "{what}: {error}");
                    assert!(!same, "{what}: {error}");
                    assert!(name.ends_with("type"), "{what}: {error}");
                }
            }
        }
    }
    // Each was there with its default.
    let rules = |kind: &str, rules: &[(&str, Counts, Absent)]| -> Vec<String> {
        let with_default = rules.iter().filter(|(.., absent)| matches!(absent, Means(_) | Like(_) | Range));
        with_default.map(|(name, ..)| format!("{kind}{name}")).collect()
    };
    for rule in [rules("", FIELDS), rules("tensor.", TENSOR), rules("absent.", NO_TENSOR)].concat() {
        let seen = defaults.get(&rule).is_some_and(|seen| seen.contains(&true));
        assert!(seen, "no document has `{rule}` with its default");
    }
}
