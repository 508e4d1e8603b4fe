//! The outputs of a run.

use std::path::Path;

use opkeep_fs::{FileKind, Fs};
use opkeep_process::Written;

use super::{Run, is_byte_code};
use crate::reason::Reason;
use crate::result::{MAX_OUTPUTS, Output, OutputContent};
use crate::roots::contains;
use crate::task::real_name;

/// The largest number of bytes of all outputs.
const MAX_BYTES: u64 = 512 << 20;

/// The start of the names of sections with debug information.
const DEBUG_SECTION: &[u8] = b".debug_";

impl Run<'_> {
    /// The outputs, in the order in which they were last written; directories first.
    pub(super) fn outputs(&self) -> Result<Vec<Output>, Reason> {
        let (mut dirs, mut files, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (path, Written { is_whole, is_own_link }) in &self.seen.written {
            if is_byte_code(path) || (self.task.ignored)(path) {
                continue;
            }
            let found = Fs::new().look(path).map_err(|_| Reason::Changed(path.clone()))?;
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
            files.push((state.mtime, self.output(path, mode, OutputContent::File(content))));
        }
        // Stable: files of one time stay sorted by name.
        files.sort_by_key(|(time, _)| *time);
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
