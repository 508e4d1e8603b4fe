//! Helpers of the tests: a stand-in toolkit in a directory of its own, and jobs.
#![allow(dead_code, reason = "each file of tests uses a part of this")]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers fail the test that calls them, and make files"
)]

pub(crate) mod formats;
pub(crate) mod same;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use opkeep_backend_ascend::{AscendConfig, Driver, Search, Toolkit};
use opkeep_descriptor::Job;
use opkeep_testkit::toolkit::{self, Installation};
use tempfile::TempDir;

pub(crate) const SOC: &str = "Ascend910B1";

/// An installed stand-in.
pub(crate) struct Place {
    pub(crate) dir: TempDir,
    pub(crate) installed: Installation,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::of(&toolkit::Toolkit::new())
    }

    pub(crate) fn of(plan: &toolkit::Toolkit) -> Self {
        let dir = TempDir::new().unwrap();
        let installed = plan.write(&dir.path().join("Ascend")).unwrap();
        Self { dir, installed }
    }

    /// A search that sees this directory and nothing of the machine's.
    pub(crate) fn search(&self) -> Search {
        search_below(self.dir.path())
    }

    pub(crate) fn found(&self) -> Toolkit {
        self.search().find().unwrap()
    }

    pub(crate) fn below(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }
}

/// The backend of a place by one driver, with the interpreter itself: what is called `python3` may be a slow script.
/// Bytecode is shared by all places, and what importing a toolkit takes is found out once for each, if nothing changes.
#[expect(clippy::disallowed_methods, reason = "the toolkit's programs are found where the user's are")]
pub(crate) fn driven(place: &Place, driver: Driver) -> AscendConfig {
    let mut search = place.search();
    search.environment.extend([("PATH".to_owned(), std::env::var_os("PATH").unwrap_or_default())]);
    search.environment.extend(toolkit::python().map(|path| ("HI_PYTHON".to_owned(), path.into_os_string())));
    let mut config = AscendConfig::new(search).keep_answers_below(&ANSWERS);
    config.driver = driver;
    config
}

/// Begins empty with each run of these tests.
static ANSWERS: LazyLock<PathBuf> = LazyLock::new(|| {
    let directory =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(concat!(env!("CARGO_CRATE_NAME"), "-answers"));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    directory
});

/// A search that sees this directory and nothing of the machine's.
pub(crate) fn search_below(dir: &Path) -> Search {
    Search {
        explicit: None,
        environment: BTreeMap::new(),
        home: Some(dir.join("home")),
        system: dir.join("Ascend"),
    }
}

/// A job whose only operator is of this type; what it takes is nothing that sources depend on.
pub(crate) fn job(op_type: &str) -> Job {
    let mut job = opkeep_testkit::job("Square", &[&[8]]);
    job.ops[0].op_type = op_type.to_owned();
    job.ops[0].func_name = opkeep_ops::func_name(op_type);
    job.ops[0].module_name = format!("impl.{}", job.ops[0].func_name);
    job
}
