//! Kernels in directories that are no framework's cache: a copy, a build tree, whatever holds pairs.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use opbuild_artifact::{Expectations, KernelMeta};
use opbuild_descriptor::MAX_INFO_BYTES;
use opbuild_kernel_meta::survey::Places;

use crate::input::{is_there, read_file, read_some};
use crate::pairs::says_nothing;

/// So many bytes of an object tell for which machine it is.
const HEADER: u64 = 20;

/// The files out of `others` that are kernels', in order; and what each of the rest is. Entries of a store count only where
/// `found` has no cache: then the user means the store.
pub(crate) fn others(others: Vec<(PathBuf, Vec<OsString>)>, found: &Places) -> (Vec<PathBuf>, Vec<String>) {
    let (mut kernels, mut rest) = (Vec::new(), Vec::new());
    for (folder, names) in others {
        let folder = Folder::new(&folder, &names);
        for name in folder.names.iter().copied() {
            let path = folder.path.join(name);
            let is_kernel = match name.rsplit_once('.') {
                Some((stem, "json")) => folder.has_object(stem) || folder.is_description(&path),
                Some((stem, "o")) => folder.has_json(stem) || folder.is_alone(&path),
                Some((stem, "so")) => folder.has_json(stem),
                _ => found.places.is_empty(),
            };
            match is_kernel {
                true => kernels.push(path),
                false => rest.push(format!("`{}` is no kernel's", path.display())),
            }
        }
    }
    (kernels, rest)
}

/// A directory with the names of what may be kernels' files.
struct Folder<'a> {
    path: &'a Path,
    names: Vec<&'a str>,
    all: HashSet<&'a str>,
    has_pairs: bool,
}

impl<'a> Folder<'a> {
    fn new(path: &'a Path, names: &'a [OsString]) -> Self {
        let names: Vec<&str> = names.iter().filter_map(|name| name.to_str()).collect();
        let mut folder = Self { path, all: names.iter().copied().collect(), names, has_pairs: false };
        let mut stems = folder.names.iter().filter_map(|name| name.strip_suffix(".json"));
        folder.has_pairs = stems.any(|stem| folder.has_object(stem));
        folder
    }

    fn has(&self, name: &str) -> bool {
        self.all.contains(name)
    }

    fn has_object(&self, stem: &str) -> bool {
        [format!("{stem}.o"), format!("{stem}.so"), format!("lib{stem}.so")].iter().any(|name| self.has(name))
    }

    fn has_json(&self, stem: &str) -> bool {
        let stems = [Some(stem), stem.strip_prefix("lib")];
        stems.into_iter().flatten().any(|stem| self.has(&format!("{stem}.json")))
    }

    /// Whether a `.json` without an object of its name describes a kernel. Beside kernels, what is cut off may be one's.
    fn is_description(&self, path: &Path) -> bool {
        match read_file(path, MAX_INFO_BYTES).map(|json| KernelMeta::parse(&json)) {
            Ok(Ok(meta)) => !says_nothing(&meta),
            Ok(Err(_)) => self.has_pairs,
            Err(_) => self.has_pairs && is_there(path),
        }
    }

    /// Whether an object without a `.json` may be a kernel: one for Ascend, or any beside kernels. Compilers for hosts
    /// leave theirs in the same trees.
    fn is_alone(&self, path: &Path) -> bool {
        let ascend = || {
            let header = read_some(path, HEADER).unwrap_or_default();
            header.starts_with(b"\x7fELF") && header.get(18..20) == Some(&Expectations::ASCEND.to_le_bytes())
        };
        self.has_pairs || ascend()
    }
}
