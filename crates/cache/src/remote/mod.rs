//! A cache on other hosts: the interface that its client implements, and the calls to it.
//!
//! A remote tier never fails a build, and is not trusted: each entry is decoded, all of its digests are checked, its
//! validation stamp is set to 0, and the caller decides whether to use it. After a failed call there is a warning, and the
//! entry is built locally.
//!
//! Each call ends at the timeout in the configuration, or at the caller's deadline or cancellation if that is earlier.

mod call;
mod client;
mod engine;
mod health;
mod lease;
mod lease_wait;
mod object;
mod tier;

pub(crate) use call::Limits;
pub(crate) use client::{LeaseAttempt, RemoteClient};
pub use engine::{
    Capabilities, ClaimAnswer, ClaimTerms, ExclusiveCreate, ListedObject, Listing, PutAnswer, RemoteEngine,
    RemoteObject,
};
pub(crate) use lease::HeldLease;
pub(crate) use lease_wait::LeaseWait;
pub use object::{LeaseToken, LeaseValue, LeaseValueError, ObjectName, ObjectNameError};
pub use tier::{
    Lease, LeaseGuard, RemoteConfig, RemoteContext, RemoteError, RemoteKey, RemotePolicy, RemoteTier,
};
