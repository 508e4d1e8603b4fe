//! Leases whose requests meet lost answers, and changes by other hosts.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use opkeep_cache::{ClaimAnswer, ClaimTerms, LeaseValue};

use super::fake::{Fake, Then, answer, error, header};
use super::{client, name};
use crate::contract::{get, lease, limits, token};

const HOUR: Duration = Duration::from_secs(3600);

pub(super) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("s3/lost/a claim whose answer was lost is granted", lost_claim),
        Trial::test("s3/lost/a renewal whose answer was lost is no lost lease", lost_renewal),
        Trial::test("s3/lost/a lease that another host takes meanwhile", taken),
    ]
}

/// A server that closes an idle connection at the first request to store, and has `stored` then.
fn closing(stored: LeaseValue) -> Fake {
    let puts = AtomicUsize::new(0);
    Fake::start(move |head| match head {
        head if head.contains("/none ") => (error(404, "NoSuchKey", ""), Then::Keep),
        head if head.starts_with("GET") => {
            let value = if puts.load(Ordering::SeqCst) == 0 { lease(1, 0) } else { stored };
            (answer(200, "ETag: \"1\"\r\n", &value.to_string()), Then::Keep)
        }
        _ if puts.fetch_add(1, Ordering::SeqCst) == 0 => (Vec::new(), Then::Close),
        _ => (error(412, "PreconditionFailed", ""), Then::Keep),
    })
}

/// The answer to a claim by 1, after the first request was executed and `stored` is there.
fn claimed(stored: LeaseValue) -> ClaimAnswer {
    let fake = closing(stored);
    let engine = client(&fake.url());
    get(&*engine, &[name("none")]).unwrap();
    let terms = ClaimTerms::new(1, HOUR);
    let answers = engine.claim(&[name("l")], &lease(1, 0), terms, &limits()).unwrap();
    let puts = fake.heads().iter().filter(|head| head.starts_with("PUT")).count();
    assert_eq!(puts, 2);
    answers[0]
}

fn lost_claim() -> Result<(), Failed> {
    assert_eq!(claimed(lease(1, 0)), ClaimAnswer::Granted);
    assert_eq!(claimed(lease(2, 0)), ClaimAnswer::Held(Some(lease(2, 0))));
    assert_eq!(claimed(lease(1, 7)), ClaimAnswer::Held(Some(lease(1, 7))));
    Ok(())
}

fn lost_renewal() -> Result<(), Failed> {
    for (stored, expected) in [(lease(1, 1), true), (lease(2, 0), false)] {
        let engine = client(&closing(stored).url());
        let renewed = engine.renew(&[name("l")], &lease(1, 1), HOUR, &limits());
        assert_eq!(renewed, Ok(vec![expected]), "{stored}");
    }
    Ok(())
}

/// Between the comparison and the change, another host replaces the lease.
fn taken() -> Result<(), Failed> {
    let start = || {
        let gets = AtomicUsize::new(0);
        Fake::start(move |head| {
            let bytes = match head {
                head if head.starts_with("GET") => match gets.fetch_add(1, Ordering::SeqCst) {
                    0 => answer(200, "ETag: \"first\"\r\n", &lease(1, 0).to_string()),
                    _ => answer(200, "ETag: \"second\"\r\n", &lease(2, 0).to_string()),
                },
                // The lease has the second version by now.
                head if matches!(header(head, "if-match"), Some("\"first\"")) => {
                    error(412, "PreconditionFailed", "")
                }
                _ => answer(200, "", ""),
            };
            (bytes, Then::Keep)
        })
    };
    let fake = start();
    assert_eq!(client(&fake.url()).renew(&[name("l")], &lease(1, 1), HOUR, &limits()), Ok(vec![false]));
    let released = start();
    assert_eq!(client(&released.url()).release(&[name("l")], &token(1), &limits()), Ok(()));
    for (fake, method) in [(fake, "PUT"), (released, "DELETE")] {
        let heads = fake.heads();
        let conditions: Vec<_> = heads.iter().filter(|head| head.starts_with(method)).collect();
        let conditions: Vec<_> = conditions.into_iter().map(|head| header(head, "if-match")).collect();
        assert_eq!(conditions, [Some("\"first\"")], "{method}: another host's lease was changed");
    }
    Ok(())
}
