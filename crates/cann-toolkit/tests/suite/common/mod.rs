//! Helpers of the tests: a stand-in toolkit in a directory of its own, and jobs.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers fail the test that calls them, and make files"
)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use opkeep_cann_toolkit::{OpsInfo, Search, Sources, Toolkit, ToolkitError, toolchain};
use opkeep_descriptor::{Job, ResolvedSpec};
use opkeep_digest::Fingerprint;
use opkeep_testkit::PlainDigests;
use opkeep_testkit::toolkit::{self, Installation};
use tempfile::TempDir;

pub(crate) const SOC: &str = "Ascend910B1";

/// An installed stand-in.
pub(crate) struct Place {
    pub(crate) dir: TempDir,
    pub(crate) installed: Installation,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::of(&toolkit::Toolkit::new())
    }

    pub(crate) fn of(plan: &toolkit::Toolkit) -> Self {
        let dir = TempDir::new().unwrap();
        let installed = plan.write(&dir.path().join("Ascend")).unwrap();
        Self { dir, installed }
    }

    /// A search that sees this directory and nothing of the machine's.
    pub(crate) fn search(&self) -> Search {
        search_below(self.dir.path())
    }

    pub(crate) fn found(&self) -> Toolkit {
        self.search().find().unwrap()
    }

    pub(crate) fn toolchain(&self) -> Fingerprint {
        toolchain(&self.found(), &PlainDigests::default()).unwrap()
    }

    /// The fingerprint of this operator's sources.
    pub(crate) fn sources(&self, op_type: &str) -> Result<Fingerprint, ToolkitError> {
        sources(&self.found(), &job(op_type), &spec())
    }

    pub(crate) fn names(&self, op_type: &str) -> Vec<String> {
        names(&self.sources(op_type).unwrap())
    }

    pub(crate) fn below(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }
}

/// A search that sees this directory and nothing of the machine's.
pub(crate) fn search_below(dir: &Path) -> Search {
    Search {
        explicit: None,
        environment: BTreeMap::new(),
        home: Some(dir.join("home")),
        system: dir.join("Ascend"),
    }
}

pub(crate) fn sources(
    toolkit: &Toolkit,
    job: &Job,
    spec: &ResolvedSpec,
) -> Result<Fingerprint, ToolkitError> {
    let soc = toolkit.platforms.soc(&spec.target)?;
    let ops = OpsInfo::read(toolkit, &soc)?;
    Sources::new(toolkit).fingerprint(job, spec, &ops, &PlainDigests::default())
}

pub(crate) fn spec() -> ResolvedSpec {
    ResolvedSpec { target: SOC.to_owned(), ..ResolvedSpec::default() }
}

/// A job whose only operator is of this type; what it takes is nothing that sources depend on.
pub(crate) fn job(op_type: &str) -> Job {
    let mut job = opkeep_testkit::job("Square", &[&[8]]);
    job.ops[0].op_type = op_type.to_owned();
    job.ops[0].func_name = opkeep_ops::func_name(op_type);
    job.ops[0].module_name = format!("impl.{}", job.ops[0].func_name);
    job
}

pub(crate) fn names(fingerprint: &Fingerprint) -> Vec<String> {
    fingerprint.parts().iter().map(|part| part.name.clone()).collect()
}

/// The names of the parts that differ.
pub(crate) fn changed(old: &Fingerprint, new: &Fingerprint) -> Vec<String> {
    old.diff(new).into_iter().map(|change| change.name).collect()
}

pub(crate) fn environment(variables: &[(&str, &Path)]) -> BTreeMap<String, OsString> {
    variables.iter().map(|(name, value)| ((*name).to_owned(), value.as_os_str().to_owned())).collect()
}
