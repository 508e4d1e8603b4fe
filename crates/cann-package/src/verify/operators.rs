//! The operator information of a unit, and the generated Python of its operators.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use opkeep_cann_meta::is_chip;
use serde_json::{Map, Value};

use super::CheckedUnit;
use super::indexes::field;
use crate::json::{ports, shown};
use crate::kernel::{Kernel, unreadable};
use crate::problem::Problem;

/// The largest Python file that is read, in bytes.
const MAX_PYTHON_BYTES: u64 = 4 << 20;

impl CheckedUnit<'_> {
    pub(super) fn check_operators(&mut self) {
        let mut known: BTreeMap<String, (PathBuf, Value)> = BTreeMap::new();
        let mut is_complete = !self.files.ops_info.is_empty();
        for path in &self.files.ops_info {
            self.check_info_name(path);
            match self.read_index(path) {
                Some(Value::Object(operators)) => {
                    known.extend(operators.into_iter().map(|(name, info)| (name, (path.clone(), info))));
                }
                found => {
                    is_complete = false;
                    if let Some(found) = found {
                        let problem =
                            field("(document)", "an object with an item for each operator", Some(&found));
                        self.add(path, problem);
                    }
                }
            }
        }
        if is_complete {
            self.compare_kernels(&known);
        }
        for (operator, (path, info)) in &known {
            self.check_python(path, operator, info);
        }
    }

    /// The file is named after its unit.
    fn check_info_name(&mut self, path: &Path) {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let of_name = name.strip_prefix("aic-").and_then(|rest| rest.split("-ops-info").next());
        if let Some(found) = of_name.filter(|found| is_chip(found) && *found != self.files.name) {
            let (expected, found) = (self.files.name.clone(), found.to_owned());
            self.add(path, Problem::OtherUnit { field: "the file's name".to_owned(), expected, found });
        }
    }

    fn compare_kernels(&mut self, known: &BTreeMap<String, (PathBuf, Value)>) {
        let mut problems: Vec<(PathBuf, Problem)> = Vec::new();
        let mut with_kernels: BTreeSet<&str> = BTreeSet::new();
        let parts = self.parts();
        for kernel in
            self.kernels.values().filter(|kernel| kernel.is_kernel && !parts.contains(&kernel.place))
        {
            let (Some(operator), Some(support)) = (kernel.operator(), kernel.support()) else { continue };
            let is_new = with_kernels.insert(operator);
            match known.get(operator) {
                Some((_, info)) => {
                    problems.extend(
                        port_problem(kernel, support, info).map(|problem| (kernel.file.clone(), problem)),
                    );
                }
                None if is_new => {
                    let operator = operator.to_owned();
                    problems.push((kernel.file.clone(), Problem::UnknownOperator { operator }));
                }
                None => {}
            }
        }
        let unused: Vec<String> =
            known.keys().filter(|name| !with_kernels.contains(name.as_str())).cloned().collect();
        if let Some((path, _)) =
            unused.first().and_then(|name| known.get(name)).filter(|_| !self.kernels.is_empty())
        {
            problems.push((path.clone(), Problem::NoKernels { operators: unused }));
        }
        problems.into_iter().for_each(|(file, problem)| self.add(&file, problem));
    }

    fn check_python(&mut self, info_path: &Path, operator: &str, info: &Value) {
        let value = |name: &str| info.get(name)?.get("value")?.as_str();
        // `Null` is an operator without an implementation.
        let file = value("opFile").filter(|file| *file != "Null" && !self.package.python.is_empty());
        let Some(file) = file else { return };
        let expected = format!("{file}.py");
        let Some(path) = self.package.python.get(&expected) else {
            self.add(info_path, Problem::NoPython { operator: operator.to_owned(), expected });
            return;
        };
        let text = match self.tree.read(path, MAX_PYTHON_BYTES) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(problem) => {
                self.add(path, unreadable(&problem));
                return;
            }
        };
        let Some(function) = value("opInterface") else { return };
        let defines = |line: &str| {
            let name = line.trim_start().strip_prefix("def ").map(str::trim_start);
            name.and_then(|name| name.strip_prefix(function))
                .is_some_and(|rest| rest.trim_start().starts_with('('))
        };
        if !text.lines().any(defines) {
            let (operator, expected) = (operator.to_owned(), function.to_owned());
            self.add(path, Problem::NoFunction { operator, expected });
        }
    }
}

/// The first input or output of a kernel that is not as the operator information has it.
fn port_problem(kernel: &Kernel, support: &Value, info: &Value) -> Option<Problem> {
    let operator = kernel.operator()?;
    ["input", "output"].into_iter().find_map(|side| {
        let list = support.get(format!("{side}s"))?.as_array()?;
        list.iter().enumerate().find_map(|(at, port)| {
            let port = if port.is_array() { *ports(Some(port)).first()? } else { port };
            let port = port.as_object()?;
            let problem = |name: &str, expected: String, found: Option<&Value>| Problem::Port {
                field: format!("operator `{operator}`, {side}{at}, field `{name}`"),
                expected,
                found: shown(found),
            };
            let Some(known) = info.get(format!("{side}{at}")).and_then(Value::as_object) else {
                return Some(problem("name", "no such port".to_owned(), port.get("name")));
            };
            port_difference(port, known).map(|(name, expected)| problem(name, expected, port.get(name)))
        })
    })
}

/// The first field that differs, with what it must be.
fn port_difference(port: &Map<String, Value>, known: &Map<String, Value>) -> Option<(&'static str, String)> {
    for name in ["name", "paramType"] {
        let (expected, found) = (known.get(name), port.get(name));
        if expected.is_some() && found.is_some() && expected != found {
            return Some((name, shown(expected)));
        }
    }
    // One for each row of types.
    let rows = known.get("dtype")?.as_str()?;
    let dtype = port.get("dtype")?.as_str()?;
    (!rows.split(',').any(|row| row.trim() == dtype)).then(|| ("dtype", shown(known.get("dtype"))))
}
