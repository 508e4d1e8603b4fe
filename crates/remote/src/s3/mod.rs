//! The client of an S3 server.
//!
//! An object is an object under the URL's prefix and its name, and so is a lease. Many objects are requested at the same time over
//! several connections: S3 has no request for many. A lease is created by `PUT` with `If-None-Match: *`, and changed by `PUT` with
//! `If-Match`. No answer of a server proves that one of several such requests succeeds; some servers let all succeed. Nothing
//! expires: a lifecycle rule of the bucket deletes what is old, leases among it. There are no counters.
//!
//! An access key needs `s3:GetObject` to read, `s3:PutObject` and `s3:DeleteObject` to write, and `s3:ListBucket` for listings.
//! Without `s3:ListBucket` a server answers a request for a missing object with `AccessDenied`, as if the key could not read at
//! all. That answer therefore counts as a missing object, and a key that cannot read finds an empty cache instead of an error.
//!
//! Credentials are, in this order: those in the environment, unless the URL has a profile; the profile in the file of credentials;
//! the profile in the configuration file. When the server answers that they have expired, they are read again. Roles, single
//! sign-on, processes that print credentials, and the metadata services of machines and containers are not supported: a program
//! that knows them writes temporary credentials to the file.
//!
//! HTTP is spoken over this crate's own connections, and not by the crate `ureq`: every wait must end at the call's deadline and
//! soon after its cancellation, and ureq's interface for that is outside its promise of stable versions.

mod credentials;
mod engine;
mod error;
mod fetch;
mod leases;
mod listing;
mod parallel;
mod place;
mod profile;
mod sign;
mod store;
mod time;
mod xml;

pub(crate) use engine::S3Engine;
pub(crate) use place::Place;
