//! The connection of a host is cut at each byte of the dialogue in which it gets, claims, publishes and releases one key: once, after
//! which the host connects again, or for good, after which the server is gone.
//!
//! One seed of `OPKEEP_MUTATION_SEEDS` is each 24th byte, and `all` of them every one.

use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use opkeep_cache::{Claim, Entry, Published, Query, TargetCache};
use opkeep_testkit::is_turn;
use opkeep_testkit::proxy::{Fault, FaultKind, Proxy, ProxySettings};
use opkeep_testkit::servers::{Server, ServerKind, trial};
use tempfile::TempDir;

use super::host::{Settings, directory, key, members, take, ticket};

const TURNS: usize = 24;
/// More connections than a host opens in a dialogue: if each of them is cut, the server is gone.
const FOR_GOOD: usize = 64;

pub(super) fn trials() -> Vec<Trial> {
    vec![trial(
        "hosts::a_connection_that_is_cut_at_any_byte_costs_a_build_at_most",
        ServerKind::redis(),
        |server| cut_anywhere(&server),
    )]
}

/// What became of an entry.
struct Outcome {
    /// The number of warnings.
    warnings: usize,
    /// Whether the host reported that the entry is in the server.
    is_reported: bool,
    /// Whether another host found it there.
    is_kept: bool,
    /// Whether a later build of the host is to send it.
    is_marked: bool,
    /// The number of connections that were cut.
    cut: u64,
}

fn cut_anywhere(server: &Server) -> Result<(), Failed> {
    let proxy = Proxy::start(server.address())?;
    let dir = directory();
    let (mut cuts, mut warnings, mut kept, mut left) = (0, 0, 0, 0);
    for (kind, times) in [(FaultKind::Close, 1), (FaultKind::Reset, 1), (FaultKind::Close, FOR_GOOD)] {
        // A fault before the first byte happens to one connection, however often it is set.
        for at in usize::from(times > 1).. {
            if !is_turn(at, TURNS) {
                continue;
            }
            let name = format!("{kind:?} {at}, {times} times");
            // All faults are at one byte: the second one cuts the next connection at once.
            let faults = vec![Fault::after(at as u64, kind); times];
            proxy.set(ProxySettings { faults, ..ProxySettings::default() })?;
            let outcome = dialogue(server, &proxy, &dir, &name)?;
            if outcome.cut == 0 {
                assert_eq!(
                    (outcome.warnings, outcome.is_reported, outcome.is_kept),
                    (0, true, true),
                    "no cut"
                );
                break;
            }
            assert!(outcome.cut < FOR_GOOD as u64, "{name}: the server is back");
            cuts += 1;
            warnings += outcome.warnings;
            kept += usize::from(outcome.is_kept);
            left += usize::from(outcome.is_marked && !outcome.is_kept);
        }
    }
    println!(
        "{cuts} cuts: {warnings} warnings; in {kept} the entry was in the server nevertheless, in {left} a later build sent it"
    );
    assert!(cuts > 150 && warnings > 0 && left > 0);
    Ok(())
}

/// Whether it is the entry that consists of its name: a large one would have many bytes that are all alike.
fn is_small(entry: &Entry, name: &str) -> bool {
    entry.member("object") == Some(name.as_bytes())
}

/// A host behind the proxy builds an entry; then another one, which is not, requests it. If the entry is not in the server, the next
/// process of the first host sends it.
fn dialogue(server: &Server, proxy: &Proxy, dir: &TempDir, name: &str) -> Result<Outcome, Failed> {
    let settings = Settings::new(dir, &server.url_at(proxy.address()), Duration::from_secs(5));
    let direct = Settings { url: server.url(), ..settings.clone() };
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
    let published: Published =
        own.publish_before(&members(name), Instant::now() + Duration::from_secs(30)).unwrap();
    cache.finish_uploads(Instant::now() + Duration::from_secs(30), None);
    let opkeep_cache::Lookup::Hit(entry) = target.store().unwrap().get(&key(name)) else {
        panic!("{name} is lost")
    };
    assert!(is_small(&entry, name), "{name}");
    let warnings = settings.logged("warning").len();
    let is_marked = target.store().unwrap().unsent().iter().any(|mark| mark.key == key(name));

    let is_kept = is_found(&direct.numbered(dir, 1).open().1, name);
    assert_eq!(settings.logged("warning").len(), warnings, "nothing is wrong in the server");
    assert!(is_kept || is_marked, "{name}: it is not in the server, and no later build sends it");
    assert!(is_kept || !published.remote, "{name}: it is not in the server, and the host reports that it is");
    let cut = proxy.happened();
    if is_marked {
        drop((cache, target));
        // The mark is for the server at this address.
        proxy.set(ProxySettings::default())?;
        let (_cache, target) = settings.open();
        let pushed = target.push_unsent(Some(Instant::now() + Duration::from_secs(30)), None);
        assert_eq!((pushed.sent, pushed.left), (1, 0), "{name}");
        assert!(is_found(&direct.numbered(dir, 2).open().1, name), "{name}: the next build did not send it");
    }
    Ok(Outcome { warnings, is_reported: published.remote, is_kept, is_marked, cut })
}

/// Whether a host finds the entry in the server.
fn is_found(target: &TargetCache, name: &str) -> bool {
    match target.get_or_begin(&key(name), &Query::new(&take)).unwrap() {
        Claim::Hit(hit) => {
            assert!(is_small(&hit.entry, name), "{name}");
            true
        }
        // The lease of the first host may be left.
        Claim::Build(_) | Claim::Pending(_) => false,
        other => panic!("{name}: {other:?}"),
    }
}
