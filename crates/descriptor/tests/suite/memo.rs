//! Values by jobs.

use opbuild_descriptor::{Job, JobMemo};
use opbuild_testkit::job;

#[test]
fn a_job_is_kept_from_the_second_time_on_and_once() {
    let (one, other) = (job("Square", &[&[3]]), job("Square", &[&[4]]));
    let mut memo = JobMemo::default();
    for (noted, expected) in [(1, None), (2, Some(2)), (3, Some(2))] {
        memo.note(7, &one, noted);
        assert_eq!((memo.get(7, &one), memo.get(7, &other), memo.get(8, &one)), (expected, None, None));
    }
    // One of the same hash.
    memo.note(7, &other, 9);
    assert_eq!((memo.get(7, &one), memo.get(7, &other)), (Some(2), Some(9)));
}

#[test]
fn as_many_as_fit_are_kept_and_no_more() {
    const MAX: usize = JobMemo::<usize>::MAX;
    let jobs: Vec<Job> = (1..=MAX as i64).map(|length| job("Abs", &[&[length]])).collect();
    let kept = |memo: &JobMemo<usize>, hash: fn(usize) -> u64| {
        jobs.iter().enumerate().filter(|(at, job)| memo.get(hash(*at), job) == Some(*at)).count()
    };
    let mut memo = JobMemo::default();
    for expected in [0, MAX, MAX] {
        jobs.iter().enumerate().for_each(|(at, job)| memo.note(at as u64, job, at));
        assert_eq!(kept(&memo, |at| at as u64), expected);
    }
    // One hash more than fit; then one job more, all of one hash.
    memo.note(u64::MAX, &jobs[0], 0);
    assert_eq!(kept(&memo, |at| at as u64), 0);
    jobs.iter().enumerate().for_each(|(at, job)| memo.note(u64::MAX, job, at));
    assert_eq!(kept(&memo, |_| u64::MAX), MAX);
    memo.note(u64::MAX, &job("Relu", &[&[1]]), 2);
    assert_eq!(kept(&memo, |_| u64::MAX), 0);
}
