//! Where a directory has packages, and which of their files are what.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use opkeep_cann_meta::is_chip;
use opkeep_fs::FileKind;

use crate::tree::FileTree;

/// The directory of indexes and of operator information.
const CONFIG: &str = "config";
/// Directories of a compiler's work, beside kernels or among them.
const WORK: &str = "kernel_meta";

/// What a package is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum PackageKind {
    /// As it is installed below `vendors`.
    Installed,
    /// The tree that a build writes.
    BuildTree,
}

impl PackageKind {
    /// Its name for messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Installed => "installed",
            Self::BuildTree => "build tree",
        }
    }
}

/// The files of one package. All paths are below the directory that was named.
#[derive(Debug)]
pub(crate) struct PackageFiles {
    pub(crate) path: PathBuf,
    pub(crate) kind: PackageKind,
    pub(crate) units: Vec<UnitFiles>,
    /// Generated Python, by file name.
    pub(crate) python: BTreeMap<String, PathBuf>,
}

/// The files of one chip family in a package.
#[derive(Debug, Default)]
pub(crate) struct UnitFiles {
    pub(crate) name: String,
    /// The directory that paths in indexes begin at.
    pub(crate) base: PathBuf,
    /// The directory of the kernels.
    pub(crate) kernel_dir: PathBuf,
    /// Pairs and halves of pairs, by the path that indexes have, without an extension.
    pub(crate) kernels: BTreeMap<String, KernelFiles>,
    /// The `.json` files of `config/<unit>`.
    pub(crate) indexes: Vec<PathBuf>,
    /// The files with operator information.
    pub(crate) ops_info: Vec<PathBuf>,
    /// Links among the kernels and indexes that have no name of a kernel's file: they may lead to directories.
    pub(crate) links: Vec<PathBuf>,
}

/// The two files of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KernelFiles {
    pub(crate) json: Option<PathBuf>,
    pub(crate) object: Option<PathBuf>,
}

impl UnitFiles {
    /// The path below the named directory of a path in an index.
    pub(crate) fn path_of(&self, in_index: &str) -> PathBuf {
        let is_flat = self.kernel_dir == self.base;
        let below_unit = Path::new(in_index).strip_prefix(&self.name).ok().filter(|_| is_flat);
        self.base.join(below_unit.unwrap_or(Path::new(in_index)))
    }
}

/// Finds the packages in a directory.
pub(crate) fn packages(tree: &FileTree) -> Vec<PackageFiles> {
    let builds = build_trees(tree);
    let mut found: Vec<PackageFiles> = Vec::new();
    for tbe in tree.all_dirs().filter(|dir| is_tbe(tree, dir)) {
        let has_kernels = tree.is_dir(&tbe.join("kernel"));
        // What operators a build knows is in a directory like that of an installed package.
        if has_kernels || !builds.keys().any(|build| tbe.starts_with(build)) {
            found.push(installed(tree, tbe));
        }
    }
    let known: BTreeSet<PathBuf> = opkeep_order::set(found.iter().map(|package| package.path.clone()));
    for kernel in tree.all_dirs().filter(|dir| is_bare_kernel_dir(tree, dir)) {
        if !known.iter().any(|path| kernel.starts_with(path)) {
            found.push(with_units(
                tree,
                kernel,
                PackageKind::Installed,
                unit_names(tree, kernel),
                kernel,
                None,
            ));
        }
    }
    found.extend(builds.iter().map(|(build, units)| build_tree(tree, build, units, &known)));
    found.retain(|package| !package.units.is_empty());
    opkeep_order::by(&mut found, |one, other| (&one.path, one.kind).cmp(&(&other.path, other.kind)));
    found
}

/// The name of a directory; of the named one, its real name.
fn name_of<'a>(tree: &'a FileTree, dir: &'a Path) -> Option<&'a OsStr> {
    dir.file_name().or_else(|| tree.root().file_name())
}

/// The name of the directory above; of the named one's children and of itself, as it is outside.
fn parent_name(tree: &FileTree, dir: &Path) -> Option<String> {
    let full = tree.root().join(dir);
    full.parent()?.file_name().map(|name| name.to_string_lossy().into_owned())
}

