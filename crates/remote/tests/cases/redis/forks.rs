//! A process that forks while it has connections.

use libtest_mimic::{Failed, Trial};
use opkeep_testkit::proxy::Proxy;
use opkeep_testkit::servers::{Server, ServerKind, trial};

use super::{client, name};
use crate::shared::ask_in_children;

pub(super) fn trials() -> Vec<Trial> {
    vec![trial("redis/forks/children do not use their parent's connection", ServerKind::redis(), children)]
}

/// The children and their parent ask for different objects at the same time.
fn children(server: Server) -> Result<(), Failed> {
    let proxy = Proxy::start(server.address())?;
    let engine = client(&server.url_at(proxy.address()));
    ask_in_children(&*engine, &proxy, name, 50);
    Ok(())
}
