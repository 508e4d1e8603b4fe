//! Where caches are, and whose.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};

use opbuild_artifact::Expectations;

use crate::pseudo::{pseudo_below, pseudo_file_system};
use crate::survey::FOLDERS;
use crate::survey::look::{Dir, Name, NameKind};

/// Folders nested deeper than this are not looked into.
pub(crate) const MAX_DEPTH: usize = 128;
/// How a folder's name ends that holds what a repair took away.
pub(crate) const QUARANTINE: &str = ".opbuild-quarantine";

/// Whether `path` is in a folder that holds what a repair took away.
pub fn is_set_aside(path: &Path) -> bool {
    path.iter().any(|name| name.as_encoded_bytes().ends_with(QUARANTINE.as_bytes()))
}

/// Whose cache a folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// MindSpore's `kernel_meta`, alone or in `rank_N`.
    MindSpore,
    /// AKG's `akg_kernel_meta`.
    Akg,
    /// CANN's `kernel_cache/<soc>`.
    Cann,
    /// A directory of an operator package, `op_impl/ai_core/tbe/kernel/<soc>/<op>`, or of the tree that one is built in.
    Package,
    /// The directory that CANN has kernels compiled in: `kernel_meta_<process>/kernel_meta`.
    Work,
}

impl Kind {
    /// A word for programs.
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

/// A cache: one folder with kernels in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The folder.
    pub path: PathBuf,
    /// Whose it is.
    pub kind: Kind,
    /// What `RANK_ID` was, if the folder is a rank's.
    pub rank: Option<String>,
    /// The chip, if the folder's name says it: that of CANN's caches and of packages.
    pub soc: Option<String>,
}

impl Place {
    /// The folder that all ranks of one run have in common, of a rank's cache.
    pub fn base(&self) -> Option<PathBuf> {
        self.rank.as_ref().map(|_| above(&above(&self.path)))
    }
}

/// The folder that `path` is in, also where it is spelled from the working folder.
fn above(path: &Path) -> PathBuf {
    match path.components().next_back() {
        None | Some(Component::CurDir | Component::ParentDir) => path.join(".."),
        Some(_) => match path.parent() {
            Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
            Some(parent) => parent.to_owned(),
            None => path.to_owned(),
        },
    }
}

/// What was found.
#[derive(Debug, Default)]
pub struct Places {
    /// The caches, in order of their paths.
    pub places: Vec<Place>,
    /// Folders that could not be looked into, and why.
    pub closed: Vec<(PathBuf, io::Error)>,
    /// Folders that are nested too deep to be looked into.
    pub too_deep: Vec<PathBuf>,
    /// Links that are called as a cache or a rank is. What is behind them was not looked into.
    pub links: Vec<PathBuf>,
    /// Directories that are no cache, with the names of files in them that may be kernels': `.json`, `.o`, `.so`, `.kern`.
    pub others: Vec<(PathBuf, Vec<OsString>)>,
}

/// The caches at and below `path`, those in other caches, too. Links are followed only at `path` itself, and pseudo file
/// systems are not entered.
///
/// # Errors
/// `path` is no folder, closed to us, or on a pseudo file system.
pub fn find(path: &Path) -> io::Result<Places> {
    let dir = Dir::open(path)?;
    if let Some(name) = pseudo_file_system(&dir) {
        return Err(io::Error::other(format!(
            "it is on the pseudo file system {name}, which holds no kernels"
        )));
    }
    // What `.` is called only its full path tells.
    let full = path.canonicalize()?;
    let above: Vec<&OsStr> = full.iter().collect();
    let mut places = Places::default();
    walk(dir, &mut above.into_iter().map(OsStr::to_owned).collect(), 0, &mut places);
    places.places.sort_by(|a, b| a.path.cmp(&b.path));
    places.links.sort_unstable();
    places.others.sort_unstable();
    Ok(places)
}

impl Places {
    /// Keeps the names of files in a directory that is no cache, if they may be kernels'.
    fn add_others(&mut self, dir: &Dir, names: &[Name]) {
        let may_be = |name: &&Name| {
            let suffix = Path::new(&name.name).extension().and_then(OsStr::to_str);
            name.kind != NameKind::Folder && matches!(suffix, Some("json" | "o" | "so" | "kern"))
        };
        let mut files: Vec<OsString> = names.iter().filter(may_be).map(|name| name.name.clone()).collect();
        files.sort_unstable();
        if !files.is_empty() && !is_set_aside(dir.path()) {
            self.others.push((dir.path().to_owned(), files));
        }
    }
}

