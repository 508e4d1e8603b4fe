//! The search for caches.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::tree::{Links, Walk, real_path_names};
use opkeep_cann_meta::targets;
use opkeep_fs::{Dir, DirEntry, FileKind};
use opkeep_kernel_meta::is_quarantine;
use opkeep_store::is_store;

/// The subdirectory of MindSpore's cache with precompiles.
pub(crate) const PREBUILT: &str = "tbe_prebuild_res";
/// The subdirectory of a store with its targets.
const STORE_VERSION: &str = "v1";
pub(crate) const AKG_PARTS: [&str; 3] = ["akg", "composite", "tbe"];
/// All subdirectories of caches that a scan reads.
pub(crate) const SUBDIRS: [&str; 4] = [PREBUILT, AKG_PARTS[0], AKG_PARTS[1], AKG_PARTS[2]];

/// Returns whether `path` is in the quarantine of a repair.
pub fn is_in_quarantine(path: &Path) -> bool {
    path.iter().any(is_quarantine)
}

/// The kind of a cache, by its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// MindSpore's `kernel_meta`, alone or in `rank_N`.
    MindSpore,
    /// AKG's `akg_kernel_meta`.
    Akg,
    /// CANN's `kernel_cache/<soc>`.
    Cann,
    /// A directory of an operator package, `op_impl/ai_core/tbe/kernel/<soc>/<op>`, or of a package's build tree.
    Package,
    /// CANN's work directory for compiles: `kernel_meta_<process>/kernel_meta`.
    Work,
}

impl Kind {
    /// Returns the name of the kind in JSON output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MindSpore => "mindspore",
            Self::Akg => "akg",
            Self::Cann => "cann",
            Self::Package => "package",
            Self::Work => "cann-work",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MindSpore => "MindSpore's kernel_meta",
            Self::Akg => "AKG's akg_kernel_meta",
            Self::Cann => "CANN's kernel_cache",
            Self::Package => "an operator package",
            Self::Work => "CANN's work directory",
        })
    }
}

/// A cache: one directory of kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheDir {
    /// The path of the directory.
    pub path: PathBuf,
    /// The kind of the cache.
    pub kind: Kind,
    /// `RANK_ID`, if the directory belongs to a rank.
    pub rank: Option<String>,
    /// The chip, if the path names one, as in CANN's caches and in packages.
    pub soc: Option<String>,
}

impl CacheDir {
    /// Returns the directory of all ranks of the run, if this is a rank's cache.
    pub fn base(&self) -> Option<PathBuf> {
        self.rank.as_ref().map(|_| parent_of(&parent_of(&self.path)))
    }
}

/// Returns the parent directory of `path`, which may be relative.
pub(crate) fn parent_of(path: &Path) -> PathBuf {
    match path.components().next_back() {
        None | Some(Component::CurDir | Component::ParentDir) => path.join(".."),
        Some(_) => match path.parent() {
            Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
            Some(parent) => parent.to_owned(),
            None => path.to_owned(),
        },
    }
}

/// The result of a search for caches.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct CacheDirs {
    /// The caches, in the order of their paths.
    pub caches: Vec<CacheDir>,
    /// Directories that cannot be read, each with the error.
    pub unreadable_dirs: Vec<(PathBuf, io::Error)>,
    /// Directories that are nested too deep, and were not searched.
    pub too_deep: Vec<PathBuf>,
    /// Links that were not followed: if links are followed, those to directories above the tree; if not, those with the
    /// name of a cache or a rank.
    pub links: Vec<PathBuf>,
    /// The directories that are not caches, but have files that may belong to kernels.
    pub others: Vec<OtherFiles>,
    /// The directories of stores, in order. The files in a store are not searched.
    pub stores: Vec<PathBuf>,
}

/// The files of one directory that may belong to kernels, and that no [`scan`](super::scan()) judges.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct OtherFiles {
    /// The path of the directory.
    pub path: PathBuf,
    /// The names of the `.json`, `.o`, `.so` and `.kern` files in it, in order.
    pub names: Vec<OsString>,
    /// Whether a scan reads the directory, too, and reports files that belong to no kernel.
    pub is_scanned: bool,
}

/// Returns the caches at and below `path`, also those in other caches. Pseudo file systems are not entered, and each
/// directory is entered once. `path` itself may be a link; other links are not followed.
///
/// # Errors
/// `path` is not a directory, cannot be read, or is on a pseudo file system.
pub fn find(path: &Path) -> io::Result<CacheDirs> {
    search(path, Links::Leave)
}

