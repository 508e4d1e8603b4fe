//! The comparison of files in Triton's directory with the entries of the store, and which of these they should be.

use serde::Serialize;

use super::group::TritonGroup;
use super::stored::StoredGroup;

/// A file of a group in a framework's directory, compared with the entry of the store.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ComparedFile {
    /// Its name.
    pub name: String,
    /// How it compares.
    pub state: FileState,
}

/// How a file compares with the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileState {
    /// It has the bytes of the entry.
    Same,
    /// It has other bytes than the entry.
    Differs,
    /// It is in the entry only, or cannot be read in the directory.
    Missing,
    /// It is in the directory only.
    Extra,
}

/// An entry of the store for a group in a framework's directory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Compared<'a> {
    /// The entry.
    pub stored: &'a StoredGroup,
    /// All files of the entry and of the directory.
    pub files: Vec<ComparedFile>,
}

impl Compared<'_> {
    /// Returns the number of files that are not as in the entry.
    pub fn differing(&self) -> usize {
        self.files.iter().filter(|file| file.state != FileState::Same).count()
    }

    /// Returns a text about each file that is not as in the entry.
    pub fn differences(&self) -> impl Iterator<Item = String> {
        self.texts().flatten()
    }

    /// Returns the text about each file; `None` if it is as in the entry.
    pub fn texts(&self) -> impl Iterator<Item = Option<String>> {
        self.files.iter().map(|ComparedFile { name, state }| match state {
            FileState::Same => None,
            FileState::Differs => Some(format!("`{name}` differs from the entry")),
            FileState::Missing => Some(format!("`{name}` is in the entry only")),
            FileState::Extra => Some(format!("`{name}` is not in the entry")),
        })
    }
}

impl TritonGroup {
    /// Compares the group with the entries of its key: one for each toolchain. The one that differs least comes first.
    pub fn compare<'a>(&self, stored: &'a [StoredGroup]) -> Vec<Compared<'a>> {
        let is_of_group = |stored: &&StoredGroup| {
            stored.is_of_key(&self.framework_key) && stored.record.key.name == self.name
        };
        let compared = |stored| Compared { stored, files: self.compare_files(stored) };
        let mut compared: Vec<Compared<'_>> = stored.iter().filter(is_of_group).map(compared).collect();
        opkeep_order::by_key(&mut compared, |compared| {
            (compared.differing(), std::cmp::Reverse(compared.stored.created))
        });
        compared
    }

    /// Returns the entry whose files these should be, compared with them. `None` if nothing shows which one that is, or if it
    /// is not among `stored`.
    ///
    /// - The directory of a toolchain is named after what the entry's key covers.
    /// - In the directory of Triton's own key, it is the entry that has the bytes of all files; otherwise the one that the
    ///   record beside the group names; without a record, the one whose directory has the same files under second names. If
    ///   the record and the second names contradict each other, nothing is known.
    pub fn meant<'a>(&self, stored: &'a [StoredGroup]) -> Option<Compared<'a>> {
        let mut compared = self.compare(stored);
        if let Some(toolchain) = &self.toolchain {
            return compared.into_iter().find(|compared| compared.stored.toolchain() == *toolchain);
        }
        let recorded = self.record.as_ref().map(|record| record.entry);
        if compared.first().is_some_and(|best| best.differing() == 0) {
            compared.retain(|compared| compared.differing() == 0);
            let place = compared.iter().position(|compared| Some(compared.stored.key) == recorded);
            return Some(compared.swap_remove(place.unwrap_or_default()));
        }
        let is_linked = |compared: &Compared<'_>| match self.linked.as_slice() {
            [] => recorded.is_some(),
            [toolchain] => compared.stored.toolchain() == *toolchain,
            _ => false,
        };
        let is_meant = |compared: &Compared<'_>| {
            recorded.is_none_or(|key| key == compared.stored.key) && is_linked(compared)
        };
        compared.into_iter().find(is_meant)
    }

    fn compare_files(&self, stored: &StoredGroup) -> Vec<ComparedFile> {
        let found = |name: &str| self.files.iter().find(|file| file.name == name);
        let of_entry = stored.files.iter().map(|(name, digest)| {
            let state = match found(name) {
                Some(file) if file.digest == *digest => FileState::Same,
                Some(_) => FileState::Differs,
                None => FileState::Missing,
            };
            ComparedFile { name: name.clone(), state }
        });
        let is_extra = |name: &str| stored.files.iter().all(|(stored, _)| stored != name);
        let extra = self.files.iter().filter(|file| is_extra(&file.name));
        let extra = extra.map(|file| ComparedFile { name: file.name.clone(), state: FileState::Extra });
        of_entry.chain(extra).collect()
    }
}
