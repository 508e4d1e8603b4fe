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
    #[error("it is signed by {}, and no trusted key has such a name", names(signers))]
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

/// The same with the namespace that a signature was demanded for: a signature that was made for another one does not count, and looks
/// as if another key had made it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{untrusted}{}", in_namespace(untrusted, namespace))]
pub struct UntrustedIn {
    /// The reason.
    pub untrusted: Untrusted,
    /// The namespace.
    pub namespace: String,
}

impl Untrusted {
    /// Adds the namespace that a signature was demanded for.
    pub fn in_namespace(self, namespace: &str) -> UntrustedIn {
        UntrustedIn { untrusted: self, namespace: namespace.to_owned() }
    }
}

fn in_namespace(untrusted: &Untrusted, namespace: &str) -> String {
    match untrusted {
        Untrusted::WrongSignature { .. } => {
            format!(
                " in the namespace `{namespace}`; a signature counts in the namespace that it was made for"
            )
        }
        Untrusted::NoSignature | Untrusted::UnknownSigner { .. } => String::new(),
    }
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
