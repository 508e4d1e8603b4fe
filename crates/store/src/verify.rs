//! Is a target's folder in order? Every entry is read in full, everything else is looked at, nothing is written.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use opkeep_digest::Digest;

use crate::check::Checked;
use crate::damage::Corruption;
use crate::survey::{Candidate, DirectoryScan};
use crate::walk::FileTotals;
use crate::{Entry, StoreError, TargetStore};

/// How [`TargetStore::verify`] and [`TargetStore::repair`] go about it.
#[derive(Clone, Copy)]
pub struct VerifyOptions<'a> {
    /// How many entries are read at once.
    pub threads: NonZeroUsize,
    /// Says of an entry whose bytes are right what is wrong with its content. The store knows nothing of that.
    pub judge: &'a (dyn Fn(&Entry) -> Result<(), String> + Sync),
    /// Told after each entry how far it is, by any of the threads.
    pub progress: &'a (dyn Fn(Progress) + Sync),
    /// Says when to give up.
    pub cancelled: &'a (dyn Fn() -> bool + Sync),
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Entries that were checked.
    pub checked: u64,
    /// Entries that there are to check.
    pub total: u64,
}

impl Default for VerifyOptions<'_> {
    /// One thread, any content is right, nobody is told, and nobody gives up.
    fn default() -> Self {
        Self { threads: NonZeroUsize::MIN, judge: &|_| Ok(()), progress: &|_| (), cancelled: &|| false }
    }
}

impl fmt::Debug for VerifyOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifyOptions").field("threads", &self.threads).finish_non_exhaustive()
    }
}

/// What [`TargetStore::verify`] found.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Entries that were read in full, or as far as they could be.
    pub checked: FileTotals,
    /// Those of them that are in order.
    pub whole: FileTotals,
    /// What is not in order, by path.
    pub flaws: Vec<StoreProblem>,
    /// What is there besides, by path. None of it is a flaw.
    pub besides: Vec<OtherFile>,
    /// Folders that are not there. Whoever needs one makes it.
    pub missing: Vec<PathBuf>,
    /// It was given up before everything was checked.
    pub cancelled: bool,
}

impl VerifyReport {
    /// Whether everything was checked and is in order.
    pub fn is_whole(&self) -> bool {
        self.flaws.is_empty() && !self.cancelled
    }
}

/// Something that is not in order.
#[derive(Debug)]
pub struct StoreProblem {
    /// Where.
    pub path: PathBuf,
    /// The key, if it is called as an entry.
    pub key: Option<Digest>,
    /// What is wrong.
    pub flaw: ProblemKind,
}

/// What is wrong with a file or folder.
#[derive(Debug)]
#[non_exhaustive]
pub enum ProblemKind {
    /// An entry whose bytes are not what was written.
    Damaged(Corruption),
    /// An entry whose bytes are right, and whose content is not, as [`VerifyOptions::judge`] has it.
    Refused(String),
    /// A whole entry in a folder where nobody looks for it.
    Misplaced,
    /// It changed each time it was looked at: somebody writes to it, so it is none of ours.
    Changing,
    /// Somebody who is not trusted could have written it.
    Untrusted(StoreError),
    /// It could not be read. The next attempt may succeed.
    Io(StoreError),
    /// Something else stands where the store needs a file or a folder.
    WrongFileType {
        /// What is needed there.
        needed: &'static str,
        /// What there is.
        found: &'static str,
    },
    /// Numbers that the store keeps, and that do not check.
    CorruptCounters,
}

impl ProblemKind {
    /// A word for it, for programs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Damaged(_) => "damaged",
            Self::Refused(_) => "refused",
            Self::Misplaced => "misplaced",
            Self::Changing => "changing",
            Self::Untrusted(_) => "untrusted",
            Self::Io(_) => "trouble",
            Self::WrongFileType { .. } => "in-the-way",
            Self::CorruptCounters => "torn",
        }
    }

    /// Whether it is an entry that [`TargetStore::repair`] takes away.
    pub const fn calls_for_quarantine(&self) -> bool {
        matches!(self, Self::Damaged(_) | Self::Refused(_) | Self::Misplaced)
    }

    /// What an error says of the file or folder that it is about.
    pub(crate) fn of(error: StoreError) -> Self {
        match error {
            StoreError::Untrusted { .. } => Self::Untrusted(error),
            StoreError::NotAFolder { .. } => {
                Self::WrongFileType { needed: "a folder", found: "something else" }
            }
            _ => Self::Io(error),
        }
    }
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(damage) => damage.fmt(f),
            Self::Refused(reason) => f.write_str(reason),
            Self::Misplaced => f.write_str("the entry is in a folder where nobody looks for it"),
            Self::Changing => f.write_str("it changes while it is read; ask again when nobody writes to it"),
            Self::Untrusted(error) | Self::Io(error) => error.fmt(f),
            Self::WrongFileType { needed, found } => {
                write!(f, "{found} is where {needed} of the store belongs; move it away")
            }
            Self::CorruptCounters => {
                f.write_str("its numbers do not check; they are begun anew when the next are written")
            }
        }
    }
}