fn is_tbe(tree: &FileTree, dir: &Path) -> bool {
    name_of(tree, dir) == Some(OsStr::new("tbe"))
        && parent_name(tree, dir).as_deref() == Some("ai_core")
        && (tree.is_dir(&dir.join("kernel")) || tree.is_dir(&dir.join(CONFIG)))
}

/// Whether a directory has kernels of units, but is in no package.
fn is_bare_kernel_dir(tree: &FileTree, dir: &Path) -> bool {
    let indexes =
        tree.dirs_in(&dir.join(CONFIG)).any(|unit| tree.has_file(&unit.join("binary_info_config.json")));
    let is_kernel = name_of(tree, dir) == Some(OsStr::new("kernel"));
    let is_bin = name_of(tree, dir) == Some(OsStr::new("bin"));
    !is_bin && (indexes || is_kernel && tree.dirs_in(dir).any(is_unit))
}

fn is_unit(dir: &Path) -> bool {
    dir.file_name().and_then(OsStr::to_str).is_some_and(is_chip)
}

/// The `bin` directories of units, by the directory of the build. Before the first kernel is compiled, only `gen` is there.
fn build_trees(tree: &FileTree) -> BTreeMap<PathBuf, BTreeMap<String, PathBuf>> {
    let mut builds: BTreeMap<PathBuf, BTreeMap<String, PathBuf>> = BTreeMap::new();
    let has_parts = |unit: &Path| ["bin", "gen"].iter().any(|name| tree.is_dir(&unit.join(name)));
    for unit in tree.all_dirs().filter(|dir| is_unit(dir) && has_parts(dir)) {
        let Some(binary) = unit.parent() else { continue };
        let name = unit.file_name().and_then(OsStr::to_str).unwrap_or_default().to_owned();
        // The named directory may be `binary` itself.
        let is_named = binary.file_name() == Some(OsStr::new("binary"));
        let build = if is_named { binary.parent() } else { None };
        let is_binary = name_of(tree, binary) == Some(OsStr::new("binary"));
        if let Some(build) = build.or(is_binary.then_some(binary)) {
            builds.entry(build.to_owned()).or_default().insert(name, unit.join("bin"));
        }
    }
    builds
}

fn installed(tree: &FileTree, tbe: &Path) -> PackageFiles {
    let kernel = tbe.join("kernel");
    let path = tbe.ancestors().nth(3).unwrap_or(Path::new(""));
    let mut names = unit_names(tree, &kernel);
    names.extend(names_in(tree, &tbe.join(CONFIG)));
    let mut package = with_units(tree, path, PackageKind::Installed, names, &kernel, Some(&tbe.join(CONFIG)));
    package.python = python_in(tree, tbe, |dir| dir.file_name() == Some(OsStr::new("dynamic")));
    package
}

fn names_in(tree: &FileTree, dir: &Path) -> BTreeSet<String> {
    opkeep_order::set(tree.dirs_in(dir).filter_map(|unit| unit.file_name()?.to_str().map(str::to_owned)))
}

/// The units that have kernels or indexes in `kernel`.
fn unit_names(tree: &FileTree, kernel: &Path) -> BTreeSet<String> {
    let mut names = names_in(tree, &kernel.join(CONFIG));
    names.extend(names_in(tree, kernel).into_iter().filter(|name| is_chip(name)));
    names
}

fn with_units(
    tree: &FileTree,
    path: &Path,
    kind: PackageKind,
    names: BTreeSet<String>,
    kernel: &Path,
    config: Option<&Path>,
) -> PackageFiles {
    let unit = |name: String| {
        let mut unit = unit_files(tree, name, kernel, kernel.join(CONFIG));
        if let Some(config) = config {
            unit.ops_info = ops_info_in(tree, &config.join(&unit.name)).collect();
        }
        unit
    };
    let units = names.into_iter().map(unit).collect();
    PackageFiles { path: path.to_owned(), kind, units, python: BTreeMap::new() }
}

