//! The search for foreign kernels in a directory and in all directories below it: frameworks nest such directories, as
//! in `kernel_meta/kernel_meta_<process>/kernel_meta`.

use std::collections::BTreeMap;

use opkeep_digest::Digest;
use opkeep_fs::pseudo_below;

use crate::compare::{describes, is_extended};
use crate::manifest::{self, Manifest};
use crate::occupant::{Decision, Looker};
use crate::own_name::{MAX_DEPTH, is_quarantine};
use crate::stored::is_stored;
use crate::view_dir::{NameEntry, ViewDir};
use crate::{KernelFileKind, KernelFiles, LeftReason, ViewError};

impl Looker<'_, '_> {
    /// Returns the reason why the directory belongs to another program, if it does: a file of a foreign kernel, or a
    /// path that cannot be read. `given` are the kernels that are to be written there.
    ///
    /// # Errors
    /// As [`decide`](Self::decide).
    pub(crate) fn foreign_kernel(
        &mut self,
        given: &BTreeMap<&str, &KernelFiles<'_>>,
    ) -> Result<Option<LeftReason>, ViewError> {
        self.foreign_below(given, "", 0)
    }

    /// Searches the directory of this looker, which is at `path` in the view, at depth `deep`.
    fn foreign_below(
        &mut self,
        given: &BTreeMap<&str, &KernelFiles<'_>>,
        path: &str,
        deep: usize,
    ) -> Result<Option<LeftReason>, ViewError> {
        let unreadable = |name: &str, problem: String| {
            Ok(Some(LeftReason::UnreadableDirectory { path: format!("{path}{name}"), problem }))
        };
        let mut names = match self.dir.list() {
            Ok(names) => names,
            Err(error) => return unreadable(".", error.to_string()),
        };
        opkeep_order::sort(&mut names);
        for name in names.iter().filter(|name| !name.starts_with(".opkeep") && !is_quarantine(name.as_ref()))
        {
            let named = |kind: KernelFileKind| Some((kind, kind.stem_of(name)?));
            let kernel_file = [KernelFileKind::Object, KernelFileKind::Json].into_iter().find_map(named);
            let is_own = match kernel_file {
                Some((kind, stem)) => match given.get(stem) {
                    Some(kernel) => matches!(self.decide(kernel)?, Decision::Place(_)),
                    None => self.is_own(stem, kind),
                },
                None => !name.ends_with(".so"),
            };
            if !is_own {
                let is_changed =
                    kernel_file.is_some_and(|(_, stem)| self.manifest.kernels.contains_key(stem));
                return Ok(Some(LeftReason::ForeignDirectory { file: format!("{path}{name}"), is_changed }));
            }
            let below = match self.dir.entry(name) {
                NameEntry::Nothing | NameEntry::File(_) => continue,
                NameEntry::Other if !self.dir.leads_to_directory(name) => continue,
                NameEntry::Other if deep == MAX_DEPTH => {
                    return unreadable(name, "it is nested too deep".to_owned());
                }
                NameEntry::Other => self.dir.below(name).map_err(|error| error.to_string()),
                NameEntry::Unknown(error) => Err(error.to_string()),
            };
            match below {
                Ok(below) if pseudo_below(self.dir.dir(), below.dir()).is_some() => {}
                Ok(below) => {
                    if let Some(found) = self.nested(&below, &format!("{path}{name}/"), deep + 1)? {
                        return Ok(Some(found));
                    }
                }
                Err(problem) => return unreadable(name, problem),
            }
        }
        Ok(None)
    }

    /// Searches a directory in this one, which may have a manifest of its own.
    fn nested(&mut self, below: &ViewDir, path: &str, deep: usize) -> Result<Option<LeftReason>, ViewError> {
        let text = below.read(manifest::NAME).map(|(bytes, _)| bytes).unwrap_or_default();
        let manifest = Manifest::parse(&text);
        let mut looker = Looker { dir: below, manifest: &manifest, read: 0, ..*self };
        let found = looker.foreign_below(&BTreeMap::new(), path, deep);
        self.read += looker.read;
        found
    }

    /// Returns whether we wrote a file of a kernel that is not among the given ones.
    fn is_own(&mut self, stem: &str, kind: KernelFileKind) -> bool {
        let Some(record) = self.manifest.kernels.get(stem) else {
            return is_stored(self.dir, stem, self.stored);
        };
        let name = kind.of(stem);
        if record.file(kind).seen.is_some_and(|seen| self.dir.file_state(&name) == Some(seen)) {
            return true;
        }
        self.read += 1;
        let is_recorded = match kind {
            KernelFileKind::Json => self.dir.read(&name).is_ok_and(|(bytes, _)| {
                let object = &record.file(KernelFileKind::Object).digest;
                record.wrote(kind, &Digest::of(&bytes)) || is_extended(&bytes) && describes(&bytes, object)
            }),
            _ => self.dir.digest(&name).is_ok_and(|(digest, _)| record.wrote(kind, &digest)),
        };
        is_recorded || is_stored(self.dir, stem, self.stored)
    }
}
