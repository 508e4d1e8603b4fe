//! The client of S3.

mod access;
mod answers;
mod exclusion;
mod fake;
mod faults;
mod lost;
mod time;
#[cfg(feature = "tls")]
mod tls;

use std::sync::Arc;

use libtest_mimic::Trial;
use opkeep_cache::{Capabilities, ExclusiveCreate, ObjectName, RemoteEngine};
use opkeep_remote::{OpenOptions, open};
use opkeep_testkit::servers::{S3_ACCESS_KEY, S3_SECRET_KEY, Server, ServerKind};

use crate::contract::{self, Subject};

/// Trials of the suite that a server fails whatever its client does, and why.
const UNFIT: [(&str, &str); 2] = [
    (
        "s3-s3s-fs/objects/names are told apart in every byte",
        "the longest key has about 150 bytes: it is a part of a file's name",
    ),
    (
        "s3-s3s-fs/listing/a listing has all objects below a prefix and no others",
        "a listing fails if an object is deleted meanwhile, as other trials do",
    ),
];

/// The trials, and the servers of the suite, which end when they are dropped.
pub(crate) fn trials() -> (Vec<Trial>, Vec<Server>) {
    let (mut trials, mut servers) = (Vec::new(), Vec::new());
    for (name, kind) in [("s3-moto", ServerKind::Moto), ("s3-s3s-fs", ServerKind::S3sFs)] {
        match kind.missing() {
            Some(reason) => trials.extend(contract::ignored(name, &reason)),
            None => {
                let server = Server::start(kind).unwrap();
                let unfit = |trial: Trial| match UNFIT.iter().find(|(name, _)| trial.name() == *name) {
                    Some((_, reason)) => trial.with_kind(*reason).with_ignored_flag(true),
                    None => trial,
                };
                trials.extend(contract::trials(&subject(name, &server)).into_iter().map(unfit));
                servers.push(server);
            }
        }
    }
    trials.extend(access::trials());
    trials.extend(answers::trials());
    trials.extend(exclusion::trials());
    trials.extend(faults::trials());
    trials.extend(lost::trials());
    trials.extend(time::trials());
    #[cfg(feature = "tls")]
    trials.extend(tls::trials());
    (trials, servers)
}

fn subject(name: &'static str, server: &Server) -> Subject {
    let url = server.url();
    let open = Arc::new(move || client(&url));
    Subject { name, open, capabilities: capabilities(), rounds: 10, secrets: &[S3_ACCESS_KEY, S3_SECRET_KEY] }
}

/// Whatever the server is: S3 has no answer that proves more.
fn capabilities() -> Capabilities {
    let mut capabilities = Capabilities::new(ExclusiveCreate::Unproven);
    capabilities.has_listing = true;
    capabilities.max_object_bytes = 512 << 20;
    capabilities
}

const KEYS: [(&str, &str); 2] =
    [("AWS_ACCESS_KEY_ID", S3_ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", S3_SECRET_KEY)];

fn client(url: &str) -> Arc<dyn RemoteEngine> {
    client_with(url, &KEYS)
}

/// A client in an environment with these variables.
fn client_with(url: &str, variables: &[(&str, &str)]) -> Arc<dyn RemoteEngine> {
    open(url, &options(variables)).unwrap()
}

pub(crate) fn options(variables: &[(&str, &str)]) -> OpenOptions {
    let variables: Vec<_> =
        variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let value = move |name: &str| Some(variables.iter().find(|(found, _)| found == name)?.1.clone());
    let mut options = OpenOptions::default();
    options.variable = Some(Arc::new(value));
    options
}

fn name(text: &str) -> ObjectName {
    ObjectName::new(text).unwrap()
}
