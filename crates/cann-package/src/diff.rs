//! Two packages compared by what they mean: kernels by code and by metadata, whatever the order and layout of their files.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use opkeep_digest::Digest;
use opkeep_fs::{CancelToken, map};
use serde_json::Value;

use crate::error::PackageError;
use crate::json::{self, Difference, difference};
use crate::kernel::Kernel;
use crate::locate::{PackageFiles, UnitFiles};
use crate::package_dir::PackageDir;
use crate::tree::FileTree;
use crate::verify::MAX_INDEX_BYTES;

/// The largest Python file that is read, in bytes.
const MAX_PYTHON_BYTES: u64 = 4 << 20;
/// Fields of a `.json` that say nothing of the kernel beyond its object and its place.
const PLACE_FIELDS: [&str; 2] = ["sha256", "filePath"];

/// The differences of two directories with packages.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PackagesDiff {
    /// Packages that both have.
    pub pairs: Vec<PackageDiff>,
    /// Packages that only the first directory has.
    pub removed: Vec<PathBuf>,
    /// Packages that only the second directory has.
    pub added: Vec<PathBuf>,
}

/// The differences of two packages.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PackageDiff {
    /// The directory of the first, below the one that was named.
    pub one: PathBuf,
    /// The directory of the second.
    pub other: PathBuf,
    /// All units of both.
    pub units: Vec<UnitDiff>,
    /// Generated Python that differs.
    pub python: Vec<FileDiff>,
    /// Units of one package with equal objects: of the first, then of the second.
    pub shared: [Vec<SharedObjects>; 2],
}

/// Whether both packages have something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Presence {
    /// Only the first has it.
    Removed,
    /// Only the second has it.
    Added,
    /// Both have it.
    #[default]
    Both,
}

impl Presence {
    /// Its name for messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Removed => "removed",
            Self::Added => "added",
            Self::Both => "both",
        }
    }

    fn of(one: bool, other: bool) -> Self {
        match (one, other) {
            (true, false) => Self::Removed,
            (false, true) => Self::Added,
            _ => Self::Both,
        }
    }
}

/// The differences of a unit.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct UnitDiff {
    /// The chip family.
    pub name: String,
    /// Which packages have it.
    pub presence: Presence,
    /// Operators with kernels in the first package only.
    pub removed_operators: Vec<String>,
    /// Operators with kernels in the second package only.
    pub added_operators: Vec<String>,
    /// The kernels that differ.
    pub kernels: Vec<KernelDiff>,
    /// The number of kernels with equal objects and metadata.
    pub unchanged: usize,
    /// Indexes and operator information that differ.
    pub files: Vec<FileDiff>,
}

/// A kernel that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelDiff {
    /// The path that indexes have, without an extension.
    pub kernel: String,
    /// What differs.
    pub change: KernelChange,
}

/// What differs of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KernelChange {
    /// Only the first package has it.
    Removed,
    /// Only the second package has it.
    Added,
    /// The objects differ. The metadata may, too: the first field that does.
    Code(Option<FieldDiff>),
    /// The objects are equal, the metadata differs.
    Metadata(FieldDiff),
    /// A file cannot be read.
    Unreadable(String),
}

/// A field with two values, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldDiff {
    /// The field: `supportInfo.inputs[0].dtype`.
    pub field: String,
    /// The value in the first package.
    pub one: String,
    /// The value in the second package.
    pub other: String,
}

/// A file that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileDiff {
    /// Its name.
    pub file: String,
    /// Which packages have it.
    pub presence: Presence,
    /// The first field that differs, if both have it and it has fields.
    pub field: Option<FieldDiff>,
}

/// Two units of one package with equal objects.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SharedObjects {
    /// Both units.
    pub units: [String; 2],
    /// The number of kernels of the same name whose objects are equal.
    pub kernels: usize,
}

impl PackageDiff {
    /// Whether both packages mean the same.
    pub fn is_empty(&self) -> bool {
        self.python.is_empty() && self.units.iter().all(UnitDiff::is_empty)
    }
}

impl UnitDiff {
    /// Whether the unit is the same in both packages.
    pub fn is_empty(&self) -> bool {
        self.presence == Presence::Both && self.kernels.is_empty() && self.files.is_empty()
    }
}

impl PackagesDiff {
    /// Whether both directories mean the same.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.pairs.iter().all(PackageDiff::is_empty)
    }
}

