//! Where a path leads.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use opkeep_fs::Fs;

use super::Watch;
use crate::ffi::Waiting;
use crate::sandbox::Found;
use crate::sandbox::peers::Peer;
use crate::sandbox::proc::{Named, resolve};

impl Watch {
    /// The absolute path that a call names relative to the descriptor `dir`; `None` if it names none.
    pub(super) fn resolve(
        &mut self,
        waiting: &Waiting,
        dir: Option<i32>,
        name: OsString,
    ) -> io::Result<Option<PathBuf>> {
        let Named { path, processes, link, by } = resolve(waiting, dir, name, &mut self.plain_dirs)?;
        for process in processes {
            let is_observed = self.order.contains_key(&process)
                || self.threads.values().any(|known| *known == process)
                || self.process(waiting)? == process;
            if !is_observed {
                self.seen.peers.insert(Peer::File(PathBuf::from(format!("/proc/{process}"))));
            }
        }
        for by in by {
            if !self.has_name_in_work_dir(&by) && !self.is_created_name(&by) {
                self.program(waiting)?.looked_at.insert(by.clone());
                self.look_at(by);
            }
        }
        if let Some(link) = link {
            // A link has no content of its own, and where it leads is not the same for any two processes.
            self.seen.read.insert(link, Found::unknown());
        }
        Ok(path)
    }

    /// Replaces an observed process's number in a path below `/proc` by `self`, which is the same for each run.
    pub(super) fn as_self_path(&self, path: PathBuf) -> PathBuf {
        let Ok(below) = path.strip_prefix("/proc") else { return path };
        let mut parts = below.components();
        let number = parts.next().and_then(|part| part.as_os_str().to_str()?.parse().ok());
        match number.is_some_and(|number: i32| self.order.contains_key(&number)) {
            true => Path::new("/proc/self").join(parts.as_path()),
            false => path,
        }
    }

    /// Whether a path is in the work directory, by whatever name.
    pub(super) fn is_in_work_dir(&self, path: &Path) -> bool {
        let is_within = |path: &Path| self.work_dirs.iter().any(|dir| path.starts_with(dir));
        let is_plain = path.components().all(|part| part != Component::ParentDir);
        // A link in the work directory may lead out of it, and a link elsewhere into it.
        match Fs::new().real_path(path) {
            Ok(real) => is_within(&real),
            Err(_) => is_plain && is_within(path),
        }
    }

    /// Whether the directory of a name, which may be that of a link or of nothing, is in the work directory.
    pub(super) fn has_name_in_work_dir(&self, path: &Path) -> bool {
        match path.parent().map(|parent| Fs::new().real_path(parent)) {
            Some(Ok(parent)) => self.work_dirs.iter().any(|dir| parent.starts_with(dir)),
            _ => self.is_in_work_dir(path),
        }
    }
}
