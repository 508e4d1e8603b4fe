//! The sandbox of one program of the toolkit, and the check of its reads.

use std::io;
use std::path::{Path, PathBuf};

use opkeep_backend::BackendError;
use opkeep_process::{Domain, Found, Observation, Observer, Sandbox};

use crate::error::io_error;
use crate::probe::guards::Guards;
use crate::probe::reach::{Extra, Reach};

/// The sandbox of one program.
#[derive(Debug)]
pub(crate) struct JobSandbox {
    domain: Option<Domain>,
    observer: Option<Observer>,
    work_dir: PathBuf,
}

impl JobSandbox {
    pub(crate) fn new(
        guards: &Guards,
        reach: &Reach,
        extra: &Extra,
        work_dir: &Path,
    ) -> Result<Self, BackendError> {
        let confine = || {
            let domain = reach.domain(extra, work_dir).map_err(io::Error::other);
            domain.map_err(io_error("confine programs in", work_dir))
        };
        let observe = || Observer::start(work_dir).map_err(io_error("observe programs in", work_dir));
        Ok(Self {
            domain: guards.confines().then(confine).transpose()?,
            observer: guards.observes().then(observe).transpose()?,
            work_dir: work_dir.to_owned(),
        })
    }

    pub(crate) fn as_run(&self) -> Sandbox<'_> {
        Sandbox { domain: self.domain.as_ref(), observer: self.observer.as_ref() }
    }

    /// The paths read since the last call that may not be read, and whether the program read files that it had written
    /// elsewhere.
    ///
    /// # Errors
    /// The observation may be incomplete.
    pub(crate) fn take(&self, reach: &Reach, extra: &Extra) -> Result<(Vec<PathBuf>, bool), BackendError> {
        let seen = self.observer.as_ref().map(Observer::take);
        self.judged(seen.unwrap_or_default(), reach, extra)
    }

    /// The same for a program that has ended.
    ///
    /// # Errors
    /// The observation may be incomplete.
    pub(crate) fn finish(
        mut self,
        reach: &Reach,
        extra: &Extra,
    ) -> Result<(Vec<PathBuf>, bool), BackendError> {
        let seen = self.observer.take().map(Observer::finish);
        self.judged(seen.unwrap_or_default(), reach, extra)
    }

    fn judged(
        &self,
        seen: Observation,
        reach: &Reach,
        extra: &Extra,
    ) -> Result<(Vec<PathBuf>, bool), BackendError> {
        if let Some(why) = seen.error() {
            return Err(io_error("observe programs in", &self.work_dir)(why));
        }
        if let Some(program) = &seen.foreign {
            let why = format!("`{}` makes system calls of another architecture", program.display());
            return Err(io_error("observe programs in", &self.work_dir)(io::Error::other(why)));
        }
        let uncovered = reach.uncovered(extra, &seen);
        // Files that the program wrote in a directory of the domain, such as bytecode, may be read.
        let read_back = opkeep_order::map(seen.own.iter().map(|path| (path.clone(), Found::at(path))));
        let own = Observation { read: read_back, ..Observation::default() };
        let reads_own_files = self.domain.is_some() && !reach.uncovered(extra, &own).is_empty();
        Ok((uncovered, reads_own_files))
    }
}

/// Whether an error says that a signal interrupted a call before it was observed (`Observation::is_interrupted`).
pub(crate) fn is_interrupted(error: &BackendError) -> bool {
    matches!(error, BackendError::Io { source, .. } if source.kind() == io::ErrorKind::Interrupted)
}
