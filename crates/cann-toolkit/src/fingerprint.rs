//! The fingerprint of the parts of a toolkit that all kernels share.
//!
//! These count, by content, as one part for each directory: `version.info` with its timestamp, the compiler, Python
//! packages that generate code, platform and operator information, impl modes, tiling libraries, knowledge banks in
//! their order, and vendors' packages less their operators. `__pycache__`, `*.lock`, and a `*.pyc` beside its source
//! never count; a `*.pyc` without a source is a source.
//!
//! Files outside the toolkit that importing it reads count as well; the backend adds them, since only a run of Python
//! shows them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use opkeep_digest::FileDigests;
use opkeep_digest::Fingerprint;

use crate::disk::dir_digest;
use crate::error::ToolkitError;
use crate::find::Toolkit;
use crate::knowledge_bank;
use crate::sources::op_sources::BUILT_IN;
use crate::vendors::{self, Vendor};
use crate::version::Version;

/// Python packages that take part in making code. Not every release has each.
const PYTHON: [&str; 6] = ["opc_tool", "asc_opc_tool", "asc_op_compile_base", "tbe", "te", "te_fusion"];

/// The fingerprint of the parts of `toolkit` that all kernels share. Cheap while nothing changed: `files` remembers digests.
///
/// # Errors
/// A part cannot be read; for a knowledge bank that is [`ToolkitError::Bank`].
pub fn toolchain(toolkit: &Toolkit, files: &dyn FileDigests) -> Result<Fingerprint, ToolkitError> {
    let mut parts = Parts { fingerprint: Fingerprint::new(), files };
    for (name, path) in
        [("compiler", toolkit.root.join("compiler/version.info")), ("opp", toolkit.opp.join("version.info"))]
    {
        parts.fingerprint.text(name, Version::read(&path)?.to_string());
    }
    for (name, program) in [("opc", &toolkit.opc), ("asc_opc", &toolkit.asc_opc)] {
        parts.file(name, program.as_deref())?;
    }
    for (name, path) in toolkit.shared_dirs() {
        parts.dir(&name, &path)?;
    }
    parts.data(&toolkit.operator_packages())?;
    for bank in &toolkit.banks {
        knowledge_bank::fingerprint(bank.named_by, &bank.dir, files, &mut parts.fingerprint)?;
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

impl Toolkit {
    /// The directories whose content all kernels share, each with the name of its part.
    pub fn shared_dirs(&self) -> Vec<(String, PathBuf)> {
        let mut all = Vec::new();
        let mut add = |name: &str, path: PathBuf| all.push((name.to_owned(), path));
        for name in ["bin", "include", "lib"] {
            add(&format!("ccec_compiler/{name}"), self.ccec.join(name));
        }
        // Headers that kernels in Ascend C include.
        add("tikcpp", self.host().join("tikcpp"));
        add("asc", self.host().join("asc"));
        // The header of the version is included by force.
        add("include", self.root.join("include"));
        add("host include", self.host().join("include"));
        // Libraries of tilings and of the compiler's Python load others of these when they compile.
        add("lib64", self.root.join("lib64"));
        for name in PYTHON {
            add(&format!("python {name}"), self.site_packages.join(name));
        }
        add("platform_config", self.platforms.dir().to_owned());
        add("ops-info", self.tbe.join("config"));
        add("impl_mode", self.tbe.join("impl_mode"));
        // Kernels of known shapes contain their tiling.
        add("op_tiling", self.tbe.join("op_tiling"));
        add("op_host", self.tbe.join("op_host"));
        all
    }

    /// The toolkit's own Python packages, without its operators.
    pub fn python_packages(&self) -> Vec<PathBuf> {
        PYTHON.iter().map(|name| self.site_packages.join(name)).collect()
    }

    /// The Python packages of operators: the toolkit's, then those of vendors.
    pub fn operator_packages(&self) -> Vec<PathBuf> {
        let vendors = self.vendors.iter();
        let vendors =
            vendors.flat_map(|vendor| vendor.packages.iter().map(|package| vendor.tbe.join(package)));
        std::iter::once(self.tbe.join(BUILT_IN)).chain(vendors).collect()
    }

    /// The names of all these packages.
    pub fn module_names(&self) -> BTreeSet<String> {
        let all = self.python_packages().into_iter().chain(self.operator_packages());
        opkeep_order::set(all.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())))
    }
}

/// Endings of files that the import closure follows.
const SOURCES: [&str; 12] = ["py", "pyc", "so", "c", "cc", "cpp", "cxx", "cce", "h", "hh", "hpp", "inc"];

/// Whether a file in a package of operators counts for those operators that use it, and not for all.
pub fn is_source(path: &Path) -> bool {
    path.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| SOURCES.contains(&ending))
}

struct Parts<'a> {
    fingerprint: Fingerprint,
    files: &'a dyn FileDigests,
}

impl Parts<'_> {
    fn file(&mut self, name: &str, path: Option<&Path>) -> Result<(), ToolkitError> {
        let Some(path) = path else { return Ok(()) };
        let digest = self.files.digest(path).map_err(|source| ToolkitError::io("read", path, source))?;
        self.fingerprint.add(name, digest, format!("{:.12}", digest.to_string()));
        Ok(())
    }

    fn dir(&mut self, name: &str, path: &Path) -> Result<(), ToolkitError> {
        if let Some(digested) = dir_digest::digest(path, |_| true, self.files)? {
            digested.add_to(name, &mut self.fingerprint);
        }
        Ok(())
    }

    /// The files that operators may read beside their sources.
    fn data(&mut self, packages: &[PathBuf]) -> Result<(), ToolkitError> {
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
    fn vendor(&mut self, vendor: &Vendor) -> Result<(), ToolkitError> {
        let Vendor { name, dir, named_by: _, version, tbe, packages } = vendor;
        self.fingerprint.text(format!("vendor {name}"), version.as_deref().unwrap_or("no version"));
        let sources: Vec<_> = packages.iter().map(|package| tbe.join(package)).collect();
        let is_source = |path: &Path| sources.iter().any(|sources| dir.join(path).starts_with(sources));
        if let Some(digested) = dir_digest::digest(dir, |path| !is_source(path), self.files)? {
            digested.add_to(format!("vendor {name} content"), &mut self.fingerprint);
        }
        Ok(())
    }
}
