//! The owners whose directories and files may be used.
//!
//! A cached kernel is code that will run, so an entry counts only if no untrusted user can have written it.
//! Trusted are this user and those listed in the configuration. A root with the set-group-id bit is shared: if its owner
//! is trusted, so is its group.

use std::path::Path;

use opkeep_fs::FileStat;

use crate::StoreError;

const SET_GROUP_ID: u32 = 0o2000;
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;

/// The users whose directories and files may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnerPolicy {
    owners: Vec<u32>,
    group: Option<u32>,
}

impl OwnerPolicy {
    /// Creates the policy below the root at `path`: this user, `others`, and the group of a shared root are trusted.
    /// Only the mode of the root enables sharing, and only if its owner is trusted.
    pub(crate) fn below(path: &Path, root: &FileStat, others: &[u32]) -> Result<Self, StoreError> {
        let me = rustix::process::geteuid().as_raw();
        let mut trust =
            Self { owners: std::iter::once(me).chain(others.iter().copied()).collect(), group: None };
        trust.check_owner(path, root)?;
        trust.group = (root.mode & SET_GROUP_ID != 0).then_some(root.group);
        trust.check(path, root)?;
        Ok(trust)
    }

    /// Whether new files are shared with a group.
    pub(crate) fn is_shared(&self) -> bool {
        self.group.is_some()
    }

    /// Checks that `what`, the state of `path`, is trusted.
    pub(crate) fn check(&self, path: &Path, what: &FileStat) -> Result<(), StoreError> {
        let refuse = |problem: String, help: String| {
            Err(StoreError::Untrusted { path: path.to_owned(), owner: None, problem, help })
        };
        let (group, mode) = (what.group, what.mode);
        let by_group = self.group == Some(group);
        if !by_group {
            self.check_owner(path, what)?;
        }
        if mode & OTHERS_WRITE != 0 {
            return refuse(
                format!("every user can write to it (mode {:04o})", mode),
                format!("Close it: chmod o-w '{}'", path.display()),
            );
        }
        if mode & GROUP_WRITES != 0 && !by_group {
            return refuse(
                format!("group {group} can write to it (mode {:04o})", mode),
                format!(
                    "To share it with that group: chmod g+s '{0}'; to close it: chmod g-w '{0}'",
                    path.display()
                ),
            );
        }
        Ok(())
    }

    fn check_owner(&self, path: &Path, what: &FileStat) -> Result<(), StoreError> {
        let owner = what.user;
        match self.owners.contains(&owner) {
            true => Ok(()),
            false => Err(StoreError::Untrusted {
                path: path.to_owned(),
                owner: Some(owner),
                problem: format!("its owner is user {owner}, expected one of {:?}", self.owners),
                help: format!("If you trust that user, add {owner} to the trusted owners"),
            }),
        }
    }
}
