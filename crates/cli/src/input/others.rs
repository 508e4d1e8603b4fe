//! Kernels in directories that are no framework's cache: a copy, a build tree, whatever holds pairs.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use opkeep_cann_meta::{KernelMeta, targets};
use opkeep_descriptor::MAX_INFO_BYTES;
use opkeep_framework_cache::scan::{CacheDirs, OtherFiles};

use crate::input::pairs::says_nothing;
use crate::input::{is_there, read_file, read_some};

/// Up to here, the header of an ELF file says for which machine it is.
const HEADER: u64 = 20;

/// Files in directories that are no kernels': how many there are, and what the first of them are.
#[derive(Default)]
pub(crate) struct Skipped {
    pub(crate) count: usize,
    pub(crate) first: Vec<String>,
}

impl Skipped {
    /// So many are named: below `/` there are as many as a system has.
    const NAMED: usize = 100;

    pub(crate) fn add(&mut self, what: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.len() < Self::NAMED {
            self.first.push(what());
        }
    }

    pub(crate) fn append(&mut self, other: Self) {
        self.count += other.count;
        self.first.extend(other.first);
        self.first.truncate(Self::NAMED);
    }
}

/// The files out of `found` that are kernels' and in no cache, in order; all others are added to `skipped`. Entries of a
/// store count only where there is no cache: then the user means the store.
pub(crate) fn others(found: &mut CacheDirs, skipped: &mut Skipped) -> Vec<PathBuf> {
    let mut kernels = Vec::new();
    for OtherFiles { path, names, is_scanned, .. } in std::mem::take(&mut found.others) {
        let directory = Directory::new(&path, &names);
        for name in directory.names.iter().copied() {
            let path = directory.path.join(name);
            let is_kernel = match name.rsplit_once('.') {
                Some((stem, "json")) => directory.has_object(stem) || directory.is_description(&path),
                Some((stem, "o")) => directory.has_json(stem) || directory.is_object(&path),
                Some((stem, "so")) => directory.has_json(stem),
                _ => found.caches.is_empty(),
            };
            match is_kernel {
                true => kernels.push(path),
                false if is_scanned => {}
                false => skipped.add(|| format!("`{}` is no kernel's", path.display())),
            }
        }
    }
    kernels
}

/// A directory with the names of what may be kernels' files.
struct Directory<'a> {
    path: &'a Path,
    names: Vec<&'a str>,
    all: HashSet<&'a str>,
    has_kernels: OnceCell<bool>,
}

impl<'a> Directory<'a> {
    fn new(path: &'a Path, names: &'a [OsString]) -> Self {
        let names: Vec<&str> = names.iter().filter_map(|name| name.to_str()).collect();
        Self { path, all: names.iter().copied().collect(), names, has_kernels: OnceCell::new() }
    }

    fn has_object(&self, stem: &str) -> bool {
        let names = [format!("{stem}.o"), format!("{stem}.so"), format!("lib{stem}.so")];
        names.iter().any(|name| self.all.contains(name.as_str()))
    }

    fn has_json(&self, stem: &str) -> bool {
        let stems = [Some(stem), stem.strip_prefix("lib")];
        stems.into_iter().flatten().any(|stem| self.all.contains(format!("{stem}.json").as_str()))
    }

    /// Whether there is a pair that is a kernel's: compilers for hosts have files beside their objects, too.
    fn has_kernels(&self) -> bool {
        *self.has_kernels.get_or_init(|| {
            let mut stems = self.names.iter().filter_map(|name| name.strip_suffix(".json"));
            stems.any(|stem| {
                let describes = || describes(&self.path.join(format!("{stem}.json"))) == Some(true);
                self.has_object(stem) && describes()
            })
        })
    }

    /// Whether a `.json` without an object of its name describes a kernel. Beside kernels, what is cut off may be one's.
    fn is_description(&self, path: &Path) -> bool {
        describes(path).unwrap_or_else(|| self.has_kernels() && is_there(path))
    }

    /// Whether an object without a `.json` may be a kernel: one for Ascend, or any beside kernels.
    fn is_object(&self, path: &Path) -> bool {
        let header = read_some(path, HEADER).unwrap_or_default();
        let is_ascend =
            header.starts_with(b"\x7fELF") && header.get(18..20) == Some(&targets::ASCEND.to_le_bytes());
        is_ascend || self.has_kernels()
    }
}

/// Whether a `.json` describes a kernel: none if it cannot be read.
fn describes(path: &Path) -> Option<bool> {
    let json = read_file(path, MAX_INFO_BYTES).ok()?;
    KernelMeta::parse(&json).ok().map(|meta| !says_nothing(&meta))
}
