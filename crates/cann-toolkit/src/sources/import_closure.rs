//! Everything that a module imports of the packages that operators are in.
//!
//! Python runs the `__init__` of each package that leads to a module, and that of `impl.dynamic` imports every
//! operator. That makes no operator depend on another, so of such a file what stands right beside it does not count;
//! its own text does, and what it imports from elsewhere. Only a name that a module takes *from* a package is followed
//! to where the `__init__` has it from.
//!
//! A module that is not there counts as that: should it come, the fingerprint changes. But outside `try`, where the
//! vendor does not expect it, and wherever a name is known only when the module runs, there is no telling: then the
//! whole packages count.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use opkeep_digest::FileDigests;
use opkeep_digest::{Digest, Fingerprint};

use crate::disk::dir_digest;
use crate::error::ToolkitError;
use crate::sources::externals;
use crate::sources::imports::{Import, ImportKind, Scan};
use crate::sources::scans::{Names, Scans};

/// A directory that packages with operators are imported from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    pub(crate) dir: PathBuf,
    /// Packages in it that hold operators; None, if everything in it may be imported.
    pub(crate) packages: Option<Vec<String>>,
}

/// A module or package: which base it is in, and its names from there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Module {
    pub(crate) base: usize,
    pub(crate) path: Vec<String>,
}

impl Module {
    fn child(&self, name: &str) -> Self {
        let path = self.path.iter().cloned().chain([name.to_owned()]).collect();
        Self { base: self.base, path }
    }

    /// The package that it is in; None at the top.
    fn parent(&self) -> Option<Self> {
        let (_, path) = self.path.split_last()?;
        (!path.is_empty()).then(|| Self { base: self.base, path: path.to_vec() })
    }
}

/// The kind of file at a module's path.
enum Place {
    File,
    Package,
    /// Something that Python may import and this does not read: a shared object.
    Other,
    Nothing,
}

/// A step of the search.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Task {
    /// A file, with all that it imports.
    File(Module),
    /// A package that something in it is imported from: its `__init__`, less what stands beside that.
    Opened(Module),
    /// A package of which anything may be used.
    Whole(Module),
    /// A name that a package has from somewhere.
    Name(Module, String),
}

/// Follows imports.
pub(crate) struct Closure<'a> {
    bases: &'a [Base],
    scans: &'a Scans,
    files: &'a dyn FileDigests,
    /// Files by the names that they have in fingerprints; None for what is not there.
    found: BTreeMap<String, Option<Digest>>,
    /// The paths of these files.
    paths: BTreeSet<PathBuf>,
    /// Names that count even if whole packages do.
    roots: Vec<String>,
    begun: HashSet<Task>,
    todo: Vec<Task>,
    /// Whether whole packages count.
    is_widened: bool,
    /// Modules of other places that are named.
    externals: BTreeSet<String>,
    listed: RefCell<HashMap<PathBuf, Option<Arc<Names>>>>,
}

/// The modules from elsewhere that an operator takes, and its own sources that count in its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Externals {
    /// Modules that it names.
    pub names: BTreeSet<String>,
    /// Whether it may name others when it runs.
    pub is_open: bool,
    /// Its own sources that count, file by file.
    pub files: BTreeSet<PathBuf>,
    /// Directories of which all counts.
    pub directories: BTreeSet<PathBuf>,
}

impl<'a> Closure<'a> {
    pub(crate) fn new(bases: &'a [Base], scans: &'a Scans, files: &'a dyn FileDigests) -> Self {
        Self {
            bases,
            scans,
            files,
            found: BTreeMap::new(),
            paths: BTreeSet::new(),
            roots: Vec::new(),
            begun: HashSet::new(),
            todo: Vec::new(),
            is_widened: false,
            externals: BTreeSet::new(),
            listed: RefCell::default(),
        }
    }

