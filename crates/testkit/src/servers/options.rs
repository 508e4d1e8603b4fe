//! The servers that tests start, and the commands that start them.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::certificates::TlsFiles;
use super::{disk, installed, moto};

/// The bucket that each S3 server has.
pub const S3_BUCKET: &str = "opkeep";
/// The access key that the S3 servers take.
pub const S3_ACCESS_KEY: &str = "AK";
/// The secret key that belongs to it.
pub const S3_SECRET_KEY: &str = "SKSKSKSK";

/// A server, with its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerKind {
    /// redis-server. In it, an exclusive create has one winner.
    Redis(RedisOptions),
    /// moto_server: S3 in memory, where a conditional PUT has one winner.
    Moto,
    /// s3s-fs: S3 in a directory, where several conditional PUTs of one name at the same time may all succeed.
    S3sFs,
    /// BuildGrid: the Remote Execution API's caches, in memory.
    BuildGrid(BuildGridOptions),
}

/// Options of a Redis server. By default it has no limit, no password, and keeps nothing on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedisOptions {
    /// The most memory in bytes (`maxmemory`), with the policy of what goes first (`maxmemory-policy`), such as `allkeys-lru`.
    pub memory: Option<(u64, &'static str)>,
    /// The password (`requirepass`).
    pub password: Option<String>,
    /// Whether every change is on disk before it is answered, so that a restarted server has it.
    pub is_persistent: bool,
    /// Further arguments.
    pub arguments: Vec<String>,
}

/// Options of a BuildGrid server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BuildGridOptions {
    /// Whether an action result cannot be replaced (`!write-once-action-cache`): then one of several creates succeeds. Otherwise
    /// all do.
    pub is_write_once: bool,
}

impl fmt::Display for ServerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Redis(_) => "redis-server",
            Self::Moto => "moto_server",
            Self::S3sFs => "s3s-fs",
            Self::BuildGrid(_) => "BuildGrid",
        })
    }
}

impl ServerKind {
    /// A Redis with default options.
    pub fn redis() -> Self {
        Self::Redis(RedisOptions::default())
    }

    /// Each server once, with default options; BuildGrid also with an action cache that writes once.
    pub fn all() -> [Self; 5] {
        [
            Self::redis(),
            Self::Moto,
            Self::S3sFs,
            Self::BuildGrid(BuildGridOptions::default()),
            Self::BuildGrid(BuildGridOptions { is_write_once: true }),
        ]
    }

    /// Why the server cannot be started here; `None` if it is installed.
    pub fn missing(&self) -> Option<String> {
        self.program().err()
    }

    fn program(&self) -> Result<PathBuf, String> {
        match self {
            Self::Redis(_) => installed::of_system("redis-server"),
            Self::Moto => installed::of_tests("moto_server"),
            Self::S3sFs => installed::of_tests("s3s-fs"),
            Self::BuildGrid(_) => installed::of_tests("bgd"),
        }
    }

    pub(super) fn url(&self, address: SocketAddr, has_tls: bool) -> String {
        let tls = if has_tls { "s" } else { "" };
        match self {
            Self::Redis(options) => match &options.password {
                Some(password) => format!("redis{tls}://:{password}@{address}"),
                None => format!("redis{tls}://{address}"),
            },
            Self::Moto | Self::S3sFs => format!("s3://{S3_BUCKET}/cache?endpoint=http{tls}://{address}"),
            Self::BuildGrid(_) => format!("grpc{tls}://{address}"),
        }
    }

    /// The command that starts the server in the foreground, with its files in `directory`.
    pub(super) fn command(&self, port: u16, directory: &Path, tls: Option<&TlsFiles>) -> io::Result<Command> {
        let program = self.program().map_err(|reason| io::Error::new(io::ErrorKind::NotFound, reason))?;
        let mut command = Command::new(program);
        command.current_dir(directory);
        let port = port.to_string();
        match self {
            Self::Redis(options) => redis(&mut command, &port, options, tls),
            Self::Moto => {
                command = moto::command(&port, tls)?;
                command.current_dir(directory);
            }
            Self::S3sFs => {
                if tls.is_some() {
                    return Err(io::Error::new(io::ErrorKind::Unsupported, "s3s-fs has no TLS"));
                }
                let data = directory.join("data");
                // A bucket is a directory.
                disk::create_dir(&data.join(S3_BUCKET))?;
                command.args(["--host", "127.0.0.1", "--port", &port]);
                command.args(["--access-key", S3_ACCESS_KEY, "--secret-key", S3_SECRET_KEY]).arg(&data);
            }
            Self::BuildGrid(options) => {
                let configuration = directory.join("bgd.yml");
                disk::write(&configuration, &buildgrid(&port, *options, tls))?;
                command.args(["server", "start"]).arg(&configuration);
            }
        }
        Ok(command)
    }
}

fn redis(command: &mut Command, port: &str, options: &RedisOptions, tls: Option<&TlsFiles>) {
    command.args(["--bind", "127.0.0.1", "--save", "", "--loglevel", "notice"]);
    match tls {
        None => command.args(["--port", port]),
        Some(tls) => {
            let auth_clients = if tls.demands_clients { "yes" } else { "no" };
            command.args(["--port", "0", "--tls-port", port, "--tls-auth-clients", auth_clients]);
            command.arg("--tls-cert-file").arg(&tls.certificate).arg("--tls-key-file").arg(&tls.key);
            command.arg("--tls-ca-cert-file").arg(&tls.authority)
        }
    };
    match options.is_persistent {
        true => command.args(["--appendonly", "yes", "--appendfsync", "always"]),
        false => command.args(["--appendonly", "no"]),
    };
    if let Some((bytes, policy)) = options.memory {
        command.args(["--maxmemory", &bytes.to_string(), "--maxmemory-policy", policy]);
    }
    if let Some(password) = &options.password {
        command.args(["--requirepass", password]);
    }
    command.args(&options.arguments);
}

/// The configuration of a BuildGrid server with the three services of a cache, in one instance without a name.
fn buildgrid(port: &str, options: BuildGridOptions, tls: Option<&TlsFiles>) -> String {
    let channel = match tls {
        None => "    insecure-mode: true\n".to_owned(),
        Some(tls) => {
            let clients = match tls.demands_clients {
                false => String::new(),
                true => format!("      tls-client-certs: {}\n", tls.authority.display()),
            };
            format!(
                "    insecure-mode: false\n    credentials:\n      tls-server-key: {}\n      tls-server-cert: {}\n{clients}",
                tls.key.display(),
                tls.certificate.display()
            )
        }
    };
    let cache = match options.is_write_once {
        false => "*lru",
        true => "*once",
    };
    let once = match options.is_write_once {
        false => "",
        true => "  - !write-once-action-cache &once\n    action-cache: *lru\n",
    };
    format!(
        "\
server:
  - !channel
    address: 127.0.0.1:{port}
{channel}
description: caches for tests

authorization:
  method: none

storages:
  - !lru-storage &storage
    size: 512M

caches:
  - !lru-action-cache &lru
    storage: *storage
    max-cached-refs: 1000000
    allow-updates: true
{once}
instances:
  - name: ''
    storages: [*storage]
    caches: [{cache}]
    services:
      - !action-cache
        cache: {cache}
      - !cas
        storage: *storage
      - !bytestream
        storage: *storage
"
    )
}
