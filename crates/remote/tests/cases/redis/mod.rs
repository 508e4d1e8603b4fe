//! The client of Redis.

mod access;
mod answers;
mod batches;
mod faults;
mod forks;
mod kinds;
mod memory;
mod time;
#[cfg(feature = "tls")]
mod tls;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use libtest_mimic::Trial;
use opkeep_cache::{Capabilities, ExclusiveCreate, ObjectName, RemoteEngine};
use opkeep_remote::{OpenOptions, open};
use opkeep_testkit::servers::{Server, ServerKind};

use crate::contract::{self, Subject};

/// The trials, and the server of the suite, which ends when it is dropped.
pub(crate) fn trials() -> (Vec<Trial>, Option<Server>) {
    let (mut trials, server) = match ServerKind::redis().missing() {
        Some(reason) => (contract::ignored("redis", &reason), None),
        None => {
            let server = Server::start(ServerKind::redis()).unwrap();
            (contract::trials(&subject(&server)), Some(server))
        }
    };
    trials.extend(access::trials());
    trials.extend(answers::trials());
    trials.extend(batches::trials());
    trials.extend(faults::trials());
    trials.extend(forks::trials());
    trials.extend(kinds::trials());
    trials.extend(memory::trials());
    trials.extend(time::trials());
    #[cfg(feature = "tls")]
    trials.extend(tls::trials());
    (trials, server)
}

fn subject(server: &Server) -> Subject {
    let url = format!("{}/2?prefix=team/a", server.url());
    let open = Arc::new(move || client(&url));
    Subject { name: "redis", open, capabilities: capabilities(), rounds: 100, secrets: &[] }
}

fn capabilities() -> Capabilities {
    let mut capabilities = Capabilities::new(ExclusiveCreate::Proven);
    capabilities.expires_leases = true;
    capabilities.has_counters = true;
    capabilities.has_listing = true;
    capabilities.max_object_bytes = 512 << 20;
    capabilities
}

fn client(url: &str) -> Arc<dyn RemoteEngine> {
    open(url, &OpenOptions::default()).unwrap()
}

fn name(text: &str) -> ObjectName {
    ObjectName::new(text).unwrap()
}

/// Sends commands, one a line, and returns all that the server answers.
pub(crate) fn send(server: &Server, commands: &str) -> String {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(commands.as_bytes()).unwrap();
    stream.write_all(b"\nQUIT\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