    /// Adds a module with all that it imports; its scan.
    pub(crate) fn add(&mut self, module: Module) -> Result<Arc<Scan>, ToolkitError> {
        let name = self.name_of(&module, ".py");
        self.roots.push(name.clone());
        let scan = self.take(name, &self.file_of(&module))?;
        // A file that is run by its path is not looked for by its name.
        let is_looked_for = self.bases[module.base].packages.is_some();
        if is_looked_for && !matches!(self.place(&module), Place::File) {
            self.widen();
        }
        self.push(Task::File(module));
        while let Some(task) = self.todo.pop() {
            self.run(task)?;
        }
        Ok(scan)
    }

    /// Adds a file that is no module.
    pub(crate) fn add_file(&mut self, name: String, path: &Path) -> Result<(), ToolkitError> {
        let digest = self.files.digest(path).map_err(|source| ToolkitError::io("read", path, source))?;
        self.roots.push(name.clone());
        self.found.insert(name, Some(digest));
        self.paths.insert(path.to_owned());
        Ok(())
    }

    /// From now on, whole packages count.
    pub(crate) fn widen(&mut self) {
        self.is_widened = true;
    }

    /// All that was found, by name; with it, what comes from elsewhere.
    pub(crate) fn finish(mut self, fingerprint: &mut Fingerprint) -> Result<Externals, ToolkitError> {
        if self.is_widened {
            self.found.retain(|name, _| self.roots.contains(name));
        }
        for (name, digest) in &self.found {
            match digest {
                Some(digest) => fingerprint.add(name, *digest, format!("{:.12}", digest.to_string())),
                None => fingerprint.text(name, "not there"),
            }
        }
        let mut directories = BTreeSet::new();
        if self.is_widened {
            for base in self.bases {
                match &base.packages {
                    Some(names) => directories.extend(names.iter().map(|name| base.dir.join(name))),
                    None => drop(directories.insert(base.dir.clone())),
                }
                let packages = base.packages.as_ref();
                let counts = |entry: &std::ffi::OsStr| {
                    packages.is_none_or(|names| names.iter().any(|name| entry == name.as_str()))
                };
                if let Some(digested) =
                    dir_digest::digest(&base.dir, |path| first(path).is_some_and(&counts), self.files)?
                {
                    let name = packages.map_or_else(|| "the folder".to_owned(), |names| names.join(", "));
                    digested.add_to(format!("all of {name}"), fingerprint);
                }
            }
        }
        Ok(Externals { names: self.externals, is_open: self.is_widened, files: self.paths, directories })
    }

    fn push(&mut self, task: Task) {
        if !self.is_widened && self.begun.insert(task.clone()) {
            self.todo.push(task);
        }
    }

    fn run(&mut self, task: Task) -> Result<(), ToolkitError> {
        match task {
            Task::File(module) => {
                let path = self.file_of(&module);
                let scan = self.take(self.name_of(&module, ".py"), &path)?;
                if let Some(package) = module.parent() {
                    self.open(&package);
                }
                for import in &scan.imports {
                    self.follow(import, &module, module.parent().as_ref(), false);
                }
            }
            Task::Opened(package) | Task::Whole(package) if self.init_of(&package).is_none() => {
                // A package without `__init__` is nothing but its directory.
                let _ = package;
            }
            Task::Opened(package) => self.run_init(&package, true, |_| true)?,
            Task::Whole(package) => self.run_init(&package, false, |_| true)?,
            Task::Name(package, name) => {
                let Some(init) = self.init_of(&package) else {
                    self.widen();
                    return Ok(());
                };
                let (_, scan) = self.scans.of(&init, self.files)?;
                let is_clear = !scan.imports.iter().any(|import| {
                    matches!(
                        import.what,
                        ImportKind::Star { .. } | ImportKind::Late(_) | ImportKind::NotAscii
                    )
                });
                if is_clear && scan.imports.iter().any(|import| binds(import, &name)) {
                    self.run_init(&package, false, |import| binds(import, &name))?;
                } else {
                    self.push(Task::Whole(package));
                }
            }
        }
        Ok(())
    }

