//! The paths that a compile may read, as a Landlock domain and as a check of observed paths.

use std::collections::{BTreeSet, HashSet};
use std::path::{Component, Path, PathBuf};

use opkeep_cann_toolkit::disk::{dir_digest, tree};
use opkeep_cann_toolkit::is_source;
use opkeep_fs::Fs;
use opkeep_process::{Domain, DomainError, Observation};

use crate::probe::read_domain::ReadDomain;
use crate::probe::unkeyed::is_unkeyed;

/// The paths that every compile by one toolkit may read.
#[derive(Debug)]
pub(crate) struct Reach {
    files: HashSet<PathBuf>,
    beneath: Vec<PathBuf>,
    listed: HashSet<PathBuf>,
    /// Packages of operators.
    operators: Vec<PathBuf>,
    /// Targets of links below `beneath` that are outside of it.
    linked: Vec<PathBuf>,
}

/// The further paths that one compile may read, which only its own key covers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extra {
    /// Modules that the operator names, beyond those that the toolkit imports.
    pub(crate) names: BTreeSet<String>,
    /// The files that importing these modules reads, and the operator's own sources.
    pub(crate) files: BTreeSet<PathBuf>,
    /// Knowledge banks that options name, and packages that are part of the key as a whole.
    pub(crate) beneath: BTreeSet<PathBuf>,
    /// Directories in which the operator's modules are looked for.
    pub(crate) listed: BTreeSet<PathBuf>,
}

impl Reach {
    pub(crate) fn of(domain: &ReadDomain) -> Self {
        let paths = |reasoned: &[(PathBuf, &'static str)]| -> Vec<PathBuf> {
            reasoned.iter().map(|(path, _)| path.clone()).collect()
        };
        let beneath = with_real(paths(&domain.beneath));
        let linked = beneath.iter().filter(|path| !is_unkeyed(path)).flat_map(|path| tree::links_out(path));
        let linked: BTreeSet<PathBuf> = opkeep_order::set(linked);
        Self {
            files: with_real(paths(&domain.files)).into_iter().collect(),
            listed: with_real(paths(&domain.listed)).into_iter().collect(),
            operators: with_real(domain.operators.clone()),
            linked: linked.into_iter().collect(),
            beneath,
        }
    }

    /// The domain of a compile that works in `work_dir`. Missing paths are left out: they cannot be read.
    ///
    /// # Errors
    /// There is no Landlock.
    pub(crate) fn domain(&self, extra: &Extra, work_dir: &Path) -> Result<Domain, DomainError> {
        let mut domain = Domain::builder()?.beneath(work_dir)?;
        for path in self.beneath.iter().chain(&self.linked).chain(&extra.beneath) {
            if Fs::new().exists(path) {
                domain = domain.beneath(path)?;
            }
        }
        for path in self.files.iter().chain(&extra.files).filter(|path| Fs::new().is_file(path)) {
            domain = domain.file(path)?;
        }
        for path in self.listed.iter().chain(&extra.listed).filter(|path| Fs::new().is_dir(path)) {
            domain = domain.list(path)?;
        }
        domain.build()
    }

    /// Returns the observed paths that were read, executed or listed and that neither this nor `extra` contains.
    pub(crate) fn uncovered(&self, extra: &Extra, seen: &Observation) -> Vec<PathBuf> {
        let extra = extra.resolved();
        let read = seen.read.iter().filter(|(_, found)| !found.is_directory()).map(|(path, _)| path);
        let read = read.filter(|path| !self.has_file(path, &extra));
        let listed = seen.listed.keys().filter(|path| !self.has_list(path, &extra));
        read.chain(listed).cloned().collect()
    }

    fn has_file(&self, path: &Path, extra: &Extra) -> bool {
        let real = Fs::new().resolved(path);
        if is_unkeyed(&real) || self.files.contains(&real) || extra.files.contains(&real) {
            return true;
        }
        let is_whole = is_below(path, &real, &extra.beneath);
        let is_of_toolkit = || is_below(path, &real, &self.beneath) && !self.counts_apart(path, &real);
        !dir_digest::is_left_out(path) && (is_whole || is_of_toolkit())
    }

    fn has_list(&self, path: &Path, extra: &Extra) -> bool {
        let real = Fs::new().resolved(path);
        let is_whole = || is_below(path, &real, self.beneath.iter().chain(&extra.beneath));
        is_unkeyed(&real) || self.listed.contains(&real) || extra.listed.contains(&real) || is_whole()
    }

    /// Whether a file is a source that is part of the keys of some operators only. Python modules are excepted: the
    /// `__init__` of a package imports all of them, without effect on the operators.
    fn counts_apart(&self, path: &Path, real: &Path) -> bool {
        let is_module = path.extension().is_some_and(|ending| ending == "py");
        !is_module && is_source(path) && is_below(path, real, &self.operators)
    }

    /// Those of `paths` that this does not contain.
    fn without<'a>(&'a self, paths: &'a BTreeSet<PathBuf>) -> impl Iterator<Item = &'a PathBuf> {
        paths.iter().filter(|path| {
            let real = Fs::new().resolved(path);
            !self.files.contains(&real) && !is_below(path, &real, &self.beneath)
        })
    }

    /// The key by which compiles share workers: the further modules and paths that they may read. Empty if there are
    /// none.
    pub(crate) fn home(&self, extra: &Extra) -> String {
        let paths = self.without(&extra.files).chain(self.without(&extra.beneath));
        let paths = paths.map(|path| path.to_string_lossy().into_owned());
        extra.names.iter().cloned().chain(paths).collect::<Vec<_>>().join("\n")
    }

    /// The number of single files, and the number of whole directories, that are part of keys.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (
            self.files.len(),
            self.beneath.iter().filter(|path| !is_unkeyed(path) && Fs::new().exists(path)).count(),
        )
    }
}

impl Extra {
    fn resolved(&self) -> Self {
        let real = |paths: &BTreeSet<PathBuf>| opkeep_order::set(with_real(paths.iter().cloned()));
        let Self { names, files, beneath, listed } = self;
        Self { names: names.clone(), files: real(files), beneath: real(beneath), listed: real(listed) }
    }
}

/// Whether a path is below one of these directories, with its links resolved or by its name: the targets of links in
/// them are part of keys, too.
fn is_below<'a>(path: &Path, real: &Path, directories: impl IntoIterator<Item = &'a PathBuf>) -> bool {
    let is_plain = path.components().all(|part| part != Component::ParentDir);
    directories.into_iter().any(|one| real.starts_with(one) || (is_plain && path.starts_with(one)))
}

/// The paths as named, and with their links resolved.
fn with_real(paths: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
    let both = |path: PathBuf| {
        let real = Fs::new().resolved(&path);
        if real == path { vec![path] } else { vec![path, real] }
    };
    paths.into_iter().flat_map(both).collect()
}
