//! The environment of a compile.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use opkeep_digest::Hasher;

use super::NotCached;
use crate::environment::{covers, passed};

/// Directories of headers: what they bring in is in the text. They appear in no command line.
const SEARCH: [&str; 5] =
    ["CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "OBJC_INCLUDE_PATH", "OBJCPLUS_INCLUDE_PATH"];

/// Where a compiler puts files that it removes again, and the name of its working directory: code shows none of these.
const PLACES: [&str; 4] = ["TMPDIR", "TMP", "TEMP", "PWD"];

/// Variables of the user and of the programs that start the compiler, which it does not get: the home directory, those of make, of Python, of
/// opkeep, and those that the compiler's Python reads. (asc-devkit 9.1, `compile_op.py`, `ascendc_common_utility.py`)
#[rustfmt::skip]
const OF_CALLERS: [&str; 18] = [
    "HOME", "USER", "LOGNAME",
    "MAKE*", "MFLAGS", "GNUMAKEFLAGS", "PYTHON*", "OPKEEP*", "HI_PYTHON", "BUILD_KERNEL_SRC", "BISHENG_REAL_PATH", "BIN_FILENAME_HASHED",
    "ASCEND_CUSTOM_OPP_PATH", "ASCENDC_CCACHE_EXECUTABLE", "ASCENDC_BUILD_LOG_DIR", "ASCENDC_PAR_COMPILE_JOB", "TILINGKEY_PAR_COMPILE",
    "TILINGKEY_PARALLEL_JOB",
];

/// Variables by which clang takes other arguments, finds its programs elsewhere, or writes further files.
#[rustfmt::skip]
const REFUSED: [&str; 10] = [
    "CCC_*", "CC_PRINT_*", "CC_LOG_*", "CLANG_*", "COMPILER_PATH", "GCC_EXEC_PREFIX", "DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES", "LD_AUDIT",
    "LD_TRACE_*",
];

/// The environment of a compile.
#[derive(Clone, Debug)]
pub(crate) struct Variables {
    /// What the compiler gets, sorted by name.
    pub(crate) given: Vec<(OsString, OsString)>,
    /// The names that the user takes for names without effect.
    inert: Vec<String>,
}

impl Variables {
    /// The variables that a compiler in `dir` gets of `env`. Those with a name in `inert` do not count.
    ///
    /// # Errors
    /// The variable that changes what arguments mean.
    pub(crate) fn of(env: &[(OsString, OsString)], dir: &Path, inert: &[String]) -> Result<Self, NotCached> {
        let refused = env.iter().find(|(name, value)| is_one_of(name, &REFUSED) && !value.is_empty());
        if let Some((name, _)) = refused {
            return Err(NotCached::Variable { name: name.to_string_lossy().into_owned() });
        }
        // What the compiler does not see has no effect.
        let mut given = passed(env, dir);
        given.retain(|(name, _)| !is_one_of(name, &OF_CALLERS));
        opkeep_order::sort(&mut given);
        Ok(Self { given, inert: inert.to_vec() })
    }

    /// Adds the variables that count where code does not show its place.
    pub(crate) fn hash(&self, hasher: &mut Hasher) {
        self.hash_named(hasher, |name| !is_one_of(name, &SEARCH) && !is_one_of(name, &PLACES));
    }

    /// Adds all variables but those that only name places for files of a moment.
    pub(crate) fn hash_all(&self, hasher: &mut Hasher) {
        self.hash_named(hasher, |name| name == "PWD" || !is_one_of(name, &PLACES));
    }

    fn hash_named(&self, hasher: &mut Hasher, counts: impl Fn(&OsStr) -> bool) {
        let is_inert = |name: &OsStr| self.inert.iter().any(|pattern| covers(pattern, name));
        let counted: Vec<_> = self.given.iter().filter(|(name, _)| counts(name) && !is_inert(name)).collect();
        hasher.list(counted.len());
        for (name, value) in counted {
            hasher.bytes(name.as_bytes());
            hasher.bytes(value.as_bytes());
        }
    }
}

fn is_one_of(name: &OsStr, list: &[&str]) -> bool {
    list.iter().any(|known| covers(known, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(named: &[(&str, &str)]) -> Result<Variables, NotCached> {
        let env: Vec<_> =
            named.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect();
        Variables::of(&env, Path::new("/"), &[])
    }

    #[test]
    fn what_the_compiler_does_not_see_does_not_count() {
        let env = [
            ("MAKEFLAGS", "-j8"),
            ("PYTHONPATH", "/x"),
            ("CPATH", "/c"),
            ("TMPDIR", "/t"),
            ("LANG", "C"),
            ("SHLVL", "2"),
        ];
        let given = variables(&env).unwrap().given;
        let names: Vec<_> = given.iter().map(|(name, _)| name.to_str().unwrap()).collect();
        assert_eq!(names, ["CPATH", "LANG", "PWD", "TMPDIR"]);
        let digest = |env: &[(&str, &str)]| {
            let mut hasher = Hasher::new("test");
            variables(env).unwrap().hash(&mut hasher);
            hasher.finish()
        };
        assert_eq!(digest(&env), digest(&[("LANG", "C"), ("TMPDIR", "/u"), ("PWD", "/p")]));
        assert_ne!(digest(&env), digest(&[("LANG", "D")]));
        assert_ne!(digest(&env), digest(&[("LANG", "C"), ("SOURCE_DATE_EPOCH", "1")]));
    }

    #[test]
    fn what_changes_arguments_is_refused() {
        for name in ["CCC_OVERRIDE_OPTIONS", "COMPILER_PATH", "DEPENDENCIES_OUTPUT"] {
            assert!(variables(&[(name, "x")]).is_err() && variables(&[(name, "")]).is_ok(), "{name}");
        }
    }
}
