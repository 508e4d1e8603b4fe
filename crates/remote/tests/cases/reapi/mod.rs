//! The client of the Remote Execution API.

mod access;
mod answers;
mod credentials;
mod fake;
mod faults;
mod http2;
mod other_servers;
#[cfg(feature = "tls")]
mod tls;

use std::sync::Arc;

use libtest_mimic::Trial;
use opkeep_cache::{Capabilities, ExclusiveCreate, ObjectName, RemoteEngine};
use opkeep_remote::{OpenOptions, open};
use opkeep_testkit::servers::{BuildGridOptions, Server, ServerKind, trial_with};

use crate::contract::{self, Subject};

/// Trials of the suite that a server which stores each result once fails whatever its client does.
const UNFIT: [&str; 2] = [
    "reapi-write-once/objects/an object is stored again in place of an old one",
    "reapi-write-once/races/readers see a replaced object as a whole",
];

/// The trials, and the servers of the suite, which end when they are dropped. A server of Python takes seconds to start, so other
/// trials use them as well.
pub(crate) fn trials() -> (Vec<Trial>, Vec<Server>) {
    let (mut trials, mut servers) = (Vec::new(), Vec::new());
    for (name, is_write_once) in [("reapi", false), ("reapi-write-once", true)] {
        let kind = ServerKind::BuildGrid(BuildGridOptions { is_write_once });
        let (missing, url) = match kind.missing() {
            Some(reason) => {
                trials.extend(contract::ignored(name, &reason));
                (Some(reason), String::new())
            }
            None => {
                let server = Server::start(kind).unwrap();
                let unfit = |trial: Trial| match UNFIT.contains(&trial.name()) {
                    true => trial.with_kind("an action's result is never replaced").with_ignored_flag(true),
                    false => trial,
                };
                trials.extend(contract::trials(&subject(name, &server)).into_iter().map(unfit));
                let url = server.url();
                servers.push(server);
                (None, url)
            }
        };
        trials.push(match is_write_once {
            true => trial_with("reapi/access/a server that stores a result once", missing, move || {
                access::write_once(&url)
            }),
            false => {
                trial_with("reapi/access/an instance that the server does not have", missing, move || {
                    access::unknown_instance(&url)
                })
            }
        });
    }
    trials.extend(answers::trials());
    trials.extend(other_servers::trials());
    trials.extend(credentials::trials());
    trials.extend(faults::trials());
    #[cfg(feature = "tls")]
    trials.extend(tls::trials());
    (trials, servers)
}

fn subject(name: &'static str, server: &Server) -> Subject {
    let url = server.url();
    let open = Arc::new(move || client(&url));
    Subject { name, open, capabilities: capabilities(), rounds: 10, secrets: &[] }
}

/// The API has no exclusive create, no counters, no listing, and deletes nothing on request.
fn capabilities() -> Capabilities {
    let mut capabilities = Capabilities::new(ExclusiveCreate::None);
    capabilities.max_object_bytes = 512 << 20;
    capabilities
}

fn client(url: &str) -> Arc<dyn RemoteEngine> {
    open(url, &OpenOptions::default()).unwrap()
}

fn name(text: &str) -> ObjectName {
    ObjectName::new(text).unwrap()
}
