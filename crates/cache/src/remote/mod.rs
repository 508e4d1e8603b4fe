//! A cache on other hosts: the interface that a client of one implements, and how it is called.
//!
//! Nothing that a remote tier does fails a build, and none of its entries is believed: each is decoded, all of its digests
//! are checked, its validation stamp is set to 0, and the caller judges it. A call that fails is a warning and a local build.
//!
//! Each call ends with the timeout of its configuration, or with the caller's deadline or token if that is sooner.

mod call;
mod client;
mod health;
mod lease;
mod lease_wait;
mod tier;

pub(crate) use call::Limits;
pub(crate) use client::{LeaseAttempt, RemoteClient};
pub(crate) use lease::HeldLease;
pub(crate) use lease_wait::LeaseWait;
pub use tier::{
    Lease, LeaseGuard, RemoteConfig, RemoteContext, RemoteError, RemoteKey, RemotePolicy, RemoteTier,
};
