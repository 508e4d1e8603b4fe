//! What is kept of a run: the paths that it looked at, and its outputs; or the reason why nothing is.

mod listings;
mod outputs;
mod place;
mod this_machine;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use opkeep_fs::Fs;
use opkeep_process::{Found, Observation, Peer, Unkeyed};

use crate::environment::job_pipe;
use crate::manifest::Manifest;
use crate::reason::Reason;
use crate::result::{Output, OutputContent, StoredResult, encode_text};
use crate::roots::{Roots, Segment};
use crate::state::{PROCESSOR, States};
use crate::task::{Task, real_name};

/// Files that do not count for a tool whose results depend neither on the user's name nor on where the home directory lies: they say where it
/// is, which counts by what is read there, and which time it is.
const SETTLED: [&str; 5] =
    ["/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/localtime", "/usr/share/zoneinfo"];

/// A run that has ended with status 0.
pub(crate) struct Run<'a> {
    pub(crate) task: &'a Task<'a>,
    /// The environment of the command, with what the launcher set.
    pub(crate) env: &'a [(OsString, OsString)],
    pub(crate) roots: &'a Roots,
    pub(crate) seen: &'a Observation,
    /// The texts of its two outputs.
    pub(crate) texts: [&'a [u8]; 2],
}

/// What is kept of a run.
pub(crate) struct Recording {
    pub(crate) manifest: Manifest,
    pub(crate) result: StoredResult,
}

