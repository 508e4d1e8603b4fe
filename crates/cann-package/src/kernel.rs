//! The kernels of a unit, each with what its `.json` states.

use std::path::{Path, PathBuf};

use opkeep_cann_meta::{KernelMeta, MAX_BYTES, is_chip, known_target};
use opkeep_digest::Digest;
use opkeep_validator::{Report, Severity, expectations_of, sub_kernel_files, validate, validate_json};
use serde_json::Value;

use crate::json;
use crate::locate::{KernelFiles, UnitFiles};
use crate::problem::Problem;
use crate::tree::{FileTree, ReadProblem};

/// The largest object that is read, in bytes.
pub(crate) const MAX_OBJECT_BYTES: u64 = 1 << 30;
/// The end of the name of a kernel that becomes a part of larger ones.
const RELOCATABLE: &str = "_relocatable";
/// The end of the name of a kernel that is compiled once more, to compute the same each time.
const DETERMINISTIC: &str = "_deterministic";

/// A kernel of a unit.
#[derive(Debug, Default)]
pub(crate) struct Kernel {
    /// The path that indexes have, without an extension.
    pub(crate) place: String,
    /// The `.json`, or the object if there is no `.json`.
    pub(crate) file: PathBuf,
    /// The content of the `.json`, if it can be read.
    pub(crate) json: Option<Value>,
    /// The SHA-256 of the object.
    pub(crate) sha256: Option<Digest>,
    /// The places of its parts, if it is a master.
    pub(crate) parts: Vec<String>,
    pub(crate) problems: Vec<Problem>,
    /// Whether it is a kernel: operator libraries have other `.json` files, too.
    pub(crate) is_kernel: bool,
}

impl Kernel {
    pub(crate) fn support(&self) -> Option<&Value> {
        self.json.as_ref()?.get("supportInfo").filter(|info| info.is_object())
    }

    /// The simplified keys.
    pub(crate) fn keys(&self) -> Vec<&str> {
        self.support().and_then(|info| json::texts(info.get("simplifiedKey"))).unwrap_or_default()
    }

    /// The operator, by the simplified keys; if there are none, by the name of the file.
    pub(crate) fn operator(&self) -> Option<&str> {
        let by_key = self.keys().first().and_then(|key| key.split('/').next());
        by_key.or_else(|| self.name().split('_').next()).filter(|name| !name.is_empty())
    }

    /// The name of its files.
    pub(crate) fn name(&self) -> &str {
        self.place.rsplit('/').next().unwrap_or_default()
    }

    /// Whether it becomes a part of larger kernels. A relocatable kernel may have a deterministic twin.
    pub(crate) fn is_relocatable(&self) -> bool {
        let name = self.name();
        name.strip_suffix(DETERMINISTIC).unwrap_or(name).ends_with(RELOCATABLE)
    }

    /// Reads a kernel without a check of it.
    pub(crate) fn read(
        tree: &FileTree,
        place: &str,
        files: &KernelFiles,
    ) -> (Self, Vec<u8>, Option<Vec<u8>>) {
        let file = files.json.clone().or_else(|| files.object.clone()).unwrap_or_default();
        let mut kernel = Self { place: place.to_owned(), file, is_kernel: true, ..Self::default() };
        let json = kernel.read_file(tree, files.json.as_deref(), MAX_BYTES as u64).unwrap_or_default();
        let object = kernel.read_file(tree, files.object.as_deref(), MAX_OBJECT_BYTES);
        kernel.sha256 = object.as_deref().map(Digest::of);
        kernel.json = json::parse(&json).ok();
        (kernel, json, object)
    }

    fn read_file(&mut self, tree: &FileTree, path: Option<&Path>, limit: u64) -> Option<Vec<u8>> {
        match tree.read(path?, limit) {
            Ok(bytes) => Some(bytes),
            Err(problem) => {
                self.problems.push(unreadable(&problem));
                None
            }
        }
    }

    /// Reads a kernel and checks its two files.
    pub(crate) fn check(tree: &FileTree, unit: &UnitFiles, place: &str, files: &KernelFiles) -> Self {
        let (mut kernel, json, object) = Self::read(tree, place, files);
        let file_name = |extension: &str| format!("{}.{extension}", kernel.name());
        let (object_name, json_name) = (file_name("o"), file_name("json"));
        if files.json.is_none() {
            kernel.problems.push(Problem::NoJson { expected: json_name });
            return kernel;
        }
        let meta = KernelMeta::parse(&json).ok();
        let parts = meta.as_ref().and_then(sub_kernel_files);
        let report = match (&object, &parts) {
            (Some(object), _) => check_pair(&unit.name, &json, object),
            (None, _) if !kernel.problems.is_empty() => return kernel,
            (None, Some(_)) => validate_json(&json, None),
            (None, None) if meta.as_ref().is_some_and(|meta| !meta.describes_kernel()) => {
                kernel.is_kernel = false;
                kernel.problems.push(Problem::NotAKernel);
                return kernel;
            }
            (None, None) => {
                kernel.problems.push(Problem::NoObject { expected: object_name.clone() });
                validate_json(&json, None)
            }
        };
        // Without an object, only errors say more than that it is missing.
        let is_new =
            |finding: &opkeep_validator::Finding| object.is_some() || finding.severity() == Severity::Error;
        kernel.problems.extend(report.findings.into_iter().filter(is_new).map(Problem::Kernel));
        if let Some(parts) = parts {
            kernel.parts = parts.iter().map(|part| kernel.beside(part)).collect();
        } else if let Some(meta) = &meta {
            kernel.check_names(unit, meta, &object_name);
        }
        kernel
    }

    /// The place of another kernel in the same directory.
    fn beside(&self, name: &str) -> String {
        let dir = self.place.rsplit_once('/').map_or("", |(dir, _)| dir);
        format!("{dir}/{}", name.strip_suffix(".json").unwrap_or(name))
    }

    fn check_names(&mut self, unit: &UnitFiles, meta: &KernelMeta, object_name: &str) {
        if let Some(name) = &meta.bin_file_name {
            let found = format!("{name}{}", meta.bin_file_suffix.as_deref().unwrap_or(".o"));
            if found != object_name {
                let (expected, found) = (object_name.to_owned(), json::shortened(&found));
                self.problems.push(Problem::FileName { expected, found });
            }
        }
        // Compilers of some releases write another directory, or an absolute path.
        let of_path = meta.file_path.as_deref().and_then(|path| path.split('/').next());
        if let Some(found) = of_path.filter(|first| is_chip(first) && *first != unit.name) {
            self.problems.push(Problem::OtherUnit {
                field: "field `filePath`".to_owned(),
                expected: unit.name.clone(),
                found: found.to_owned(),
            });
        }
    }
}

/// Validates a pair for the chips of the unit, or, if they are not known, for those of the object.
fn check_pair(unit: &str, json: &[u8], object: &[u8]) -> Report {
    let expect = known_target(unit).unwrap_or_else(|| expectations_of(Some(json), object));
    validate(json, object, &expect)
}

pub(crate) fn unreadable(problem: &ReadProblem) -> Problem {
    Problem::Unreadable { found: problem.to_string() }
}
