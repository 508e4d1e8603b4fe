//! Several hosts and threads at the same time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use opkeep_cache::{ClaimAnswer, ClaimTerms, PutAnswer, RemoteObject};

use super::Needs::{Leases, Objects, ProvenLeases};
use super::{Case, Cases, content, get, lease, limits, token};

pub(super) const CASES: Cases = &[
    ("16 hosts claim one lease", ProvenLeases, one_lease),
    ("8 hosts claim the same leases", ProvenLeases, same_leases),
    ("someone gets a lease that 16 hosts claim", Leases, someone),
    ("16 hosts store one object", Objects, one_object),
    ("readers see a replaced object as a whole", Objects, replaced),
    ("16 threads share one client", Objects, one_client),
];

const HOSTS: usize = 16;
const HOUR: Duration = Duration::from_secs(3600);

/// Runs `host` in threads that have a client each, and begins each round together. Returns what each did in each round.
fn race<T: Send>(
    case: &Case,
    hosts: usize,
    rounds: usize,
    host: impl Fn(&dyn opkeep_cache::RemoteEngine, usize, usize) -> T + Sync,
) -> Vec<Vec<T>> {
    let start = Start::default();
    thread::scope(|scope| {
        let contenders: Vec<_> = (0..hosts)
            .map(|number| {
                let (host, start) = (&host, &start);
                scope.spawn(move || {
                    let _ended = Ended(&start.is_over);
                    let engine = case.another();
                    // Connected before the race.
                    get(&*engine, &[case.name("none")]).unwrap();
                    let round = |round| {
                        start.wait(hosts, round);
                        host(&*engine, number, round)
                    };
                    (0..rounds).map(round).collect::<Vec<_>>()
                })
            })
            .collect();
        contenders.into_iter().map(|contender| contender.join().unwrap()).collect()
    })
}

/// Begins each round when all contenders have arrived. If one of them has failed, the others do not wait for it.
#[derive(Default)]
struct Start {
    arrived: AtomicUsize,
    is_over: AtomicBool,
}

impl Start {
    fn wait(&self, contenders: usize, round: usize) {
        self.arrived.fetch_add(1, Ordering::SeqCst);
        while self.arrived.load(Ordering::SeqCst) < contenders * (round + 1)
            && !self.is_over.load(Ordering::Relaxed)
        {
            thread::yield_now();
        }
    }
}

/// Says that a thread has ended, also by a panic.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn winners(case: &Case, rounds: usize) -> Vec<usize> {
    let claims = race(case, HOSTS, rounds, |engine, host, round| {
        let (names, value) = ([case.name(&format!("l/{round}"))], lease(host as u8, 0));
        engine.claim(&names, &value, ClaimTerms::new(1, HOUR), &limits()).unwrap()[0]
    });
    let is_winner = |round: usize| claims.iter().filter(|host| host[round] == ClaimAnswer::Granted).count();
    (0..rounds).map(is_winner).collect()
}

fn one_lease(case: &Case) {
    let rounds = case.subject.rounds;
    assert_eq!(winners(case, rounds), vec![1; rounds]);
}

fn someone(case: &Case) {
    assert!(winners(case, 10).iter().all(|winners| *winners >= 1));
}

/// Each lease is granted to one host, to which the engine says so; all others learn that host's token.
fn same_leases(case: &Case) {
    const LEASES: usize = 40;
    let names: Vec<_> = (0..LEASES).map(|number| case.name(&format!("l/{number}"))).collect();
    let claims = race(case, 8, 1, |engine, host, _| {
        // Each begins elsewhere, and takes a few at a time.
        let mut own: Vec<_> = (0..LEASES).map(|number| (number + host * 5) % LEASES).collect();
        let mut granted = Vec::new();
        loop {
            let tried: Vec<_> = own.iter().map(|number| names[*number].clone()).collect();
            let terms = ClaimTerms::new(3, HOUR);
            let answers = engine.claim(&tried, &lease(host as u8, 0), terms, &limits()).unwrap();
            let numbers = own.clone();
            own.clear();
            for (number, answer) in numbers.into_iter().zip(answers) {
                match answer {
                    ClaimAnswer::Granted => granted.push(number),
                    ClaimAnswer::NotTried => own.push(number),
                    ClaimAnswer::Held(Some(value)) => assert_ne!(value.token, token(host as u8)),
                    other => panic!("{other:?}"),
                }
            }
            if own.is_empty() {
                return granted;
            }
        }
    });
    let mut holders = BTreeMap::new();
    for (host, granted) in claims.into_iter().enumerate() {
        for number in granted.into_iter().flatten() {
            assert_eq!(holders.insert(number, host), None, "{number}");
        }
    }
    assert_eq!(holders.len(), LEASES);
    for (number, found) in case.get(&names).into_iter().enumerate() {
        assert_eq!(found, Some(lease(holders[&number] as u8, 0).to_string().into_bytes()));
    }
}

/// Whatever the engine says of who was first: the object is one of those stored, as a whole, and one host got that answer.
fn one_object(case: &Case) {
    const ROUNDS: usize = 10;
    let of_host = |host: usize| content(20_000 + host, host as u8);
    let answers = race(case, HOSTS, ROUNDS, |engine, host, round| {
        let (name, content) = (case.name(&format!("e/{round}")), of_host(host));
        engine.put_if_absent(&[RemoteObject::new(&name, &content)], &limits()).unwrap()[0]
    });
    let told = |host: usize, round: usize| answers[host][round];
    for round in 0..ROUNDS {
        let found = case.get(&[case.name(&format!("e/{round}"))]).remove(0).unwrap();
        let host = found.len() - 20_000;
        assert!(found == of_host(host), "round {round}: the object is mixed");
        assert_eq!(told(host, round), PutAnswer::Stored, "round {round}");
    }
}

fn replaced(case: &Case) {
    let name = case.name("e/a");
    let versions: Vec<_> = (0..4).map(|seed| content(100_000 + usize::from(seed) * 7, seed)).collect();
    case.put(&name, &versions[0]);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ended = Ended(&is_over);
            let engine = case.another();
            for round in 0..40 {
                let content = &versions[round % versions.len()];
                engine.replace(&[RemoteObject::new(&name, content)], &limits()).unwrap();
            }
        });
        for _ in 0..3 {
            scope.spawn(|| {
                let engine = case.another();
                while !is_over.load(Ordering::Relaxed) {
                    let found = get(&*engine, std::slice::from_ref(&name)).unwrap().remove(0);
                    // It is never absent.
                    let found = found.unwrap();
                    assert!(versions.contains(&found), "{} bytes of no version", found.len());
                }
            });
        }
    });
}

/// The answers to one thread never reach another.
fn one_client(case: &Case) {
    thread::scope(|scope| {
        for thread in 0..HOSTS {
            scope.spawn(move || {
                for round in 0..10 {
                    let names = [case.name(&format!("{thread}/{round}")), case.name("none")];
                    let own = content(3000 + 97 * thread, (thread * 16 + round) as u8);
                    let stored = case.engine.put_if_absent(&[RemoteObject::new(&names[0], &own)], &limits());
                    assert_eq!(stored, Ok(vec![PutAnswer::Stored]));
                    assert!(case.get(&names) == [Some(own), None], "thread {thread}, round {round}");
                }
            });
        }
    });
}
