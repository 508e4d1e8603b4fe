//! The paths that a compile may read, in the form that each means of confinement takes: a Landlock domain, or an answer
//! for each path that was observed.

use std::collections::{BTreeSet, HashSet};
use std::path::{Component, Path, PathBuf};

use opkeep_cann_toolkit::disk::{dir_digest, tree};
use opkeep_cann_toolkit::is_source;
use opkeep_fs::Fs;
use opkeep_process::{Domain, DomainError, Observation};

use crate::probe::domain::ReadDomain;
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
    /// The files that these take, and the operator's own sources.
    pub(crate) files: BTreeSet<PathBuf>,
    /// Knowledge banks that options name; packages of which all counts.
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
        let linked: BTreeSet<PathBuf> = linked.collect();
        Self {
            files: with_real(paths(&domain.files)).into_iter().collect(),
            listed: with_real(paths(&domain.listed)).into_iter().collect(),
            operators: with_real(domain.operators.clone()),
            linked: linked.into_iter().collect(),
            beneath,
        }
    }

    /// The domain of a compile that works in `work_dir`. What is not there is left out: it cannot be read either.
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

    /// The paths that were read, executed or listed and that neither this nor `extra` contains.
    pub(crate) fn beyond(&self, extra: &Extra, seen: &Observation) -> Vec<PathBuf> {
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

    /// Whether a file is a source of operators that counts only for those that use it. Modules are not told apart: the
    /// `__init__` of a package imports all of them, and none depends on that.
    fn counts_apart(&self, path: &Path, real: &Path) -> bool {
        let is_module = path.extension().is_some_and(|ending| ending == "py");
        !is_module && is_source(path) && is_below(path, real, &self.operators)
    }

    /// Of paths those that this does not contain.
    fn without<'a>(&'a self, paths: &'a BTreeSet<PathBuf>) -> impl Iterator<Item = &'a PathBuf> {
        paths.iter().filter(|path| {
            let real = Fs::new().resolved(path);
            !self.files.contains(&real) && !is_below(path, &real, &self.beneath)
        })
    }

    /// The kind of workers that a compile may share: those that may read the same. Empty for those that may read what every
    /// compile may.
    pub(crate) fn home(&self, extra: &Extra) -> String {
        let paths = self.without(&extra.files).chain(self.without(&extra.beneath));
        let paths = paths.map(|path| path.to_string_lossy().into_owned());
        extra.names.iter().cloned().chain(paths).collect::<Vec<_>>().join("\n")
    }

    /// How many files count one by one, and in how many directories all do.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (
            self.files.len(),
            self.beneath.iter().filter(|path| !is_unkeyed(path) && Fs::new().exists(path)).count(),
        )
    }
}

impl Extra {
    fn resolved(&self) -> Self {
        let real = |paths: &BTreeSet<PathBuf>| with_real(paths.iter().cloned()).into_iter().collect();
        let Self { names, files, beneath, listed } = self;
        Self { names: names.clone(), files: real(files), beneath: real(beneath), listed: real(listed) }
    }
}

/// Whether a path is below one of these: without links, or by its name, since what links below them lead to counts too.
fn is_below<'a>(path: &Path, real: &Path, directories: impl IntoIterator<Item = &'a PathBuf>) -> bool {
    let is_plain = path.components().all(|part| part != Component::ParentDir);
    directories.into_iter().any(|one| real.starts_with(one) || (is_plain && path.starts_with(one)))
}

/// Paths as they are named, and without links.
fn with_real(paths: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
    let both = |path: PathBuf| {
        let real = Fs::new().resolved(&path);
        if real == path { vec![path] } else { vec![path, real] }
    };
    paths.into_iter().flat_map(both).collect()
}