    /// Follows what `counts` of the imports in a package's `__init__`.
    fn run_init(
        &mut self,
        package: &Module,
        is_opened: bool,
        counts: impl Fn(&Import) -> bool,
    ) -> Result<(), ToolkitError> {
        let Some(init) = self.init_of(package) else { return Ok(()) };
        let scan = self.take(self.name_of(package, "/__init__.py"), &init)?;
        if let Some(above) = package.parent() {
            self.open(&above);
        }
        for import in scan.imports.iter().filter(|import| counts(import)) {
            self.follow(import, &package.child("__init__"), Some(package), is_opened);
        }
        Ok(())
    }

    /// Reads a file that counts.
    fn take(&mut self, name: String, path: &Path) -> Result<Arc<Scan>, ToolkitError> {
        let (digest, scan) = self.scans.of(path, self.files)?;
        self.found.insert(name, Some(digest));
        self.paths.insert(path.to_owned());
        Ok(scan)
    }

    /// A package and those that it is in.
    fn open(&mut self, package: &Module) {
        let mut next = Some(package.clone());
        while let Some(package) = next {
            next = package.parent();
            self.push(Task::Opened(package));
        }
    }

    /// Follows an import of the file `from` in `package`. From an `__init__` that is only opened, siblings do not
    /// count.
    fn follow(&mut self, import: &Import, from: &Module, package: Option<&Module>, is_opened: bool) {
        let beside = package.filter(|_| is_opened);
        match &import.what {
            ImportKind::Module { path, .. } => {
                if let Some(module) = self.absolute(path, package, from.base) {
                    self.reach(&module, import, beside);
                } else {
                    self.externals.extend(externals::of(import));
                }
            }
            ImportKind::Names { level, path, names } => {
                let target = match self.origin(*level, path, package, from.base) {
                    Ok(Some(target)) => target,
                    Ok(None) => return self.externals.extend(externals::of(import)),
                    Err(Beyond) => return self.widen(),
                };
                if !matches!(self.place(&target), Place::Package) {
                    return self.reach(&target, import, beside);
                }
                self.open(&target);
                for (name, _) in names {
                    let module = target.child(name);
                    if matches!(self.place(&module), Place::Nothing) {
                        if !is_opened || Some(&target) != package {
                            self.push(Task::Name(target.clone(), name.clone()));
                        }
                    } else {
                        self.reach(&module, import, beside);
                    }
                }
            }
            ImportKind::Star { level, path } => {
                let inside = !matches!(self.origin(*level, path, package, from.base), Ok(None));
                if !inside {
                    self.externals.extend(externals::of(import));
                } else if !is_opened {
                    self.widen();
                }
            }
            ImportKind::Late(_) if is_opened => {}
            ImportKind::Late(_) | ImportKind::NotAscii => self.widen(),
        }
    }

    /// Follows a module that is imported by its name.
    fn reach(&mut self, module: &Module, import: &Import, beside: Option<&Module>) {
        let is_sibling = beside.is_some() && module.parent().as_ref() == beside;
        if let Some(package) = module.parent() {
            if matches!(self.place(&package), Place::Package) {
                self.open(&package);
            } else if !is_sibling {
                return self.missing(module, import.is_tried);
            }
        }
        match self.place(module) {
            Place::Package => self.push(Task::Whole(module.clone())),
            _ if is_sibling => {}
            Place::File => self.push(Task::File(module.clone())),
            Place::Nothing => self.missing(module, import.is_tried),
            Place::Other => self.widen(),
        }
    }

    fn missing(&mut self, module: &Module, is_tried: bool) {
        if is_tried {
            self.found.entry(self.name_of(module, ".py")).or_insert(None);
        } else {
            self.widen();
        }
    }

    /// The module that `import path` means; None if it is none of ours.
    fn absolute(&self, path: &[String], package: Option<&Module>, base: usize) -> Option<Module> {
        let top = path.first()?;
        for (at, base) in self.bases.iter().enumerate() {
            let module = Module { base: at, path: path.to_vec() };
            let is_ours = match &base.packages {
                Some(packages) => packages.contains(top),
                None => {
                    let top = Module { base: at, path: vec![top.clone()] };
                    !matches!(self.place(&top), Place::Nothing)
                }
            };
            if is_ours {
                return Some(module);
            }
        }
        // A file that is run by its path finds what stands beside it.
        let beside = package.filter(|package| package.base == base)?;
        let is_there = matches!(self.place(&beside.child(top)), Place::File | Place::Package);
        is_there.then(|| Module { base, path: beside.path.iter().chain(path).cloned().collect() })
    }