/// Does the same as [`find`], but follows links to directories: for callers that change nothing in them.
///
/// # Errors
/// As [`find`].
pub fn find_through_links(path: &Path) -> io::Result<CacheDirs> {
    search(path, Links::Follow)
}

fn search(path: &Path, links: Links) -> io::Result<CacheDirs> {
    let (walk, dir) = Walk::begin(path, links)?;
    // The given path may be `.`, which does not show the name.
    let mut real_names = real_path_names(path)?;
    let mut search = Search { walk, links, found: CacheDirs::default() };
    search.search_dir(dir, &mut real_names, 0, None);
    while let Some(dir) = search.walk.next_link_target() {
        search.search_link_target(dir);
    }
    let Search { walk, mut found, .. } = search;
    found.unreadable_dirs.extend(walk.unreadable_dirs);
    found.too_deep = walk.too_deep;
    for link in walk.not_followed {
        match link.file_name().is_some_and(is_cache_name) {
            true => found
                .unreadable_dirs
                .push((link, io::Error::other("it is a link to a directory above what was named"))),
            false => found.links.push(link),
        }
    }
    opkeep_order::by(&mut found.caches, |a, b| a.path.cmp(&b.path));
    opkeep_order::sort(&mut found.links);
    opkeep_order::sort(&mut found.others);
    opkeep_order::sort(&mut found.stores);
    Ok(found)
}

/// A search for caches.
struct Search {
    walk: Walk,
    links: Links,
    found: CacheDirs,
}

impl Search {
    /// Searches `dir`. `full` has the components of its real path; `part` is its role in the cache that contains it.
    fn search_dir(&mut self, dir: Dir, real_names: &mut Vec<OsString>, depth: usize, part: Option<Part>) {
        let names = match dir.entries() {
            Ok(names) => names,
            Err(error) => return self.found.unreadable_dirs.push((dir.path().to_owned(), error)),
        };
        let cache = recognise(dir.path(), real_names).filter(|cache| {
            part.is_none() && (cache.kind != Kind::Package || is_package(real_names, &names))
        });
        let (links, names): (Vec<DirEntry>, Vec<DirEntry>) =
            names.into_iter().partition(|name| name.kind == FileKind::Link);
        let has_version = names.iter().any(|name| name.kind == FileKind::Dir && name.name == STORE_VERSION);
        let is_store = has_version && is_store(dir.path());
        self.found.stores.extend(is_store.then(|| dir.path().to_owned()));
        let has_files = names.iter().any(|name| name.kind == FileKind::File);
        let mut files: Vec<&DirEntry> = names.iter().filter(|name| name.kind != FileKind::Dir).collect();
        files.extend(links.iter().filter(|link| !self.is_link_to_directory(&dir, link)));
        if cache.is_none() && part != Some(Part::Kernels) {
            self.add_other_files(&dir, &files, part.is_some());
        }
        let before = self.found.caches.len();
        let is_entered = |name: &OsStr| !(is_quarantine(name) || is_store && name == STORE_VERSION);
        for name in names.iter().filter(|name| name.kind == FileKind::Dir && is_entered(&name.name)) {
            let (part, unreadable) = (Part::of(cache.as_ref(), &name.name), self.walk.unreadable_dirs.len());
            if let Some(below) = self.walk.below(&dir, &name.name, depth) {
                real_names.push(name.name.clone());
                self.search_dir(below, real_names, depth + 1, part);
                real_names.pop();
            } else if part.is_some() {
                // The scan of the cache reports the error.
                self.walk.unreadable_dirs.truncate(unreadable);
            }
        }
        // CANN has a `kernel_meta` that contains only the directories of its processes, so it is not a cache itself.
        let is_outer = !has_files && self.found.caches.len() > before;
        self.found.caches.extend(cache.filter(|cache| cache.rank.is_some() || !is_outer));
    }

    /// Searches the target of a link: by the link's path if that is the path of a cache or a rank, otherwise by the
    /// real path.
    fn search_link_target(&mut self, dir: Dir) {
        let path = dir.path().to_owned();
        let (mut own, mut named) = match (real_path_names(&path), real_path_names(&parent_of(&path))) {
            (Ok(own), Ok(named)) => (own, named),
            (Err(error), _) | (_, Err(error)) => return self.found.unreadable_dirs.push((path, error)),
        };
        let name = path.file_name().unwrap_or_default();
        named.push(name.to_owned());
        if own.iter().any(|name| is_quarantine(name)) {
            return;
        }
        let is_cache = is_cache_name(name) || recognise(&path, &named).is_some();
        self.search_dir(dir, if is_cache { &mut named } else { &mut own }, 0, None);
    }

