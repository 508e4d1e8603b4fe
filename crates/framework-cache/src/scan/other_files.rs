//! Kernels in directories that are not caches of a framework, such as copies and build trees.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

use opkeep_cann_meta::{KernelMeta, targets};
use opkeep_descriptor::MAX_INFO_BYTES;
use opkeep_fs::Fs;
use opkeep_validator::Report;

use super::cache_dir::{CacheDirs, OtherFiles};
use super::chip::named_otherwise;
use super::extract::is_ours;

/// The number of bytes of an ELF header up to the end of the machine.
const HEADER: u64 = 20;

impl CacheDirs {
    /// Removes all files from [`others`](Self::others), and returns those that belong to kernels, and entries that were
    /// copied from a store, in order. `skip` is called with the other files that no [`scan`](super::scan) reports.
    pub fn take_kernel_files(&mut self, mut skip: impl FnMut(PathBuf)) -> Vec<PathBuf> {
        let mut kernels = Vec::new();
        for OtherFiles { path, names, is_scanned } in std::mem::take(&mut self.others) {
            let directory = Directory::new(&path, &names);
            for name in &directory.names {
                let path = directory.path.join(name);
                let is_kernel = match name.rsplit_once('.') {
                    Some((stem, "json")) => directory.has_object(stem) || directory.is_description(&path),
                    Some((stem, "o")) => directory.has_json(stem) || directory.is_object(&path),
                    Some((stem, "so")) => directory.has_json(stem),
                    _ => true,
                };
                match is_kernel {
                    true => kernels.push(path),
                    false if is_scanned => {}
                    false => skip(path),
                }
            }
        }
        kernels
    }
}

/// A directory, with the names of its files that may belong to kernels.
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

    /// Returns whether the directory has a `.json` and an object of a kernel: compilers for hosts write a `.json`
    /// beside their objects, too.
    fn has_kernels(&self) -> bool {
        *self.has_kernels.get_or_init(|| {
            let mut stems = self.names.iter().filter_map(|name| name.strip_suffix(".json"));
            stems.any(|stem| {
                let path = || self.path.join(format!("{stem}.json"));
                self.has_object(stem) && describes_kernel(&path()) == Some(true)
            })
        })
    }

    /// Returns whether a `.json` without an object with its stem describes a kernel. If it cannot be read or parsed, it
    /// counts as a description if there are kernels in the directory.
    fn is_description(&self, path: &Path) -> bool {
        describes_kernel(path).unwrap_or_else(|| self.has_kernels() && Fs::new().look(path).is_ok())
    }

    /// Returns whether an object without a `.json` may be a kernel: any object for Ascend, or any in a directory with
    /// kernels.
    fn is_object(&self, path: &Path) -> bool {
        let mut header = Vec::new();
        if let Ok((file, _)) = Fs::new().open_file(path) {
            // After an error, the header is shorter than expected.
            let _ = file.take(HEADER).read_to_end(&mut header);
        }
        let is_ascend =
            header.starts_with(b"\x7fELF") && header.get(18..) == Some(&targets::ASCEND.to_le_bytes());
        is_ascend || self.has_kernels()
    }
}

/// Returns whether a `.json` describes a kernel; `None` if it cannot be read or parsed.
fn describes_kernel(path: &Path) -> Option<bool> {
    let json = Fs::new().read(path, MAX_INFO_BYTES).ok()?;
    KernelMeta::parse(&json).ok().map(|meta| meta.describes_kernel())
}

/// Returns the chip that the descriptor beside the `.json` at `path` names, if the kernel of `report` cannot run on it
/// or that is unknown. Returns `None` if a [`View`](opkeep_kernel_meta::View) wrote the kernel, since the user
/// requested it.
pub fn other_chip(path: &Path, report: &Report) -> Option<String> {
    let info = Fs::new().read(&path.with_extension("info"), MAX_INFO_BYTES).ok()?;
    let chip = named_otherwise(report, &info)?;
    let stem = path.file_stem()?.to_str()?;
    let directory = path.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    (!is_ours(directory, stem, &report.sha256?)).then_some(chip)
}
