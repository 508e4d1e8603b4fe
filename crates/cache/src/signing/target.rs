//! Trust in the entries of one target.

use std::borrow::Cow;
use std::fmt;
use std::io::{Read, Seek};
use std::sync::Arc;

use opkeep_bundle::{BundleReader, Signer, stored_signatures};
use opkeep_digest::Digest;
use opkeep_store::{ENTRY_FORMAT, Entry, EntryBuilder, EntryHead, EntryMembers};
use opkeep_trust::{
    EntryDigest, MemberDigest, Message, SIGNATURES_MEMBER, Signatures, SignedEntry, SignerId, SigningKey,
    Untrusted,
};

use super::keys::Keys;
use crate::error::FoundError;
use crate::for_others::IsForOthers;
use crate::refusal::Refusal;
use crate::remote::Namespace;

/// What an entry is signed for, and with which keys; and which entries other hosts can use at all.
#[derive(Clone)]
pub(crate) struct TargetTrust {
    is_for_others: IsForOthers,
    keys: Arc<Keys>,
    namespace: Namespace,
    target: String,
}

/// The signatures of an entry that this host built, as the member of an entry; `None` for no member.
#[derive(Debug, Default)]
pub(crate) struct OwnSignatures {
    /// Those that the local store keeps.
    pub(crate) local: Option<Vec<u8>>,
    /// Those that are sent to the remote tier.
    pub(crate) sent: Option<Vec<u8>>,
    /// The signer whose name the entry gets there.
    signer: Option<SignerId>,
}

/// An entry as other hosts get it. Only [`TargetTrust`] makes one, of an entry that they can use: so no part of the cache can send
/// another one, whenever it was stored.
pub(crate) struct Sendable {
    signer: Option<SignerId>,
    file: Vec<u8>,
}

impl Sendable {
    /// Returns the signer whose name the entry gets.
    pub(crate) fn signer(&self) -> Option<SignerId> {
        self.signer
    }

    pub(crate) fn file(&self) -> &[u8] {
        &self.file
    }

    pub(crate) fn into_file(self) -> Vec<u8> {
        self.file
    }
}

impl OwnSignatures {
    /// Returns `members` with the signatures that the local store keeps.
    pub(crate) fn for_store<'a>(&'a self, members: &EntryBuilder<'a>) -> EntryBuilder<'a> {
        with(members, self.local.as_deref())
    }

    /// Returns `members` with the signatures that are sent.
    fn for_remote<'a>(&'a self, members: &EntryBuilder<'a>) -> EntryBuilder<'a> {
        with(members, self.sent.as_deref())
    }
}

fn with<'a>(members: &EntryBuilder<'a>, signatures: Option<&'a [u8]>) -> EntryBuilder<'a> {
    let members = members.clone();
    match signatures {
        Some(signatures) => members.with_lazy(SIGNATURES_MEMBER, signatures),
        None => members,
    }
}

impl TargetTrust {
    pub(crate) fn new(
        keys: Arc<Keys>,
        namespace: Namespace,
        target: &str,
        is_for_others: IsForOthers,
    ) -> Self {
        Self { is_for_others, keys, namespace, target: target.to_owned() }
    }

