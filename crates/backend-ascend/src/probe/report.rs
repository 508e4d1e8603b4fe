//! The report of one run of the probe, completed by the observer's reads.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use opkeep_fs::Fs;
use opkeep_process::Observation;
use serde::{Deserialize, Serialize};

use crate::probe::unkeyed::{Directories, is_unkeyed};

/// The report of a probe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// The files that importing the toolkit reads.
    pub(crate) base: Reads,
    /// The further files that modules named by operators read; None for a module that cannot be imported.
    pub(crate) names: BTreeMap<String, Option<Reads>>,
    pub(crate) programs: Programs,
    pub(crate) configs: Configs,
    /// Names of modules that the toolkit does not import and that are not probed yet.
    #[serde(default)]
    pub(crate) pending: Vec<String>,
    /// Why the toolkit cannot be imported.
    pub(crate) problem: Option<String>,
    pub(crate) executable: PathBuf,
    pub(crate) version: String,
    /// The directories in which modules are looked for.
    pub(crate) search: Vec<PathBuf>,
}

/// Files that were read, and names that were looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reads {
    /// Modules by their names, with their files.
    pub(crate) modules: Vec<(String, PathBuf)>,
    /// The names that were looked up in each directory: see [`Listing`](crate::probe::listing::Listing).
    pub(crate) looked: BTreeMap<PathBuf, BTreeSet<String>>,
    /// Files whose code is run.
    pub(crate) libraries: Vec<PathBuf>,
    /// All files that were opened to be read.
    pub(crate) opened: Vec<PathBuf>,
}

/// The programs that a compile may run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Programs {
    pub(crate) paths: Vec<(String, PathBuf)>,
    pub(crate) looked: BTreeMap<PathBuf, BTreeSet<String>>,
    pub(crate) libraries: Vec<PathBuf>,
}

/// Files that decide where modules and libraries are found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Configs {
    pub(crate) files: Vec<PathBuf>,
    pub(crate) looked: BTreeMap<PathBuf, BTreeSet<String>>,
}

impl Report {
    /// The device compilers that are found.
    pub(crate) fn compilers(&self) -> Vec<PathBuf> {
        let compilers = self.programs.paths.iter().filter(|(name, _)| name == "ccec" || name == "bisheng");
        compilers.map(|(_, path)| path.clone()).collect()
    }

    /// Adds the observed reads of the probe and of the programs that it ran, except those below `own`: Python itself
    /// does not report the reads of libraries and programs.
    pub(crate) fn add_observed(&mut self, seen: &Observation, own: &Directories) {
        let Self { base, programs, configs, executable, .. } = self;
        let known: BTreeSet<&PathBuf> = opkeep_order::set(
            base.modules
                .iter()
                .chain(&programs.paths)
                .map(|(_, path)| path)
                .chain(
                    base.libraries
                        .iter()
                        .chain(&base.opened)
                        .chain(&programs.libraries)
                        .chain(&configs.files),
                )
                .chain([&*executable]),
        );
        let known: BTreeSet<PathBuf> =
            opkeep_order::set(known.into_iter().flat_map(|path| [path.clone(), Fs::new().resolved(path)]));
        let is_keyed = |path: &Path| !is_unkeyed(path) && !own.contain(path);
        let read = seen.read.iter().filter(|(_, found)| found.is_file()).map(|(path, _)| path);
        let more = read.filter(|path| is_keyed(path) && !known.contains(&Fs::new().resolved(path)));
        base.opened.extend(more.cloned().collect::<Vec<_>>());
        for (path, _) in seen.looked_at.iter().filter(|(path, found)| found.is_nothing() && is_keyed(path)) {
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { continue };
            let name = format!("={}", name.to_string_lossy());
            base.looked.entry(parent.to_owned()).or_default().insert(name);
        }
        // In a directory in which modules are looked up, the relevant names are known. The name of a single file (`=`)
        // does not mean that.
        let is_listed = |looked: &BTreeMap<PathBuf, BTreeSet<String>>, path: &Path| {
            looked.get(path).is_some_and(|names| names.iter().any(|name| !name.starts_with('=')))
        };
        let is_unlisted = |path: &&PathBuf| {
            is_keyed(path) && !is_listed(&base.looked, path) && !is_listed(&configs.looked, path)
        };
        let listed: Vec<PathBuf> = seen.listed.keys().filter(is_unlisted).cloned().collect();
        for path in listed {
            base.looked.entry(path).or_default().insert("*".to_owned());
        }
    }
}
