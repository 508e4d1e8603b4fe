//! The reasons why no trusted key vouches for a message.

use std::collections::BTreeSet;

use thiserror::Error;

use crate::key_name::KeyName;

/// The reason why no trusted key vouches for a message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Untrusted {
    /// There is no signature.
    #[error("it is not signed")]
    NoSignature,
    /// There are signatures, none with the name of a trusted key.
    #[error("it is signed by {}, none of which is a trusted key", names(signers))]
    UnknownSigner {
        /// The names that the signatures state.
        signers: BTreeSet<KeyName>,
    },
    /// A signature has the name of a trusted key, and is not that key's for this message: another key has made it, or the
    /// content, the key, the target or the namespace is another one than was signed.
    #[error(
        "its signature with the name `{signer}` is not that of the trusted key of this name for this content"
    )]
    WrongSignature {
        /// The name.
        signer: KeyName,
    },
}

/// The first names.
fn names(names: &BTreeSet<KeyName>) -> String {
    const MAX: usize = 3;
    let mut texts: Vec<_> = names.iter().take(MAX).map(|name| format!("`{name}`")).collect();
    if names.len() > MAX {
        texts.push("others".to_owned());
    }
    texts.join(", ")
}