    /// Returns whether a link leads to a directory. A dangling link with the name of a cache or a rank counts as
    /// unreadable.
    fn is_link_to_directory(&mut self, dir: &Dir, link: &DirEntry) -> bool {
        let (path, is_cache) = (dir.path().join(&link.name), is_cache_name(&link.name));
        if self.links == Links::Leave && is_cache {
            self.found.links.push(path);
            return true;
        }
        match self.walk.link(dir, &link.name) {
            Ok(is_directory) => is_directory,
            Err(error) => {
                if is_cache || error.kind() == io::ErrorKind::PermissionDenied {
                    self.found.unreadable_dirs.push((path, error));
                }
                false
            }
        }
    }

    /// Adds the names of files that may belong to kernels, in a directory that is not a cache.
    fn add_other_files(&mut self, dir: &Dir, files: &[&DirEntry], is_scanned: bool) {
        let may_be = |name: &&&DirEntry| {
            let suffix = Path::new(&name.name).extension().and_then(OsStr::to_str);
            matches!(suffix, Some("json" | "o" | "so" | "kern"))
        };
        let mut names: Vec<OsString> = files.iter().filter(may_be).map(|name| name.name.clone()).collect();
        opkeep_order::sort(&mut names);
        if !names.is_empty() && !is_in_quarantine(dir.path()) {
            self.found.others.push(OtherFiles { path: dir.path().to_owned(), names, is_scanned });
        }
    }
}

/// The role of a directory in a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The scan of the cache judges its kernels.
    Kernels,
    /// The scan of the cache reads its precompiles, and judges no kernels there.
    Precompiles,
}

impl Part {
    fn of(cache: Option<&CacheDir>, name: &OsStr) -> Option<Self> {
        match cache?.kind {
            Kind::MindSpore if name == PREBUILT => Some(Self::Precompiles),
            Kind::Akg if AKG_PARTS.iter().any(|part| *part == name) => Some(Self::Kernels),
            _ => None,
        }
    }
}

/// Returns whether a directory of a package has kernels directly in it: operators have directories of their own, some
/// of them nested. In a build tree, other directories have files, too.
fn is_package(real_names: &[OsString], names: &[DirEntry]) -> bool {
    let mut files = names.iter().filter(|name| name.kind == FileKind::File).map(|name| &*name.name);
    if installed_soc(real_names).is_some() {
        return files.next().is_some();
    }
    let stems = |suffix: &'static str| {
        files.clone().filter_map(move |name| name.to_str()?.strip_suffix(suffix)).collect::<HashSet<&str>>()
    };
    !stems(".json").is_disjoint(&stems(".o"))
}

/// Returns whether this is the name of caches, or of directories that contain caches.
fn is_cache_name(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    matches!(&*name, "kernel_meta" | "akg_kernel_meta" | "kernel_cache") || name.starts_with("rank_")
}

/// Returns the cache at `path`, if its real path is that of a cache.
fn recognise(path: &Path, real_names: &[OsString]) -> Option<CacheDir> {
    let name = |up: usize| real_names.get(real_names.len().checked_sub(up + 1)?)?.to_str();
    let (own, parent) = (name(0)?, name(1));
    if real_names.iter().any(|name| is_quarantine(name)) {
        return None;
    }
    let cache = |kind, rank: Option<&str>, soc: Option<&str>| CacheDir {
        path: path.to_owned(),
        kind,
        rank: rank.map(str::to_owned),
        soc: soc.map(str::to_owned),
    };
    match (own, parent) {
        ("kernel_meta", Some(process)) if process.starts_with("kernel_meta_") => {
            Some(cache(Kind::Work, None, None))
        }
        ("kernel_meta", _) => {
            let rank = parent.and_then(|parent| parent.strip_prefix("rank_"));
            Some(cache(Kind::MindSpore, rank, None))
        }
        ("akg_kernel_meta", _) => Some(cache(Kind::Akg, None, None)),
        // CANN's documentation has an example with two nested directories of this name.
        ("kernel_cache", Some("kernel_cache")) => None,
        // A store of opkeep may be in this directory.
        ("opkeep" | "v1", Some("kernel_cache")) => None,
        (soc, Some("kernel_cache")) if targets::named(soc).is_some() || has_ini(real_names) => {
            Some(cache(Kind::Cann, None, Some(soc)))
        }
        // Other programs use this name, too.
        (_, Some("kernel_cache")) => None,
        _ => installed_soc(real_names)
            .or_else(|| built_soc(real_names))
            .map(|soc| cache(Kind::Package, None, Some(soc))),
    }
}

