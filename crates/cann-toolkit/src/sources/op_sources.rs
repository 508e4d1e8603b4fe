//! The sources of a job's operators.

use std::path::{Path, PathBuf};

use opkeep_descriptor::{Job, Op, ResolvedSpec};
use opkeep_digest::FileDigests;
use opkeep_digest::Fingerprint;
use opkeep_fs::Fs;
use opkeep_ops::func_name;

use crate::error::ToolkitError;
use crate::find::Toolkit;
use crate::knowledge_bank;
use crate::ops_info::OpsInfo;
use crate::sources::ascendc;
use crate::sources::import_closure::{Base, Closure, Externals, Module};
use crate::sources::scans::Scans;

/// The built-in operators' package.
pub(crate) const BUILT_IN: &str = "impl";

/// The implementation of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Implementation {
    /// The directory that its package is imported from.
    pub base: PathBuf,
    /// The package, as Python names it: `impl`, `customize_impl`; empty for a file by itself.
    pub package: String,
    /// The name of its module: `square`.
    pub module: String,
    /// The function in it.
    pub function: String,
    /// The file for shapes that are known.
    pub file: Option<PathBuf>,
    /// The file for shapes that are not known, which often compiles known ones too.
    pub dynamic: Option<PathBuf>,
}

/// Finds the sources of operators in a toolkit, and remembers what it read of them.
#[derive(Debug)]
pub struct Sources {
    /// The packages of vendors in their order, then the built-in one.
    bases: Vec<Base>,
    scans: Scans,
}

impl Sources {
    /// For the operators of this toolkit and of its vendors.
    pub fn new(toolkit: &Toolkit) -> Self {
        let vendor = toolkit.vendors.iter();
        let vendors =
            vendor.map(|vendor| Base { dir: vendor.tbe.clone(), packages: Some(vendor.packages.clone()) });
        let built_in = Base { dir: toolkit.tbe.clone(), packages: Some(vec![BUILT_IN.to_owned()]) };
        Self { bases: vendors.chain([built_in]).collect(), scans: Scans::default() }
    }

    /// Where an operator of a job is implemented: in the file that the job names, if that is here; else in the first
    /// package of a vendor that has a module for it; else in a directory that the job names; else in the toolkit.
    ///
    /// # Errors
    /// [`ToolkitError::NoImplementation`].
    pub fn implementation(&self, op: &Op, ops: &OpsInfo) -> Result<Implementation, ToolkitError> {
        let none = |problem: &str, looked| ToolkitError::NoImplementation {
            op_type: op.op_type.clone(),
            problem: problem.to_owned(),
            looked,
        };
        let info = ops.get(&op.op_type);
        let asked = op.module_path.as_deref().filter(|path| !path.is_empty()).map(Path::new);
        let is_module = |path: &&Path| path.is_absolute() && path.extension().is_some_and(|end| end == "py");
        if let Some(path) = asked.filter(is_module).filter(|path| Fs::new().is_file(path)) {
            return Ok(self.file_by_itself(op, path));
        }
        if info.is_some_and(|info| info.is_null()) {
            return Err(none(
                "the operator information says that it has no kernel (`opFile` is `Null`)",
                Vec::new(),
            ));
        }
        let said = info.and_then(|info| info.file.clone());
        let named = op.module_name.rsplit('.').next().filter(|name| !name.is_empty()).map(str::to_owned);
        let mut modules: Vec<String> =
            said.into_iter().chain(named).chain([func_name(&op.op_type)]).collect();
        modules.retain(|name| is_module_name(name));
        let function = |module: &str| {
            let said = info.and_then(|info| info.function.clone());
            let own = Some(op.func_name.clone()).filter(|name| !name.is_empty());
            said.or(own).unwrap_or_else(|| module.to_owned())
        };
        let mut looked = Vec::new();
        let own = asked.filter(|path| path.is_absolute() && Fs::new().is_dir(path));
        let own = own.map(|dir| Base { dir: dir.to_owned(), packages: packages_in(op) });
        let (built_in, vendors) =
            self.bases.split_last().map_or((None, &[][..]), |(last, rest)| (Some(last), rest));
        for base in vendors.iter().chain(own.as_ref()).chain(built_in) {
            for package in base.packages.iter().flatten() {
                for module in &modules {
                    let at = |below: &str| base.dir.join(package).join(below).join(format!("{module}.py"));
                    let [file, dynamic] =
                        [at(""), at("dynamic")].map(|path| Some(path).filter(|path| Fs::new().is_file(path)));
                    if file.is_some() || dynamic.is_some() {
                        return Ok(Implementation {
                            base: base.dir.clone(),
                            package: package.clone(),
                            function: function(module),
                            module: module.clone(),
                            file,
                            dynamic,
                        });
                    }
                    looked.push(at(""));
                }
            }
        }
        looked.dedup();
        Err(none("no package has a module for it", looked))
    }