    /// Whether other hosts can use an entry.
    pub(crate) fn is_for_others(&self, entry: &dyn EntryMembers) -> bool {
        (self.is_for_others)(entry)
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Whether the list of a bundle may be believed.
    pub(crate) fn check_bundle<R: Read + Seek>(&self, bundle: &BundleReader<R>) -> Result<(), Refusal> {
        let checked = bundle.check_signature(&self.keys.policy, self.namespace.as_str());
        checked.map(drop).map_err(|untrusted| self.refusal(untrusted))
    }

    /// Returns what signs the lists of bundles. The entries in them have signatures of their own.
    pub(crate) fn bundle_signer(&self) -> Option<Signer> {
        let key = self.keys.signing.as_ref()?;
        Some(Signer::new(Arc::clone(key), self.namespace.as_str()).of_index_only())
    }

    /// Whether only signed entries are taken.
    pub(crate) fn demands_signatures(&self) -> bool {
        self.keys.local.is_some()
    }

    /// Checks whether the local store keeps entries that this host found: not if only signed entries are taken, since nothing vouches for
    /// them, and not if this host signs, so that no path leads from what it found to a signature.
    ///
    /// # Errors
    /// [`FoundError::Keys`].
    pub(crate) fn check_finds(&self) -> Result<(), FoundError> {
        let has_keys = self.demands_signatures() || self.keys.signing.is_some();
        if has_keys { Err(FoundError::Keys) } else { Ok(()) }
    }

    /// Checks whether the local store keeps an entry that this host found. A later process would send it if its members did not state that
    /// it stays here.
    ///
    /// # Errors
    /// The reason why it does not.
    pub(crate) fn check_found(&self, members: &EntryBuilder<'_>) -> Result<(), FoundError> {
        self.check_finds()?;
        if self.is_for_others(members) { Err(FoundError::ForOthers) } else { Ok(()) }
    }

    /// Signs an entry that this host built. If it is not shared, no other host takes these signatures.
    pub(crate) fn sign(&self, key: &Digest, members: &EntryBuilder<'_>, is_shared: bool) -> OwnSignatures {
        let signing = self.keys.signing.as_deref().filter(|_| is_shared);
        let host = self.keys.host.as_ref();
        if signing.is_none() && host.is_none() {
            return OwnSignatures::default();
        }
        let digests: Vec<_> =
            members.members().map(|(name, bytes, _)| (name, bytes.len() as u64, Digest::of(bytes))).collect();
        let digests =
            digests.iter().map(|(name, bytes, digest)| MemberDigest { name, bytes: *bytes, digest });
        // What cannot be signed is an entry without signatures.
        let Ok(content) = EntryDigest::of(key, digests) else { return OwnSignatures::default() };
        let message = self.message(self.namespace.as_str(), key, &content);
        let signatures = |keys: &[Option<&SigningKey>]| -> Signatures {
            keys.iter().flatten().map(|key| key.sign(&message)).collect()
        };
        let local = signatures(&[signing, host]).with_namespace(self.namespace.as_str());
        let sent = Some(signatures(&[signing])).filter(|sent| !sent.is_empty());
        let signer = signing.map(|key| key.public_key().signer());
        OwnSignatures { local: Some(local.encode()), sent: sent.map(|sent| sent.encode()), signer }
    }

    /// Returns the member with the signatures of an entry that passed [`check_remote`](Self::check_remote), as the local store keeps it:
    /// with the namespace in which the signatures counted. What the entry came with is dropped: the engine could state any namespace.
    /// `None`: the entry is kept as it is.
    pub(crate) fn kept_signatures(&self, entry: &Entry) -> Option<Vec<u8>> {
        stored_signatures(entry, self.demands_signatures().then_some(self.namespace.as_str()))
    }

    /// Checks that an entry from the remote tier is one for other hosts, and its signatures, which count only in the namespace of this
    /// cache: the engine could have moved the entry from another one.
    pub(crate) fn check_remote(&self, entry: &Entry) -> Result<(), Refusal> {
        if !self.is_for_others(entry) {
            return Err(Refusal::invalid("it can be used only by the machine that made it"));
        }
        let Some(trusted) = self.keys.policy.trusted_keys() else { return Ok(()) };
        let signatures = signatures(entry.lazy_member(SIGNATURES_MEMBER).map(|found| found.map(Cow::from)));
        let signatures = signatures.map_err(Refusal::damaged)?;
        let content = content_of(entry).map_err(Refusal::damaged)?;
        let message = self.message(self.namespace.as_str(), entry.key(), &content);
        let verified = trusted.verify(&message, &signatures);
        verified.map(drop).map_err(|untrusted| self.refusal(untrusted))
    }

    fn refusal(&self, untrusted: Untrusted) -> Refusal {
        Refusal::untrusted(untrusted, self.namespace.as_str())
    }

    /// Checks the signatures of an entry of the local store, whose member with the signatures `read` returns. The error is the
    /// reason for people. They also count if they were made for the namespace that the store recorded with them: several namespaces
    /// share a store, and the entry is the same kernel in each.
    pub(crate) fn check_local<'a, E: ToString>(
        &self,
        entry: &EntryHead,
        read: impl FnOnce(&str) -> Result<Option<Cow<'a, [u8]>>, E>,
    ) -> Result<(), String> {
        let Some(trusted) = &self.keys.local else { return Ok(()) };
        let (own, content) = (self.namespace.as_str(), content_of(entry)?);
        let verified = &self.keys.verified;
        if verified.knows(&self.message(own, entry.key(), &content)) {
            return Ok(());
        }
        let signatures = signatures(read(SIGNATURES_MEMBER))?;
        let mut reason = Ok(());
        for namespace in signatures.namespaces(own) {
            let message = self.message(namespace, entry.key(), &content);
            let checked = verified.check(&message, || trusted.verify(&message, &signatures).map(drop));
            match checked {
                Ok(()) => return Ok(()),
                Err(untrusted) => reason = Err(untrusted.in_namespace(namespace).to_string()),
            }
        }
        reason
    }

    /// Checks the signatures of an entry that was read from the local store. The error is the reason for people.
    pub(crate) fn check_stored(&self, entry: &Entry) -> Result<(), String> {
        self.check_local(entry, |name| entry.lazy_member(name).map(|found| found.map(Cow::from)))
    }

