//! A cache of compiled kernels: a caller gets an entry, or builds it and publishes it.
//!
//! A [`Cache`] consists of a local store and, optionally, a remote tier. [`TargetCache::get_or_begin`] returns the entry under
//! a key, or a [`Ticket`]: the duty to build the entry while other callers wait. The cache knows no operator. Its caller
//! decides what a key covers, which members an entry has, and whether an entry is used ([`Query::accept`]).
//!
//! ```text
//! look ─ hit ──────────────────────────────────────────────> Hit(Local)
//!   │ miss
//! lock the key ─ held ──> Pending ─ resume ─┬─ its holder published ──> Hit(Waited)
//!   │                                       ├─ its holder failed ─────> HolderFailed
//!   │                                       ├─ its holder is stale ───> Unshared
//!   │                                       └─ its holder exited ─────> (locked)
//! look again, quarantine what is damaged
//!   │
//! remote tier: get ─ hit ─ check, accept, put locally ─────> Hit(Remote)
//!   │                lease ─ another host has it ──> Pending, with the key locked
//!   └─────────────────────────────────────────────> Build(Ticket) ─ publish, abandon, or drop
//! ```
//!
//! A host without locks requests a lease from the remote tier nevertheless; if the lease is granted, the ticket is a `Build`
//! ticket. With the mode `force` no host uses the entries that another one publishes, and there are no leases.
//!
//! Each key is locked with a file lock of the store. So of all processes of a host that miss an entry, one builds it; if that
//! process exits, one of the waiters takes over within 50 ms. A hit needs no lock. If the store cannot be written, or has no
//! locks, the caller gets an unshared ticket and a warning. A store that refuses writes is tried again after a pause. A store
//! that is opened for reading has no locks, since no waiter could find the kernel in it. A waiter's timeout runs from the
//! holder's last heartbeat.
//!
//! ```
//! use opkeep_cache::{Accept, Cache, CacheConfig, Claim, Query};
//! use opkeep_digest::Digest;
//! use opkeep_store::{EntryBuilder, StoreConfig};
//!
//! # let dir = tempfile::tempdir()?;
//! let cache = Cache::open(CacheConfig::new(StoreConfig::new(dir.path())))?;
//! let target = cache.target("cpu-x86_64")?;
//! let key = Digest::of(b"everything that can change the kernel's bytes");
//!
//! let accept = |_: &_| Accept::Take;
//! for round in 0..2 {
//!     match target.get_or_begin(&key, &Query::new(&accept))? {
//!         Claim::Hit(hit) => assert_eq!((round, hit.entry.member("object")), (1, Some(&b"\x7fELF..."[..]))),
//!         Claim::Build(ticket) => {
//!             ticket.publish(&EntryBuilder::new(1).eager("object", b"\x7fELF..."))?;
//!         }
//!         other => panic!("no other caller uses this store: {other:?}"),
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod arrivals;
mod begin_many;
mod byte_queue;
mod cache;
mod call_clock;
mod claim;
mod claimed_leases;
mod error;
mod event;
mod failure;
mod fetch;
mod fetch_turn;
mod for_others;
mod kept_lock;
mod miss;
mod nothing_sent;
mod outage;
mod peek;
mod pending;
mod per_process;
mod plan_bundle;
mod plan_lease;
mod protocol;
mod publish;
mod push;
mod query;
mod random;
mod refusal;
mod remote;
mod running_time;
mod signing;
mod tally;
mod target;
mod ticket;
mod tiers;
mod timer;
mod unshared;
mod upload;
mod wait_budget;
mod warning;

pub use cache::{Cache, CacheConfig};
pub use claim::{Claim, Hit, Source};
pub use error::{CacheError, FoundError, PublishError};
pub use event::{CacheEvent, OnEvent};
pub use failure::Failure;
pub use fetch::FetchReport;
pub use for_others::IsForOthers;
pub use miss::Miss;
pub use nothing_sent::NothingSent;
pub use peek::RemoteStatus;
pub use pending::PendingKey;
pub use push::PushReport;
pub use query::{Accept, BeforeClaim, Query, UNKNOWN_WAIT, Wait};
pub use refusal::RefusalKind;
pub use remote::lease;
pub use remote::stored_name::{StoredKind, StoredName};
pub use remote::{
    Capabilities, ClaimAnswer, ClaimTerms, EngineSpace, ExclusiveCreate, IdleTimeout, LeaseToken, LeaseValue,
    LeaseValueError, ListedObject, Listing, Namespace, NamespaceError, ObjectName, ObjectNameError,
    ObjectNames, PutAnswer, RemoteConfig, RemoteContext, RemoteEngine, RemoteError, RemoteObject,
    RemotePolicy, RemotePolicyError,
};
pub use signing::TrustConfig;
pub use target::TargetCache;
pub use ticket::{Published, Ticket};
pub use unshared::UnsharedReason;
pub use wait_budget::WaitBudget;
pub use warning::{OnWarning, WarningKind};

// The types of other crates in the signatures of this one, and these crates, for the types in their signatures.
pub use opkeep_digest::Digest;
pub use opkeep_fs::CancelToken;
pub use opkeep_store::{
    CacheMode, Corruption, Entry, EntryBuilder, EntryMembers, Lookup, PutOutcome, Store, StoreConfig,
    StoreError, TargetStore,
};
pub use {opkeep_digest as digest, opkeep_fs as fs, opkeep_store as store, opkeep_trust as trust};