impl Run<'_> {
    /// Records the run. `states` keep the states of the paths, for the key of the result.
    ///
    /// # Errors
    /// The reason why its result is not kept.
    pub(crate) fn record(&self, states: &States<'_>) -> Result<Recording, Reason> {
        self.check_observation()?;
        let outputs = self.outputs()?;
        self.check_outputs(&outputs)?;
        self.check_removed()?;
        self.check_read(&outputs)?;
        self.check_changed()?;
        let old = self.old_outputs(&outputs, states)?;
        let looked = self.looked_at(&outputs)?;
        let listed = self.listings(&outputs, states)?;
        // The contents are read as the key has them, then each file must still be the one that was opened.
        let read = self.seen.read.keys().map(PathBuf::as_path).filter(|path| !self.is_ignored(path));
        let read: Vec<_> = read.filter(|path| !self.is_job_pipe(path)).collect();
        if let Some(path) = read.iter().find(|path| !states.is_readable(path)) {
            return Err(Reason::Unreadable((*path).to_owned()));
        }
        let mut paths: BTreeSet<_> = opkeep_order::set(
            read.into_iter().chain(looked.iter().map(|(path, _)| *path)).map(|path| self.roots.name(path)),
        );
        if self.asks_for_processor() {
            paths.insert(self.roots.name(Path::new(PROCESSOR)));
        }
        let mut manifest =
            Manifest { has_real_paths: false, paths: paths.into_iter().collect(), listed, old };
        if states.digest(&manifest).is_none() {
            return Err(Reason::Changed(self.task.run.dir.clone()));
        }
        self.check_unchanged(&looked)?;
        manifest.has_real_paths = self.depends_on_place(&outputs)?;
        let texts = self.texts.map(|text| encode_text(self.roots, text));
        Ok(Recording { manifest, result: StoredResult { outputs, texts } })
    }

    fn check_observation(&self) -> Result<(), Reason> {
        let Observation { incomplete, foreign, refused, outlived, .. } = self.seen;
        if let Some(path) = foreign {
            return Err(Reason::Foreign(path.clone()));
        }
        // The program may have gone on in another way than it would without an observer.
        if let Some(program) = refused {
            return Err(Reason::RefusedCall(program.clone()));
        }
        if let Some(why) = incomplete {
            return Err(Reason::Incomplete(why.to_string()));
        }
        if *outlived {
            return Err(Reason::StillRunning);
        }
        let is_job_pipe = |peer: &&Peer| matches!(peer, Peer::File(path) if self.is_job_pipe(path));
        if let Some(peer) = self.seen.peers.iter().find(|peer| !is_job_pipe(peer)) {
            return Err(Reason::OtherProcess(peer.to_string()));
        }
        self.check_machine()
    }

    /// Whether a path had two states during the run, by another hand. What the command itself wrote changed by its own.
    fn check_changed(&self) -> Result<(), Reason> {
        let is_own = |path: &Path| self.seen.written.contains_key(path);
        match self.seen.changed.iter().find(|path| !self.is_ignored(path) && !is_own(path)) {
            Some(path) => Err(Reason::Changed(path.clone())),
            None => Ok(()),
        }
    }

    fn check_outputs(&self, outputs: &[Output]) -> Result<(), Reason> {
        let located: Vec<_> =
            outputs.iter().filter_map(|output| Some((self.roots.locate(&output.name)?, output))).collect();
        let files = located.iter().filter_map(|(path, output)| match &output.content {
            OutputContent::File(bytes) => Some((path.as_path(), bytes.as_slice())),
            OutputContent::Directory => None,
        });
        (self.task.check)(&files.collect::<Vec<_>>()).map_err(Reason::Refused)
    }

    fn check_removed(&self) -> Result<(), Reason> {
        match self.seen.removed.iter().find(|path| !self.is_left_out(path)) {
            Some(path) => Err(Reason::Removed(path.clone())),
            None => Ok(()),
        }
    }

    /// What was read must be files, and none of the outputs.
    fn check_read(&self, outputs: &[Output]) -> Result<(), Reason> {
        for (path, found) in self.seen.read.iter().filter(|(path, _)| !self.is_ignored(path)) {
            if self.is_job_pipe(path) {
                continue;
            }
            if !found.is_file() || path.starts_with("/proc") || path.starts_with("/sys") {
                return Err(Reason::NotAFile(path.clone()));
            }
            if self.is_output(path, outputs) {
                return Err(Reason::ReadsOutput(path.clone()));
            }
        }
        Ok(())
    }

    /// The paths that count although they were not read, each with its state before: those that were looked at, those that the run was about to
    /// change, and its temporary files and locks. Of outputs, another list has the states. A directory above a root does not count: each root has
    /// some.
    ///
    /// # Errors
    /// The run looked at an old file that is an expected output: make decides by its date.
    fn looked_at(&self, outputs: &[Output]) -> Result<Vec<(&Path, &Found)>, Reason> {
        static NOTHING: Found = Found::nothing();
        let facts = self.task.facts;
        let mut counted = Vec::new();
        for (path, found) in self.seen.looked_at.iter().filter(|(path, _)| !self.is_ignored(path)) {
            if self.is_output(path, outputs) || self.is_ignored_write(path) || self.is_passed(path) {
                continue;
            }
            let is_old = !found.is_nothing() && !found.is_directory();
            if is_old && !facts.replaces_outputs && self.task.expects(path) {
                return Err(Reason::ReadsOutput(path.clone()));
            }
            counted.push((path.as_path(), found));
        }
        let changed = self.seen.before.iter().map(|(path, before)| (path, &before.found));
        let temporary = self.seen.temporary.iter().map(|path| (path, &NOTHING));
        for (path, found) in changed.chain(temporary) {
            let is_other = self.is_ignored(path) || self.is_left_out(path) || self.is_job_pipe(path);
            if !is_other && !self.is_output(path, outputs) {
                counted.push((path.as_path(), found));
            }
        }
        Ok(counted)
    }

    /// Whether each path that counts is still in the state in which the command found it.
    fn check_unchanged(&self, looked: &[(&Path, &Found)]) -> Result<(), Reason> {
        let read =
            self.seen.read.iter().filter(|(path, _)| !self.is_ignored(path) && !self.is_job_pipe(path));
        if let Some((path, _)) = read.into_iter().find(|(path, found)| !found.is_same(path)) {
            return Err(Reason::Changed(path.clone()));
        }
        match looked.iter().find(|(path, found)| !found.still_holds(path)) {
            Some((path, _)) => Err(Reason::Changed((*path).to_owned())),
            None => Ok(()),
        }
    }

    /// Whether a path has a state that is in no key: the momentary state of the machine, and what the tool does not depend on.
    fn is_ignored(&self, path: &Path) -> bool {
        let is_settled =
            || self.task.facts.is_movable && SETTLED.iter().any(|settled| path.starts_with(settled));
        Unkeyed::covering(path).is_some_and(|unkeyed| unkeyed.is_volatile || is_settled())
    }

    fn is_output(&self, path: &Path, outputs: &[Output]) -> bool {
        // Few paths have the name of an output: only for these, links are followed.
        let mut named =
            outputs.iter().filter(|output| output.name.rest.file_name() == path.file_name()).peekable();
        named.peek().is_some() && {
            let name = self.roots.name(&real_name(path));
            named.any(|output| output.name == name)
        }
    }

    /// Whether a path was written and is not kept.
    fn is_ignored_write(&self, path: &Path) -> bool {
        self.seen.written.contains_key(path) && self.is_left_out(path)
    }

    /// Whether the run read the properties of the processor.
    fn asks_for_processor(&self) -> bool {
        let path = Path::new(PROCESSOR);
        self.seen.read.contains_key(path) || self.seen.looked_at.contains_key(path)
    }

    /// Whether a path is the pipe of make's tokens. A file by that name has content that counts.
    fn is_job_pipe(&self, path: &Path) -> bool {
        let is_pipe = || Fs::new().metadata(path).is_ok_and(|found| found.file_type().is_fifo());
        job_pipe(self.env) == Some(path) && is_pipe()
    }

    /// Whether a text has the path of a root where it cannot be replaced: as a part of a longer word.
    fn texts_show_paths(&self) -> bool {
        let is_shown = |text: &[u8]| {
            self.roots.segments(text).into_iter().any(|segment| match segment {
                Segment::Bytes(bytes) => self.roots.appear_in(bytes),
                Segment::Root(_) => false,
            })
        };
        self.texts.into_iter().any(is_shown)
    }
}
