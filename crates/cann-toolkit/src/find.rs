//! Finding the toolkit, and what of it is there.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use opkeep_fs::Fs;

use crate::disk::tree;
use crate::error::{MissingComponent, PathOrigin, SearchedPath, ToolkitError};
use crate::knowledge_bank::{self, KnowledgeBank};
use crate::platform::Platforms;
use crate::vendors::{self, Vendor};
use crate::version::Version;

/// The variables that lead to the toolkit, in the order in which they count.
const LEADING: [&str; 3] = ["ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", OPP_VARIABLE];
const OPP_VARIABLE: &str = "ASCEND_OPP_PATH";

/// All variables of the environment that this crate looks at, or hands to the toolkit. The caller reads them.
pub const VARIABLES: [&str; 10] = [
    "ASCEND_HOME_PATH",
    "ASCEND_TOOLKIT_HOME",
    OPP_VARIABLE,
    vendors::CUSTOM_VARIABLE,
    knowledge_bank::BANK_VARIABLE,
    knowledge_bank::CACHE_VARIABLE,
    "HI_PYTHON",
    "PATH",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
];

/// The directories of the operators' Python, below the op package.
const TBE: &str = "built-in/op_impl/ai_core/tbe";

/// Where to look for the toolkit.
#[derive(Clone, Debug)]
pub struct Search {
    /// The path that the caller names: the toolkit's root, or the directory that it was installed to.
    pub explicit: Option<PathBuf>,
    /// The environment's values of [`VARIABLES`]. An empty value counts as none.
    pub environment: BTreeMap<String, OsString>,
    /// The user's home directory.
    pub home: Option<PathBuf>,
    /// Where toolkits are installed for all users.
    pub system: PathBuf,
}

impl Search {
    /// A search by this environment, for this user.
    pub fn new(environment: BTreeMap<String, OsString>, home: Option<PathBuf>) -> Self {
        Self { explicit: None, environment, home, system: PathBuf::from("/usr/local/Ascend") }
    }

    /// The toolkit.
    ///
    /// # Errors
    /// There is none ([`ToolkitError::NotFound`]), none where one was named ([`ToolkitError::NotAToolkit`]), or one that
    /// lacks parts ([`ToolkitError::Incomplete`]); files of it that cannot be read.
    pub fn find(&self) -> Result<Toolkit, ToolkitError> {
        self.with_absolute_paths().find_it()
    }

    /// The same for programs that run in other directories: what is named from here is named from the root.
    fn with_absolute_paths(&self) -> Self {
        let mut search = self.clone();
        let from_root = |path: &str| absolute(PathBuf::from(path)).into_os_string();
        for name in [
            vendors::CUSTOM_VARIABLE,
            knowledge_bank::BANK_VARIABLE,
            knowledge_bank::CACHE_VARIABLE,
            "HI_PYTHON",
        ] {
            let Some(value) = search.environment.get_mut(name) else { continue };
            let Some(text) = value.to_str() else { continue };
            *value = match name {
                // The name of a program is looked up.
                "HI_PYTHON" if !text.contains('/') => continue,
                vendors::CUSTOM_VARIABLE => {
                    let items = text.split(':').map(str::trim).filter(|item| !item.is_empty());
                    items.map(from_root).collect::<Vec<_>>().join(OsStr::new(":"))
                }
                _ if text.is_empty() => continue,
                _ => from_root(text),
            };
        }
        search
    }

    fn find_it(&self) -> Result<Toolkit, ToolkitError> {
        if let Some(named) = self.named() {
            let root = root_at(&named.path).ok_or_else(|| ToolkitError::NotAToolkit {
                problem: if Fs::new().is_dir(&named.path) {
                    "the directory has neither `opp` nor `compiler`"
                } else {
                    "there is no such directory"
                },
                path: named.path.clone(),
                named_by: named.named_by,
            })?;
            return Toolkit::read(self, root, named.named_by);
        }
        let mut first_failure = None;
        let usual = self.usual();
        for root in usual.iter().filter(|path| is_root(path)) {
            match Toolkit::read(self, root.clone(), PathOrigin::UsualPath) {
                Ok(toolkit) => return Ok(toolkit),
                Err(error) => first_failure = first_failure.or(Some(error)),
            }
        }
        let looked = usual.into_iter().map(|path| SearchedPath { path, named_by: PathOrigin::UsualPath });
        Err(first_failure.unwrap_or_else(|| ToolkitError::NotFound { looked: looked.collect() }))
    }