/// Looks into `dir`, whose full path has the names `path`.
fn walk(dir: Dir, path: &mut Vec<OsString>, depth: usize, places: &mut Places) {
    let names = match dir.names() {
        Ok(names) => names,
        Err(error) => return places.closed.push((dir.path().to_owned(), error)),
    };
    let has_files = names.iter().any(|name| name.kind == NameKind::File);
    let place =
        recognise(dir.path(), path).filter(|place| place.kind != Kind::Package || is_package(path, &names));
    if place.is_none() {
        places.add_others(&dir, &names);
    }
    let links = names.iter().filter(|name| name.kind == NameKind::Link && is_cache_name(&name.name));
    places.links.extend(links.map(|link| dir.path().join(&link.name)));
    let before = places.places.len();
    for folder in names.into_iter().filter(|name| name.kind == NameKind::Folder) {
        if is_own_part(place.as_ref(), &folder.name) {
            continue;
        }
        if depth == MAX_DEPTH {
            places.too_deep.push(dir.path().join(&folder.name));
            continue;
        }
        match dir.below(&folder.name) {
            Ok(below) if pseudo_below(&dir, &below).is_some() => {}
            Ok(below) => {
                path.push(folder.name);
                walk(below, path, depth + 1, places);
                path.pop();
            }
            Err(error) => places.closed.push((dir.path().join(&folder.name), error)),
        }
    }
    // CANN has a `kernel_meta` with nothing in it but the directories of its processes.
    let is_outer = !has_files && places.places.len() > before;
    places.places.extend(place.filter(|place| place.rank.is_some() || !is_outer));
}

/// Whether kernels are right in a directory of packages: operators have directories of their own, some of them nested. Where
/// packages are built, other directories have files, too.
fn is_package(full: &[OsString], names: &[Name]) -> bool {
    let mut files = names.iter().filter(|name| name.kind == NameKind::File).map(|name| &*name.name);
    if installed_soc(full).is_some() {
        return files.next().is_some();
    }
    let stems = |suffix: &'static str| {
        files.clone().filter_map(move |name| name.to_str()?.strip_suffix(suffix)).collect::<HashSet<&str>>()
    };
    !stems(".json").is_disjoint(&stems(".o"))
}

/// Whether a directory below `place` holds what belongs to that, or what a repair took away.
fn is_own_part(place: Option<&Place>, name: &OsStr) -> bool {
    let is_quarantine = name.as_encoded_bytes().ends_with(QUARANTINE.as_bytes());
    let has_parts = place.is_some_and(|place| matches!(place.kind, Kind::MindSpore | Kind::Akg));
    is_quarantine || (has_parts && FOLDERS.iter().any(|part| *part == name))
}

/// Whether caches, or folders of them, are called so.
fn is_cache_name(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    matches!(&*name, "kernel_meta" | "akg_kernel_meta" | "kernel_cache") || name.starts_with("rank_")
}

/// Whose cache a folder is, by its full path.
fn recognise(path: &Path, full: &[OsString]) -> Option<Place> {
    let name = |up: usize| full.get(full.len().checked_sub(up + 1)?)?.to_str();
    let (own, parent) = (name(0)?, name(1));
    if full.iter().any(|name| is_set_aside(Path::new(name))) {
        return None;
    }
    let place = |kind, rank: Option<&str>, soc: Option<&str>| Place {
        path: path.to_owned(),
        kind,
        rank: rank.map(str::to_owned),
        soc: soc.map(str::to_owned),
    };
    match (own, parent) {
        ("kernel_meta", Some(process)) if process.starts_with("kernel_meta_") => {
            Some(place(Kind::Work, None, None))
        }
        ("kernel_meta", _) => {
            let rank = parent.and_then(|parent| parent.strip_prefix("rank_"));
            Some(place(Kind::MindSpore, rank, None))
        }
        ("akg_kernel_meta", _) => Some(place(Kind::Akg, None, None)),
        // The documentation's own example nests two of that name.
        ("kernel_cache", Some("kernel_cache")) => None,
        // A store of ours in there, or one that an older version made.
        ("opbuild" | "v1", Some("kernel_cache")) => None,
        (soc, Some("kernel_cache")) if Expectations::named(soc).is_some() || has_ini(full) => {
            Some(place(Kind::Cann, None, Some(soc)))
        }
        // Others have folders of that name, too.
        (_, Some("kernel_cache")) => None,
        _ => installed_soc(full).or_else(|| built_soc(full)).map(|soc| place(Kind::Package, None, Some(soc))),
    }
}

