//! A cache that hosts share: the interface that the client of an engine implements, the calls to it, and the leases of hosts.
//!
//! A remote tier never fails a build, and is not trusted: each entry is decoded, all of its digests and, with trusted keys, its
//! signatures are checked, its validation stamp is set to 0, and the caller decides whether to use it. After a failed call there is
//! a warning, and the entry is built locally.
//!
//! Each call ends at the timeout in the configuration, or at the caller's deadline or cancellation if that is earlier. A caller that waits
//! for an answer does so only while the engine sends or takes bytes: when it is idle for
//! [`idle_timeout`](RemoteConfig::idle_timeout), the call fails, and the engine is paused at once. So an engine that hangs costs one
//! idle timeout, and one more after each pause; pauses become longer. Whatever an engine does, the calls of a build end when they have
//! taken as long as its compiles may take ([`WaitBudget`]).

mod answer_size;
mod arrival;
mod arrived;
mod asked;
mod board;
mod board_state;
mod bundles;
mod call;
mod client;
mod config;
mod context;
mod engine;
mod entry_names;
mod error;
mod fetched_keys;
mod health;
mod idle_timeout;
pub mod lease;
mod names;
mod object;
mod problems;
mod store;
pub(crate) mod stored_name;
mod tier;
mod watch;

pub(crate) use arrival::{Arrival, Asking, News};
pub(crate) use board::LookOutcome;
pub(crate) use bundles::UnbundledPlan;
pub(crate) use call::{Limits, guarded};
pub use config::{RemoteConfig, RemotePolicy, RemotePolicyError};
pub use context::RemoteContext;
pub use engine::{
    Capabilities, ClaimAnswer, ClaimTerms, EngineSpace, ExclusiveCreate, ListedObject, Listing, PutAnswer,
    RemoteEngine, RemoteObject,
};
pub(crate) use entry_names::EntryNames;
pub use error::RemoteError;
pub(crate) use health::Pause;
pub use idle_timeout::IdleTimeout;
pub use names::{Namespace, NamespaceError, ObjectNames};
pub use object::{LeaseToken, LeaseValue, LeaseValueError, ObjectName, ObjectNameError};
pub(crate) use problems::CallFailure;
pub(crate) use tier::{Claimed, FoundBundle, RemoteTarget, RemoteTier, SentEntry};
pub(crate) use watch::Watch;