/// Something that is no entry, and in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherFile {
    /// Where.
    pub path: PathBuf,
    /// Its bytes.
    pub bytes: u64,
    /// What it is.
    pub kind: OtherFileKind,
}

/// What something is that is no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum OtherFileKind {
    /// Being written.
    Temporary,
    /// Left by somebody who died writing it.
    StaleTemporary,
    /// A lock.
    Lock,
    /// A lock that nobody seems to hold: it is old.
    StaleLock,
    /// A damaged entry that was set aside, or the reason.
    Quarantined,
    /// A file that is not ours.
    ForeignFile,
    /// A folder that is not ours.
    ForeignFolder,
    /// A symbolic link. Nothing follows it.
    Link,
    /// Neither file, folder nor link.
    Special,
}

impl OtherFileKind {
    /// What it is, in a few words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Temporary => "being written",
            Self::StaleTemporary => "left by the dead",
            Self::Lock => "lock",
            Self::StaleLock => "old lock",
            Self::Quarantined => "set aside",
            Self::ForeignFile => "foreign file",
            Self::ForeignFolder => "foreign folder",
            Self::Link => "link",
            Self::Special => "special file",
        }
    }

    /// Whether the store did not make it. It is left alone.
    pub const fn is_foreign(self) -> bool {
        matches!(self, Self::ForeignFile | Self::ForeignFolder | Self::Link | Self::Special)
    }
}

impl TargetStore {
    /// Checks everything: every file that is called an entry is read in full, with the SHA-256 of each of its members,
    /// and judged. Takes no lock and writes nothing at all, not even that an entry was used; safe beside those who
    /// build. What changes while it is read is looked at again, and never called damaged for that; what is deleted
    /// meanwhile is not there.
    ///
    /// A store that is not there is whole. That something could not be read is a flaw, and no end: the rest is checked.
    pub fn verify(&self, options: &VerifyOptions<'_>) -> VerifyReport {
        let survey = DirectoryScan::of(self);
        let mut report = VerifyReport {
            flaws: survey.flaws,
            besides: survey.besides,
            missing: survey.missing,
            ..VerifyReport::default()
        };
        let (all, cancelled) = self.check_each(&survey.candidates, options, |candidate| {
            // Of what is whole little is kept: there may be very many.
            Some(match self.check(candidate, options.judge)? {
                Checked::Whole { bytes } => Ok(bytes),
                // Nor is the file, which is open: there may be very many of these, too.
                Checked::StoreProblem { bytes, flaw, file: _ } => {
                    Err(Box::new((candidate, Checked::StoreProblem { bytes, flaw, file: None })))
                }
                other => Err(Box::new((candidate, other))),
            })
        });
        report.cancelled = cancelled;
        for result in all {
            match result {
                Ok(bytes) => report.add_whole(bytes),
                Err(other) => report.add(other.0.path(self), other.0.key, other.1),
            }
        }
        report.sort();
        report
    }

    /// Does `check` to each candidate, and tells how far it is. What came of it, in order, and whether it was given up.
    pub(crate) fn check_each<'c, T: Send>(
        &self,
        candidates: &'c [Candidate],
        options: &VerifyOptions<'_>,
        check: impl Fn(&'c Candidate) -> Option<T> + Sync,
    ) -> (Vec<T>, bool) {
        let (done, total) = (AtomicU64::new(0), candidates.len() as u64);
        let mapped = opkeep_fs::map(candidates.len(), options.threads, options.cancelled, |at| {
            let result = check(&candidates[at]);
            let checked = done.fetch_add(1, Ordering::Relaxed) + 1;
            (options.progress)(Progress { checked, total });
            result
        });
        (mapped.results.into_iter().flatten().collect(), mapped.is_cancelled)
    }
}

impl VerifyReport {
    fn add_whole(&mut self, bytes: u64) {
        self.checked.add(bytes);
        self.whole.add(bytes);
    }

    fn add(&mut self, path: PathBuf, key: Digest, checked: Checked) {
        match checked {
            Checked::Foreign { bytes } => {
                self.besides.push(OtherFile { path, bytes, kind: OtherFileKind::ForeignFile });
            }
            Checked::Whole { bytes } => self.add_whole(bytes),
            Checked::StoreProblem { bytes, flaw, file: _ } => {
                self.checked.add(bytes);
                self.flaws.push(StoreProblem { path, key: Some(key), flaw });
            }
        }
    }

    fn sort(&mut self) {
        self.flaws.sort_by(|one, other| one.path.cmp(&other.path));
        self.besides.sort_by(|one, other| one.path.cmp(&other.path));
    }
}
