//! Trust in entries: which entries this host signs, and whose signatures it demands.
//!
//! Two keys sign. The *signing key*, which an administrator gives to the hosts that build, makes entries that other hosts take. The
//! *host key* only marks what this host built itself: others who may write to its store do not have that key. It counts for entries
//! of the local store, never for those of the remote tier.
//!
//! A signature is for a namespace, and a store is for several. So the store records with an entry which namespace its signatures are for, and
//! an entry of the store counts in every namespace. What comes from the remote tier must be signed for the namespace of the cache.
//!
//! An entry is signed when it is built. One that was found is never signed: its content is another's, and a signature by this host
//! would keep it trusted after the other's key is retired.

mod config;
mod keys;
mod target;
mod verified;

pub use config::TrustConfig;
pub(crate) use keys::Keys;
pub(crate) use target::{NotSendable, OwnSignatures, Sendable, TargetTrust};
