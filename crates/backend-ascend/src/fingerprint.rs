//! What all kernels of a toolkit share, part by part.

use std::path::Path;

use opbuild_backend::FileDigests;
use opbuild_digest::Fingerprint;

use crate::find::Toolkit;
use crate::vendors::Vendor;
use crate::version::Version;
use crate::{AscendError, banks, folder, vendors};

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
    for name in ["bin", "include", "lib"] {
        parts.folder(&format!("ccec_compiler/{name}"), &toolkit.ccec.join(name))?;
    }
    // Headers that kernels in Ascend C include.
    parts.folder("tikcpp", &toolkit.host().join("tikcpp"))?;
    parts.folder("asc", &toolkit.host().join("asc"))?;
    for name in PYTHON {
        parts.folder(&format!("python {name}"), &toolkit.site_packages.join(name))?;
    }
    parts.folder("platform_config", toolkit.platforms.folder())?;
    parts.folder("ops-info", &toolkit.tbe.join("config"))?;
    parts.folder("impl_mode", &toolkit.tbe.join("impl_mode"))?;
    // Kernels of known shapes have their tiling in them.
    parts.folder("op_tiling", &toolkit.tbe.join("op_tiling"))?;
    for bank in &toolkit.banks {
        banks::fingerprint(bank.named_by, &bank.folder, files, &mut parts.fingerprint)?;
    }
    // Read again: somebody may install a package while a build is on.
    let listed = vendors::listed_in(&toolkit.opp)?;
    if !listed.is_empty() {
        parts.fingerprint.text("vendors/config.ini", listed.join(","));
    }
    for vendor in &toolkit.vendors {
        parts.vendor(vendor)?;
    }
    Ok(parts.fingerprint)
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
        if let Some(digested) = folder::digest(path, |_| true, self.files)? {
            digested.add_to(name, &mut self.fingerprint);
        }
        Ok(())
    }

    /// The version, and all but the operators' sources: a job depends on those of its own operators only.
    fn vendor(&mut self, vendor: &Vendor) -> Result<(), AscendError> {
        let Vendor { name, folder, named_by: _, version, tbe, packages } = vendor;
        self.fingerprint.text(format!("vendor {name}"), version.as_deref().unwrap_or("no version"));
        let sources: Vec<_> = packages.iter().map(|package| tbe.join(package)).collect();
        let is_source = |path: &Path| sources.iter().any(|sources| folder.join(path).starts_with(sources));
        if let Some(digested) = folder::digest(folder, |path| !is_source(path), self.files)? {
            digested.add_to(format!("vendor {name} content"), &mut self.fingerprint);
        }
        Ok(())
    }
}
