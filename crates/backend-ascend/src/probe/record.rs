//! The record of importing the toolkit: the interpreter, modules, libraries and programs, and the directories in which
//! they were looked for.
//!
//! A record is made by [`probe`](crate::probe::toolkit_probe) and is current as long as its files have the same
//! contents and its directories the same relevant entries. A file that would shadow another is such an entry: then the
//! record is stale, and the toolkit is probed again. Keys contain contents and names of modules, never their paths.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use opkeep_backend::{BackendError, FileDigests};
use opkeep_cann_toolkit::disk::dir_digest;
use opkeep_cann_toolkit::first;
use opkeep_digest::{Digest, Fingerprint, Hasher};
use opkeep_fs::Fs;
use opkeep_text::counted;
use serde::{Deserialize, Serialize};

use crate::error::{io_error, toolkit_error};
use crate::probe::guards::Guards;
use crate::probe::interpreter::Interpreter;
use crate::probe::listing::Listing;
use crate::probe::report::{Reads, Report};
use crate::probe::unkeyed::{Directories, is_unkeyed};

/// The maximum length of a `.pth` file: longer files are no lists of paths.
const LONGEST_PTH: u64 = 256 << 20;

/// A record of importing the toolkit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The subject of the probe: the interpreter, its environment, the toolkit.
    pub(crate) id: String,
    interpreter: Interpreter,
    report: Report,
    /// Modules that operators of the toolkit and its vendors name.
    pub(crate) scanned: BTreeSet<String>,
    /// All files of the record with their digests; None for a file that is missing or cannot be read.
    files: BTreeMap<PathBuf, Option<String>>,
    directories: BTreeMap<PathBuf, Listing>,
    /// The guards that confine compiles to this record.
    pub(crate) guards: Guards,
}

impl Record {
    /// A record of `report`, with the current contents of its files. Files below `own` are fingerprinted elsewhere. The
    /// `packages` of operators are imported later, and must not be found in other directories.
    pub(crate) fn new(
        id: String,
        interpreter: Interpreter,
        mut report: Report,
        scanned: BTreeSet<String>,
        (own, packages): (&Directories, &[PathBuf]),
        files: &dyn FileDigests,
    ) -> Self {
        for (directory, name) in elsewhere(&report.search, packages) {
            report.base.looked.entry(directory).or_default().insert(name);
        }
        let names = report.names.values_mut().flatten();
        for reads in std::iter::once(&mut report.base).chain(names) {
            reads.modules.retain(|(_, path)| !own.contain(path));
            let modules: BTreeSet<&PathBuf> = opkeep_order::set(reads.modules.iter().map(|(_, path)| path));
            reads.opened.retain(|path| !is_unkeyed(path) && !modules.contains(path) && !own.contain(path));
            reads.libraries.retain(|path| !own.contain(path));
        }
        let mut record = Self {
            id,
            interpreter,
            report,
            scanned,
            files: BTreeMap::new(),
            directories: BTreeMap::new(),
            guards: Guards::default(),
        };
        record.files = opkeep_order::map(record.all_files().map(|path| (path.clone(), digest(&path, files))));
        record.directories =
            record.all_looked().into_iter().map(|(path, names)| Listing::of(path, names)).collect();
        record
    }

    /// Whether an import would read the same files.
    pub(crate) fn is_current(&self, files: &dyn FileDigests) -> bool {
        self.directories.iter().all(|(path, listing)| listing.is_current(path))
            && self.files.iter().all(|(path, known)| digest(path, files) == *known)
    }

