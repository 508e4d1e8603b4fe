//! The client of Redis.

mod server;

use std::sync::Arc;

use libtest_mimic::Trial;
use opkeep_cache::{Capabilities, ExclusiveCreate};
use opkeep_remote::{OpenOptions, open};

use crate::contract::{self, Subject};
use server::{RedisServer, missing};

pub(crate) fn trials() -> (Vec<Trial>, Option<RedisServer>) {
    if let Some(reason) = missing() {
        return (contract::ignored("redis", reason), None);
    }
    let server = RedisServer::start(&[]);
    let url = format!("redis://127.0.0.1:{}/2?prefix=team/a", server.port());
    let mut capabilities = Capabilities::new(ExclusiveCreate::Proven);
    capabilities.expires_leases = true;
    capabilities.has_counters = true;
    capabilities.has_listing = true;
    capabilities.max_object_bytes = 512 << 20;
    let subject = Subject {
        name: "redis",
        open: Arc::new(move || open(&url, &OpenOptions::default()).unwrap()),
        capabilities,
        rounds: 100,
        secrets: &[],
    };
    (contract::trials(&subject), Some(server))
}
