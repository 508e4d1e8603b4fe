//! Simplified keys: `OPERATOR/d=N,p=N/DTYPE,FORMAT/...`, by which the runtime finds a kernel for its inputs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use super::CheckedUnit;
use crate::json::{ports, shortened};
use crate::kernel::Kernel;
use crate::problem::Problem;

impl CheckedUnit<'_> {
    pub(super) fn check_keys(&mut self) {
        let mut first_with: BTreeMap<(bool, &str), &str> = BTreeMap::new();
        let mut problems: Vec<(PathBuf, Problem)> = Vec::new();
        for kernel in self.kernels.values() {
            // One finding for each pair of kernels, which mostly share all keys.
            let mut others: Vec<&str> = Vec::new();
            for key in kernel.keys() {
                let known =
                    *first_with.entry((kernel.is_relocatable(), key)).or_insert(kernel.place.as_str());
                if known != kernel.place && !others.contains(&known) {
                    others.push(known);
                    let (key, other) = (shortened(key), format!("{known}.json"));
                    problems.push((kernel.file.clone(), Problem::DuplicateKey { key, other }));
                }
            }
            problems.extend(mismatch(kernel).map(|problem| (kernel.file.clone(), problem)));
        }
        problems.into_iter().for_each(|(file, problem)| self.add(&file, problem));
    }
}

/// The first key that does not fit the types of the kernel's inputs and outputs, or is of another operator than the first.
fn mismatch(kernel: &Kernel) -> Option<Problem> {
    let support = kernel.support()?;
    let all = ["inputs", "outputs"].into_iter().flat_map(|side| list(support.get(side)));
    // The first one of a list of inputs stands for all, and optional ones do not count.
    let types: Vec<Option<&str>> = all
        .filter(|port| port.get("paramType").and_then(Value::as_str) != Some("optional"))
        .map(|port| port.get("dtype").and_then(Value::as_str))
        .collect();
    kernel.keys().into_iter().find_map(|key| {
        let mut parts = key.split('/');
        let operator = parts.next().unwrap_or_default();
        let problem = |expected: String, found: String| {
            Some(Problem::KeyMismatch {
                key: shortened(key),
                expected: shortened(&expected),
                found: shortened(&found),
            })
        };
        if kernel.operator() != Some(operator) {
            return problem(
                format!("operator `{}`", kernel.operator().unwrap_or_default()),
                format!("`{operator}`"),
            );
        }
        let codes: Vec<&str> = parts.skip(1).collect();
        // Keys of other modes have other forms.
        if support.get("simplifiedKeyMode").and_then(Value::as_i64) != Some(0) || codes.len() != types.len() {
            return None;
        }
        let wrong = types.iter().zip(&codes).enumerate().find(|(_, (dtype, code))| {
            let expected = dtype.and_then(type_code);
            let found = code.split(',').next().and_then(|code| code.parse().ok());
            expected.is_some_and(|expected| found != Some(expected))
        });
        let (at, (dtype, code)) = wrong?;
        problem(format!("`{}` at position {at}", dtype.unwrap_or_default()), format!("`{code}`"))
    })
}

fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    let items = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(|port| match port {
        Value::Array(_) => ports(Some(port)).first().copied(),
        Value::Null => None,
        port => Some(port),
    })
}

/// The number of an element type in keys, which is that of CANN's graph engine.
fn type_code(dtype: &str) -> Option<u32> {
    const TYPES: [(&str, u32); 14] = [
        ("float32", 0),
        ("float16", 1),
        ("int8", 2),
        ("int32", 3),
        ("uint8", 4),
        ("int16", 6),
        ("uint16", 7),
        ("uint32", 8),
        ("int64", 9),
        ("uint64", 10),
        ("double", 11),
        ("bool", 12),
        ("bfloat16", 27),
        ("int4", 29),
    ];
    TYPES.iter().find(|(name, _)| *name == dtype).map(|(_, code)| *code)
}