    /// The place that is named: by the caller, else by the first variable that is set.
    fn named(&self) -> Option<SearchedPath> {
        let looked = |path: PathBuf, named_by| SearchedPath { path: absolute(path), named_by };
        if let Some(path) = &self.explicit {
            return Some(looked(path.clone(), PathOrigin::Caller));
        }
        LEADING.iter().find_map(|name| {
            let path = PathBuf::from(self.value(name)?);
            // The op package is a part: what leads to it leads to the whole.
            let path = if *name == OPP_VARIABLE { path.parent()?.to_owned() } else { path };
            Some(looked(path, PathOrigin::Variable(name)))
        })
    }

    /// The usual paths of toolkits: both layouts, for all users and for this one.
    fn usual(&self) -> Vec<PathBuf> {
        let home = self.home.as_ref().map(|home| home.join("Ascend"));
        let dirs = std::iter::once(self.system.clone()).chain(home);
        dirs.flat_map(|dir| [dir.join("ascend-toolkit/latest"), dir.join("cann")]).collect()
    }

    /// A variable that is set and not empty.
    pub(crate) fn value(&self, name: &str) -> Option<&OsString> {
        self.environment.get(name).filter(|value| !value.is_empty())
    }
}

/// A path that other directories' processes understand. Links stay.
pub fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

/// The root at `path`, or in one of the directories in which installers put it there.
fn root_at(path: &Path) -> Option<PathBuf> {
    let below = ["latest", "ascend-toolkit/latest", "cann"].map(|name| path.join(name));
    std::iter::once(path.to_owned()).chain(below).find(|path| is_root(path))
}

/// Whether this looks like the root of a toolkit, whole or not.
fn is_root(path: &Path) -> bool {
    ["opp", "compiler"].iter().any(|name| Fs::new().is_dir(&path.join(name)))
}

/// Which versions the packages have.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Versions {
    /// The compiler's.
    pub compiler: Version,
    /// The op package's.
    pub opp: Version,
}

/// An installed toolkit that is complete.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Toolkit {
    /// Its root, by the path that led there; `latest` may be a link.
    pub root: PathBuf,
    /// The origin of the path.
    pub named_by: PathOrigin,
    /// The op package.
    pub opp: PathBuf,
    /// The directory in the op package from which `impl` is imported, with `config` and `impl_mode` in it.
    pub tbe: PathBuf,
    /// The compiler of single operators.
    pub opc: Option<PathBuf>,
    /// The same of newer releases.
    pub asc_opc: Option<PathBuf>,
    /// The device compiler's directory, with `bin` in it.
    pub ccec: PathBuf,
    /// The directory of the toolkit's Python packages.
    pub site_packages: PathBuf,
    /// The chips.
    pub platforms: Platforms,
    /// Packages of custom operators, in the order in which they are asked.
    pub vendors: Vec<Vendor>,
    /// Where knowledge banks may be, in the order in which they are asked; options may name one between the first two.
    pub banks: Vec<KnowledgeBank>,
    /// The versions when it was found; [`toolchain`](crate::toolchain) reads them again.
    pub versions: Versions,
    /// Warnings about the toolkit.
    pub warnings: Vec<String>,
    /// The home directory that it was found by.
    pub(crate) home: Option<PathBuf>,
    /// The environment that it was found by.
    pub(crate) environment: BTreeMap<String, OsString>,
}