/// Compares two directories. Packages are compared with those of the same name; if both directories have one, these two.
///
/// # Errors
/// [`PackageError::Cancelled`].
pub fn diff(
    one: &PackageDir,
    other: &PackageDir,
    threads: NonZeroUsize,
    cancel: &CancelToken,
) -> Result<PackagesDiff, PackageError> {
    let mut found = PackagesDiff::default();
    let mut left: Vec<&PackageFiles> = other.packages.iter().collect();
    for package in &one.packages {
        let is_alone = one.packages.len() == 1 && other.packages.len() == 1;
        let is_same = |it: &&PackageFiles| {
            is_alone || it.path.file_name() == package.path.file_name() && it.kind == package.kind
        };
        match left.iter().position(is_same) {
            Some(at) => {
                let pair = PackagePair {
                    one: (&one.tree, package),
                    other: (&other.tree, left.remove(at)),
                    threads,
                    cancel,
                };
                found.pairs.push(pair.diff()?);
            }
            None => found.removed.push(package.path.clone()),
        }
    }
    found.added = left.into_iter().map(|package| package.path.clone()).collect();
    Ok(found)
}

type Side<'a> = (&'a FileTree, &'a PackageFiles);

struct PackagePair<'a> {
    one: Side<'a>,
    other: Side<'a>,
    threads: NonZeroUsize,
    cancel: &'a CancelToken,
}

/// The kernels of a unit, by their paths in indexes.
type Kernels<'a> = BTreeMap<&'a str, Kernel>;

impl<'a> PackagePair<'a> {
    fn diff(&self) -> Result<PackageDiff, PackageError> {
        let units = [self.units_of(self.one)?, self.units_of(self.other)?];
        let names: BTreeSet<&str> = opkeep_order::set(units.iter().flat_map(|units| units.keys().copied()));
        let unit_diffs = names.iter().map(|name| {
            let sides = [(self.one, &units[0]), (self.other, &units[1])];
            unit_diff(
                name,
                sides.map(|((tree, _), units)| {
                    units.get(name).map(|(files, kernels)| (tree, *files, kernels))
                }),
            )
        });
        Ok(PackageDiff {
            one: self.one.1.path.clone(),
            other: self.other.1.path.clone(),
            units: unit_diffs.collect(),
            python: self.python(),
            shared: units.each_ref().map(shared),
        })
    }

    fn units_of(
        &self,
        (tree, package): Side<'a>,
    ) -> Result<BTreeMap<&'a str, (&'a UnitFiles, Kernels<'a>)>, PackageError> {
        let read = |unit: &'a UnitFiles| {
            let places: Vec<_> = unit.kernels.iter().collect();
            let read = map(
                places.len(),
                self.threads,
                || self.cancel.is_cancelled(),
                |at| {
                    let (place, files) = places[at];
                    (place.as_str(), Kernel::read(tree, place, files).0)
                },
            );
            if read.is_cancelled {
                return Err(PackageError::Cancelled);
            }
            Ok((unit.name.as_str(), (unit, read.results.into_iter().collect())))
        };
        package.units.iter().map(read).collect()
    }

    fn python(&self) -> Vec<FileDiff> {
        let digest = |(tree, package): Side<'_>, name: &str| {
            let path = package.python.get(name)?;
            Some(tree.read(path, MAX_PYTHON_BYTES).map(|bytes| Digest::of(&bytes)).ok())
        };
        let names: BTreeSet<&String> =
            opkeep_order::set(self.one.1.python.keys().chain(self.other.1.python.keys()));
        let changed = names.into_iter().filter_map(|name| {
            let (one, other) = (digest(self.one, name), digest(self.other, name));
            let presence = Presence::of(one.is_some(), other.is_some());
            (one != other).then(|| FileDiff { file: name.clone(), presence, field: None })
        });
        changed.collect()
    }
}

/// The units of a package that have equal objects of the same name.
fn shared(units: &BTreeMap<&str, (&UnitFiles, Kernels<'_>)>) -> Vec<SharedObjects> {
    let objects = |kernels: &Kernels<'_>| -> BTreeMap<String, Digest> {
        kernels.values().filter_map(|kernel| Some((kernel.name().to_owned(), kernel.sha256?))).collect()
    };
    let all: Vec<(&str, BTreeMap<String, Digest>)> =
        units.iter().map(|(name, (_, kernels))| (*name, objects(kernels))).collect();
    let mut found = Vec::new();
    for (at, (name, objects)) in all.iter().enumerate() {
        for (other, others) in &all[at + 1..] {
            let kernels = objects.iter().filter(|(name, digest)| others.get(*name) == Some(digest)).count();
            if kernels > 0 {
                found.push(SharedObjects { units: [(*name).to_owned(), (*other).to_owned()], kernels });
            }
        }
    }
    found
}

type UnitSide<'a> = Option<(&'a FileTree, &'a UnitFiles, &'a Kernels<'a>)>;

