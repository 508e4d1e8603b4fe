//! Builds of several hosts through the faults of a server: it is killed and started again, or evicts what it has.

use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use opkeep_testkit::servers::{RedisOptions, Server, ServerKind, trial};

use super::host::{Hosts, LONGEST, Settings, directory};

const HOSTS: usize = 4;

pub(super) fn trials() -> Vec<Trial> {
    let memory = |megabytes: u64| {
        ServerKind::Redis(RedisOptions {
            memory: Some((megabytes << 20, "allkeys-lru")),
            ..RedisOptions::default()
        })
    };
    vec![
        trial("hosts::a_server_that_is_killed_in_a_build_fails_no_host", ServerKind::redis(), restarted),
        trial("hosts::a_server_that_keeps_its_objects_is_used_after_a_restart", persistent(), kept),
        trial("hosts::a_server_of_1_mb_that_refuses_most_fails_no_host", memory(1), |server| {
            evicting(&server, "1 MB")
        }),
        trial("hosts::a_server_of_3_mb_that_evicts_fails_no_host", memory(3), |server| {
            evicting(&server, "3 MB")
        }),
    ]
}

fn persistent() -> ServerKind {
    ServerKind::Redis(RedisOptions { is_persistent: true, ..RedisOptions::default() })
}

/// Starts hosts that build the same entries.
fn start(settings: &Settings, dir: &tempfile::TempDir, hosts: std::ops::Range<usize>) -> Hosts {
    Hosts(hosts.map(|host| settings.numbered(dir, host).command("build").spawn().unwrap()).collect())
}

fn until_built(settings: &Settings, entries: usize) {
    let began = Instant::now();
    while settings.logged("built").len() < entries {
        assert!(began.elapsed() < LONGEST, "no entries are built");
        thread::sleep(Duration::from_millis(2));
    }
}

/// How often an entry was built, and the kinds of warnings.
fn report(what: &str, settings: &Settings) -> usize {
    let (built, warnings) = (settings.logged("built"), settings.logged("warning"));
    let mut entries = built.clone();
    entries.sort_unstable();
    entries.dedup();
    assert_eq!(entries.len(), settings.entries);
    println!(
        "{what}: {HOSTS} hosts, {} entries, {} builds, {} hits from the server, {} warnings, such as {:?}",
        settings.entries,
        built.len(),
        settings.logged("hit").iter().filter(|from| *from == "remote").count(),
        warnings.len(),
        warnings.first(),
    );
    built.len()
}

/// The server loses all leases, entries and counters.
fn restarted(mut server: Server) -> Result<(), Failed> {
    let dir = directory();
    let mut settings = Settings::new(&dir, &server.url(), Duration::from_millis(500));
    settings.entries = 40;
    let hosts = start(&settings, &dir, 0..HOSTS);
    until_built(&settings, 10);
    server.kill()?;
    until_built(&settings, 20);
    server.restart()?;
    hosts.finish();
    let builds = report("killed and restarted", &settings);
    assert!(builds <= HOSTS * settings.entries);
    // A host that comes later finds what was sent after the restart, or builds.
    start(&settings, &dir, HOSTS..HOSTS + 1).finish();
    Ok(())
}

/// The server has the entries of before after its restart: a host that comes later builds nothing.
fn kept(mut server: Server) -> Result<(), Failed> {
    let dir = directory();
    let settings = Settings::new(&dir, &server.url(), Duration::from_millis(500));
    start(&settings, &dir, 0..1).finish();
    server.kill()?;
    server.restart()?;
    start(&settings, &dir, 1..2).finish();
    assert_eq!(settings.logged("built").len(), settings.entries);
    assert_eq!(settings.logged("warning"), [""; 0]);
    Ok(())
}

fn evicting(server: &Server, what: &str) -> Result<(), Failed> {
    let dir = directory();
    let mut settings = Settings::new(&dir, &server.url(), Duration::from_secs(2));
    (settings.entries, settings.compile) = (148, Duration::from_millis(5));
    start(&settings, &dir, 0..HOSTS).finish();
    let builds = report(what, &settings);
    assert!(builds <= HOSTS * settings.entries);
    Ok(())
}
