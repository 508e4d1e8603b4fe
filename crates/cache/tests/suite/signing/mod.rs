//! Hosts with keys: whose entries are taken, what is signed, and what becomes of forged entries.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are not themselves marked as tests")]

mod forged;
mod hosts;
mod namespaces;

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use opkeep_cache::trust::{
    EntryDigest, MemberDigest, SIGNATURES_MEMBER, SignaturePolicy, Signatures, SignedEntry, SignerId,
    SigningKey,
};
use opkeep_cache::{
    Accept, CacheConfig, Claim, FoundError, Lookup, ObjectName, ObjectNames, PublishError, Query,
    RemoteConfig, RemotePolicy, Source, TargetCache, TrustConfig, WarningKind,
};
use opkeep_digest::Digest;
use opkeep_fs::Fs;
use opkeep_store::{ENTRY_FORMAT, Entry, EntryBuilder, Overwrite, PutOutcome};
use opkeep_testkit::remote::RemoteCall::{Claim as ClaimCall, Get, Put, Replace};
use opkeep_testkit::remote::{FakeRemote, key_in, names};

use crate::common::{
    Host, TARGET, build, builder, claim, entry_name, hit, key, local_builder, open, pending, publish, settle,
    take, text, until, writer,
};

pub(super) type Key = Arc<SigningKey>;

pub(super) fn new_key(name: &str) -> Key {
    Arc::new(SigningKey::generate(name.parse().unwrap()).unwrap())
}

pub(super) fn signer(key: &Key) -> SignerId {
    key.public_key().signer()
}

pub(super) fn trusting(keys: &[&Key]) -> SignaturePolicy {
    SignaturePolicy::Required(keys.iter().map(|key| key.public_key().clone()).collect())
}

/// The settings of a host that signs with `signs` and trusts `trusted`; `None`: every entry.
pub(super) fn trust(signs: Option<&Key>, trusted: Option<&[&Key]>) -> TrustConfig {
    let policy = trusted.map_or(SignaturePolicy::Ignored, trusting);
    let config = TrustConfig::new(policy);
    signs.map_or(config.clone(), |key| config.with_signing_key(Arc::clone(key)))
}

pub(super) fn remote_config(remote: &FakeRemote) -> RemoteConfig {
    RemoteConfig::new(Arc::new(remote.clone()))
}

pub(super) fn host_key_file(host: &Host) -> PathBuf {
    host.dir.path().join("private/host-key")
}

pub(super) fn config(host: &Host, remote: &RemoteConfig, trust: &TrustConfig) -> CacheConfig {
    let mut config = host.config();
    config.remote = Some(remote.clone());
    config.trust = trust.clone();
    config.trust.host_key_file.get_or_insert_with(|| host_key_file(host));
    config
}

pub(super) fn cache(host: &Host, remote: &FakeRemote, trust: &TrustConfig) -> TargetCache {
    open(config(host, &remote_config(remote), trust))
}

/// The same for a host without a store, which takes less time to open.
pub(super) fn storeless(host: &Host, remote: &FakeRemote, trust: &TrustConfig) -> TargetCache {
    let mut config = config(host, &remote_config(remote), trust);
    config.store = None;
    open(config)
}

pub(super) fn name_of(name: &str, key: &Key) -> ObjectName {
    names(TARGET).entry_of(&self::key(name), Some(signer(key)))
}

/// What a signature covers.
#[derive(Clone, Copy)]
pub(super) struct Statement<'a> {
    pub(super) format: u32,
    pub(super) namespace: &'a str,
    pub(super) target: &'a str,
    pub(super) name: &'a str,
}

pub(super) const RIGHT: Statement<'static> =
    Statement { format: ENTRY_FORMAT, namespace: "default", target: TARGET, name: "relu" };

impl Statement<'_> {
    /// The signatures of `signers` over `members` for this.
    pub(super) fn sign(&self, members: &EntryBuilder<'_>, signers: &[&SigningKey]) -> Signatures {
        let key = key(self.name);
        let digests: Vec<_> =
            members.members().map(|(name, bytes, _)| (name, bytes.len() as u64, Digest::of(bytes))).collect();
        let heads = digests.iter().map(|(name, bytes, digest)| MemberDigest { name, bytes: *bytes, digest });
        let content = EntryDigest::of(&key, heads).unwrap();
        let Statement { format, namespace, target, .. } = *self;
        let message = SignedEntry { format, namespace, target, key: &key, content: &content }.message();
        signers.iter().map(|signer| signer.sign(&message)).collect()
    }
}

/// The file of the entry of `name` with these signatures.
pub(super) fn file(name: &str, members: &EntryBuilder<'_>, signatures: &[u8]) -> Vec<u8> {
    members.clone().lazy(SIGNATURES_MEMBER, signatures).encode(&key(name)).unwrap()
}

pub(super) fn signatures_of(file: Vec<u8>) -> Signatures {
    let entry = Entry::decode(file, None).unwrap();
    let member = entry.lazy_member(SIGNATURES_MEMBER).unwrap();
    Signatures::parse(member.unwrap_or_default()).unwrap()
}

/// The names in signatures, without the numbers of host keys.
pub(super) fn signers_in(signatures: &Signatures) -> Vec<String> {
    let shown = |name: &str| if name.starts_with("host-") { "host".to_owned() } else { name.to_owned() };
    let mut names: Vec<_> = signatures.iter().map(|signature| shown(signature.key_name().as_str())).collect();
    names.sort();
    names
}

/// The names in the signatures of a stored entry.
pub(super) fn stored_signers(cache: &TargetCache, name: &str) -> Vec<String> {
    match cache.store().unwrap().peek(&key(name)) {
        Lookup::Hit(entry) => signers_in(&signatures_of(entry.to_builder().encode(&key(name)).unwrap())),
        Lookup::Miss(miss) => panic!("{miss}"),
    }
}
