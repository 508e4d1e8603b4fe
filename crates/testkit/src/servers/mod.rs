//! Real servers for tests: Redis, two that speak S3, one of the Remote Execution API. Each listens on a loopback port of its own,
//! has its files in a temporary directory, and ends when it is dropped or its test program ends.
//!
//! `cargo xtask remote-servers` installs them. A test that needs one is a trial from [`trial`], which is ignored where the server is
//! not installed.

mod certificates;
mod disk;
mod installed;
mod moto;
mod namespaces;
mod options;
mod policies;
mod process;
mod ready;
mod server;
mod slurm;
mod trials;

pub use certificates::{CertificateKind, TestAuthority, TlsFiles};
pub use installed::{of_system as program_of_system, of_tests as program_of_tests};
pub use namespaces::namespaces_missing;
pub use options::{BuildGridOptions, RedisOptions, S3_ACCESS_KEY, S3_BUCKET, S3_SECRET_KEY, ServerKind};
pub use server::Server;
pub use slurm::SlurmCluster;
pub use trials::{SharedServer, trial, trial_with};
