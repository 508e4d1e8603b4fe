//! Clients of the engines through which hosts share a kernel cache.
//!
//! [`open`] turns a URL into a [`RemoteEngine`], and [`RemoteSettings`] turns settings in texts into all that a cache needs. The cache decides what an engine is asked, when it is asked again, and
//! whether its answers are used; a client only speaks the protocol of its engine, within the limits of each call.
//!
//! | URL | engine |
//! |---|---|
//! | `redis://[user:password@]host[:port][/database][?prefix=P]`, `rediss://...` with TLS | a Redis server |
//! | `s3://bucket[/prefix][?endpoint=URL][&region=R][&style=path\|virtual][&profile=P]` | a bucket of an S3 server |
//! | `grpc://host:port[/instance]`, `grpcs://...` with TLS | a server of the Bazel Remote Execution API, version 2 |
//! | `file:///directory` | a directory of a file system that all hosts mount |
//!
//! Characters that have a meaning in a URL are written as `%` and two hexadecimal digits. A URL may contain a password, and
//! [`OpenOptions`] headers with keys: no error, no [`location`](RemoteEngine::location) and no `Debug` output of this crate shows
//! them.

pub mod check;
mod check_objects;
mod error;
mod file;
mod headers;
mod http;
mod left_behind;
mod listing;
mod net;
mod open;
mod options;
#[cfg(feature = "grpc")]
mod reapi;
mod redis;
mod renewable;
mod s3;
mod server_text;
pub mod settings;
mod url;

pub use check_objects::{CHECK_PREFIX, is_check_object};
pub use error::OpenError;
pub use headers::{HeaderError, Headers};
pub use listing::list_all;
pub use open::open;
pub use options::{ClientCertificate, HeaderSource, OpenOptions, Variable};
pub use settings::{RemoteSettings, SettingText, SettingsError, Variables};
pub use url::{Endpoint, FileUrl, Host, ReapiUrl, RedisUrl, RemoteUrl, S3Style, S3Url, Secret, UrlError};

pub use opkeep_cache::RemoteEngine;
