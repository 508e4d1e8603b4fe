//! The line of a list of trusted keys.

use opkeep_trust::PublicKey;

/// Returns a key as a line of a list of trusted keys, with its signer id as a comment.
pub(super) fn line(key: &PublicKey) -> String {
    format!("{key}  # signer {}", key.signer())
}
