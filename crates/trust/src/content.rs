//! The digest of an entry's content.

use std::fmt;

use opkeep_digest::{Digest, Hasher};
use thiserror::Error;

use crate::signatures::SIGNATURES_MEMBER;

/// The member with the rules that a kernel was validated by. Hosts replace it by newer rules, and judge an entry that they
/// take by their own.
const EXPECTATIONS_MEMBER: &str = "expectations";

/// Whether signatures cover the member `name`. They cover all members but the validation rules, which hosts renew, and the
/// signatures themselves.
pub fn is_signed_member(name: &str) -> bool {
    name != EXPECTATIONS_MEMBER && name != SIGNATURES_MEMBER
}

/// What the head of an entry states of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberDigest<'a> {
    /// The name.
    pub name: &'a str,
    /// The number of bytes.
    pub bytes: u64,
    /// The SHA-256 of the bytes.
    pub digest: &'a Digest,
}

/// The digest of the content of an entry: of its key, and of name, length and digest of each member that
/// [is signed](is_signed_member). The order of the members does not count, nor do the time at which the entry was created, the
/// compile time, and the validation stamp.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct EntryDigest(Digest);

impl EntryDigest {
    /// Computes it from all members of an entry. The caller has checked that the members have these digests.
    ///
    /// # Errors
    /// Two members have one name: a reader might take the one or the other.
    pub fn of<'a>(
        key: &Digest,
        members: impl IntoIterator<Item = MemberDigest<'a>>,
    ) -> Result<Self, RepeatedMember> {
        let mut members: Vec<_> = members.into_iter().collect();
        opkeep_order::by_key(&mut members, |member| member.name);
        if let Some(pair) = members.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(RepeatedMember { name: pair[0].name.to_owned() });
        }
        members.retain(|member| is_signed_member(member.name));
        let mut hasher = Hasher::new("opkeep entry content v1");
        hasher.digest(key);
        hasher.list(members.len());
        for MemberDigest { name, bytes, digest } in members {
            hasher.str(name);
            hasher.u64(bytes);
            hasher.digest(digest);
        }
        Ok(Self(hasher.finish()))
    }

    /// The digest.
    pub fn digest(&self) -> &Digest {
        &self.0
    }
}

impl fmt::Debug for EntryDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EntryDigest({})", self.0)
    }
}

/// An entry has two members of one name. Such an entry cannot be signed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the entry has two members `{name}`, expected one of each name; no signature covers it")]
pub struct RepeatedMember {
    /// The name.
    pub name: String,
}
