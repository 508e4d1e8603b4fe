//! Clocks, cancel tokens and threads.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use opkeep_fs::{CancelToken, Clock, FileClock, Fs, idle, map, unix};

/// A clock that stands still.
struct Fixed(Duration);

impl Clock for Fixed {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.0
    }
}

#[test]
fn a_clock_is_injected() {
    let hour = Duration::from_secs(3600);
    let clock = Arc::new(Fixed(hour));
    assert_eq!(unix(FileClock::new(Some(clock.clone())).now()), hour);
    assert_eq!(unix(Fs::new().with_clock(clock).now()), hour);
}

#[test]
fn the_clock_of_files_goes_on_from_their_times() {
    let clock = FileClock::new(None);
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
    clock.set(then);
    let now = clock.now();
    assert!(now >= then && idle(then, now) < Duration::from_secs(600));
    assert_eq!(idle(now, now - Duration::from_secs(5)), Duration::ZERO);
}

#[test]
fn clones_of_a_token_share_its_state() {
    let token = CancelToken::new();
    let other = token.clone();
    assert!(!other.is_cancelled());
    token.cancel();
    assert!(other.is_cancelled());
    let threads = NonZeroUsize::MIN;
    assert!(map(3, threads, || token.is_cancelled(), |at| at).is_cancelled);
    assert_eq!(map(3, threads, || false, |at| at).results, [0, 1, 2]);
}
