//! The states of paths before the programs change them.

use std::io;
use std::path::Path;

use opkeep_fs::Fs;

use super::Watch;
use crate::ffi::{Call, Waiting};
use crate::sandbox::proc::umask_of;
use crate::sandbox::{Before, Found, Learned};

impl Watch {
    /// Records the state of the path that a call may change.
    pub(super) fn note_call(&mut self, waiting: &Waiting, call: Call, path: &Path) -> io::Result<()> {
        let learned = match call {
            Call::Open { flags } => learned_by_open(waiting, path, flags)?,
            Call::MakeDirectory | Call::MakeSpecial | Call::Bind | Call::Truncate => Some(Learned::State),
            Call::Remove | Call::Rename | Call::Change | Call::SetAttribute => Some(Learned::State),
            _ => None,
        };
        if let Some(learned) = learned {
            self.note(path, learned);
        }
        Ok(())
    }

    /// Records the state of the new name that a file is about to get.
    pub(super) fn note_rename(&mut self, waiting: &Waiting, old: Option<&Path>, new: &Path) {
        let replaces = !waiting.keeps_new_name() && !waiting.is_exchange();
        let is_file = |path: &Path| !Found::at(path).is_directory();
        let learned = match replaces && old.is_some_and(is_file) && is_file(new) {
            true => Learned::IsReplaceable,
            false => Learned::State,
        };
        self.note(new, learned);
    }

    /// Records the state of a path before the first call of the programs that may change it. What they created has none.
    fn note(&mut self, path: &Path, learned: Learned) {
        if self.has_name_in_work_dir(path) || self.is_created_name(path) {
            return;
        }
        let path = self.recorded_path(path.to_owned());
        let found = Found::at(&path);
        let before = self.seen.before.entry(path).or_insert(Before { found, learned });
        before.learned = before.learned.max(learned);
    }
}

/// What a program learns of a path by opening it to write; `None`: it cannot write there.
fn learned_by_open(waiting: &Waiting, path: &Path, flags: i32) -> io::Result<Option<Learned>> {
    let has = |flag: i32| flags & flag == flag;
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY || has(libc::O_CREAT) || has(libc::O_TRUNC);
    if !writes || has(libc::O_PATH) || has(libc::O_TMPFILE) {
        return Ok(None);
    }
    let is_writable = |found: &Found| found.is_nothing() || found.is_file() && Fs::new().is_writable(path);
    let truncates = has(libc::O_CREAT | libc::O_TRUNC) && !has(libc::O_EXCL);
    if !truncates || !is_writable(&Found::at(path)) {
        return Ok(Some(Learned::State));
    }
    let new = waiting.new_mode()? & 0o7777 & !umask_of(waiting.thread)?;
    Ok(Some(Learned::Mode(new)))
}