impl Toolkit {
    fn read(search: &Search, root: PathBuf, named_by: PathOrigin) -> Result<Self, ToolkitError> {
        let own_opp = search.value(OPP_VARIABLE).filter(|_| matches!(named_by, PathOrigin::Variable(_)));
        let opp = own_opp.map_or_else(|| root.join("opp"), |path| absolute(PathBuf::from(path)));
        let tbe = opp.join(TBE);
        let host = host(&root);
        let mut parts = Parts { missing: Vec::new() };

        let compiler_version = root.join("compiler/version.info");
        let opp_version = opp.join("version.info");
        parts.need(
            "the compiler package's version",
            Fs::new().is_file(&compiler_version),
            &compiler_version,
            TOOLKIT,
        );
        parts.need("the op package's version", Fs::new().is_file(&opp_version), &opp_version, OPP);
        let program = |name: &str| {
            let dirs = [root.join("bin"), root.join("compiler/bin"), host.join("bin")];
            dirs.map(|dir| dir.join(name)).into_iter().find(|path| Fs::new().is_program(path))
        };
        let (opc, asc_opc) = (program("opc"), program("asc_opc"));
        let there = opc.is_some() || asc_opc.is_some();
        parts.need("the operator compiler `opc` or `asc_opc`", there, &root.join("bin/opc"), TOOLKIT);
        let ccec = ["compiler/ccec_compiler", "tools/ccec_compiler"].map(|path| root.join(path));
        let ccec = ccec.into_iter().chain([host.join("ccec_compiler")]).find(|path| Fs::new().is_dir(path));
        let ccec = ccec.unwrap_or_else(|| root.join("compiler/ccec_compiler"));
        for (part, name) in [("the device compiler", "ccec"), ("the device linker", "ld.lld")] {
            let path = ccec.join("bin").join(name);
            parts.need(part, Fs::new().is_program(&path), &path, TOOLKIT);
        }
        let site_packages = root.join("python/site-packages");
        for (part, names) in PYTHON {
            let there = names.iter().any(|name| Fs::new().is_dir(&site_packages.join(name)));
            parts.need(part, there, &site_packages.join(names[0]), TOOLKIT);
        }
        let dirs = [host.join("data/platform_config"), root.join("compiler/data/platform_config")];
        let dir = dirs.iter().find(|path| Fs::new().is_dir(path)).unwrap_or(&dirs[0]);
        let platforms = Platforms::list(dir.clone())?;
        parts.need("the platform configuration", !platforms.names().is_empty(), dir, TOOLKIT);
        for (part, name) in [("the operators", "impl"), ("the operator information", "config")] {
            let path = tbe.join(name);
            let there = tree::names(&path)?.is_some_and(|names| !names.is_empty());
            parts.need(part, there, &path, OPP);
        }
        if !parts.missing.is_empty() {
            return Err(ToolkitError::Incomplete { root, named_by, missing: parts.missing });
        }

        let mut warnings = Vec::new();
        let custom = search.value(vendors::CUSTOM_VARIABLE).map(|value| value.to_string_lossy());
        let vendors = vendors::find(custom.as_deref(), &opp, &mut warnings)?;
        let banks =
            knowledge_bank::find(|name| search.value(name), search.home.as_deref(), &opp, &mut warnings);
        let versions =
            Versions { compiler: Version::read(&compiler_version)?, opp: Version::read(&opp_version)? };
        if versions.compiler.release != versions.opp.release {
            let release =
                |version: &Version| version.release.clone().unwrap_or_else(|| version.inner.clone());
            warnings.push(format!(
                "the compiler package is {}, the op package {}: they belong together",
                release(&versions.compiler),
                release(&versions.opp)
            ));
        }
        let environment = search.environment.clone();
        Ok(Self {
            root,
            named_by,
            opp,
            tbe,
            opc,
            asc_opc,
            ccec,
            site_packages,
            platforms,
            vendors,
            banks,
            versions,
            warnings,
            home: search.home.clone(),
            environment,
        })
    }

    /// The root without links: `.../ascend-toolkit/8.1.RC1`.
    pub fn real_root(&self) -> PathBuf {
        Fs::new().resolved(&self.root)
    }

    /// The directory of what is for this kind of host: `<root>/x86_64-linux`.
    pub fn host(&self) -> PathBuf {
        host(&self.root)
    }
}

fn host(root: &Path) -> PathBuf {
    root.join(format!("{}-linux", std::env::consts::ARCH))
}

/// Python packages without which nothing compiles. Newer releases have one for `asc_opc` in place of the other.
const PYTHON: [(&str, &[&str]); 2] = [
    ("the Python package `opc_tool`", &["opc_tool", "asc_opc_tool"]),
    ("the Python package `tbe`", &["tbe"]),
];

const TOOLKIT: &str = "the package Ascend-cann-toolkit for this kind of machine brings it";
const OPP: &str = "the op package (opp) in Ascend-cann-toolkit brings it";

/// The missing parts.
struct Parts {
    missing: Vec<MissingComponent>,
}

impl Parts {
    fn need(&mut self, part: &'static str, is_there: bool, path: &Path, help: &'static str) {
        if !is_there {
            self.missing.push(MissingComponent { part, path: path.to_owned(), help });
        }
    }
}