    /// Returns what is sent of an entry that this host has just built, with its signatures. `None`: other hosts cannot use it, or it
    /// exceeds the bounds of an entry.
    pub(crate) fn sendable_now(
        &self,
        key: &Digest,
        members: &EntryBuilder<'_>,
        signatures: &OwnSignatures,
    ) -> Option<Sendable> {
        let is_sent = self.is_for_others(members);
        let file = is_sent.then(|| signatures.for_remote(members).encode(key))??;
        Some(Sendable { signer: signatures.signer, file })
    }

    /// Returns what is sent of an entry of the local store; `None` if other hosts cannot use it. One that this host built is signed
    /// now, unless it is. Since others may write to the store, the host key's signature decides whether this host built it. In the
    /// namespace of this cache, that of the signing key does as well; what the signing key signed for another namespace may have been
    /// built by another host that has this key.
    ///
    /// # Errors
    /// No trusted key vouches for the entry in this namespace, and this host did not build it: no host would take it.
    pub(crate) fn sendable(&self, entry: &Entry) -> Result<Option<Sendable>, NotSendable> {
        // A file that is encoded again gets new digests, which must not cover up damage.
        for name in entry.names() {
            entry.lazy_member(name).map_err(NotSendable::invalid)?;
        }
        if !self.is_for_others(entry) {
            return Ok(None);
        }
        let (own, content) = (self.namespace.as_str(), content_of(entry).map_err(NotSendable::invalid)?);
        let message = |namespace| self.message(namespace, entry.key(), &content);
        let found = signatures(entry.lazy_member(SIGNATURES_MEMBER).map(|found| found.map(Cow::from)));
        let found = found.map_err(NotSendable::invalid)?;
        let is_of = |key: &SigningKey, namespace| {
            let (public, message) = (key.public_key(), message(namespace));
            found.iter().any(|signature| public.verifies(&message, &signature))
        };
        let signing = self.keys.signing.as_deref();
        let built_here = |key: &SigningKey| found.namespaces(own).any(|namespace| is_of(key, namespace));
        let is_own =
            signing.is_some_and(|key| is_of(key, own)) || self.keys.host.as_ref().is_some_and(built_here);
        let (signer, signatures) = match (signing.filter(|_| is_own), self.keys.policy.trusted_keys()) {
            (Some(signing), _) => {
                (Some(signing.public_key().signer()), [signing.sign(&message(own))].into_iter().collect())
            }
            (None, Some(trusted)) => match trusted.verify(&message(own), &found) {
                Ok(key) => (Some(key.signer()), found.without_namespace()),
                Err(untrusted) => return Err(self.not_sendable(entry, untrusted)),
            },
            (None, None) => (None, found.without_namespace()),
        };
        let encoded = signatures.encode();
        let builder = match found.is_empty() && signatures.is_empty() {
            true => entry.to_builder(),
            false => entry.to_builder().with_lazy(SIGNATURES_MEMBER, &encoded),
        };
        let file = builder.encode(entry.key());
        let file = file.ok_or_else(|| NotSendable::invalid("it exceeds the bounds of an entry"))?;
        Ok(Some(Sendable { signer, file }))
    }

    /// Returns why an entry is not sent that no trusted key signed for this namespace.
    fn not_sendable(&self, entry: &Entry, untrusted: Untrusted) -> NotSendable {
        match self.check_stored(entry) {
            Ok(()) => NotSendable::OtherNamespace,
            Err(_) => NotSendable::invalid(untrusted.in_namespace(self.namespace.as_str())),
        }
    }

    fn message(&self, namespace: &str, key: &Digest, content: &EntryDigest) -> Message {
        SignedEntry { format: ENTRY_FORMAT, namespace, target: &self.target, key, content }.message()
    }
}

/// The reason why an entry is not sent.
#[derive(Debug)]
pub(crate) enum NotSendable {
    /// It is a valid entry of another namespace that another host built. This host signs only what it built.
    OtherNamespace,
    /// It is damaged, or not trusted. For people.
    Invalid(String),
}

impl NotSendable {
    fn invalid(reason: impl ToString) -> Self {
        Self::Invalid(reason.to_string())
    }
}

fn content_of(entry: &EntryHead) -> Result<EntryDigest, String> {
    let members = entry.member_heads().map(|member| MemberDigest {
        name: member.name,
        bytes: member.bytes,
        digest: member.digest,
    });
    EntryDigest::of(entry.key(), members).map_err(|repeated| repeated.to_string())
}

fn signatures<E: ToString>(member: Result<Option<Cow<'_, [u8]>>, E>) -> Result<Signatures, String> {
    match member.map_err(|error| error.to_string())? {
        None => Ok(Signatures::new()),
        Some(bytes) => Signatures::parse(&bytes).map_err(|too_large| too_large.to_string()),
    }
}

impl fmt::Debug for TargetTrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { is_for_others: _, keys, namespace, target } = self;
        f.debug_struct("TargetTrust")
            .field("keys", keys)
            .field("namespace", namespace)
            .field("target", target)
            .finish_non_exhaustive()
    }
}
