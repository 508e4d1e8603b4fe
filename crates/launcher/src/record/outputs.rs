//! The outputs of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use opkeep_fs::{FileKind, Fs};
use opkeep_process::{Before, Found, Learned, Written};

use super::Run;
use crate::manifest::{BYTE_CODE, Old};
use crate::reason::Reason;
use crate::result::{MAX_OUTPUTS, Output, OutputContent};
use crate::roots::{PathName, contains};
use crate::state::States;
use crate::task::real_name;

/// The largest number of bytes of all outputs.
const MAX_BYTES: u64 = 512 << 20;

/// The setuid, setgid and sticky bits.
const RIGHTS: u32 = 0o7000;

/// The start of the names of sections with debug information.
const DEBUG_SECTION: &[u8] = b".debug_";

impl Run<'_> {
    /// The outputs, in the order in which they were last written; directories first.
    pub(super) fn outputs(&self) -> Result<Vec<Output>, Reason> {
        let (mut dirs, mut files, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (path, Written { is_whole, is_own_link }) in &self.seen.written {
            if self.is_left_out(path) {
                continue;
            }
            let found = Fs::new().look(path).map_err(|_| Reason::Changed(path.clone()))?;
            if !found.kind.eq(&FileKind::Link) && found.mode & RIGHTS != 0 {
                return Err(Reason::OutputMode(path.clone()));
            }
            if found.is_dir() {
                match *is_whole && self.is_above_expected(path) {
                    true => dirs.push(self.output(path, found.mode, OutputContent::Directory)),
                    false if self.task.expects(path) => return Err(Reason::OutputKind(path.clone())),
                    false => return Err(Reason::WroteElsewhere(path.clone())),
                }
                continue;
            }
            if !self.task.expects(path) {
                return Err(Reason::WroteElsewhere(path.clone()));
            }
            if *is_own_link || matches!(found.kind, FileKind::Dir | FileKind::Other) {
                return Err(Reason::OutputKind(path.clone()));
            }
            if !is_whole {
                return Err(Reason::PartlyWritten(path.clone()));
            }
            let (file, metadata) = Fs::new().open_file(path).map_err(|_| Reason::OutputKind(path.clone()))?;
            bytes += metadata.len();
            if bytes > MAX_BYTES || files.len() == MAX_OUTPUTS {
                return Err(Reason::TooLarge);
            }
            let content = Fs::new().read_opened(path, file, &metadata, MAX_BYTES);
            let content = content.map_err(|_| Reason::Unreadable(path.clone()))?;
            let state = opkeep_fs::FileState::of(&metadata);
            let mode = std::os::unix::fs::MetadataExt::mode(&metadata);
            if mode & RIGHTS != 0 {
                return Err(Reason::OutputMode(path.clone()));
            }
            files.push((state.mtime, self.output(path, mode, OutputContent::File(content))));
        }
        // Stable: files of one time stay sorted by name.
        opkeep_order::by_key(&mut files, |(time, _)| *time);
        let mut outputs: Vec<Output> = Vec::new();
        for output in dirs.into_iter().chain(files.into_iter().map(|(_, output)| output)) {
            // A program may name one file in two ways.
            if outputs.iter().all(|known| known.name != output.name) {
                outputs.push(output);
            }
        }
        Ok(outputs)
    }

    fn output(&self, path: &Path, mode: u32, content: OutputContent) -> Output {
        Output { name: self.roots.name(&real_name(path)), mode: mode & 0o777, content }
    }

    /// What the run learned of each output as it was before, beside those in directories that it made. From now on, `states` has these states.
    ///
    /// # Errors
    /// An old output was looked at: its date and its size are in no key. Or nothing is known of its state before.
    pub(super) fn old_outputs(&self, outputs: &[Output], states: &States<'_>) -> Result<Vec<Old>, Reason> {
        let replaces = self.task.facts.replaces_outputs;
        let named = |path: &Path| self.roots.name(&real_name(path));
        let mut noted: BTreeMap<PathName, (&Found, Learned)> = BTreeMap::new();
        for (path, Before { found, learned }) in &self.seen.before {
            if self.is_output(path, outputs) {
                let known = noted.entry(named(path)).or_insert((found, *learned));
                known.1 = known.1.max(*learned);
            }
        }
        let looked = self.seen.looked_at.keys().filter(|path| self.is_output(path, outputs));
        let looked: BTreeSet<PathName> = opkeep_order::set(looked.map(|path| named(path)));
        let mut old = Vec::new();
        for Output { name, content, mode } in outputs {
            let Some(path) = self.roots.locate(name) else { continue };
            let Some(&(found, learned)) = noted.get(name) else {
                if self.is_in_made_directory(&path, outputs) {
                    continue;
                }
                return Err(Reason::PartlyWritten(path));
            };
            let is_looked_at = looked.contains(name);
            let is_replaced = replaces && *content != OutputContent::Directory && !found.is_link();
            let learned = match () {
                () if is_replaced && (found.is_nothing() || found.is_file()) => Learned::IsReplaceable,
                () if is_looked_at && found.is_file() => return Err(Reason::ReadsOutput(path)),
                () if is_looked_at => Learned::State,
                // The run changed the mode, or the directory gives another one to new files: what it makes of an old one is not known.
                () if matches!(learned, Learned::Mode(new) if new != *mode) => Learned::State,
                () => learned,
            };
            states.set_before(path, found.clone());
            old.push(Old { path: name.clone(), learned });
        }
        opkeep_order::by(&mut old, |one, other| one.path.cmp(&other.path));
        Ok(old)
    }

    fn is_in_made_directory(&self, path: &Path, outputs: &[Output]) -> bool {
        let dirs = outputs.iter().filter(|output| output.content == OutputContent::Directory);
        let mut dirs = dirs.filter_map(|output| self.roots.locate(&output.name));
        dirs.any(|dir| path != dir && path.starts_with(dir))
    }

    /// Whether what is written at a path has no effect on later steps, such as a log.
    pub(super) fn is_left_out(&self, path: &Path) -> bool {
        (self.task.ignored)(path) || self.task.facts.ignores_byte_code && is_byte_code(path)
    }

    /// Whether a directory is above a file that was written and is an expected output.
    fn is_above_expected(&self, dir: &Path) -> bool {
        self.seen.written.keys().any(|path| path != dir && path.starts_with(dir) && self.task.expects(path))
    }

    /// Whether the bytes of an output contain the path of a root, or information for debuggers, which does.
    ///
    /// # Errors
    /// An output contains the path of the work directory, which another run has not.
    pub(super) fn outputs_show_paths(&self, outputs: &[Output]) -> Result<bool, Reason> {
        let mut are_shown = false;
        for output in outputs {
            let OutputContent::File(bytes) = &output.content else { continue };
            if self.roots.work_dir_appears_in(bytes) {
                let path = self.roots.locate(&output.name).unwrap_or_else(|| output.name.rest.clone());
                return Err(Reason::NamesWorkDirectory(path));
            }
            are_shown |= self.roots.appear_in(bytes) || contains(bytes, DEBUG_SECTION);
        }
        Ok(are_shown)
    }
}

/// Whether a path is a directory of compiled modules, or one of these. A Python that ignores its environment writes them beside its sources.
fn is_byte_code(path: &Path) -> bool {
    let is_dir = |path: &Path| path.file_name().is_some_and(|name| name == BYTE_CODE);
    is_dir(path)
        || path.parent().is_some_and(is_dir) && path.extension().is_some_and(|extension| extension == "pyc")
}
