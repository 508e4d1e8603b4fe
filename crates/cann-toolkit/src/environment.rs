//! The environment that the toolkit's programs want: what its `set_env.sh` sets.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::find::{Toolkit, absolute};
use crate::knowledge_bank;
use crate::vendors;

/// A variable for the toolkit's programs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: Value,
}

/// The value of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value {
    /// This, whatever was there.
    Set(OsString),
    /// These directories, before those that were there.
    Before(Vec<PathBuf>),
}

impl Toolkit {
    /// The variables that `set_env.sh` sets, in its order, then those of the caller's environment that change what compilers
    /// do.
    pub fn variables(&self) -> Vec<Variable> {
        let set = |name, value: PathBuf| Variable { name, value: Value::Set(value.into()) };
        let below = |paths: &[&str]| paths.iter().map(|path| self.root.join(path)).collect::<Vec<_>>();
        let mut libraries = below(&["lib64", "lib64/plugin/opskernel", "lib64/plugin/nnengine"]);
        libraries.push(self.tbe.join("op_tiling/lib/linux").join(std::env::consts::ARCH));
        libraries.extend(below(&["tools/aml/lib64", "tools/aml/lib64/plugin"]));
        let programs = below(&["bin", "compiler/ccec_compiler/bin", "tools/ccec_compiler/bin"]);
        let before = |name, dirs| Variable { name, value: Value::Before(dirs) };
        let mut variables = vec![
            set("ASCEND_TOOLKIT_HOME", self.root.clone()),
            set("ASCEND_HOME_PATH", self.root.clone()),
            set("ASCEND_AICPU_PATH", self.root.clone()),
            set("ASCEND_OPP_PATH", self.opp.clone()),
            set("TOOLCHAIN_HOME", self.root.join("toolkit")),
            before("LD_LIBRARY_PATH", libraries),
            before("PYTHONPATH", self.python_path()),
            before("PATH", programs),
        ];
        let handed_on = [
            vendors::CUSTOM_VARIABLE,
            knowledge_bank::BANK_VARIABLE,
            knowledge_bank::CACHE_VARIABLE,
            "HI_PYTHON",
        ];
        for name in handed_on {
            let value = self.environment.get(name).filter(|value| !value.is_empty());
            variables.extend(value.map(|value| Variable { name, value: Value::Set(value.clone()) }));
        }
        // There is a knowledge bank in it.
        variables.extend(self.home.clone().map(|home| set("HOME", home)));
        variables
    }

    /// The same as names and values for a child, with those of the caller's lists that it was found by behind.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        let value = |variable: Variable| match variable.value {
            Value::Set(value) => (variable.name, value),
            Value::Before(dirs) => {
                let mut joined = OsString::new();
                let rest = self.environment.get(variable.name).map(|rest| std::env::split_paths(rest));
                // Programs run elsewhere; and what is empty means where they run, which is no place for libraries.
                let rest =
                    rest.into_iter().flatten().filter(|part| !part.as_os_str().is_empty()).map(absolute);
                for part in dirs.into_iter().chain(rest) {
                    if !joined.is_empty() {
                        joined.push(":");
                    }
                    joined.push(part);
                }
                (variable.name, joined)
            }
        };
        self.variables().into_iter().map(value).collect()
    }

    /// The directories that Python imports the toolkit and its operators from.
    pub fn python_path(&self) -> Vec<PathBuf> {
        vec![self.site_packages.clone(), self.tbe.clone()]
    }
}