    /// Why the toolkit cannot be imported, if it cannot.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.report.problem.as_deref()
    }

    pub(crate) fn interpreter(&self) -> &Interpreter {
        &self.interpreter
    }

    /// Whether two records are equal, except for the times when directories were listed.
    pub(crate) fn says_the_same_as(&self, other: &Self) -> bool {
        let Self { id, interpreter, report, scanned, files, directories, guards } = self;
        let entries = |directories: &BTreeMap<PathBuf, Listing>| -> Vec<_> {
            directories
                .iter()
                .map(|(path, one)| (path.clone(), one.names.clone(), one.found.clone()))
                .collect()
        };
        (id, interpreter, report, scanned) == (&other.id, &other.interpreter, &other.report, &other.scanned)
            && (files, guards) == (&other.files, &other.guards)
            && entries(directories) == entries(&other.directories)
    }

    /// Whether another report has the same modules and programs.
    pub(crate) fn is_confirmed_by(&self, again: &Report, own: &Directories) -> bool {
        let names = |reads: &Reads| -> BTreeSet<(String, PathBuf)> {
            let modules = reads.modules.iter().filter(|(_, path)| !own.contain(path));
            opkeep_order::set(modules.cloned())
        };
        let Report { base, programs, executable, version, problem, .. } = &self.report;
        names(base) == names(&again.base)
            && programs.paths == again.programs.paths
            && (executable, version, problem) == (&again.executable, &again.version, &again.problem)
    }

    /// Whether the module `name` was probed; always true if the toolkit cannot be imported.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.problem().is_some() || self.report.names.contains_key(name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.report.names.keys()
    }

    /// Whether importing a module fails, or reads more files than importing the toolkit.
    pub(crate) fn takes_more(&self, name: &str) -> bool {
        self.report.names.get(name).is_some_and(|reads| *reads != Some(Reads::default()))
    }

    /// Adds the parts that all keys contain.
    pub(crate) fn fingerprint(&self, fingerprint: &mut Fingerprint) {
        let Report { base, programs, executable, version, .. } = &self.report;
        fingerprint.text("python", version.lines().collect::<Vec<_>>().join(" "));
        self.add_file("python program", executable, fingerprint);
        let flags = self.interpreter.arguments.iter().map(|one| one.to_string_lossy());
        let flags = flags.collect::<Vec<_>>().join(" ");
        if !flags.is_empty() {
            fingerprint.text("python options", flags);
        }
        self.add_reads(base, fingerprint);
        self.add_executed_lines(fingerprint);
        for (name, path) in &programs.paths {
            self.add_file(&format!("program {name}"), path, fingerprint);
        }
        self.add_set(
            "libraries of programs",
            programs.libraries.iter().map(|path| (last(path), path)),
            fingerprint,
        );
    }

    /// Adds the files that modules named by an operator need beyond the toolkit's.
    pub(crate) fn fingerprint_of<'a>(
        &self,
        names: impl IntoIterator<Item = &'a String>,
        fingerprint: &mut Fingerprint,
    ) {
        let mut all = Reads::default();
        for name in names {
            match self.report.names.get(name) {
                Some(Some(reads)) => {
                    all.modules.extend(reads.modules.iter().cloned());
                    all.libraries.extend(reads.libraries.iter().cloned());
                    all.opened.extend(reads.opened.iter().cloned());
                }
                Some(None) => fingerprint.text(format!("python module {name}"), "cannot be imported"),
                None => {}
            }
        }
        self.add_reads(&all, fingerprint);
    }

    /// The files that importing these modules reads beyond the toolkit's.
    pub(crate) fn files_of<'a>(&self, names: impl IntoIterator<Item = &'a String>) -> BTreeSet<PathBuf> {
        let reads = names.into_iter().filter_map(|name| self.report.names.get(name)?.as_ref());
        let paths = reads.flat_map(|reads| {
            let modules = reads.modules.iter().map(|(_, path)| path);
            modules.chain(&reads.libraries).chain(&reads.opened)
        });
        opkeep_order::set(paths.cloned())
    }

    /// Adds packages of operators in directories where Python may find them first.
    pub(crate) fn fingerprint_shadows(
        &self,
        packages: &[PathBuf],
        files: &dyn FileDigests,
        fingerprint: &mut Fingerprint,
    ) -> Result<(), BackendError> {
        for path in self.shadows(packages) {
            let name = format!("{} elsewhere", last(&path));
            match dir_digest::digest(&path, |_| true, files).map_err(toolkit_error)? {
                Some(digested) => digested.add_to(name, fingerprint),
                None => {
                    let digest = files.digest(&path).map_err(io_error("read", &path))?;
                    fingerprint.add(name, digest, format!("{:.12}", digest.to_string()));
                }
            }
        }
        Ok(())
    }

    /// The paths of such packages.
    pub(crate) fn shadows(&self, packages: &[PathBuf]) -> Vec<PathBuf> {
        let mut all = Vec::new();
        for (directory, name) in elsewhere(&self.report.search, packages) {
            let listed = self.directories.get(&directory).and_then(|listing| listing.found.as_ref());
            let entries = listed.into_iter().flatten().filter(|entry| entry.split('.').next() == Some(&name));
            all.extend(entries.map(|entry| directory.join(entry)));
        }
        all
    }

    pub(crate) fn configs(&self) -> Vec<PathBuf> {
        self.report.configs.files.clone()
    }

    pub(crate) fn module_files(&self) -> Vec<PathBuf> {
        self.report.base.modules.iter().map(|(_, path)| path.clone()).collect()
    }

    pub(crate) fn opened_files(&self) -> Vec<PathBuf> {
        self.report.base.opened.clone()
    }

    pub(crate) fn libraries(&self) -> Vec<PathBuf> {
        self.report.base.libraries.iter().chain(&self.report.programs.libraries).cloned().collect()
    }

    pub(crate) fn programs(&self) -> Vec<PathBuf> {
        self.report.programs.paths.iter().map(|(_, path)| path.clone()).collect()
    }

    /// The number of directories whose relevant entries must not change.
    pub(crate) fn watched(&self) -> usize {
        self.directories.len()
    }

    /// The directories that programs list. In others, they only check whether a file exists.
    pub(crate) fn listed(&self) -> impl Iterator<Item = PathBuf> {
        let is_listed = |listing: &Listing| listing.names.iter().any(|name| !name.starts_with('='));
        self.directories.iter().filter(move |(_, one)| is_listed(one)).map(|(path, _)| path.clone())
    }

    fn all_reads(&self) -> impl Iterator<Item = &Reads> {
        std::iter::once(&self.report.base).chain(self.report.names.values().flatten())
    }

    fn all_files(&self) -> impl Iterator<Item = PathBuf> {
        let Report { programs, configs, executable, .. } = &self.report;
        let reads = self.all_reads().flat_map(|reads| {
            let modules = reads.modules.iter().map(|(_, path)| path);
            modules.chain(&reads.libraries).chain(&reads.opened)
        });
        let programs = programs.paths.iter().map(|(_, path)| path).chain(&programs.libraries);
        let all: BTreeSet<&PathBuf> =
            opkeep_order::set(reads.chain(programs).chain(&configs.files).chain([executable]));
        all.into_iter().cloned().collect::<Vec<_>>().into_iter()
    }

    fn all_looked(&self) -> BTreeMap<PathBuf, BTreeSet<String>> {
        let mut all: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
        let looked = self.all_reads().map(|reads| &reads.looked);
        for (path, names) in
            looked.chain([&self.report.programs.looked, &self.report.configs.looked]).flatten()
        {
            all.entry(path.clone()).or_default().extend(names.iter().cloned());
        }
        all
    }

    fn digest_of(&self, path: &Path) -> &str {
        self.files.get(path).and_then(Option::as_deref).unwrap_or("not there")
    }

    fn add_file(&self, name: &str, path: &Path, fingerprint: &mut Fingerprint) {
        let digest = self.digest_of(path);
        let mut hasher = Hasher::new("file of a record");
        hasher.bytes(digest.as_bytes());
        fingerprint.add(name, hasher.finish(), format!("{digest:.12}"));
    }

    /// Adds files by names without their directories.
    fn add_set<'a>(
        &self,
        part: &str,
        files: impl Iterator<Item = (String, &'a PathBuf)>,
        fingerprint: &mut Fingerprint,
    ) {
        let all: BTreeSet<(String, &str)> =
            opkeep_order::set(files.map(|(name, path)| (name, self.digest_of(path))));
        if all.is_empty() {
            return;
        }
        let mut hasher = Hasher::new("files of a record");
        hasher.list(all.len());
        for (name, digest) in &all {
            hasher.bytes(name.as_bytes());
            hasher.bytes(digest.as_bytes());
        }
        let digest = hasher.finish();
        fingerprint.add(part, digest, format!("{}, {:.12}", counted(all.len(), "file"), digest.to_string()));
    }

    /// Adds modules, with one part for each package outside the standard library, then libraries, then other files.
    fn add_reads(&self, reads: &Reads, fingerprint: &mut Fingerprint) {
        let library = self.standard_library();
        let mut parts: BTreeMap<String, Vec<(String, &PathBuf)>> = BTreeMap::new();
        for (name, path) in &reads.modules {
            let part = match &library {
                Some(library) if is_standard(path, library) => "python library".to_owned(),
                _ => format!("python module {}", first(name)),
            };
            parts.entry(part).or_default().push((format!("{name} {}", last(path)), path));
        }
        for (part, files) in parts {
            self.add_set(&part, files.into_iter(), fingerprint);
        }
        self.add_set("libraries", reads.libraries.iter().map(|path| (last(path), path)), fingerprint);
        let executed = |path: &&PathBuf| path.extension().is_none_or(|end| end != "pth");
        let opened = reads.opened.iter().filter(|path| self.files.get(*path).is_some_and(Option::is_some));
        self.add_set("files read", opened.filter(executed).map(|path| (last(path), path)), fingerprint);
    }

    /// The directory of the standard library, from the file of `os` or `encodings`: Python imports these first.
    fn standard_library(&self) -> Option<PathBuf> {
        let is_first = |(name, _): &&(String, PathBuf)| name == "os" || name == "encodings";
        let (name, path) = self.report.base.modules.iter().find(is_first)?;
        let directory = path.parent()?;
        Some(if name == "os" { directory } else { directory.parent()? }.to_owned())
    }

    /// Adds the lines of `.pth` files that are code. The other lines are paths, of which only the modules found there
    /// are relevant.
    fn add_executed_lines(&self, fingerprint: &mut Fingerprint) {
        let mut lines = BTreeSet::new();
        for path in
            self.report.configs.files.iter().filter(|path| path.extension().is_some_and(|end| end == "pth"))
        {
            let text = Fs::new().read_text(path, LONGEST_PTH).unwrap_or_default();
            let code =
                text.lines().filter(|line| line.starts_with("import ") || line.starts_with("import\t"));
            lines.extend(code.map(|line| (last(path), line.to_owned())));
        }
        if !lines.is_empty() {
            let text = lines.into_iter().map(|(file, line)| format!("{file}: {line}")).collect::<Vec<_>>();
            fingerprint.text("python .pth", text.join("\n"));
        }
    }
}

/// The directories of `search`, other than a package's own, in which Python may find that package, each with its name.
fn elsewhere(search: &[PathBuf], packages: &[PathBuf]) -> Vec<(PathBuf, String)> {
    let mut all = Vec::new();
    for package in packages {
        let (Some(base), Some(name)) = (package.parent(), package.file_name()) else { continue };
        let others = search
            .iter()
            .filter(|one| one.as_path() != base && Fs::new().resolved(one) != Fs::new().resolved(base));
        all.extend(others.map(|one| (one.clone(), name.to_string_lossy().into_owned())));
    }
    all
}

fn is_standard(path: &Path, library: &Path) -> bool {
    let is_site = |name: &std::ffi::OsStr| name == "site-packages" || name == "dist-packages";
    path.strip_prefix(library).is_ok_and(|below| !below.iter().any(is_site))
}

fn last(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn digest(path: &Path, files: &dyn FileDigests) -> Option<String> {
    files.digest(path).ok().map(|digest: Digest| digest.to_string())
}
