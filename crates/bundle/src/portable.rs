//! Entries without what differs between hosts.
//!
//! Two stores have the same entry with other times, other stamps and members in another order: a store renews the rules of an
//! entry, and appends what it renews. A bundle has the entry without a validation stamp and without a time, its members sorted by
//! name, the eager ones first. Its compile time stays, since a store evicts by it, and so do its signatures, without the namespace that the
//! store recorded with them.

use std::time::SystemTime;

use opkeep_digest::Digest;
use opkeep_store::{ENTRY_FORMAT, Entry, EntryBuilder};
use opkeep_trust::{
    EntryDigest, MemberDigest, Message, RepeatedMember, SIGNATURES_MEMBER, Signatures, SignedEntry,
};

use crate::error::{BundleError, EntryProblem};

/// Returns the bytes of an entry of `target` as a bundle has them. `signatures` replace those of the entry, if they are given.
///
/// # Errors
/// [`BundleError::Entry`]: a lazy member is damaged, two members have one name, or there is no space for the signatures.
pub fn portable_entry(
    target: &str,
    entry: &Entry,
    signatures: Option<&Signatures>,
) -> Result<Vec<u8>, BundleError> {
    let key = entry.key();
    let invalid = |problem: EntryProblem| BundleError::entry(target, key, problem);
    check_members(entry).map_err(invalid)?;
    let stored = entry_signatures(entry);
    let portable = signatures.unwrap_or(&stored).without_namespace();
    let encoded = (signatures.is_some() || portable != stored).then(|| portable.encode());
    let mut members: Vec<_> = entry.members().collect();
    if let Some(encoded) = &encoded {
        members.retain(|(name, ..)| *name != SIGNATURES_MEMBER);
        if !encoded.is_empty() {
            members.push((SIGNATURES_MEMBER, encoded, false));
        }
    }
    opkeep_order::by_key(&mut members, |(name, _, is_eager)| (!is_eager, *name));
    if let Some(pair) = members.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(invalid(RepeatedMember { name: pair[0].0.to_owned() }.into()));
    }
    let builder = EntryBuilder::new(0).created(SystemTime::UNIX_EPOCH).cost(entry.cost());
    let builder = members.iter().fold(builder, |builder, (name, bytes, is_eager)| match is_eager {
        true => builder.eager(name, bytes),
        false => builder.lazy(name, bytes),
    });
    builder.encode(key).ok_or_else(|| invalid(EntryProblem::NoSpace))
}

/// Checks the lazy members, whose digests are computed anew when the entry is encoded.
pub(crate) fn check_members(entry: &Entry) -> Result<(), EntryProblem> {
    Ok(entry.names().try_for_each(|name| entry.lazy_member(name).map(drop))?)
}

/// Returns what is signed of an entry of `target`.
///
/// # Errors
/// Two members have one name.
pub fn entry_message(namespace: &str, target: &str, entry: &Entry) -> Result<Message, RepeatedMember> {
    let key: &Digest = entry.key();
    let members = entry.member_heads().map(|head| MemberDigest {
        name: head.name,
        bytes: head.bytes,
        digest: head.digest,
    });
    let content = EntryDigest::of(key, members)?;
    Ok(SignedEntry { format: ENTRY_FORMAT, namespace, target, key, content: &content }.message())
}

/// Returns the member with the signatures of an entry that came from elsewhere, as a store keeps it: with the namespace in which they
/// were verified, and not with the one that the entry came with. `None`: the entry is kept as it is.
pub fn stored_signatures(entry: &Entry, verified_in: Option<&str>) -> Option<Vec<u8>> {
    let found = entry_signatures(entry);
    let stored = verified_in.map_or_else(|| found.without_namespace(), |name| found.with_namespace(name));
    (stored != found).then(|| stored.encode())
}

/// Returns the signatures of an entry. One whose signatures cannot be read has none.
pub fn entry_signatures(entry: &Entry) -> Signatures {
    let member = entry.lazy_member(SIGNATURES_MEMBER).ok().flatten();
    member.and_then(|bytes| Signatures::parse(bytes).ok()).unwrap_or_default()
}
