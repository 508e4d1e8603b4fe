//! A server that a test starts, stops and starts again.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use tempfile::TempDir;

use super::certificates::TlsFiles;
use super::options::{S3_ACCESS_KEY, S3_SECRET_KEY, ServerKind};
use super::process::Process;
use super::{disk, policies, ready};
use crate::port::Port;

/// A running server, or one that was stopped and can be started again.
pub struct Server {
    kind: ServerKind,
    tls: Option<TlsFiles>,
    port: Port,
    directory: TempDir,
    process: Option<Process>,
}

impl Server {
    /// Starts a server, and returns as soon as it answers.
    ///
    /// # Errors
    /// It is not installed, ends at once, or does not answer within a minute. The message has the end of its log.
    pub fn start(kind: ServerKind) -> io::Result<Self> {
        Self::start_with(kind, None)
    }

    /// Starts a server that speaks TLS only.
    ///
    /// # Errors
    /// As [`start`](Self::start), or the server has no TLS (s3s-fs).
    pub fn start_with_tls(kind: ServerKind, tls: TlsFiles) -> io::Result<Self> {
        Self::start_with(kind, Some(tls))
    }

    fn start_with(kind: ServerKind, tls: Option<TlsFiles>) -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("opkeep-server-").tempdir()?;
        let mut server = Self { kind, tls, port: Port::reserve()?, directory, process: None };
        server.restart()?;
        Ok(server)
    }

    /// Kills the server if it runs, starts it again on the same port, and returns as soon as it answers. s3s-fs and a persistent
    /// Redis still have their objects, the others are empty.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn restart(&mut self) -> io::Result<()> {
        self.kill()?;
        let log = self.log_path();
        let mut command = self.kind.command(self.port.number(), self.directory.path(), self.tls.as_ref())?;
        let process = self.process.insert(Process::spawn(&mut command, &log)?);
        let ready = ready::wait(&self.kind, self.port.address(), self.tls.as_ref(), process);
        ready.map_err(|error| {
            let log = self.log();
            let end = log.char_indices().rev().nth(2000).map_or(0, |(place, _)| place);
            io::Error::new(error.kind(), format!("{} did not start: {error}\n{}", self.kind, &log[end..]))
        })
    }

    /// Kills the server, as `kill -9` does. Does nothing if it does not run.
    ///
    /// # Errors
    /// The process cannot be killed.
    pub fn kill(&mut self) -> io::Result<()> {
        self.process.take().map_or(Ok(()), |mut process| process.end(Signal::KILL))
    }

    /// Asks the server to end, as `kill` does, and waits until it has.
    ///
    /// # Errors
    /// It does not end within 20 s.
    pub fn stop(&mut self) -> io::Result<()> {
        self.process.take().map_or(Ok(()), |mut process| process.end(Signal::TERM))
    }

    /// Stops the server's threads: connections stay open, new ones are accepted by the kernel, and no answer comes.
    ///
    /// # Errors
    /// It does not run.
    pub fn suspend(&self) -> io::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets a suspended server go on.
    ///
    /// # Errors
    /// It does not run.
    pub fn resume(&self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        self.process.as_ref().ok_or(io::ErrorKind::NotConnected)?.signal(signal)
    }

    /// The process number, if the server runs.
    pub fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Which server it is.
    pub fn kind(&self) -> &ServerKind {
        &self.kind
    }

    /// Where it listens. It stays the same.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Its URL for the remote tier, with the bucket of an S3 server and the password of a Redis that has one.
    pub fn url(&self) -> String {
        self.url_at(self.address())
    }

    /// Its URL at another address: that of a proxy.
    pub fn url_at(&self, address: SocketAddr) -> String {
        self.kind.url(address, self.tls.is_some())
    }

    /// Variables for the environment of a client: the credentials of an S3 server, and nothing for others.
    pub fn environment(&self) -> Vec<(&'static str, &'static str)> {
        match self.kind {
            ServerKind::Moto | ServerKind::S3sFs => vec![
                ("AWS_ACCESS_KEY_ID", S3_ACCESS_KEY),
                ("AWS_SECRET_ACCESS_KEY", S3_SECRET_KEY),
                ("AWS_REGION", "us-east-1"),
            ],
            ServerKind::Redis(_) | ServerKind::BuildGrid(_) => Vec::new(),
        }
    }

    /// Creates a user of a moto server for each policy, and lets the server enforce policies from now on. Returns the access key and
    /// the secret of each.
    ///
    /// # Errors
    /// The server is another one, or refuses that.
    pub fn restrict(&self, policies: &[&str]) -> io::Result<Vec<(String, String)>> {
        match self.kind {
            ServerKind::Moto => policies::restrict(self.address(), policies),
            _ => Err(io::Error::new(io::ErrorKind::Unsupported, "only moto_server has policies")),
        }
    }

    /// The directory of its files.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// What it printed, since its first start.
    pub fn log(&self) -> String {
        disk::text(&self.log_path()).unwrap_or_default()
    }

    fn log_path(&self) -> PathBuf {
        self.directory.path().join("server.log")
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("kind", &self.kind).field("address", &self.address()).finish()
    }
}