    /// Where `from` takes names from; None if it is none of ours.
    fn origin(
        &self,
        level: usize,
        path: &[String],
        package: Option<&Module>,
        base: usize,
    ) -> Result<Option<Module>, Beyond> {
        if level == 0 {
            return Ok(self.absolute(path, package, base));
        }
        let package = package.ok_or(Beyond)?;
        let depth = package.path.len().checked_sub(level - 1).filter(|depth| *depth > 0).ok_or(Beyond)?;
        let path = package.path[..depth].iter().chain(path).cloned().collect();
        Ok(Some(Module { base: package.base, path }))
    }

    /// The place that Python would import by this name. It looks for a package, a file that is not Python, a source,
    /// bytecode without a source and a plain directory, in this order.
    fn place(&self, module: &Module) -> Place {
        let dir = self.dir_of(module);
        let (Some(within), Some(name)) = (dir.parent(), module.path.last()) else { return Place::Nothing };
        let Some(names) = self.names(within) else { return Place::Nothing };
        let is_dir = names.get(name) == Some(&true);
        if is_dir && let Some(below) = self.names(&dir) {
            match found_in(&below, "__init__") {
                Place::File => return Place::Package,
                Place::Nothing => {}
                other => return other,
            }
        }
        match found_in(&names, name) {
            Place::Nothing if is_dir => Place::Package,
            place => place,
        }
    }

    fn init_of(&self, package: &Module) -> Option<PathBuf> {
        let dir = self.dir_of(package);
        let has_init = self.names(&dir)?.get("__init__.py") == Some(&false);
        has_init.then(|| dir.join("__init__.py"))
    }

    /// The names in a directory, which is listed once.
    fn names(&self, dir: &Path) -> Option<Arc<Names>> {
        let mut listed = self.listed.borrow_mut();
        listed.entry(dir.to_owned()).or_insert_with(|| self.scans.names(dir)).clone()
    }

    fn dir_of(&self, module: &Module) -> PathBuf {
        let mut dir = self.bases[module.base].dir.clone();
        dir.extend(&module.path);
        dir
    }

    fn file_of(&self, module: &Module) -> PathBuf {
        let mut path = self.dir_of(module).into_os_string();
        path.push(".py");
        path.into()
    }

    fn name_of(&self, module: &Module, ending: &str) -> String {
        format!("{}{ending}", module.path.join("/"))
    }
}

/// The place of a module called `name` in a directory with these entries.
fn found_in(names: &Names, name: &str) -> Place {
    let is_file = |entry: &str| names.get(entry) == Some(&false);
    let begin = format!("{name}.");
    let files = names.range(begin.clone()..).take_while(|(entry, _)| entry.starts_with(&begin));
    let mut libraries = files.filter(|(entry, is_dir)| !**is_dir && entry.ends_with(".so"));
    if libraries.next().is_some() {
        Place::Other
    } else if is_file(&format!("{name}.py")) {
        Place::File
    } else if is_file(&format!("{name}.pyc")) {
        Place::Other
    } else {
        Place::Nothing
    }
}

/// A relative import from above the top.
struct Beyond;

/// Whether an import makes `name` known.
fn binds(import: &Import, name: &str) -> bool {
    match &import.what {
        ImportKind::Module { bound, .. } => bound == name,
        ImportKind::Names { names, .. } => names.iter().any(|(_, bound)| bound == name),
        ImportKind::Star { .. } | ImportKind::Late(_) | ImportKind::NotAscii => false,
    }
}

fn first(path: &Path) -> Option<&std::ffi::OsStr> {
    path.iter().next()
}
