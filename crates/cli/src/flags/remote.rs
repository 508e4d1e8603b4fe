//! Arguments that name the remote cache.

use opkeep_cache::{Namespace, RemotePolicy};

use crate::config::Settings;

/// The cache that hosts share, and its use.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct RemoteArgs {
    /// The cache that hosts share: redis://, s3://, grpc:// or file://
    ///
    /// An engine that exists: redis://HOST[:PORT][/DATABASE], rediss://..., s3://BUCKET[/PREFIX][?endpoint=URL],
    /// grpc://HOST:PORT[/INSTANCE], grpcs://..., or file:///DIRECTORY on a file system that all hosts mount.
    ///
    /// A kernel that a host needs and the store lacks is taken from there, is compiled by one of the hosts that need
    /// it at the same time, and is sent there. An engine that does not work is a warning.
    ///
    /// [default: $OPKEEP_REMOTE, if unset none]
    #[arg(long, value_name = "URL")]
    pub(crate) remote: Option<String>,
    /// How the remote cache is used: off, read or read-write
    ///
    /// With off, it is not used at all.
    ///
    /// [default: $OPKEEP_REMOTE_MODE, if unset read-write]
    #[arg(long, value_name = "MODE")]
    pub(crate) remote_mode: Option<RemotePolicy>,
    /// The part of the remote cache
    ///
    /// Products and teams that use one engine choose different names.
    ///
    /// [default: $OPKEEP_REMOTE_NAMESPACE, if unset default]
    #[arg(long, value_name = "NAME")]
    pub(crate) remote_namespace: Option<Namespace>,
    #[command(flatten)]
    pub(crate) config: Settings,
}
