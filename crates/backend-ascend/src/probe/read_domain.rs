//! The paths that the toolkit's programs may read, each with the reason: its content is part of keys, or does not
//! affect kernels.

use std::path::PathBuf;

use crate::probe::record::Record;
use crate::probe::unkeyed::{Reasoned, UNKEYED};
use opkeep_cann_toolkit::Toolkit;

/// All paths that a compile may read besides its work directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadDomain {
    /// Directories with everything below them.
    pub(crate) beneath: Vec<Reasoned>,
    /// Single files.
    pub(crate) files: Vec<Reasoned>,
    /// Directories that are only listed: modules, libraries and programs are looked for in them.
    pub(crate) listed: Vec<Reasoned>,
    /// Packages of operators, a part of `beneath`: a source in them is part of the keys of the operators that use it.
    pub(crate) operators: Vec<PathBuf>,
}

/// The directories of the toolkit and its vendors whose content is part of keys: of all kernels, or of those that use
/// it.
pub(crate) fn of_toolkit(toolkit: &Toolkit) -> Vec<Reasoned> {
    let mut beneath: Vec<Reasoned> = toolkit
        .shared_dirs()
        .into_iter()
        .map(|(_, path)| (path, "a part of the toolkit, in the toolchain fingerprint"))
        .collect();
    for package in toolkit.operator_packages() {
        beneath.push((
            package,
            "operators: sources by the import closure, other files in the toolchain fingerprint",
        ));
    }
    for vendor in &toolkit.vendors {
        beneath.push((vendor.dir.clone(), "a vendor's package, in the toolchain fingerprint"));
    }
    for bank in &toolkit.banks {
        beneath.push((bank.dir.clone(), "a knowledge bank, in the toolchain fingerprint"));
    }
    beneath
}

impl ReadDomain {
    /// The paths that every compile by this toolkit may read.
    pub(crate) fn new(toolkit: &Toolkit, record: &Record) -> Self {
        let operators = toolkit.operator_packages();
        let shadows = record.shadows(&operators).into_iter();
        let mut domain = Self { beneath: of_toolkit(toolkit), operators, ..Self::default() };
        domain
            .beneath
            .extend(shadows.map(|path| (path, "operators in another place, in the toolchain fingerprint")));
        let basics =
            UNKEYED.into_iter().chain(opkeep_process::UNKEYED.iter().map(|one| (one.path, one.reason)));
        domain.beneath.extend(basics.map(|(path, reason)| (PathBuf::from(path), reason)));
        let versions = [
            toolkit.root.join("compiler/version.info"),
            toolkit.opp.join("version.info"),
            toolkit.opp.join("vendors/config.ini"),
        ];
        domain.add_files(versions, "what the toolkit says of its version, in the toolchain fingerprint");
        domain.add_files(
            toolkit.opc.iter().chain(&toolkit.asc_opc).cloned(),
            "the toolkit's program, in the toolchain fingerprint",
        );
        domain.add_files(
            [record.interpreter().program.clone()],
            "the Python interpreter, in the toolchain fingerprint",
        );
        domain.add_files(
            record.configs(),
            "decides where modules and libraries are found; checked again for each key",
        );
        domain.add_files(
            record.module_files(),
            "a module that the toolkit imports, in the toolchain fingerprint",
        );
        domain.add_files(
            record.opened_files(),
            "a file that importing the toolkit reads, in the toolchain fingerprint",
        );
        domain.add_files(record.libraries(), "a shared library that is loaded, in the toolchain fingerprint");
        domain.add_files(record.programs(), "a program that compiles run, in the toolchain fingerprint");
        let listed =
            record.listed().map(|path| (path, "modules, libraries or programs are looked for in it"));
        domain.listed = listed.collect();
        domain
    }

    pub(crate) fn add_files(&mut self, files: impl IntoIterator<Item = PathBuf>, reason: &'static str) {
        self.files.extend(files.into_iter().map(|file| (file, reason)));
    }
}
