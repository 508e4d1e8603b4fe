//! The stand-in for `libascendcl.so`: `ascendcl.c`, compiled once for each set of functions that it lacks.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use opkeep_backend_ascend::{AclError, AscendLoader, Runtime};
use tempfile::TempDir;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/device/ascendcl.c");

/// Whether there is a C compiler.
pub(crate) fn compiler() -> bool {
    Command::new("cc").arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Runs the compiler in `directory`.
pub(crate) fn cc(dir: &Path, args: &[&str]) {
    let output = Command::new("cc").current_dir(dir).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The library in a directory of its own, with its own state.
pub(crate) struct Stub {
    dir: TempDir,
}

impl Stub {
    pub(crate) fn new() -> Self {
        Self::without(&[])
    }

    /// One of an older release, which lacks these functions.
    pub(crate) fn without(functions: &[&str]) -> Self {
        static COMPILED: Mutex<Option<HashMap<String, Vec<u8>>>> = Mutex::new(None);
        let dir = TempDir::new().unwrap();
        let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
        let library = compiled.get_or_insert_default().entry(functions.join(" ")).or_insert_with(|| {
            let lacks: Vec<String> = functions.iter().map(|name| format!("-DWITHOUT_{name}")).collect();
            let mut args =
                vec!["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", "libascendcl.so", SOURCE];
            args.extend(lacks.iter().map(String::as_str));
            args.extend(["-lpthread", "-ldl"]);
            cc(dir.path(), &args);
            std::fs::read(dir.path().join("libascendcl.so")).unwrap()
        });
        std::fs::write(dir.path().join("libascendcl.so"), library).unwrap();
        Self { dir }
    }

    /// Sets its behaviour from now on: lines of `control`.
    pub(crate) fn with_control(self, lines: &str) -> Self {
        self.control(lines);
        self
    }

    pub(crate) fn control(&self, lines: &str) {
        std::fs::write(self.dir.path().join("control"), lines).unwrap();
    }

    pub(crate) fn library(&self) -> PathBuf {
        self.dir.path().join("libascendcl.so")
    }

    /// An empty directory, but for what a loader leaves there.
    pub(crate) fn scratch(&self) -> PathBuf {
        let scratch = self.dir.path().join("scratch");
        std::fs::create_dir_all(&scratch).unwrap();
        scratch
    }

    pub(crate) fn runtime(&self) -> Runtime {
        Runtime::open_library(&self.library()).unwrap()
    }

    pub(crate) fn loader(&self) -> Result<AscendLoader, AclError> {
        AscendLoader::new(&self.runtime(), self.scratch())
    }

    /// The calls so far, each with its code: `aclrtMalloc 32 = 0`.
    pub(crate) fn log(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    /// The calls of one function.
    pub(crate) fn calls(&self, name: &str) -> Vec<String> {
        self.log().into_iter().filter(|line| line.split(' ').next() == Some(name)).collect()
    }

    /// How often a function succeeded.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.calls(name).iter().filter(|line| line.ends_with("= 0")).count()
    }

    /// Memory and queues, all given back.
    pub(crate) fn assert_memory_is_freed(&self) {
        for [made, unmade] in [["aclrtMalloc", "aclrtFree"], ["aclrtCreateStream", "aclrtDestroyStream"]] {
            assert_eq!(self.count(made), self.count(unmade), "{made}: {:#?}", self.log());
        }
    }

    /// Everything that was made, unmade.
    pub(crate) fn assert_all_is_given_back(&self) {
        self.assert_memory_is_freed();
        let loaded = self.count("aclrtBinaryLoadFromData") + self.count("aclrtBinaryLoadFromFile");
        assert_eq!(loaded, self.count("aclrtBinaryUnLoad"), "{:#?}", self.log());
        for [made, unmade] in [["aclInit", "aclFinalize"], ["aclrtSetDevice", "aclrtResetDevice"]] {
            assert_eq!(self.count(made), self.count(unmade), "{made}: {:#?}", self.log());
        }
    }
}
