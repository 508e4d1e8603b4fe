//! The connection of a host is cut at each byte of the dialogue in which it gets, claims, publishes and releases one key.
//!
//! One seed of `OPKEEP_MUTATION_SEEDS` is each 24th byte, and `all` of them every one.

use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use opkeep_cache::{Claim, Entry, Query};
use opkeep_testkit::is_turn;
use opkeep_testkit::proxy::{Fault, FaultKind, Proxy, ProxySettings};
use opkeep_testkit::servers::{Server, ServerKind, trial};
use tempfile::TempDir;

use super::host::{Settings, directory, key, members, take, ticket};

const TURNS: usize = 24;

pub(super) fn trials() -> Vec<Trial> {
    vec![trial(
        "hosts::a_connection_that_is_cut_at_any_byte_costs_a_build_at_most",
        ServerKind::redis(),
        |server| cut_anywhere(&server),
    )]
}

fn cut_anywhere(server: &Server) -> Result<(), Failed> {
    let proxy = Proxy::start(server.address())?;
    let dir = directory();
    let (mut cuts, mut warnings, mut kept) = (0, 0, 0);
    for kind in [FaultKind::Close, FaultKind::Reset] {
        for at in 0.. {
            if !is_turn(at, TURNS) {
                continue;
            }
            let name = format!("{kind:?} {at}");
            proxy.set(ProxySettings::with_fault(Fault::after(at as u64, kind)))?;
            let (warned, is_kept) = dialogue(server, &proxy, &dir, &name);
            if proxy.happened() == 0 {
                assert_eq!((warned, is_kept), (0, true), "nothing was cut");
                break;
            }
            cuts += 1;
            warnings += warned;
            kept += usize::from(is_kept);
        }
    }
    println!("{cuts} cuts: {warnings} warnings; in {kept} the entry was in the server nevertheless");
    assert!(cuts > 100 && warnings > 0);
    Ok(())
}

/// Whether it is the entry that consists of its name: a large one would have many bytes that are all alike.
fn is_small(entry: &Entry, name: &str) -> bool {
    entry.member("object") == Some(name.as_bytes())
}

/// A host behind the proxy builds an entry; then another one, which is not, requests it. Returns the number of the warnings of the
/// first, and whether the second found the entry in the server.
fn dialogue(server: &Server, proxy: &Proxy, dir: &TempDir, name: &str) -> (usize, bool) {
    let settings = Settings::new(dir, &server.url_at(proxy.address()), Duration::from_secs(5));
    let (cache, target) = settings.open();
    let query = Query::new(&take);
    target.fetch(&[key(name)], &query);
    let claim = target.get_or_begin(&key(name), &query).unwrap();
    // After a claim whose answer was lost, the host finds its own lease held, or builds without one.
    let own = match ticket(claim) {
        Ok(own) => own,
        Err(Claim::Pending(pending)) => pending.into_unshared(),
        Err(other) => panic!("{name}: {other:?}"),
    };
    own.publish_before(&members(name), Instant::now() + Duration::from_secs(30)).unwrap();
    cache.finish_uploads(Instant::now() + Duration::from_secs(30), None);
    let opkeep_cache::Lookup::Hit(entry) = target.store().unwrap().get(&key(name)) else {
        panic!("{name} is lost")
    };
    assert!(is_small(&entry, name), "{name}");
    let warned = settings.logged("warning").len();
    let is_marked = target.store().unwrap().unsent().iter().any(|mark| mark.key == key(name));

    let direct = Settings { url: server.url(), ..settings.numbered(dir, 1) };
    let (_cache, target) = direct.open();
    let is_kept = match target.get_or_begin(&key(name), &query).unwrap() {
        Claim::Hit(hit) => {
            assert!(is_small(&hit.entry, name), "{name}");
            true
        }
        // The lease of the first may be left.
        Claim::Build(_) | Claim::Pending(_) => false,
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!(settings.logged("warning").len(), warned, "nothing is wrong in the server");
    assert!(is_kept || is_marked, "{name}: it is not in the server, and no later build sends it");
    (warned, is_kept)
}
