//! The wait for a lease that another host has.
//!
//! A wait continues while there are heartbeats: the remaining time grows when the holder renews the lease, or the lease has a
//! new holder. If there is no heartbeat for as long as a lease lasts, the tier's answers are wrong, and the wait ends.
//!
//! The wait also ends if two leases were released early, no entry was published, and another host has the next lease. After
//! one early release, whose holder may have been cancelled, one host takes over. After two, the builds probably fail, or
//! cannot be published, and so may the next one; a tier cannot pass on the reason. So all hosts that waited build at the same
//! time, and not one after the other. If a lease expired, its holder was killed, and the hosts wait for the next holder.

use std::time::{Duration, Instant};

/// The longest time between two calls to the remote tier while another host has the lease.
const LONGEST_POLL: Duration = Duration::from_millis(250);
const SHORTEST_POLL: Duration = Duration::from_millis(5);

/// One caller's wait for the lease on one key.
#[derive(Debug, Default)]
pub(crate) struct LeaseWait {
    held: Option<Held>,
    next_poll: Option<Instant>,
    early_releases: u32,
}

/// The lease as the tier last described it.
#[derive(Clone, Copy, Debug)]
struct Held {
    holder: u64,
    remaining: Duration,
    /// The earliest end of the lease, unless it is renewed.
    ends: Option<Instant>,
    /// The time of the last heartbeat.
    seen_alive: Instant,
    /// The time until the holder is stale without another heartbeat.
    alive_for: Duration,
}

impl LeaseWait {
    /// Whether a call to the tier is due.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.next_poll.is_none_or(|next| now >= next)
    }

    /// Records the answer to a call at the time `asked`: `holder` has the lease for `remaining`. Leases last for `ttl`.
    pub(crate) fn note(&mut self, asked: Instant, holder: u64, remaining: Duration, ttl: Duration) {
        let alive = match self.held {
            Some(before) if before.holder == holder => remaining > before.remaining,
            Some(before) => {
                self.early_releases += u32::from(before.ends.is_none_or(|ends| asked < ends));
                true
            }
            None => true,
        };
        let (seen_alive, alive_for) = match self.held.filter(|_| !alive) {
            Some(before) => (before.seen_alive, before.alive_for),
            None => (asked, remaining.max(ttl)),
        };
        let ends = asked.checked_add(remaining);
        self.held = Some(Held { holder, remaining, ends, seen_alive, alive_for });
        self.next_poll = Some(asked + remaining.clamp(SHORTEST_POLL, LONGEST_POLL));
    }

    /// Whether another host is known to have the lease.
    pub(crate) fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Whether two leases were released early, and another host has the next one.
    pub(crate) fn was_released_twice(&self) -> bool {
        self.early_releases >= 2
    }

    /// Whether the holder gave no heartbeat for longer than a lease lasts.
    pub(crate) fn is_stale(&self, now: Instant) -> bool {
        self.held.is_some_and(|held| self.is_stale_for(held.alive_for, now))
    }

    /// Whether the holder gave no heartbeat for `time`.
    pub(crate) fn is_stale_for(&self, time: Duration, now: Instant) -> bool {
        self.held.is_some_and(|held| now.saturating_duration_since(held.seen_alive) >= time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(30);

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    #[test]
    fn a_renewed_lease_is_alive_and_a_constant_one_is_not() {
        let (mut wait, began) = (LeaseWait::default(), Instant::now());
        // The lease is renewed every ten seconds, for an hour.
        for at in 0..3600 {
            let now = began + seconds(at);
            assert!(!wait.is_stale(now), "{at}");
            wait.note(now, 1, TTL - seconds(at % 10), TTL);
        }
        let last = began + seconds(3590);
        for at in 0..60 {
            wait.note(last + seconds(at), 1, seconds(5), TTL);
        }
        assert!(!wait.is_stale(last + TTL - Duration::from_millis(1)));
        assert!(wait.is_stale(last + TTL));
        assert!(!wait.was_released_twice());
    }

    #[test]
    fn a_lease_may_last_longer_than_ours() {
        let (mut wait, began) = (LeaseWait::default(), Instant::now());
        wait.note(began, 1, seconds(100), TTL);
        wait.note(began + seconds(90), 1, seconds(10), TTL);
        assert!(!wait.is_stale(began + seconds(99)) && wait.is_stale(began + seconds(100)));
    }

    #[test]
    fn another_holder_is_alive() {
        let (mut wait, began) = (LeaseWait::default(), Instant::now());
        wait.note(began, 1, seconds(5), TTL);
        // The first was killed: its lease expired before the second got it.
        wait.note(began + seconds(6), 2, seconds(4), TTL);
        assert!(!wait.was_released_twice());
        assert!(!wait.is_stale(began + seconds(35)) && wait.is_stale(began + seconds(36)));
    }

    #[test]
    fn leases_that_pass_on_before_their_end_were_released() {
        let (mut wait, began) = (LeaseWait::default(), Instant::now());
        wait.note(began, 1, TTL, TTL);
        wait.note(began + seconds(1), 1, TTL - seconds(1), TTL);
        assert!(!wait.was_released_twice());
        // The first may have been cancelled.
        wait.note(began + seconds(2), 2, TTL, TTL);
        assert!(!wait.was_released_twice());
        wait.note(began + seconds(3), 3, TTL, TTL);
        assert!(wait.was_released_twice());
    }

    #[test]
    fn polls_come_between_5_and_250_ms() {
        let (mut wait, now) = (LeaseWait::default(), Instant::now());
        assert!(wait.is_due(now));
        for (remaining, pause) in [(0, 5), (100, 100), (30_000, 250)] {
            wait.note(now, 1, Duration::from_millis(remaining), TTL);
            let pause = Duration::from_millis(pause);
            assert!(!wait.is_due(now + pause - Duration::from_micros(1)) && wait.is_due(now + pause));
        }
    }
}