fn unit_diff(name: &str, sides: [UnitSide<'_>; 2]) -> UnitDiff {
    let [one, other] = sides;
    let mut found = UnitDiff {
        name: name.to_owned(),
        presence: Presence::of(one.is_some(), other.is_some()),
        ..UnitDiff::default()
    };
    let operators = |side: UnitSide<'_>| -> BTreeSet<String> {
        let kernels = side.into_iter().flat_map(|(_, _, kernels)| kernels.values());
        kernels.filter_map(|kernel| kernel.operator().map(str::to_owned)).collect()
    };
    let (of_one, of_other) = (operators(one), operators(other));
    found.removed_operators = of_one.difference(&of_other).cloned().collect();
    found.added_operators = of_other.difference(&of_one).cloned().collect();
    let places: BTreeSet<&str> =
        opkeep_order::set(sides.into_iter().flatten().flat_map(|(_, _, kernels)| kernels.keys().copied()));
    for place in places {
        let [one, other] = sides.map(|side| side.and_then(|(_, _, kernels)| kernels.get(place)));
        match kernel_change(one, other) {
            Some(change) => found.kernels.push(KernelDiff { kernel: place.to_owned(), change }),
            None => found.unchanged += 1,
        }
    }
    if let (Some(one), Some(other)) = (one, other) {
        let read = |(tree, files, _): (&FileTree, &UnitFiles, &Kernels<'_>)| {
            let all = files.indexes.iter().chain(&files.ops_info);
            all.filter_map(|path| Some((path.file_name()?.to_str()?.to_owned(), read_sorted(tree, path))))
                .collect()
        };
        found.files = file_diffs(&read(one), &read(other));
    }
    found
}

fn kernel_change(one: Option<&Kernel>, other: Option<&Kernel>) -> Option<KernelChange> {
    let (one, other) = match (one, other) {
        (Some(one), Some(other)) => (one, other),
        (Some(_), None) => return Some(KernelChange::Removed),
        (None, _) => return Some(KernelChange::Added),
    };
    if let Some(problem) = one.problems.iter().chain(&other.problems).next() {
        return Some(KernelChange::Unreadable(problem.to_string()));
    }
    let fields = |kernel: &Kernel| {
        let mut json = kernel.json.clone()?;
        if let Some(fields) = json.as_object_mut() {
            PLACE_FIELDS.iter().for_each(|name| drop(fields.remove(*name)));
        }
        Some(json)
    };
    let metadata = difference("", fields(one).as_ref(), fields(other).as_ref()).map(FieldDiff::from);
    match (one.sha256 == other.sha256, metadata) {
        (false, metadata) => Some(KernelChange::Code(metadata)),
        (true, metadata) => metadata.map(KernelChange::Metadata),
    }
}

impl From<Difference> for FieldDiff {
    fn from(Difference { field, expected, found }: Difference) -> Self {
        Self { field, one: expected, other: found }
    }
}

/// Reads an index, with its entries in the order of their paths: builds write them in the order of their tasks.
fn read_sorted(tree: &FileTree, path: &Path) -> Option<Value> {
    let mut content = json::parse(&tree.read(path, MAX_INDEX_BYTES).ok()?).ok()?;
    if let Some(list) = content.get_mut("binList").and_then(Value::as_array_mut) {
        opkeep_order::by_key(list, |entry| {
            text(entry.get("binInfo").and_then(|info| info.get("jsonFilePath")))
        });
    }
    for item in content.as_object_mut().into_iter().flat_map(|operators| operators.values_mut()) {
        if let Some(list) = item.get_mut("binaryList").and_then(Value::as_array_mut) {
            opkeep_order::by_key(list, |entry| text(entry.get("jsonPath")));
        }
    }
    Some(content)
}

fn text(value: Option<&Value>) -> String {
    value.and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn file_diffs(
    one: &BTreeMap<String, Option<Value>>,
    other: &BTreeMap<String, Option<Value>>,
) -> Vec<FileDiff> {
    let names: BTreeSet<&String> = opkeep_order::set(one.keys().chain(other.keys()));
    let changed = names.into_iter().filter_map(|name| {
        let presence = Presence::of(one.contains_key(name), other.contains_key(name));
        let contents = [one, other].map(|side| side.get(name).and_then(Option::as_ref));
        let field = difference("", contents[0], contents[1]).map(FieldDiff::from);
        let differs = presence != Presence::Both || field.is_some();
        differs.then(|| FileDiff {
            file: name.clone(),
            presence,
            field: field.filter(|_| presence == Presence::Both),
        })
    });
    changed.collect()
}