    /// A file that a job names: a module of a package, if it is in one that is known.
    fn file_by_itself(&self, op: &Op, path: &Path) -> Implementation {
        let module = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let function = if op.func_name.is_empty() { module.clone() } else { op.func_name.clone() };
        let real = Fs::new().resolved(path);
        for base in &self.bases {
            let Ok(below) = real.strip_prefix(Fs::new().resolved(&base.dir)) else { continue };
            let names: Vec<String> = below.iter().map(|name| name.to_string_lossy().into_owned()).collect();
            let is_known = |package: &String| base.packages.iter().flatten().any(|known| known == package);
            let package = match &names[..] {
                [package, _] if is_known(package) => package,
                [package, dynamic, _] if is_known(package) && dynamic == "dynamic" => package,
                _ => continue,
            };
            let at = |below: &str| base.dir.join(package).join(below).join(format!("{module}.py"));
            let [file, dynamic] =
                [at(""), at("dynamic")].map(|path| Some(path).filter(|path| Fs::new().is_file(path)));
            return Implementation {
                base: base.dir.clone(),
                package: package.clone(),
                module,
                function,
                file,
                dynamic,
            };
        }
        let base = path.parent().unwrap_or(Path::new("/")).to_owned();
        Implementation {
            base,
            package: String::new(),
            module,
            function,
            file: Some(path.to_owned()),
            dynamic: None,
        }
    }

    /// The sources that only this job's kernel depends on: each file by its name below the directory that packages are imported
    /// from.
    ///
    /// # Errors
    /// [`ToolkitError::NoImplementation`]; a file that cannot be read.
    pub fn fingerprint(
        &self,
        job: &Job,
        spec: &ResolvedSpec,
        ops: &OpsInfo,
        files: &dyn FileDigests,
    ) -> Result<Fingerprint, ToolkitError> {
        Ok(self.inputs(job, spec, ops, files)?.0)
    }

    /// The same, with what the operators take from other places.
    pub fn inputs(
        &self,
        job: &Job,
        spec: &ResolvedSpec,
        ops: &OpsInfo,
        files: &dyn FileDigests,
    ) -> Result<(Fingerprint, Externals), ToolkitError> {
        let mut found: Vec<Implementation> = Vec::new();
        for op in &job.ops {
            let implementation = self.implementation(op, ops)?;
            if !found.contains(&implementation) {
                found.push(implementation);
            }
        }
        let bases = self.bases_with(&found);
        let mut closure = Closure::new(&bases, &self.scans, files);
        for implementation in &found {
            add(implementation, &bases, &mut closure)?;
        }
        let mut fingerprint = Fingerprint::new();
        let externals = closure.finish(&mut fingerprint)?;
        for option in knowledge_bank::OPTIONS {
            if let Some(dir) = spec.options.get(option).filter(|dir| !dir.is_empty()) {
                knowledge_bank::fingerprint(option, Path::new(dir), files, &mut fingerprint)?;
            }
        }
        Ok((fingerprint, externals))
    }

    /// All directories that something may be imported from. Those that only the job names come first, as they do for
    /// Python.
    fn bases_with(&self, found: &[Implementation]) -> Vec<Base> {
        let mut bases: Vec<Base> = Vec::new();
        for Implementation { base, package, .. } in found {
            if !self.bases.iter().chain(&bases).any(|known| known.dir == *base) {
                let packages = (!package.is_empty()).then(|| vec![package.clone()]);
                bases.push(Base { dir: base.clone(), packages });
            }
        }
        bases.extend_from_slice(&self.bases);
        bases
    }
}

/// Adds the files of one operator.
fn add(found: &Implementation, bases: &[Base], closure: &mut Closure<'_>) -> Result<(), ToolkitError> {
    let Some(base) = bases.iter().position(|base| base.dir == found.base) else { return Ok(()) };
    for (path, below) in [(&found.file, None), (&found.dynamic, Some("dynamic"))] {
        if path.is_none() {
            continue;
        }
        let package = Some(found.package.as_str()).filter(|package| !package.is_empty());
        let names = package.into_iter().chain(below).chain([found.module.as_str()]);
        let module = Module { base, path: names.map(str::to_owned).collect() };
        let scan = closure.add(module)?;
        let dir = found.base.join(&found.package);
        let sources = ascendc::find(&dir, &found.module, &scan.texts)?;
        for file in &sources.files {
            let name = Path::new(&found.package).join(file).display().to_string();
            closure.add_file(name, &dir.join(file))?;
        }
        if sources.is_widened {
            closure.widen();
        }
    }
    Ok(())
}

/// The package that a job's module is in.
fn packages_in(op: &Op) -> Option<Vec<String>> {
    let (package, _) = op.module_name.split_once('.')?;
    is_module_name(package).then(|| vec![package.to_owned()])
}

/// Names from files become parts of paths.
fn is_module_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || letter == '_')
}
