//! Changes every field of every document, and checks that it counts as `table` states.

use std::collections::{BTreeMap, BTreeSet};

use opkeep_descriptor::{Descriptor, Diff, IGNORED_FIELDS, InfoError};
use serde_json::{Number, Value, json};

use crate::table::{Absent, Counts, Table, tables};
use crate::tree::{parse, paths, pattern, read_value, with, without};

use Absent::{Like, Means, Nothing, Range, Refused};
use Counts::{Fused, Job, Link, Not, Repeat, Spec};

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
fn uses(table: &Table, document: &Value, name: &Value) -> usize {
    let field = format!("put_desc[].{}", table.name);
    let named = paths(document)
        .into_iter()
        .filter(|at| pattern(document, at).ends_with(&field) && document.pointer(at) == Some(name));
    named.count()
}

/// Asserts that `after` differs from `before` where it should and nowhere else. A refusal is no wrong kernel.
fn check(what: &str, before: &Descriptor, after: Result<Descriptor, InfoError>, counts: Counts) -> bool {
    let Ok(after) = after else { return false };
    let job = after.job.digest() != before.job.digest();
    let spec = after.spec != before.spec;
    let expected = (counts == Job, counts == Spec);
    let diff = Diff::of_jobs(&before.job, &after.job);
    assert_eq!(job, !diff.is_empty(), "the difference, by {what}: {diff}");
    assert_eq!((job, spec), expected, "(job, spec) changed, by {what}");
    assert_ne!(after, *before, "{what} is not even in the envelope");
    true
}

#[test]
fn a_changed_value_counts_where_the_table_says() {
    for table in tables() {
        let mut changes: BTreeMap<String, usize> = BTreeMap::new();
        for (title, document) in &table.documents {
            let before = read_value(document).unwrap();
            for at in paths(document) {
                let value = document.pointer(&at).unwrap();
                let (name, counts, _) = table.rule(document, &at);
                let counts = match counts {
                    Link if uses(&table, document, value) > 1 => Job,
                    Fused if before.job.ops.len() > 1 => Job,
                    Link | Fused => Not,
                    Repeat => Job,
                    counts => counts,
                };
                for other in others(value) {
                    let what = format!("{title} {at}: {value:.60} -> {other:.60}");
                    let read = check(&what, &before, read_value(&with(document, &at, other)), counts);
                    *changes.entry(name.clone()).or_default() += usize::from(read);
                }
            }
        }
        // Every rule was tested, except those for which every change makes the file unreadable.
        let unread: Vec<&str> =
            changes.iter().filter(|(_, count)| **count == 0).map(|(name, _)| name.as_str()).collect();
        assert_eq!(unread, table.unread);
    }
}

#[test]
fn no_table_has_a_rule_without_a_field() {
    for table in tables() {
        let mut used = BTreeSet::new();
        for (_, document) in &table.documents {
            used.extend(paths(document).into_iter().map(|at| table.rule(document, &at).0));
        }
        for (rule, _) in table.rows() {
            assert!(used.contains(&rule), "no document has `{rule}`");
        }
    }
}

#[test]
fn a_removed_field_is_its_default_or_counts() {
    for table in tables() {
        // Rules with a default, by whether the field stood at it.
        let mut defaults: BTreeMap<String, BTreeSet<bool>> = BTreeMap::new();
        for (title, document) in &table.documents {
            removed_fields(&table, title, document, &mut defaults);
        }
        // Each was there with its default.
        for (rule, absent) in table.rows() {
            let seen = defaults.get(&rule).is_some_and(|seen| seen.contains(&true));
            assert!(seen || !matches!(absent, Means(_) | Like(_) | Range), "no `{rule}` with its default");
        }
    }
}

fn removed_fields(
    table: &Table,
    title: &str,
    document: &Value,
    defaults: &mut BTreeMap<String, BTreeSet<bool>>,
) {
    let before = read_value(document).unwrap();
    let repeats = ["example", "rich", "fused"].contains(&title);
    for at in paths(document) {
        let Some(changed) = without(document, &at) else { continue };
        let value = document.pointer(&at).unwrap();
        let (name, counts, absent) = table.rule(document, &at);
        let what = format!("{title} {at}: {value:.60} removed");
        let top = at.ends_with("_desc") && counts == Repeat;
        // If a repeated field is removed, its repetition counts.
        if repeats && !top && counts != Repeat {
            continue;
        }
        let parent = document.pointer(at.rsplit_once('/').unwrap().0).unwrap();
        let same = match absent {
            _ if top => true,
            Nothing => true,
            Means(default) => *value == parse(default),
            Like(sibling) => parent.get(sibling) == Some(value),
            Range => *value == own_range(&parent["shape"]),
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
            Link if uses(table, document, value) > 1 => Job,
            Fused if before.job.ops.len() > 1 => Job,
            Link | Fused => Not,
            Repeat => Job,
            counts => counts,
        };
        match read_value(&changed) {
            Ok(after) => {
                let job = after.job.digest() != before.job.digest();
                let spec = after.spec != before.spec;
                assert_eq!((job, spec), (counts == Job, counts == Spec), "{what} ({name})");
                assert_eq!(job, !Diff::of_jobs(&before.job, &after.job).is_empty(), "{what}");
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

/// The range of each dimension that may only be itself.
fn own_range(shape: &Value) -> Value {
    let own = shape.as_array().unwrap().iter().map(|dim| match dim.as_i64() {
        Some(dim) if dim < 0 => json!([1, -1]),
        _ => json!([dim, dim]),
    });
    own.collect()
}

/// The tables in the crate's documentation name each field of the tables here.
#[test]
fn the_documentation_names_every_field() {
    const DOCUMENTATION: &str = include_str!("../../src/what_counts.md");
    let ours = |name: &str| name.starts_with("future") || name.starts_with("target_info.");
    for table in tables() {
        for (rule, _) in table.rows() {
            let field = rule.trim_end_matches(['*', '.']).trim_end_matches("[]").trim_end_matches("[data]");
            let field = field.trim_end_matches("[op]").rsplit('.').next().unwrap();
            let named = DOCUMENTATION.contains(&format!("`{field}`"));
            assert!(named || ours(field), "state in what_counts.md whether `{field}` counts ({rule})");
        }
    }
    for row in IGNORED_FIELDS {
        assert!(DOCUMENTATION.contains(&format!("`{}`", row.field)), "{}", row.field);
    }
}
