//! Counters.

use std::thread;
use std::time::{Duration, Instant};

use super::Needs::{Counters, ExpiringCounters, Objects};
use super::{Case, Cases, limits};

pub(super) const CASES: Cases = &[
    ("a counter adds up on all hosts", Counters, sums),
    ("no addition is lost among 8 hosts", Counters, concurrent),
    ("a counter that nothing adds to ends", ExpiringCounters, ends),
    ("an engine without counters says so", Objects, none),
];

const HOUR: Duration = Duration::from_secs(3600);

fn sums(case: &Case) {
    let (a, b) = (case.name("p/a"), case.name("p/b"));
    let count = |name| case.another().progress(name, &limits()).unwrap();
    assert_eq!(count(&a), Some(0));
    case.engine.advance(&a, 3, HOUR, &limits()).unwrap();
    case.another().advance(&a, 4, HOUR, &limits()).unwrap();
    case.engine.advance(&b, 0, HOUR, &limits()).unwrap();
    assert_eq!((count(&a), count(&b)), (Some(7), Some(0)));
}

fn concurrent(case: &Case) {
    let name = case.name("p/a");
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let engine = case.another();
                (0..25).for_each(|_| engine.advance(&name, 2, HOUR, &limits()).unwrap());
            });
        }
    });
    assert_eq!(case.engine.progress(&name, &limits()), Ok(Some(400)));
}

fn ends(case: &Case) {
    let (kept, left) = (case.name("p/kept"), case.name("p/left"));
    for name in [&kept, &left] {
        case.engine.advance(name, 5, Duration::from_millis(200), &limits()).unwrap();
    }
    case.engine.advance(&kept, 1, HOUR, &limits()).unwrap();
    let began = Instant::now();
    while case.engine.progress(&left, &limits()).unwrap() != Some(0) {
        assert!(began.elapsed() < Duration::from_secs(60), "the counter is still there");
        thread::sleep(Duration::from_millis(20));
    }
    // The second addition may have come after the end of the first.
    assert!(matches!(case.engine.progress(&kept, &limits()), Ok(Some(6 | 1))));
}

fn none(case: &Case) {
    if !case.subject.capabilities.has_counters {
        let name = case.name("p/a");
        assert_eq!(case.engine.advance(&name, 3, HOUR, &limits()), Ok(()));
        assert_eq!(case.engine.progress(&name, &limits()), Ok(None));
    }
}
