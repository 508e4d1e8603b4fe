//! The locations of the files that a journal lists.

use crate::quarantine::journal::{Entry, Role};
use opkeep_fs::Dir;

/// The location of a file.
pub(super) enum Location {
    InQuarantine,
    /// In its place: it was restored already, or never moved.
    InPlace,
    /// Neither in quarantine nor in its place, where another file is.
    OtherInPlace,
    /// The file cannot be restored, with the reason.
    Unrestorable(String),
}

/// Returns the location of the file of `entry`; `from` is its directory in quarantine, if it exists, `to` its own one.
pub(super) fn locate(entry: &Entry, from: Option<&Dir>, to: &Dir) -> Location {
    match (from.and_then(|from| from.file_state(&entry.file)), to.file_state(&entry.file)) {
        (Some(found), _) if entry.is(&found) => Location::InQuarantine,
        (Some(_), _) => Location::Unrestorable("it was changed since it was quarantined".to_owned()),
        (None, Some(found)) if entry.is(&found) => Location::InPlace,
        (None, Some(_)) if matches!(entry.role, Role::Replaced { .. }) => Location::OtherInPlace,
        // Another program wrote it again, before it was quarantined or since.
        (None, Some(_)) if from.is_none_or(|from| !from.may_exist(&entry.file)) => Location::OtherInPlace,
        (None, _) => Location::Unrestorable(
            "it is missing in quarantine and in the cache: another program removed it".to_owned(),
        ),
    }
}
