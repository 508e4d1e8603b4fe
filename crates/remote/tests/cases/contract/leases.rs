//! Leases: created by one, renewed and released by its token only, and read like objects.

use std::thread;
use std::time::{Duration, Instant};

use opkeep_cache::{ClaimAnswer, ClaimTerms, LeaseValue, ObjectName};

use super::Needs::{ExpiringLeases, Leases};
use super::{Case, Cases, get, lease, limits, token};
use ClaimAnswer::{Granted, Held, NotTried};

pub(super) const CASES: Cases = &[
    ("claims are granted in order up to the limit", Leases, order),
    ("hundreds of claims in one call", Leases, many),
    ("a lease that is held has its holder's value", Leases, held),
    ("content that is no lease is held", Leases, foreign),
    ("a renewal changes the value of its own leases only", Leases, renewed),
    ("a release deletes its own leases only", Leases, released),
    ("a lease is read like an object", Leases, read),
    ("an engine deletes leases that nothing renews", ExpiringLeases, expired),
];

const HOUR: Duration = Duration::from_secs(3600);

fn claim(case: &Case, names: &[ObjectName], value: &LeaseValue, limit: usize) -> Vec<ClaimAnswer> {
    case.engine.claim(names, value, ClaimTerms::new(limit, HOUR), &limits()).unwrap()
}

fn order(case: &Case) {
    let names = case.names(&["l/a", "l/b", "l/c", "l/d", "l/e"]);
    let (first, second) = (lease(1, 0), lease(2, 0));
    assert_eq!(claim(case, &[], &first, 9), []);
    assert_eq!(claim(case, &names, &first, 0), [NotTried; 5]);
    assert_eq!(claim(case, &names[1..2], &first, 1), [Granted]);
    // What is held does not count, and what comes after the limit is not created.
    let answers = claim(case, &names, &second, 2);
    assert_eq!(answers, [Granted, Held(Some(first)), Granted, NotTried, NotTried]);
    let third = lease(3, 7);
    let answers = claim(case, &names, &third, usize::MAX);
    assert_eq!(answers, [Held(Some(second)), Held(Some(first)), Held(Some(second)), Granted, Granted]);
}

fn many(case: &Case) {
    let names: Vec<_> = (0..1100).map(|number| case.name(&format!("l/{number:04}"))).collect();
    let held = claim(case, &names[3..4], &lease(1, 0), 1);
    assert_eq!(held, [Granted]);
    let answers = claim(case, &names, &lease(2, 0), 700);
    for (index, answer) in answers.into_iter().enumerate() {
        let expected = match index {
            3 => Held(Some(lease(1, 0))),
            0..=700 => Granted,
            _ => NotTried,
        };
        assert_eq!(answer, expected, "{index}");
    }
    let renewed = case.engine.renew(&names, &lease(2, 1), HOUR, &limits()).unwrap();
    let expected: Vec<_> = (0..1100).map(|index| index != 3 && index <= 700).collect();
    assert_eq!(renewed, expected);
    case.engine.release(&names, &token(2), &limits()).unwrap();
    assert_eq!(
        claim(case, &names[..5], &lease(3, 0), 9),
        [Granted, Granted, Granted, Held(Some(lease(1, 0))), Granted]
    );
}

fn held(case: &Case) {
    let names = case.names(&["l/a"]);
    assert_eq!(claim(case, &names, &lease(1, u64::MAX), 1), [Granted]);
    // The holder itself is no exception: its token shows which lease that is.
    for value in [lease(1, 0), lease(2, 0)] {
        let answers = case.another().claim(&names, &value, ClaimTerms::new(1, HOUR), &limits()).unwrap();
        assert_eq!(answers, [Held(Some(lease(1, u64::MAX)))]);
    }
}

fn foreign(case: &Case) {
    let names = case.names(&["l/a", "l/b", "l/c", "l/d"]);
    let text = lease(0xab, 0).to_string();
    for (name, content) in names.iter().zip(["", "no lease", &text.to_uppercase(), &format!("{text}0")]) {
        case.put(name, content.as_bytes());
    }
    assert_eq!(claim(case, &names, &lease(1, 0), 9), [Held(None); 4]);
}

fn renewed(case: &Case) {
    let names = case.names(&["l/a", "l/b", "l/c"]);
    let (a, b) = (lease(1, 0), lease(2, 0));
    assert_eq!(claim(case, &names[..1], &a, 1), [Granted]);
    assert_eq!(claim(case, &names[1..2], &b, 1), [Granted]);
    let renew = |value: &LeaseValue| case.engine.renew(&names, value, HOUR, &limits()).unwrap();
    assert_eq!(renew(&lease(1, 1)), [true, false, false]);
    assert_eq!(renew(&lease(1, 2)), [true, false, false]);
    assert_eq!(renew(&lease(2, 9)), [false, true, false]);
    assert_eq!(renew(&lease(3, 1)), [false, false, false]);
    // The renewal created nothing.
    let answers = claim(case, &names, &lease(4, 0), 9);
    assert_eq!(answers, [Held(Some(lease(1, 2))), Held(Some(lease(2, 9))), Granted]);
}

fn released(case: &Case) {
    let names = case.names(&["l/a", "l/b", "l/c"]);
    assert_eq!(claim(case, &names[..1], &lease(1, 0), 1), [Granted]);
    assert_eq!(claim(case, &names[1..2], &lease(2, 0), 1), [Granted]);
    case.engine.renew(&names[..1], &lease(1, 3), HOUR, &limits()).unwrap();
    case.engine.release(&names, &token(1), &limits()).unwrap();
    case.engine.release(&names, &token(1), &limits()).unwrap();
    assert_eq!(claim(case, &names, &lease(3, 0), 9), [Granted, Held(Some(lease(2, 0))), Granted]);
    assert_eq!(case.engine.renew(&names, &lease(1, 4), HOUR, &limits()), Ok(vec![false; 3]));
}

fn read(case: &Case) {
    let names = case.names(&["l/a", "l/b"]);
    assert_eq!(claim(case, &names[..1], &lease(1, 0), 1), [Granted]);
    case.engine.renew(&names, &lease(1, 17), HOUR, &limits()).unwrap();
    let found = get(&*case.another(), &names).unwrap();
    assert_eq!(found[0].as_deref().and_then(LeaseValue::decode), Some(lease(1, 17)));
    assert_eq!(found[1], None);
}

/// One lease is renewed for an hour and stays; the other ends by the engine's clock.
fn expired(case: &Case) {
    let names = case.names(&["l/renewed", "l/left"]);
    let terms = ClaimTerms::new(2, Duration::from_secs(1));
    let answers = case.engine.claim(&names, &lease(1, 0), terms, &limits()).unwrap();
    assert_eq!(answers, [Granted, Granted]);
    assert_eq!(case.engine.renew(&names[..1], &lease(1, 1), HOUR, &limits()), Ok(vec![true]));
    let began = Instant::now();
    while claim(case, &names[1..], &lease(2, 0), 1) != [Granted] {
        assert!(began.elapsed() < Duration::from_secs(60), "the lease is still held");
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(claim(case, &names[..1], &lease(2, 0), 1), [Held(Some(lease(1, 1)))]);
}
