//! The index of each operator, and whether each kernel is named by the indexes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use opkeep_cann_meta::is_chip;
use serde_json::Value;

use super::CheckedUnit;
use crate::json::{self, Difference, difference, shown};
use crate::locate::PackageKind;
use crate::problem::Problem;

/// The index of all kernels.
const BINARY_INFO: &str = "binary_info_config.json";
/// The index of kernels that become parts of larger ones.
const RELOCATABLE_INFO: &str = "relocatable_kernel_info_config.json";
/// The field in an entry that the kernel's `supportInfo` lacks.
const BIN_INFO: &str = "binInfo";

/// The places that the indexes of a unit name.
#[derive(Default)]
pub(super) struct Named {
    pub(super) by_operators: BTreeSet<String>,
    pub(super) by_binary_info: BTreeSet<String>,
    pub(super) by_relocatable_info: BTreeSet<String>,
}

/// An entry of an index that names a kernel of the unit, with the first difference to the kernel.
pub(super) struct Entry {
    pub(super) place: String,
    pub(super) difference: Option<Difference>,
}

impl CheckedUnit<'_> {
    pub(super) fn check_indexes(&mut self) {
        let files = self.files;
        if self.kernels.values().all(|kernel| !kernel.is_kernel) && files.indexes.is_empty() {
            return;
        }
        let mut named = Named::default();
        let (mut has_operators, mut has_binary_info) = (false, false);
        for path in &files.indexes {
            let Some(content) = self.read_index(path) else { continue };
            match path.file_name().and_then(OsStr::to_str) {
                Some(BINARY_INFO) => {
                    has_binary_info = true;
                    self.check_binary_info(path, &content, &mut named.by_binary_info);
                }
                Some(RELOCATABLE_INFO) => {
                    self.check_binary_info(path, &content, &mut named.by_relocatable_info);
                }
                _ => {
                    has_operators = true;
                    self.check_operator_index(path, &content, &mut named.by_operators);
                }
            }
        }
        self.check_coverage(&named, has_operators, has_binary_info);
    }

    fn check_operator_index(&mut self, path: &Path, content: &Value, named: &mut BTreeSet<String>) {
        let Some(list) = content.get("binList").and_then(Value::as_array) else {
            self.add(path, field("binList", "a list of kernels", content.get("binList")));
            return;
        };
        if list.is_empty() {
            self.add(path, Problem::EmptyIndex);
        }
        let mut entries = Vec::new();
        for (at, value) in list.iter().enumerate() {
            let name = format!("binList[{at}].{BIN_INFO}.jsonFilePath");
            let found = value.get(BIN_INFO).and_then(|info| info.get("jsonFilePath"));
            let Some(place) = self.named(path, &name, found, "json") else { continue };
            named.insert(place.clone());
            let Some(kernel) = self.kernels.get(place.as_str()) else { continue };
            let support = kernel.support().cloned();
            if support.is_none() && kernel.json.is_some() {
                let file = kernel.file.clone();
                self.add(&file, Problem::NoSupportInfo);
            }
            let own = value.as_object().map(|fields| {
                let others = fields.iter().filter(|(name, _)| *name != BIN_INFO);
                Value::Object(opkeep_order::collected(others.map(|(name, it)| (name.clone(), it.clone()))))
            });
            let difference = support.and_then(|support| difference("", Some(&support), own.as_ref()));
            let difference =
                difference.map(|it| Difference { field: format!("binList[{at}].{}", it.field), ..it });
            entries.push(Entry { place, difference });
        }
        self.judge(path, entries);
    }

    /// Reports the entries that differ from their kernels. A kernel may be used for further inputs: then one entry
    /// agrees with it, and the others do not.
    pub(super) fn judge(&mut self, path: &Path, entries: Vec<Entry>) {
        let mut by_place: BTreeMap<String, Vec<Option<Difference>>> = BTreeMap::new();
        for Entry { place, difference } in entries {
            by_place.entry(place).or_default().push(difference);
        }
        for (place, differences) in by_place {
            let agreeing = differences.iter().filter(|difference| difference.is_none()).count();
            let kernel = format!("{place}.json");
            if agreeing > 1 {
                self.add(path, Problem::ListedTwice { kernel: kernel.clone() });
            }
            for Difference { field, expected, found } in differences.into_iter().flatten() {
                let kernel = kernel.clone();
                self.add(
                    path,
                    match agreeing {
                        0 => Problem::Differs { kernel, field, expected, found },
                        _ => Problem::Reused { kernel, field, found },
                    },
                );
            }
        }
    }

    /// Returns the place that a path in an index names, if it is that of a file of the unit with this extension. A path
    /// that is none becomes a finding.
    pub(super) fn named(
        &mut self,
        index: &Path,
        name: &str,
        found: Option<&Value>,
        extension: &str,
    ) -> Option<String> {
        let Some(text) = found.and_then(Value::as_str) else {
            self.add(index, field(name, "the path of a file", found));
            return None;
        };
        match self.place_of(text, extension) {
            Ok(place) => Some(place),
            Err(problem) => {
                let name = name.to_owned();
                self.add(
                    index,
                    match problem {
                        BadPath::Outside => Problem::Path { field: name, found: json::shortened(text) },
                        BadPath::OtherUnit(found) => Problem::OtherUnit {
                            field: format!("field `{name}`"),
                            expected: self.files.name.clone(),
                            found,
                        },
                        BadPath::Missing => {
                            Problem::MissingFile { field: name, expected: json::shortened(text) }
                        }
                    },
                );
                None
            }
        }
    }

    fn place_of(&self, text: &str, extension: &str) -> Result<String, BadPath> {
        let path = Path::new(text);
        if !path.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(BadPath::Outside);
        }
        let unit = path.iter().next().and_then(OsStr::to_str).unwrap_or_default();
        if unit != self.files.name && is_chip(unit) {
            return Err(BadPath::OtherUnit(unit.to_owned()));
        }
        let is_right = path.extension() == Some(OsStr::new(extension));
        let place = path.with_extension("");
        let place = place.to_str().filter(|_| is_right).ok_or(BadPath::Missing)?.to_owned();
        let pair = self.files.kernels.get(&place);
        let side =
            pair.and_then(|pair| if extension == "json" { pair.json.as_ref() } else { pair.object.as_ref() });
        // A link to a directory may be on the way to a file that was not listed.
        let file: PathBuf = self.files.path_of(text);
        match side {
            Some(_) => Ok(place),
            None => match self.tree.find(&file) {
                Ok(()) => Ok(place),
                Err(crate::tree::ReadProblem::Leaves(_)) => Err(BadPath::Outside),
                Err(_) => Err(BadPath::Missing),
            },
        }
    }

    /// Each kernel must be named by the index of its operator, and by that of all kernels, as far as the unit has such
    /// indexes.
    fn check_coverage(&mut self, named: &Named, has_operators: bool, has_binary_info: bool) {
        if self.files.indexes.is_empty() {
            let dir = self.files.kernel_dir.clone();
            self.add(
                &dir,
                match self.package.kind {
                    PackageKind::BuildTree => Problem::NoIndexes,
                    PackageKind::Installed => {
                        Problem::NotListed { index: format!("config/{}", self.files.name) }
                    }
                },
            );
            return;
        }
        let parts = self.parts();
        let mut missing: Vec<(PathBuf, String)> = Vec::new();
        for kernel in
            self.kernels.values().filter(|kernel| kernel.is_kernel && !parts.contains(&kernel.place))
        {
            let mut lacks = |index: String| missing.push((kernel.file.clone(), index));
            let place = &kernel.place;
            if kernel.is_relocatable() {
                let by_any = [&named.by_operators, &named.by_binary_info, &named.by_relocatable_info];
                if !by_any.iter().any(|places| places.contains(place)) {
                    lacks(RELOCATABLE_INFO.to_owned());
                }
                continue;
            }
            if has_operators && !named.by_operators.contains(place) {
                let dir = place.rsplit('/').nth(1).unwrap_or_default();
                lacks(format!("{dir}.json"));
            }
            if has_binary_info && !named.by_binary_info.contains(place) {
                lacks(BINARY_INFO.to_owned());
            }
        }
        for (file, index) in missing {
            self.add(&file, Problem::NotListed { index });
        }
    }
}

/// What is wrong with a path.
enum BadPath {
    Outside,
    OtherUnit(String),
    Missing,
}

/// A field of another type than expected.
pub(super) fn field(name: &str, expected: &str, found: Option<&Value>) -> Problem {
    Problem::Field { field: name.to_owned(), expected: expected.to_owned(), found: shown(found) }
}