/// Returns whether CANN's settings file is beside the directory.
fn has_ini(real_names: &[OsString]) -> bool {
    let parent: PathBuf = real_names.iter().take(real_names.len().saturating_sub(1)).collect();
    Dir::open_quietly(&parent).is_ok_and(|parent| parent.file_state("op_cache.ini").is_some())
}

/// Returns the chip of an installed operator package's kernels: the name after `tbe/kernel`.
fn installed_soc(real_names: &[OsString]) -> Option<&str> {
    let at = real_names.windows(2).rposition(|names| names[0] == "tbe" && names[1] == "kernel")?;
    let soc = real_names.get(at + 2)?.to_str()?;
    (soc != "config").then_some(soc)
}

/// Returns the chip of the kernels in a package's build tree: CMake and CPack write `kernel/<soc>/<op>` and
/// `binary/<soc>/bin/<op>`.
fn built_soc(real_names: &[OsString]) -> Option<&str> {
    let is_chip = |name: &OsString| {
        let number = name.to_str().and_then(|name| name.strip_prefix("ascend"));
        number.is_some_and(|number| number.starts_with(|digit: char| digit.is_ascii_digit()))
    };
    let is_built = |names: &[OsString]| (names[0] == "kernel" || names[0] == "binary") && is_chip(&names[1]);
    real_names.get(real_names.windows(2).rposition(is_built)? + 1)?.to_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> Option<(Kind, Option<String>, Option<String>)> {
        let real_names: Vec<OsString> = Path::new(path).iter().map(OsStr::to_owned).collect();
        recognise(Path::new(path), &real_names).map(|cache| (cache.kind, cache.rank, cache.soc))
    }

    #[test]
    fn parent_directories_are_found_for_every_form_of_a_path() {
        for (path, expected) in [
            ("a/b", "a"),
            ("a", "."),
            (".", "./.."),
            ("..", "../.."),
            ("a/..", "a/../.."),
            ("/a", "/"),
            ("./a", "."),
        ] {
            assert_eq!(parent_of(Path::new(path)), Path::new(expected), "{path}");
        }
    }

    #[test]
    fn directories_are_recognised_by_their_names() {
        let some = |text: &str| Some(text.to_owned());
        for (path, expected) in [
            ("/a/kernel_meta", Some((Kind::MindSpore, None, None))),
            ("/a/rank_3/kernel_meta", Some((Kind::MindSpore, some("3"), None))),
            ("/a/rank_3", None),
            ("/a/akg_kernel_meta", Some((Kind::Akg, None, None))),
            ("/a/kernel_cache/Ascend910B2", Some((Kind::Cann, None, some("Ascend910B2")))),
            ("/a/kernel_cache/kernel_cache", None),
            ("/a/kernel_cache/objects", None),
            ("/a/kernel_cache/Ascend910B2.opkeep-quarantine", None),
            ("/a/kernel_meta.opkeep-quarantine/1/kernel_meta", None),
            ("/a/kernel_cache/kernel_cache/Ascend310P3", Some((Kind::Cann, None, some("Ascend310P3")))),
            ("/o/ai_core/tbe/kernel/ascend910b/add", Some((Kind::Package, None, some("ascend910b")))),
            ("/o/ai_core/tbe/kernel/config/ascend910b", None),
            ("/o/tbe/kernel/ascend910b/ops/add", Some((Kind::Package, None, some("ascend910b")))),
            ("/o/ai_core/tbe/kernel", None),
            ("/w/kernel_meta/kernel_meta_123/kernel_meta", Some((Kind::Work, None, None))),
            ("/w/kernel_meta_Add_5f0e/kernel_meta", Some((Kind::Work, None, None))),
            ("/b/build_out/kernel/ascend310b/add", Some((Kind::Package, None, some("ascend310b")))),
            ("/b/op_kernel/binary/ascend910b/bin/add", Some((Kind::Package, None, some("ascend910b")))),
            ("/b/kernel/ascend/add", None),
            ("/b/kernel/drivers", None),
            ("/", None),
        ] {
            assert_eq!(of(path), expected, "{path}");
        }
    }
}