/// Whether CANN's settings are beside the folder of this full path.
fn has_ini(full: &[OsString]) -> bool {
    let parent: PathBuf = full.iter().take(full.len().saturating_sub(1)).collect();
    Dir::open(&parent).is_ok_and(|parent| parent.identity("op_cache.ini").is_some())
}

/// The chip that the kernels of an operator package's folder are for: what stands behind `tbe/kernel`.
fn installed_soc(full: &[OsString]) -> Option<&str> {
    let at = full.windows(2).rposition(|names| names[0] == "tbe" && names[1] == "kernel")?;
    let soc = full.get(at + 2)?.to_str()?;
    (soc != "config").then_some(soc)
}

/// The chip that kernels are compiled for in a tree that a package is built in: CMake and CPack leave them there as
/// `kernel/<soc>/<op>` and `binary/<soc>/bin/<op>`.
fn built_soc(full: &[OsString]) -> Option<&str> {
    let is_chip = |name: &OsString| {
        let number = name.to_str().and_then(|name| name.strip_prefix("ascend"));
        number.is_some_and(|number| number.starts_with(|digit: char| digit.is_ascii_digit()))
    };
    let is_built = |names: &[OsString]| (names[0] == "kernel" || names[0] == "binary") && is_chip(&names[1]);
    full.get(full.windows(2).rposition(is_built)? + 1)?.to_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> Option<(Kind, Option<String>, Option<String>)> {
        let full: Vec<OsString> = Path::new(path).iter().map(OsStr::to_owned).collect();
        recognise(Path::new(path), &full).map(|place| (place.kind, place.rank, place.soc))
    }

    #[test]
    fn folders_above_are_found_however_a_path_is_spelled() {
        for (path, expected) in [
            ("a/b", "a"),
            ("a", "."),
            (".", "./.."),
            ("..", "../.."),
            ("a/..", "a/../.."),
            ("/a", "/"),
            ("./a", "."),
        ] {
            assert_eq!(above(Path::new(path)), Path::new(expected), "{path}");
        }
    }

    #[test]
    fn folders_are_known_by_their_names() {
        let said = |text: &str| Some(text.to_owned());
        for (path, expected) in [
            ("/a/kernel_meta", Some((Kind::MindSpore, None, None))),
            ("/a/rank_3/kernel_meta", Some((Kind::MindSpore, said("3"), None))),
            ("/a/rank_3", None),
            ("/a/akg_kernel_meta", Some((Kind::Akg, None, None))),
            ("/a/kernel_cache/Ascend910B2", Some((Kind::Cann, None, said("Ascend910B2")))),
            ("/a/kernel_cache/kernel_cache", None),
            ("/a/kernel_cache/objects", None),
            ("/a/kernel_cache/Ascend910B2.opbuild-quarantine", None),
            ("/a/kernel_meta.opbuild-quarantine/1/kernel_meta", None),
            ("/a/kernel_cache/kernel_cache/Ascend310P3", Some((Kind::Cann, None, said("Ascend310P3")))),
            ("/o/ai_core/tbe/kernel/ascend910b/add", Some((Kind::Package, None, said("ascend910b")))),
            ("/o/ai_core/tbe/kernel/config/ascend910b", None),
            ("/o/tbe/kernel/ascend910b/ops/add", Some((Kind::Package, None, said("ascend910b")))),
            ("/o/ai_core/tbe/kernel", None),
            ("/w/kernel_meta/kernel_meta_123/kernel_meta", Some((Kind::Work, None, None))),
            ("/w/kernel_meta_Add_5f0e/kernel_meta", Some((Kind::Work, None, None))),
            ("/b/build_out/kernel/ascend310b/add", Some((Kind::Package, None, said("ascend310b")))),
            ("/b/op_kernel/binary/ascend910b/bin/add", Some((Kind::Package, None, said("ascend910b")))),
            ("/b/kernel/ascend/add", None),
            ("/b/kernel/drivers", None),
            ("/", None),
        ] {
            assert_eq!(of(path), expected, "{path}");
        }
    }
}
