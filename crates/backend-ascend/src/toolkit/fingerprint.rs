//! What all kernels of a toolkit share, part by part.
//!
//! These count, by content, as one part for each directory: `version.info` with its timestamp, the compiler, Python
//! packages that generate code, platform and operator information, impl modes, tiling libraries, knowledge banks in
//! their order, and vendors' packages less their operators. `__pycache__`, `*.lock`, and a `*.pyc` beside its source
//! never count; a `*.pyc` without a source is a source.
//!
//! What importing the toolkit reads outside the toolkit is a part too, see [`probe`](crate::probe).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use opkeep_backend::FileDigests;
use opkeep_digest::Fingerprint;

use crate::AscendError;
use crate::disk::dir_digest;
use crate::sources::op_sources::BUILT_IN;
use crate::toolkit::find::Toolkit;
use crate::toolkit::knowledge_bank;
use crate::toolkit::vendors;
use crate::toolkit::vendors::Vendor;
use crate::toolkit::version::Version;

/// Python packages that take part in making code. Not every release has each.
const PYTHON: [&str; 6] = ["opc_tool", "asc_opc_tool", "asc_op_compile_base", "tbe", "te", "te_fusion"];

/// What all kernels of `toolkit` share. Cheap while nothing changed: `files` remembers digests.
///
/// # Errors
/// A part cannot be read; for a knowledge bank that is [`AscendError::Bank`].
pub fn toolchain(toolkit: &Toolkit, files: &dyn FileDigests) -> Result<Fingerprint, AscendError> {
    let mut parts = Parts { fingerprint: Fingerprint::new(), files };
    for (name, path) in
        [("compiler", toolkit.root.join("compiler/version.info")), ("opp", toolkit.opp.join("version.info"))]
    {
        parts.fingerprint.text(name, Version::read(&path)?.to_string());
    }
    for (name, program) in [("opc", &toolkit.opc), ("asc_opc", &toolkit.asc_opc)] {
        parts.file(name, program.as_deref())?;
    }
    for (name, path) in directories(toolkit) {
        parts.folder(&name, &path)?;
    }
    parts.data(&operator_packages(toolkit))?;
    for bank in &toolkit.banks {
        knowledge_bank::fingerprint(bank.named_by, &bank.folder, files, &mut parts.fingerprint)?;
    }
    // Read again: a package may be installed during a build.
    let listed = vendors::listed_in(&toolkit.opp)?;
    if !listed.is_empty() {
        parts.fingerprint.text("vendors/config.ini", listed.join(","));
    }
    for vendor in &toolkit.vendors {
        parts.vendor(vendor)?;
    }
    Ok(parts.fingerprint)
}

/// The parts that are directories, with all that is in them, by their names.
pub(crate) fn directories(toolkit: &Toolkit) -> Vec<(String, PathBuf)> {
    let mut all = Vec::new();
    let mut add = |name: &str, path: PathBuf| all.push((name.to_owned(), path));
    for name in ["bin", "include", "lib"] {
        add(&format!("ccec_compiler/{name}"), toolkit.ccec.join(name));
    }
    // Headers that kernels in Ascend C include.
    add("tikcpp", toolkit.host().join("tikcpp"));
    add("asc", toolkit.host().join("asc"));
    // One of the version is included by force.
    add("include", toolkit.root.join("include"));
    add("host include", toolkit.host().join("include"));
    // Libraries of tilings and of the compiler's Python load others of these, when they compile and not before.
    add("lib64", toolkit.root.join("lib64"));
    for name in PYTHON {
        add(&format!("python {name}"), toolkit.site_packages.join(name));
    }
    add("platform_config", toolkit.platforms.folder().to_owned());
    add("ops-info", toolkit.tbe.join("config"));
    add("impl_mode", toolkit.tbe.join("impl_mode"));
    // Kernels of known shapes have their tiling in them.
    add("op_tiling", toolkit.tbe.join("op_tiling"));
    add("op_host", toolkit.tbe.join("op_host"));
    all
}

/// The toolkit's own Python packages, less operators.
pub(crate) fn python_packages(toolkit: &Toolkit) -> Vec<PathBuf> {
    PYTHON.iter().map(|name| toolkit.site_packages.join(name)).collect()
}

/// The Python packages of operators: the toolkit's, then those of vendors.
pub(crate) fn operator_packages(toolkit: &Toolkit) -> Vec<PathBuf> {
    let vendors = toolkit.vendors.iter();
    let vendors = vendors.flat_map(|vendor| vendor.packages.iter().map(|package| vendor.tbe.join(package)));
    std::iter::once(toolkit.tbe.join(BUILT_IN)).chain(vendors).collect()
}

/// The names of all these packages.
pub(crate) fn module_names(toolkit: &Toolkit) -> BTreeSet<String> {
    let all = python_packages(toolkit).into_iter().chain(operator_packages(toolkit));
    all.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect()
}

/// Endings of files that the import closure follows.
const SOURCES: [&str; 12] = ["py", "pyc", "so", "c", "cc", "cpp", "cxx", "cce", "h", "hh", "hpp", "inc"];

/// Whether a file in a package of operators counts for those operators that use it, and not for all.
pub(crate) fn is_source(path: &Path) -> bool {
    path.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| SOURCES.contains(&ending))
}

struct Parts<'a> {
    fingerprint: Fingerprint,
    files: &'a dyn FileDigests,
}

impl Parts<'_> {
    fn file(&mut self, name: &str, path: Option<&Path>) -> Result<(), AscendError> {
        let Some(path) = path else { return Ok(()) };
        let digest = self.files.digest(path).map_err(|source| AscendError::io("read", path, source))?;
        self.fingerprint.add(name, digest, format!("{:.12}", digest.to_string()));
        Ok(())
    }

    fn folder(&mut self, name: &str, path: &Path) -> Result<(), AscendError> {
        if let Some(digested) = dir_digest::digest(path, |_| true, self.files)? {
            digested.add_to(name, &mut self.fingerprint);
        }
        Ok(())
    }

    /// What operators may read beside their sources.
    fn data(&mut self, packages: &[PathBuf]) -> Result<(), AscendError> {
        let is_data = |path: &Path| !is_source(path);
        for package in packages {
            if let Some(digested) = dir_digest::digest(package, is_data, self.files)?
                && digested.files > 0
            {
                let name = package.file_name().unwrap_or_default().to_string_lossy();
                digested.add_to(format!("data of {name}"), &mut self.fingerprint);
            }
        }
        Ok(())
    }

    /// The version, and all but the operators' sources: a job depends on those of its own operators only.
    fn vendor(&mut self, vendor: &Vendor) -> Result<(), AscendError> {
        let Vendor { name, folder, named_by: _, version, tbe, packages } = vendor;
        self.fingerprint.text(format!("vendor {name}"), version.as_deref().unwrap_or("no version"));
        let sources: Vec<_> = packages.iter().map(|package| tbe.join(package)).collect();
        let is_source = |path: &Path| sources.iter().any(|sources| folder.join(path).starts_with(sources));
        if let Some(digested) = dir_digest::digest(folder, |path| !is_source(path), self.files)? {
            digested.add_to(format!("vendor {name} content"), &mut self.fingerprint);
        }
        Ok(())
    }
}