fn build_tree(
    tree: &FileTree,
    build: &Path,
    bins: &BTreeMap<String, PathBuf>,
    installed: &BTreeSet<PathBuf>,
) -> PackageFiles {
    let is_own = |path: &Path| !installed.iter().any(|package| path.starts_with(package));
    let units = bins.iter().map(|(name, bin)| {
        let mut unit = unit_files(tree, name.clone(), bin, bin.join(CONFIG));
        // Several copies are equal; the first is enough.
        let dirs = tree.below(build).into_iter().filter(|(path, kind)| {
            *kind == FileKind::Dir
                && path.file_name() == Some(OsStr::new(name))
                && path.parent().and_then(Path::file_name) == Some(OsStr::new(CONFIG))
                && is_own(path)
        });
        let found = dirs.map(|(dir, _)| ops_info_in(tree, dir).collect::<Vec<_>>());
        unit.ops_info = found.into_iter().find(|files| !files.is_empty()).unwrap_or_default();
        unit
    });
    PackageFiles {
        path: build.to_owned(),
        kind: PackageKind::BuildTree,
        units: units.collect(),
        python: BTreeMap::new(),
    }
}

/// The files of operator information in a directory of configuration.
fn ops_info_in(tree: &FileTree, dir: &Path) -> impl Iterator<Item = PathBuf> {
    let is_info = |path: &Path| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        name.starts_with("aic-") && name.contains("-ops-info") && name.ends_with(".json")
    };
    tree.children(dir).into_iter().map(|(path, _)| path.to_owned()).filter(move |path| is_info(path))
}

fn unit_files(tree: &FileTree, name: String, base: &Path, config: PathBuf) -> UnitFiles {
    let own = base.join(&name);
    // Some builds have the operators in `bin` itself.
    let is_flat = !tree.is_dir(&own) && base.file_name() == Some(OsStr::new("bin"));
    let kernel_dir = if is_flat { base.to_owned() } else { own };
    let config = config.join(&name);
    let mut unit = UnitFiles { name, base: base.to_owned(), kernel_dir, ..UnitFiles::default() };
    let kernel_dir = unit.kernel_dir.clone();
    for (path, kind) in tree.below(&kernel_dir) {
        let Ok(inner) = path.strip_prefix(&kernel_dir) else { continue };
        if is_work(inner, is_flat) || kind == FileKind::Dir {
            continue;
        }
        let Some(place) = kernel_place(&unit.name, inner) else {
            unit.links.extend((kind == FileKind::Link).then(|| path.to_owned()));
            continue;
        };
        let files = unit.kernels.entry(place).or_default();
        let side =
            if path.extension() == Some(OsStr::new("json")) { &mut files.json } else { &mut files.object };
        *side = Some(path.to_owned());
    }
    unit.indexes = tree
        .below(&config)
        .into_iter()
        .filter(|(path, kind)| *kind != FileKind::Dir && path.extension() == Some(OsStr::new("json")))
        .map(|(path, _)| path.to_owned())
        .collect();
    unit
}

/// Whether a path is in a directory of a compiler's work, or, where operators are beside other directories, in one of those.
fn is_work(inner: &Path, is_flat: bool) -> bool {
    let mut parts = inner.parent().into_iter().flat_map(Path::iter).filter_map(OsStr::to_str);
    if is_flat
        && parts.clone().next().is_none_or(|first| [CONFIG, "opc_cmd", "build_logs", "gen"].contains(&first))
    {
        return true;
    }
    parts.any(|part| part.starts_with(WORK))
}

/// The path that indexes have for a file of a kernel, without its extension.
fn kernel_place(unit: &str, inner: &Path) -> Option<String> {
    let is_kernel = matches!(inner.extension()?.to_str()?, "json" | "o");
    let stem = inner.with_extension("");
    is_kernel.then(|| stem.to_str().map(|stem| format!("{unit}/{stem}")))?
}

fn python_in(
    tree: &FileTree,
    dir: &Path,
    is_python_dir: impl Fn(&Path) -> bool,
) -> BTreeMap<String, PathBuf> {
    let files = tree.below(dir).into_iter().filter(|(path, kind)| {
        *kind != FileKind::Dir
            && path.extension() == Some(OsStr::new("py"))
            && path.parent().is_some_and(&is_python_dir)
    });
    opkeep_order::map(
        files.filter_map(|(path, _)| Some((path.file_name()?.to_str()?.to_owned(), path.to_owned()))),
    )
}
