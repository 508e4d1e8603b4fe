//! The possible results of a power cut for changes that were not synced.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use opkeep_fs::{FsCall, FsOp};

use crate::dir_snapshot::{self, DirSnapshot};

/// The number of changes that are tried in every combination, and the number that are tried alone.
const COMBINED: usize = 4;
const EACH: usize = 16;

/// A file, whatever its name.
type FileId = usize;

/// The file at each path; a path that its file has left keeps the file's number.
type Names = BTreeMap<PathBuf, FileId>;

/// The changes that were not synced yet.
pub(super) struct Journal {
    root: PathBuf,
    changes: Vec<Arc<Change>>,
    /// The change of the last call, if it succeeds, which shows at the next call.
    awaited: Option<Change>,
    names: Names,
    unsynced: BTreeSet<FileId>,
    next: FileId,
}

/// A change to a directory, with the data for undoing it.
enum Change {
    Added {
        path: PathBuf,
    },
    Renamed {
        from: PathBuf,
        to: PathBuf,
        id: FileId,
        inode: Option<u64>,
        over: DirSnapshot,
        over_id: Option<FileId>,
    },
    Removed {
        path: PathBuf,
        gone: DirSnapshot,
    },
}

impl Journal {
    pub(super) fn new(root: &Path) -> Self {
        let (changes, names, unsynced) = Default::default();
        Self { root: root.to_owned(), changes, awaited: None, names, unsynced, next: 0 }
    }

    pub(super) fn forget(&mut self) {
        *self = Self::new(&self.root);
    }

    /// Records a call that is about to be made.
    pub(super) fn note(&mut self, call: &FsCall<'_>) {
        self.settle();
        let path = call.path;
        if !path.starts_with(&self.root) {
            return;
        }
        match (call.op, call.to) {
            (FsOp::Create | FsOp::CreateDir | FsOp::OpenLock, _) if dir_snapshot::inode(path).is_none() => {
                self.names.remove(path);
                self.awaited = Some(Change::Added { path: path.to_owned() });
            }
            (FsOp::Link, Some(to)) if dir_snapshot::inode(to).is_none() => {
                let id = self.id(path);
                self.names.insert(to.to_owned(), id);
                self.awaited = Some(Change::Added { path: to.to_owned() });
            }
            (FsOp::Rename, Some(to)) => {
                self.awaited = Some(Change::Renamed {
                    from: path.to_owned(),
                    to: to.to_owned(),
                    id: self.id(path),
                    inode: dir_snapshot::inode(path),
                    over: DirSnapshot::of(to).unwrap_or_default(),
                    over_id: self.names.get(to).copied(),
                });
            }
            (FsOp::Remove | FsOp::RemoveDir, _) => {
                let gone = DirSnapshot::of(path).unwrap_or_default();
                self.awaited = Some(Change::Removed { path: path.to_owned(), gone });
            }
            (FsOp::Write | FsOp::SetLength, _) => {
                let id = self.id(path);
                self.unsynced.insert(id);
            }
            (FsOp::SyncData, _) => {
                let id = self.id(path);
                self.unsynced.remove(&id);
            }
            (FsOp::SyncDir, _) => self.changes.retain(|change| change.directory() != Some(path)),
            _ => {}
        }
    }

    /// Checks whether the last call succeeded.
    fn settle(&mut self) {
        let Some(change) = self.awaited.take().filter(Change::is_done) else { return };
        if let Change::Renamed { to, id, .. } = &change {
            self.names.insert(to.clone(), *id);
        }
        self.changes.push(Arc::new(change));
    }

    fn id(&mut self, path: &Path) -> FileId {
        *self.names.entry(path.to_owned()).or_insert_with(|| {
            self.next += 1;
            self.next
        })
    }

    /// The unsynced changes, one on each line.
    pub(super) fn at_risk(&mut self) -> Vec<String> {
        self.settle();
        let names = self.names.iter().filter(|(_, id)| self.unsynced.contains(id));
        let bytes = names.map(|(path, _)| format!("bytes of `{}`", path.display()));
        self.changes.iter().map(|change| format!("{change}{}", change.hidden())).chain(bytes).collect()
    }

    pub(super) fn losses(&mut self) -> Vec<Loss> {
        self.settle();
        if self.changes.is_empty() && self.unsynced.is_empty() {
            return Vec::new();
        }
        let tears: &[_] = if self.unsynced.is_empty() { &[Tear::None] } else { &Tear::ALL };
        let choices = choices(self.changes.len());
        let undone = |choice: &[bool]| -> Vec<Arc<Change>> {
            let chosen = self.changes.iter().zip(choice).filter(|(_, undo)| **undo);
            chosen.map(|(change, _)| Arc::clone(change)).collect()
        };
        let loss = |choice: &[bool], tear| Loss {
            undone: undone(choice),
            tear,
            names: self.names.clone(),
            unsynced: self.unsynced.clone(),
        };
        choices.iter().flat_map(|choice| tears.iter().map(move |tear| loss(choice, *tear))).collect()
    }
}

/// The sets of changes to undo that are tried; the empty set first.
fn choices(count: usize) -> Vec<Vec<bool>> {
    let of = |undone: &dyn Fn(usize) -> bool| (0..count).map(undone).collect::<Vec<bool>>();
    if count <= COMBINED {
        return (0..1u32 << count).map(|bits| of(&|at| bits >> at & 1 == 1)).collect();
    }
    let mut choices = vec![of(&|_| false), of(&|_| true)];
    if count <= EACH {
        choices.extend((0..count).map(|one| of(&|at| at == one)));
        choices.extend((1..count - 1).map(|since| of(&|at| at >= since)));
    } else {
        choices.push(of(&|at| at == 0));
        choices.push(of(&|at| at == count - 1));
    }
    choices
}

