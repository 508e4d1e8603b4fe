//! The files of a hit, with the texts that C needs.

use std::ffi::{CStr, CString};

use opkeep_embed::{Digest, FileGroup};

use crate::handles::Object;
use crate::last_error::c_text;

/// The files of a hit. All that it returns stays where it is until the hit is released.
pub(crate) struct Hit {
    group: FileGroup,
    names: Vec<CString>,
    pub(crate) info: HitInfo,
}

/// What the record of the group states. Empty if a later version wrote the record.
#[derive(Default)]
pub(crate) struct HitInfo {
    pub(crate) framework: CString,
    pub(crate) framework_version: CString,
    pub(crate) target: CString,
    pub(crate) kernel: CString,
    pub(crate) object: Option<CString>,
    pub(crate) metadata: Option<CString>,
    pub(crate) compile_time_us: u64,
}

impl Object for Hit {
    const KIND: &'static str = "hit";
}

impl Hit {
    pub(crate) fn new(group: FileGroup) -> Self {
        let info = group.record().map(|record| HitInfo {
            framework: c_text(record.key.framework),
            framework_version: c_text(record.framework_version),
            target: c_text(record.key.target),
            kernel: c_text(record.kernel),
            object: record.object.map(c_text),
            metadata: record.metadata.map(c_text),
            compile_time_us: record
                .compile_time
                .map_or(0, |time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX)),
        });
        let names = group.names().map(c_text).collect();
        Self { names, info: info.unwrap_or_default(), group }
    }

    /// The number of files.
    pub(crate) fn count(&self) -> usize {
        self.names.len()
    }

    /// The name and the bytes of the file number `index`.
    pub(crate) fn file(&self, index: usize) -> Option<(&CStr, &[u8])> {
        let name = self.names.get(index)?;
        Some((name, self.group.get(name.to_str().ok()?)?))
    }

    /// The name and the bytes of the file called `name`.
    pub(crate) fn find(&self, name: &str) -> Option<(&CStr, &[u8])> {
        let index = self.names.iter().position(|known| known.as_bytes() == name.as_bytes())?;
        self.file(index)
    }

    /// The key of the entry.
    pub(crate) fn key(&self) -> &Digest {
        self.group.key()
    }

    /// Whether another caller made the files while this one waited.
    pub(crate) fn waited(&self) -> bool {
        self.group.waited()
    }

    /// Whether the files came from the remote cache.
    pub(crate) fn came_from_remote(&self) -> bool {
        self.group.from_remote()
    }
}
