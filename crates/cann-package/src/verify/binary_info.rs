//! The index of all kernels of a unit, and that of its relocatable ones, which has the same form.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::CheckedUnit;
use super::indexes::{Entry, field};
use crate::json::{Difference, difference, ports, shown};
use crate::kernel::Kernel;
use crate::problem::Problem;

/// The fields of an operator that its kernels have in their `supportInfo`.
const SHARED: [&str; 3] = ["simplifiedKeyMode", "optionalInputMode", "optionalOutputMode"];
/// The fields of an input or output that the index repeats.
const PORT_FIELDS: [&str; 3] = ["name", "index", "paramType"];

impl CheckedUnit<'_> {
    pub(super) fn check_binary_info(&mut self, path: &Path, content: &Value, named: &mut BTreeSet<String>) {
        let Some(operators) = content.as_object() else {
            self.add(path, field("(document)", "an object with an item for each operator", Some(content)));
            return;
        };
        if operators.is_empty() {
            self.add(path, Problem::EmptyIndex);
        }
        for (operator, item) in operators {
            let list_name = format!("{operator}.binaryList");
            let Some(list) = item.get("binaryList").and_then(Value::as_array) else {
                self.add(path, field(&list_name, "a list of kernels", item.get("binaryList")));
                continue;
            };
            let mut entries = Vec::new();
            for (at, value) in list.iter().enumerate() {
                let name = format!("{list_name}[{at}]");
                let json_path = format!("{name}.jsonPath");
                let place = self.named(path, &json_path, value.get("jsonPath"), "json");
                let object = self.named(path, &format!("{name}.binPath"), value.get("binPath"), "o");
                let Some(place) = place else { continue };
                named.insert(place.clone());
                if object.is_some_and(|object| object != place) {
                    let kernel = format!("{place}.json");
                    let expected = format!("`{place}.o`");
                    let found = shown(value.get("binPath"));
                    self.add(
                        path,
                        Problem::Differs { kernel, field: format!("{name}.binPath"), expected, found },
                    );
                }
                let Some(kernel) = self.kernels.get(place.as_str()) else { continue };
                entries.push(Entry { difference: entry_difference(&name, operator, kernel, value), place });
            }
            self.check_shared(path, operator, item, &entries);
            self.judge(path, entries);
        }
    }

    /// What an operator's item has for all of its kernels must be as in at least one of them.
    fn check_shared(&mut self, path: &Path, operator: &str, item: &Value, entries: &[Entry]) {
        let kernels: Vec<&Kernel> =
            entries.iter().filter_map(|entry| self.kernels.get(entry.place.as_str())).collect();
        let mut problems = Vec::new();
        for name in ["inputs", "outputs", "attrs"]
            .map(|side| format!("params.{side}"))
            .iter()
            .map(String::as_str)
            .chain(SHARED)
        {
            let differences = kernels.iter().filter_map(|kernel| {
                let support = kernel.support()?;
                Some((kernel.place.clone(), shared_difference(operator, name, support, item)))
            });
            let differences: Vec<_> = differences.collect();
            if differences.iter().all(|(_, difference)| difference.is_some())
                && let Some((place, Some(Difference { field, expected, found }))) =
                    differences.into_iter().next()
            {
                problems.push(Problem::Differs { kernel: format!("{place}.json"), field, expected, found });
            }
        }
        problems.extend(dynamic_rank(operator, item, &kernels));
        problems.into_iter().for_each(|problem| self.add(path, problem));
    }
}

/// The first difference of an entry to its kernel.
fn entry_difference(name: &str, operator: &str, kernel: &Kernel, entry: &Value) -> Option<Difference> {
    let support = kernel.support()?;
    let keys = difference(
        &format!("{name}.simplifiedKey"),
        support.get("simplifiedKey"),
        entry.get("simplifiedKey"),
    );
    let of_operator = || {
        let expected = kernel.operator().filter(|own| *own != operator && !kernel.keys().is_empty())?;
        Some(Difference {
            field: format!("{name} (operator)"),
            expected: format!("`{expected}`"),
            found: format!("`{operator}`"),
        })
    };
    let core = || {
        let expected = core_type(kernel.json.as_ref()?.get("coreType")?.as_str()?)?;
        // Unknown kinds have -1.
        let found = entry.get("coreType").filter(|found| found.as_i64() != Some(-1))?;
        difference(&format!("{name}.coreType"), Some(&json!(expected)), Some(found))
    };
    keys.or_else(of_operator).or_else(core)
}

/// The number of a kind of core in the index.
fn core_type(name: &str) -> Option<i64> {
    match name {
        "MIX" => Some(0),
        "AiCore" => Some(1),
        "VectorCore" => Some(2),
        _ => None,
    }
}

fn shared_difference(operator: &str, name: &str, support: &Value, item: &Value) -> Option<Difference> {
    let place = format!("{operator}.{name}");
    let Some(side) = name.strip_prefix("params.") else {
        let found = item.get(name);
        // Older indexes lack some of these fields.
        return found
            .and_then(|found| difference(&place, support.get(name).or(Some(&Value::Null)), Some(found)));
    };
    let params = item.get("params")?;
    let fields: &[&str] = if side == "attrs" { &["name"] } else { &PORT_FIELDS };
    let only = |value: Option<&Value>| -> Value {
        let one = |port: &Value| {
            let kept =
                fields.iter().filter_map(|field| Some(((*field).to_owned(), port.get(*field)?.clone())));
            Value::Object(opkeep_order::collected::<Map<_, _>, _>(kept))
        };
        Value::Array(ports(value).into_iter().map(one).collect())
    };
    difference(&place, Some(&only(support.get(side))), Some(&only(params.get(side))))
}

/// Whether `dynamicRankSupport` is a bool, and true if all kernels take shapes of any rank.
fn dynamic_rank(operator: &str, item: &Value, kernels: &[&Kernel]) -> Option<Problem> {
    let found = item.get("dynamicRankSupport")?;
    let Some(is_dynamic) = found.as_bool() else {
        return Some(field(&format!("{operator}.dynamicRankSupport"), "true or false", Some(found)));
    };
    let any_rank = json!([-2]);
    let takes_any = |kernel: &&Kernel| {
        let support = kernel.support()?;
        let shapes: Vec<&Value> = ["inputs", "outputs"]
            .into_iter()
            .flat_map(|side| ports(support.get(side)))
            .filter_map(|port| port.get("shape"))
            .collect();
        (!shapes.is_empty()).then(|| shapes.iter().any(|shape| **shape == any_rank))
    };
    let of_kernels: Vec<bool> = kernels.iter().filter_map(takes_any).collect();
    let problem = |expected: &str| Problem::DynamicRank {
        operator: operator.to_owned(),
        expected: expected.to_owned(),
        found: shown(Some(found)),
    };
    match (is_dynamic, of_kernels.as_slice()) {
        (_, []) => None,
        (false, kernels) if kernels.iter().all(|any| *any) => {
            Some(problem("true, since its kernels take shapes of any rank"))
        }
        (true, kernels) if kernels.iter().all(|any| !any) => {
            Some(problem("false, since its kernels take shapes of fixed ranks"))
        }
        _ => None,
    }
}
