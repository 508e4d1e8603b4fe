//! The cache for frameworks that compile by themselves: named files under the caller's key.
//!
//! A framework such as Triton has its own compiler and its own keys. It needs two calls: get the files of a kernel, or begin
//! to make them; then publish them. This crate is these two calls, with the promises of the store: files are complete or not
//! there, every byte is checked at each hit, and one process compiles while the others wait. The C and the Python interface
//! bind it.
//!
//! ```text
//! FileCache::open ─> target(name) ─> get_or_begin(key) ─┬─> Hit(FileGroup)                 the files, checked
//!                                                       ├─> Begin(GroupTicket)             publish, abandon, or drop
//!                                                       ├─> Unshared(GroupTicket, reason)  make them; others may do so, too
//!                                                       ├─> HolderFailed(reason)           another caller failed for a reason
//!                                                       │                                  that holds for this one as well
//!                                                       └─> TimedOut, Cancelled
//! ```
//!
//! * **Keys.** The caller's key is 32 bytes that cover everything which can change the files. The key of the entry also
//!   covers the framework's name, the target, the name of the group and the content of the compilers ([`FileKey`]).
//! * **Renewal.** While a ticket is held, a thread of this crate gives the waiters a heartbeat each second, for at most
//!   [`Options::hold_limit`], and then frees them. If the process is killed, a waiter takes over within 50 ms; if it is stopped, after
//!   [`Options::stale_after`].
//! * **No deadlock.** A thread that holds a ticket does not wait for another key: it gets an unshared ticket instead. Two
//!   processes that need each other's kernels compile one of them twice. A thread may wait for another thread of its process
//!   that waits: so while a process holds a ticket, a wait for another key ends after [`Options::wait_with_ticket`], also with
//!   an unshared ticket. So does a wait for a thread of the same process, after [`Options::wait_in_process`]. A wait in a
//!   process that the holder of a ticket started ends after [`Options::hold_limit`] at most.
//! * **Other hosts.** With a remote cache ([`CacheConfig::remote`](opkeep_cache::CacheConfig::remote)), files that another host made
//!   are a hit: after their digests, their signatures and the rules that are stored with them were checked. One host makes files while
//!   the others wait for its lease, for [`Options::wait_for_host`] at most. A slow engine costs a request
//!   [`FileCacheConfig::remote_limit`] at most. A thread sends what was published; a program that ends calls [`FileCache::close`], and what is not
//!   sent by then the next one sends. Files that work on one machine only ([`Options::stays_here`], [`NewGroup::is_local`]) are neither
//!   sent nor asked for. [`TargetFiles::get_or_begin_many`] requests many keys in one call.
//! * **Directories.** [`GroupDir`] makes the files of a hit lie where a framework reads them, with the bytes of the entry.
//! * **Forks.** A forked child may use the cache of its parent: it opens the store again. A ticket belongs to the process that
//!   got it; in a child, it is an error to publish it, and dropping it releases nothing. A child of another user opens the
//!   store as that user, who may not trust it: then each caller makes its files.
//! * **Closed files.** A program may close all files of its process, as daemons do: each ticket's lock ends then, and other
//!   callers may make the same files. Files that get the numbers of the closed ones are not touched.
//! * **Full disks.** A store that refuses writes is read on, and written again after a pause
//!   ([`CacheConfig::write_pause`](opkeep_cache::CacheConfig::write_pause)). A removed one is created again.
//!
//! ```
//! use opkeep_embed::{FileCache, FileCacheConfig, FileKey, GroupClaim, NewGroup, Options};
//! use opkeep_store::StoreConfig;
//!
//! # let dir = tempfile::tempdir()?;
//! let cache = FileCache::open(FileCacheConfig::new(StoreConfig::new(dir.path()), "example"))?;
//! let target = cache.target("cuda-sm_90")?;
//! let key = FileKey::new([7; 32]);
//!
//! match target.get_or_begin(&key, &Options::default())? {
//!     GroupClaim::Begin(ticket) => ticket.publish(&NewGroup::new([("add.ptx", &b".version 8.0"[..])]))?,
//!     other => panic!("no other caller uses this store: {other:?}"),
//! };
//! match target.get_or_begin(&key, &Options::default())? {
//!     GroupClaim::Hit(group) => assert_eq!(group.get("add.ptx"), Some(&b".version 8.0"[..])),
//!     other => panic!("the files were published: {other:?}"),
//! };
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod accept;
mod batch;
mod cache;
mod claim;
mod config;
mod directory;
mod error;
mod group;
mod held;
mod holders;
mod key;
mod limits;
mod new_group;
mod options;
mod process;
mod renewal;
mod request;
mod target;
mod texts;
mod ticket;

pub use cache::FileCache;
pub use claim::{GroupClaim, UnsharedReason};
pub use config::FileCacheConfig;
pub use directory::{DirectoryError, FileContent, GroupDir};
pub use error::EmbedError;
pub use group::FileGroup;
pub use key::FileKey;
pub use limits::{MAX_TEXT_BYTES, MAX_TOOLCHAIN_PARTS};
pub use new_group::{NewGroup, encode_rules};
pub use options::Options;
pub use target::{Held, HeldKey, TargetFiles};
pub use ticket::GroupTicket;

// The types of other crates in the signatures of this one.
pub use opkeep_artifact::Expectations;
pub use opkeep_cache::trust::TrustError;
pub use opkeep_cache::{
    CacheConfig, CacheError, CacheMode, CancelToken, FoundError, OnWarning, PublishError, StoreConfig,
    WaitBudget, WarningKind,
};
pub use opkeep_digest::{Digest, Fingerprint};
pub use opkeep_kernel_entry::{
    GroupRecord, MAX_GROUP_FILES, StoredExpectations, original_file_name, stored_file_name,
};
pub use opkeep_store::MemberHead;