impl Change {
    fn is_done(&self) -> bool {
        match self {
            Self::Added { path } => dir_snapshot::inode(path).is_some(),
            Self::Renamed { from, to, inode, .. } => {
                inode.is_some() && dir_snapshot::inode(to) == *inode && dir_snapshot::inode(from).is_none()
            }
            Self::Removed { path, gone } => {
                *gone != DirSnapshot::default() && dir_snapshot::inode(path).is_none()
            }
        }
    }

    /// In short, the invisible content that undoing the change brings back.
    fn hidden(&self) -> String {
        let gone = match self {
            Self::Added { .. } => return String::new(),
            Self::Renamed { over: gone, .. } | Self::Removed { gone, .. } => gone,
        };
        let mut hasher = DefaultHasher::new();
        gone.clone().alike(|path| path).hash(&mut hasher);
        format!(" {:016x}", hasher.finish())
    }

    /// The directory whose sync makes the change durable.
    fn directory(&self) -> Option<&Path> {
        match self {
            Self::Added { path } | Self::Removed { path, .. } | Self::Renamed { to: path, .. } => {
                path.parent()
            }
        }
    }

    /// Undoes it, as far as later changes allow: a name that another file has by now cannot be taken back.
    fn undo(&self, names: &mut Names) -> io::Result<()> {
        match self {
            Self::Added { path } => dir_snapshot::remove(path),
            Self::Renamed { from, to, id, over, over_id, .. } => {
                // By the records, not by inode numbers: restored files have other numbers.
                let is_there = names.get(to) == Some(id) && dir_snapshot::inode(to).is_some();
                if !is_there || dir_snapshot::inode(from).is_some() {
                    return Ok(());
                }
                dir_snapshot::rename(to, from)?;
                match over_id {
                    Some(id) => names.insert(to.clone(), *id),
                    None => names.remove(to),
                };
                over.restore(to)
            }
            Self::Removed { path, gone } => {
                // The content of a lost directory is lost with it.
                let has_a_place = path.parent().is_none_or(|parent| dir_snapshot::inode(parent).is_some());
                if dir_snapshot::inode(path).is_none() && has_a_place { gone.restore(path) } else { Ok(()) }
            }
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added { path } => write!(f, "new `{}`", path.display()),
            Self::Renamed { from, to, .. } => write!(f, "`{}` -> `{}`", from.display(), to.display()),
            Self::Removed { path, .. } => write!(f, "removed `{}`", path.display()),
        }
    }
}

/// The result for bytes that were not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tear {
    None,
    Empty,
    Half,
    Garbage,
}

impl Tear {
    const ALL: [Self; 4] = [Self::None, Self::Empty, Self::Half, Self::Garbage];

    fn of(self, mut bytes: Vec<u8>) -> Vec<u8> {
        match self {
            Self::None => {}
            Self::Empty => bytes.clear(),
            Self::Half => bytes.truncate(bytes.len() / 2),
            // Blocks of another file; from the second byte on, so that the magic number is no evidence.
            Self::Garbage => bytes.iter_mut().skip(1).for_each(|byte| *byte = byte.rotate_left(3) ^ 0x5a),
        }
        bytes
    }
}

/// One possible result of a power cut.
pub struct Loss {
    undone: Vec<Arc<Change>>,
    tear: Tear,
    names: Names,
    unsynced: BTreeSet<FileId>,
}

impl Loss {
    /// Applies it to the files, which must be in the state in which it was listed.
    ///
    /// # Errors
    /// The files could not be changed.
    pub fn apply(&self) -> io::Result<()> {
        let mut names = self.names.clone();
        for change in self.undone.iter().rev() {
            change.undo(&mut names)?;
        }
        let torn = names.iter().filter(|(_, id)| self.tear != Tear::None && self.unsynced.contains(id));
        for (path, _) in torn {
            dir_snapshot::change(path, |bytes| self.tear.of(bytes))?;
        }
        Ok(())
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "power lost, unsynced bytes: {:?}, undone:", self.tear)?;
        self.undone.iter().try_for_each(|change| write!(f, " {change},"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_all_different_and_have_none_and_all() {
        for count in [0, 1, 3, 4, 5, 16, 17, 300] {
            let choices = choices(count);
            assert_eq!(choices.iter().collect::<BTreeSet<_>>().len(), choices.len(), "{count}");
            assert_eq!(choices[0], vec![false; count]);
            assert!(choices.contains(&vec![true; count]));
        }
        assert_eq!(choices(4).len(), 16);
        assert_eq!(choices(5).len(), 2 + 5 + 3);
        assert_eq!(choices(300).len(), 4);
    }

    #[test]
    fn every_tear_changes_bytes_and_garbage_keeps_their_number() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(Tear::None.of(bytes.clone()), bytes);
        assert!(Tear::Empty.of(bytes.clone()).is_empty());
        assert_eq!(Tear::Half.of(bytes.clone()), bytes[..128]);
        let garbage = Tear::Garbage.of(bytes.clone());
        assert_eq!((garbage.len(), garbage[0]), (256, 0));
        assert!(garbage[..128].iter().zip(&bytes).filter(|(a, b)| a != b).count() > 100);
    }
}
