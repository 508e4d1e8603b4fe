//! The files that other processes have open.

use std::collections::HashMap;
use std::path::Path;

use rustix::fs::AtFlags;

use crate::{Dir, FileId, FileState};

/// The files that other processes have open, as far as this user may know.
#[derive(Debug, Default)]
pub struct OpenFiles(HashMap<FileId, u32>);

impl OpenFiles {
    /// The open files of all processes but this one.
    pub fn of_others() -> Self {
        let mut open = HashMap::new();
        let Ok(processes) = Dir::open_quietly(Path::new("/proc")) else { return Self::default() };
        for process in processes.entries().unwrap_or_default() {
            let Some(pid) = process.name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
            if pid == std::process::id() {
                continue;
            }
            // It may have ended meanwhile, or be another user's.
            let Ok(files) = Dir::open_quietly(&Path::new("/proc").join(&process.name).join("fd")) else {
                continue;
            };
            for file in files.entries().unwrap_or_default() {
                let found = rustix::fs::statat(&files, file.name.as_os_str(), AtFlags::empty());
                if let Ok(stat) = found {
                    open.insert(FileId { dev: stat.st_dev, ino: stat.st_ino }, pid);
                }
            }
        }
        Self(open)
    }

    /// A process that has the file open.
    pub fn holder(&self, file: &FileState) -> Option<u32> {
        self.0.get(&file.id).copied()
    }
}
