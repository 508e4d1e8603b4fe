//! A TCP proxy on loopback that makes a network slow, or lets it fail at any byte of a dialogue.

mod edit;
mod hanging;
mod relay;
mod settings;
mod state;

pub use hanging::HangingPort;
pub use settings::{Counted, Direction, Fault, FaultKind, ProxySettings};
pub use state::ProxyCounts;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crate::port::Port;
use state::Shared;

/// A proxy between clients and one server. It ends, with all its connections, when it is dropped.
///
/// A test that is exhaustive over a dialogue sets a fault after 0, 1, 2, ... bytes, runs the dialogue, and stops as soon as
/// [`happened`](Self::happened) says that the dialogue ended before the fault.
#[derive(Debug)]
pub struct Proxy {
    port: Port,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy to the server at this address. The server may start later: clients see that their connection is closed.
    ///
    /// # Errors
    /// No port or no thread is to be had.
    pub fn start(server: SocketAddr) -> io::Result<Self> {
        let port = Port::reserve()?;
        let shared = Arc::new(Shared::new(server, relay::listen(port.number())?));
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new().name("proxy".into()).spawn(move || relay::run(&of_thread))?;
        Ok(Self { port, shared, thread: Some(thread) })
    }

    /// Where clients connect to. It stays the same.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Replaces the settings, which apply at once, except that bytes on their way keep their delay. The positions of faults count
    /// from here.
    ///
    /// # Errors
    /// Connections were refused, and cannot be accepted again.
    pub fn set(&self, settings: ProxySettings) -> io::Result<()> {
        self.shared.set(settings, || relay::listen(self.port.number()))
    }

    /// The settings.
    pub fn settings(&self) -> ProxySettings {
        self.shared.settings()
    }

    /// Sends later connections to another server.
    pub fn set_server(&self, server: SocketAddr) {
        self.shared.set_server(server);
    }

    /// What passed since the proxy started.
    pub fn counts(&self) -> ProxyCounts {
        self.shared.counts()
    }

    /// The number of faults that happened since the settings were set.
    pub fn happened(&self) -> u64 {
        self.shared.happened()
    }

    /// Closes all open connections, as a server does that ends. New ones are accepted.
    pub fn close_connections(&self) {
        self.shared.end_connections(false);
    }

    /// Resets all open connections, as happens when a host restarts. New ones are accepted.
    pub fn reset_connections(&self) {
        self.shared.end_connections(true);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.end();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
