//! A process that is killed while it has a lease, and another one of the same host: the system ends the lock of the first, which shows that
//! its lease is stale.

use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use opkeep_testkit::servers::{Server, ServerKind, trial};

use super::host::{Hosts, LONGEST, Settings, directory};

/// Far longer than any wait of these trials: a process that waits for the lease fails.
const TTL: Duration = Duration::from_secs(3600);

pub(super) fn trials() -> Vec<Trial> {
    vec![trial("hosts::a_killed_process_costs_its_own_host_no_time_to_live", ServerKind::redis(), |server| {
        killed_process(&server)
    })]
}

fn until(what: &str, done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < LONGEST, "{what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// The next process of the host waited for the lock, or begins after the kill. A second host has waited for the lease meanwhile, and gets
/// the entry from the first.
fn killed_process(server: &Server) -> Result<(), Failed> {
    for waits in [true, false] {
        let dir = directory();
        let url = format!("{}?prefix=waits-{waits}", server.url());
        let mut settings = Settings::new(&dir, &url, TTL);
        settings.entries = 1;
        let start = |host: usize, role: &str| settings.numbered(&dir, host).command(role).spawn().unwrap();
        let mut holder = Hosts(vec![start(1, "hold")]);
        until("the holder has the lease", || !settings.logged("held").is_empty());
        let mut others = Hosts(vec![start(2, "build")]);
        if waits {
            others.0.push(start(1, "build"));
            // Long enough for both to wait. If they did not, they would find the same later.
            thread::sleep(Duration::from_millis(300));
        }
        assert_eq!(settings.logged("built"), [""; 0], "the holder lives");
        holder.0[0].kill()?;
        holder.0[0].wait()?;
        if !waits {
            others.0.push(start(1, "build"));
        }
        others.finish();
        assert_eq!((settings.logged("built").len(), settings.logged("hit")), (1, vec!["remote".to_owned()]));
        assert_eq!(settings.logged("warning"), [""; 0]);
    }
    Ok(())
}
