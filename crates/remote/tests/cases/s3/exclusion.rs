//! A server whose exclusive creation is not exclusive.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use opkeep_cache::{ClaimAnswer, ClaimTerms, LeaseValue};
use opkeep_testkit::servers::{Server, ServerKind, trial};

use super::{client, name};
use crate::contract::{get, lease, limits};

const HOSTS: usize = 16;
const MOST_ROUNDS: usize = 200;

pub(super) fn trials() -> Vec<Trial> {
    vec![trial(
        "s3/exclusion/of several holders of one lease one keeps it",
        ServerKind::S3sFs,
        several_holders,
    )]
}

/// The server grants one lease to several hosts. The first renewal shows all of them but one that the lease is another's.
fn several_holders(server: Server) -> Result<(), Failed> {
    let engines: Vec<_> = (0..HOSTS).map(|_| client(&server.url())).collect();
    let hour = Duration::from_secs(3600);
    for round in 0..MOST_ROUNDS {
        let names = [name(&format!("l/{round}"))];
        let barrier = Barrier::new(HOSTS);
        let granted: Vec<bool> = thread::scope(|scope| {
            let claims: Vec<_> = engines
                .iter()
                .enumerate()
                .map(|(host, engine)| {
                    let (barrier, names) = (&barrier, &names);
                    scope.spawn(move || {
                        barrier.wait();
                        let value = lease(host as u8, 0);
                        let answers = engine.claim(names, &value, ClaimTerms::new(1, hour), &limits());
                        answers.unwrap() == [ClaimAnswer::Granted]
                    })
                })
                .collect();
            claims.into_iter().map(|claim| claim.join().unwrap()).collect()
        });
        let holders = granted.iter().filter(|granted| **granted).count();
        assert!(holders >= 1);
        let stored = get(&*engines[0], &names).unwrap().remove(0).unwrap();
        let stored = LeaseValue::decode(&stored).unwrap();
        let renewed: Vec<_> = engines
            .iter()
            .enumerate()
            .map(|(host, engine)| engine.renew(&names, &lease(host as u8, 1), hour, &limits()).unwrap()[0])
            .collect();
        let expected: Vec<_> = (0..HOSTS).map(|host| lease(host as u8, 0).token == stored.token).collect();
        assert_eq!(renewed, expected, "round {round}");
        assert_eq!(renewed.iter().filter(|renewed| **renewed).count(), 1);
        if holders > 1 {
            return Ok(());
        }
    }
    Err(format!("in {MOST_ROUNDS} rounds each lease was granted once: this server no longer shows what the trial is for").into())
}
