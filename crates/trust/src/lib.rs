//! Signing keys, lists of trusted keys, and signatures over the content of cache entries.
//!
//! A host that compiled a kernel signs the entry with its [`SigningKey`]; other hosts take it if a key of their
//! [`TrustedKeys`] signed it. A signature states that the signer vouches for exactly this content, under this key, for this
//! target, in this namespace.
//!
//! ```text
//! members of an entry ── EntryDigest::of ──┐
//! format, namespace, target, key ──────────┴─ SignedEntry ──> Message ── SigningKey::sign ──> Signature ──> Signatures
//!                                                                └────── TrustedKeys::verify(Signatures) ──> PublicKey
//! ```
//!
//! Keys and signatures are texts of the form `NAME:BASE64`, as Nix has them: a secret key has 64 bytes (the seed and the public
//! key), a public key 32, a signature 64. A key pair of Nix works here.
//!
//! Several keys may be trusted at once, also several of one name. So keys are replaced without a moment at which all hosts have
//! to change: first every consumer trusts the new key as well, then the hosts sign with it, at last the old key is removed from
//! the lists. A key has no date at which it expires, since all hosts would meet that date at once.
//!
//! No message and no `Debug` text of this crate has a part of a secret key, nor of a text that was meant as one.
//!
//! This crate knows no store: [`EntryDigest`] takes names, lengths and digests of members, which the head of an entry has.
//!
//! ```
//! use opkeep_digest::Digest;
//! use opkeep_trust::{EntryDigest, MemberDigest, SignedEntry, SigningKey, Signatures, TrustedKeys, Untrusted};
//!
//! let (key, object) = (Digest::of(b"what decides the kernel"), Digest::of(b"\x7fELF..."));
//! let members = [MemberDigest { name: "object", bytes: 7, digest: &object }];
//! let content = EntryDigest::of(&key, members)?;
//! let entry = SignedEntry { format: 2, namespace: "default", target: "cpu-x86_64", key: &key, content: &content };
//!
//! let builder = SigningKey::generate("builder-1".parse()?)?;
//! let signatures: Signatures = [builder.sign(&entry.message())].into_iter().collect();
//!
//! let trusted: TrustedKeys = [builder.public_key().clone()].into_iter().collect();
//! assert_eq!(trusted.verify(&entry.message(), &signatures).map(|key| key.name().as_str()), Ok("builder-1"));
//! let other = SignedEntry { target: "cpu-aarch64", ..entry };
//! assert!(matches!(trusted.verify(&other.message(), &signatures), Err(Untrusted::WrongSignature { .. })));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod content;
mod error;
mod fuzz;
mod host_key;
mod key_file;
mod key_name;
mod key_text;
mod message;
mod policy;
mod public_key;
mod signature;
mod signatures;
mod signing_key;
mod trusted_keys;
mod untrusted;

pub use content::{EntryDigest, MemberDigest, RepeatedMember, is_signed_member};
pub use error::TrustError;
#[doc(hidden)]
pub use fuzz::fuzz;
pub use key_file::{SecretBytes, read_public_keys, read_secret_file};
pub use key_name::{KeyName, KeyNameError};
pub use key_text::KeyTextError;
pub use message::{Message, SignedBundle, SignedEntry};
pub use policy::SignaturePolicy;
pub use public_key::{ParseSignerIdError, PublicKey, SignerId};
pub use signature::Signature;
pub use signatures::{SIGNATURES_MEMBER, Signatures, SignaturesTooLarge};
pub use signing_key::SigningKey;
pub use trusted_keys::TrustedKeys;
pub use untrusted::{Untrusted, UntrustedIn};
