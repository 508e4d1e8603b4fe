//! The cache of values by jobs.

use opkeep_descriptor::{Job, JobCache};
use opkeep_testkit::job;

#[test]
fn a_job_is_kept_from_its_second_insertion_and_once() {
    let (one, other) = (job("Square", &[&[3]]), job("Square", &[&[4]]));
    let mut cache = JobCache::default();
    for (noted, expected) in [(1, None), (2, Some(2)), (3, Some(2))] {
        cache.insert(7, &one, noted);
        assert_eq!((cache.get(7, &one), cache.get(7, &other), cache.get(8, &one)), (expected, None, None));
    }
    // Another job with the same hash.
    cache.insert(7, &other, 9);
    assert_eq!((cache.get(7, &one), cache.get(7, &other)), (Some(2), Some(9)));
}

#[test]
fn at_most_the_limit_is_kept() {
    const MAX: usize = JobCache::<usize>::MAX;
    let jobs: Vec<Job> = (1..=MAX as i64).map(|length| job("Abs", &[&[length]])).collect();
    let kept = |cache: &JobCache<usize>, hash: fn(usize) -> u64| {
        jobs.iter().enumerate().filter(|(at, job)| cache.get(hash(*at), job) == Some(*at)).count()
    };
    let mut cache = JobCache::default();
    for expected in [0, MAX, MAX] {
        jobs.iter().enumerate().for_each(|(at, job)| cache.insert(at as u64, job, at));
        assert_eq!(kept(&cache, |at| at as u64), expected);
    }
    // One hash more than the maximum; then one job more than the maximum, all with one hash.
    cache.insert(u64::MAX, &jobs[0], 0);
    assert_eq!(kept(&cache, |at| at as u64), 0);
    jobs.iter().enumerate().for_each(|(at, job)| cache.insert(u64::MAX, job, at));
    assert_eq!(kept(&cache, |_| u64::MAX), MAX);
    cache.insert(u64::MAX, &job("Relu", &[&[1]]), 2);
    assert_eq!(kept(&cache, |_| u64::MAX), 0);
}
