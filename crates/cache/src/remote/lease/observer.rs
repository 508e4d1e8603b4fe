//! What a host knows of the leases on one key, and what follows from it. Nothing here calls an engine or reads a clock.
//!
//! A lease is a generation. The first holder creates generation 0. If its value does not change for one time to live, a host
//! takes over: it creates generation 1 exclusively, and so on. An observer measures this by its own clock, between two readings,
//! so clocks of hosts need not agree, and a host that was stopped takes nothing over before it has read the lease again. A
//! holder that ends deletes its generation, and those that it took over from.
//!
//! If a lease vanishes and there is no entry, its holder was cancelled, failed, or could not publish, or the engine evicted the
//! lease. One host takes over. After two such ends, the builds probably fail, and a tier cannot pass on the reason: if another
//! host has the next lease, all hosts that waited build at the same time, and not one after the other.

use std::time::{Duration, Instant};

use crate::remote::object::{LeaseToken, LeaseValue};

/// The number of generations: if as many holders of one key exited without releasing their leases, the hosts build without one.
const MAX_GENERATIONS: u64 = 5;
/// The number of holders that ended without an entry, after which the hosts build without a lease.
const MAX_RELEASES: u32 = 2;

/// The leases on one key, as a host knows them.
#[derive(Clone, Debug, Default)]
pub struct LeaseObserver {
    /// The generation that is observed, or that the host would claim.
    generation: u64,
    /// The lease of that generation; `None` if there is none.
    seen: Option<Seen>,
    /// The holders of the lower generations, which are stale.
    stale: Vec<Option<StaleHolder>>,
    /// The number of holders that ended without an entry.
    releases: u32,
}

#[derive(Clone, Copy, Debug)]
struct StaleHolder {
    token: LeaseToken,
    /// Whether it is known as a process of this host that is dead, and not by the time that passed.
    is_of_this_host: bool,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    /// `None`: the content is no value of a lease.
    value: Option<LeaseValue>,
    /// The time of the first reading of this value.
    changed: Instant,
    /// The time of its last reading.
    read: Instant,
}

/// One reading of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseReading {
    /// There is no such lease.
    Absent,
    /// A host has it.
    Held(LeaseValue),
    /// Its content is no value of a lease: no host has it.
    Invalid,
}

/// What a host that misses an entry does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseStep {
    /// Wait: another host has the lease.
    Wait,
    /// Claim this generation.
    Claim {
        /// The generation.
        generation: u64,
    },
    /// Build without a lease.
    Build {
        /// Whether several holders were stale, one after the other.
        is_stale: bool,
    },
}

impl LeaseReading {
    /// Creates the reading of an object's content.
    pub fn new(content: Option<&[u8]>) -> Self {
        match content.map(LeaseValue::decode) {
            None => Self::Absent,
            Some(Some(value)) => Self::Held(value),
            Some(None) => Self::Invalid,
        }
    }
}

impl LeaseObserver {
    /// Returns the first generation to read, and how many: the next one is read as well if nothing is known of this one, or it
    /// may have been taken over.
    pub fn generations(&self, now: Instant, ttl: Duration) -> (u64, usize) {
        let may_be_stale =
            |seen: Seen| seen.value.is_none() || now.saturating_duration_since(seen.changed) >= ttl / 2;
        (self.generation, if self.seen.is_none_or(may_be_stale) { 2 } else { 1 })
    }

    /// Records readings of the [generations](Self::generations), from a call that began at `asked`.
    pub fn note(&mut self, asked: Instant, readings: &[LeaseReading]) {
        match readings {
            [own, next, ..] if *next != LeaseReading::Absent => {
                if let LeaseReading::Held(value) = own {
                    self.seen = Some(Seen { value: Some(*value), changed: asked, read: asked });
                }
                self.advance(asked, *next);
            }
            [own, ..] => self.note_one(asked, *own),
            [] => {}
        }
    }

    /// Records that the process that had `generation` with `token` is dead: its lease is stale, whatever its age.
    pub fn note_dead(&mut self, generation: u64, token: LeaseToken) {
        if generation < self.generation || generation >= MAX_GENERATIONS {
            return;
        }
        self.note_stale(generation, StaleHolder { token, is_of_this_host: true });
        if generation == self.generation && self.seen.is_some_and(|seen| seen.token() == Some(token)) {
            self.generation += 1;
            self.seen = None;
        }
    }

    /// Records that the claim of `generation`, in a call that began at `asked`, found another host's lease.
    pub fn note_held(&mut self, asked: Instant, generation: u64, value: Option<LeaseValue>) {
        let reading = value.map_or(LeaseReading::Invalid, LeaseReading::Held);
        if generation > self.generation {
            return self.advance(asked, reading);
        }
        if generation == self.generation {
            self.note_one(asked, reading);
        }
    }

    fn note_one(&mut self, asked: Instant, reading: LeaseReading) {
        let value = match reading {
            LeaseReading::Absent => {
                if self.seen.take().is_some() {
                    self.releases += 1;
                    // Its holder deletes the lower generations first.
                    self.generation = 0;
                }
                return;
            }
            LeaseReading::Held(value) => Some(value),
            LeaseReading::Invalid => None,
        };
        if value.is_some_and(|value| self.is_known_as_stale(self.generation, &value)) {
            self.generation += 1;
            self.seen = None;
            return;
        }
        let before = self.seen.filter(|seen| seen.token() == value.map(|value| value.token));
        // Another holder has the same generation: the last one ended in between.
        self.releases += u32::from(before.is_none() && self.seen.is_some_and(|seen| seen.value.is_some()));
        let changed = before.filter(|seen| seen.value == value).map_or(asked, |seen| seen.changed);
        self.seen = Some(Seen { value, changed, read: asked });
    }

    /// Records that the next generation exists, so the holder of this one is stale.
    fn advance(&mut self, asked: Instant, next: LeaseReading) {
        let token = self.seen.take().and_then(|seen| seen.token());
        if let Some(token) = token {
            self.note_stale(self.generation, StaleHolder { token, is_of_this_host: false });
        }
        self.generation += 1;
        self.note_one(asked, next);
    }

    /// Records the holder of one generation as stale. What is known of the others stays.
    fn note_stale(&mut self, generation: u64, holder: StaleHolder) {
        if self.stale_at_generation(generation).is_some_and(|known| known.token == holder.token) {
            return;
        }
        let at = usize::try_from(generation).unwrap_or(usize::MAX);
        if self.stale.len() <= at {
            self.stale.resize(at.saturating_add(1), None);
        }
        if let Some(known) = self.stale.get_mut(at) {
            *known = Some(holder);
        }
    }

    fn stale_at_generation(&self, generation: u64) -> Option<StaleHolder> {
        let at = usize::try_from(generation).ok()?;
        self.stale.get(at).copied().flatten()
    }

    fn is_known_as_stale(&self, generation: u64, value: &LeaseValue) -> bool {
        self.stale_at_generation(generation).is_some_and(|holder| holder.token == value.token)
    }

    /// Returns what the host does next, if a lease without a heartbeat is taken over after `ttl`.
    pub fn step(&self, ttl: Duration) -> LeaseStep {
        if self.generation >= MAX_GENERATIONS {
            return LeaseStep::Build { is_stale: true };
        }
        let generation = match self.seen {
            None => self.generation,
            Some(seen)
                if seen.value.is_none() || seen.read.saturating_duration_since(seen.changed) >= ttl =>
            {
                self.generation + 1
            }
            Some(_) if self.releases >= MAX_RELEASES => return LeaseStep::Build { is_stale: false },
            Some(_) => return LeaseStep::Wait,
        };
        match generation < MAX_GENERATIONS {
            true => LeaseStep::Claim { generation },
            false => LeaseStep::Build { is_stale: true },
        }
    }

    /// Returns the time at which a reading may show that the holder is stale.
    pub fn stale_at(&self, ttl: Duration) -> Option<Instant> {
        self.seen.and_then(|seen| seen.changed.checked_add(ttl))
    }

    /// Returns the time of the holder's last heartbeat, as this host noticed it.
    pub fn alive_at(&self) -> Option<Instant> {
        self.seen.map(|seen| seen.changed)
    }

    /// Returns the generations below `generation` whose stale holders are known. The host that claimed `generation` deletes
    /// them when it ends.
    pub fn below(&self, generation: u64) -> Vec<(u64, LeaseToken)> {
        let current = (self.generation, self.seen.and_then(|seen| seen.token()));
        let known = self.stale.iter().map(|holder| holder.map(|holder| holder.token));
        let known = (0..).zip(known).filter(|(at, _)| *at < self.generation);
        let all = known.chain([current]).filter(|(at, _)| *at < generation);
        all.filter_map(|(at, token)| Some((at, token?))).collect()
    }

    /// Whether the host that claims `generation` takes over from another host, as far as it knows: from a holder that gave no
    /// heartbeat, and not from a process of its own that is dead.
    pub fn is_takeover(&self, generation: u64) -> bool {
        let Some(below) = generation.checked_sub(1) else { return false };
        !(below < self.generation
            && self.stale_at_generation(below).is_some_and(|holder| holder.is_of_this_host))
    }
}

impl Seen {
    fn token(&self) -> Option<LeaseToken> {
        self.value.map(|value| value.token)
    }
}

#[cfg(test)]
mod tests {
    use super::LeaseReading::{Absent, Held, Invalid};
    use super::LeaseStep::{Build, Claim, Wait};
    use super::*;

    const TTL: Duration = Duration::from_secs(30);
    const FIRST: LeaseStep = Claim { generation: 0 };

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    fn value(holder: u8, heartbeats: u64) -> LeaseValue {
        LeaseValue::new(LeaseToken::new([holder; 16]), heartbeats)
    }

    fn held(holder: u8, heartbeats: u64) -> LeaseReading {
        Held(value(holder, heartbeats))
    }

    #[test]
    fn a_newcomer_reads_two_generations_and_claims_the_first() {
        let (mut observer, now) = (LeaseObserver::default(), Instant::now());
        assert_eq!((observer.generations(now, TTL), observer.step(TTL)), ((0, 2), FIRST));
        observer.note(now, &[Absent, Absent]);
        assert_eq!(observer.step(TTL), FIRST);
        observer.note_held(now, 0, Some(value(1, 0)));
        assert_eq!((observer.generations(now, TTL), observer.step(TTL)), ((0, 1), Wait));
    }

    #[test]
    fn a_holder_with_heartbeats_is_waited_for() {
        let (mut observer, now) = (LeaseObserver::default(), Instant::now());
        for beat in 0..400 {
            let at = now + seconds(beat * 10);
            observer.note(at, &[held(1, beat), Absent][..observer.generations(at, TTL).1]);
            assert_eq!(observer.step(TTL), Wait, "{beat}");
        }
    }

    #[test]
    fn a_holder_without_a_heartbeat_is_taken_over_after_one_time_to_live() {
        let (mut observer, now) = (LeaseObserver::default(), Instant::now());
        observer.note(now, &[held(1, 7), Absent]);
        let last = now + TTL - Duration::from_millis(1);
        assert_eq!(observer.generations(last, TTL), (0, 2));
        observer.note(last, &[held(1, 7), Absent]);
        assert_eq!(observer.step(TTL), Wait);
        observer.note(now + TTL, &[held(1, 7), Absent]);
        assert_eq!(observer.step(TTL), Claim { generation: 1 });
        assert_eq!((observer.below(1), observer.is_takeover(1)), (vec![(0, value(1, 7).token)], true));
    }

    /// The kernel of the host knows that the process is dead, so no time has to pass.
    #[test]
    fn a_holder_that_is_dead_is_taken_over_at_once() {
        let now = Instant::now();
        let dead = value(1, 7).token;
        for knows_before in [true, false] {
            let mut observer = LeaseObserver::default();
            if knows_before {
                observer.note(now, &[held(1, 7), Absent]);
                assert_eq!(observer.step(TTL), Wait);
            }
            observer.note_dead(0, dead);
            if !knows_before {
                observer.note(now, &[held(1, 7), Absent]);
            }
            assert_eq!((observer.step(TTL), observer.below(1)), (Claim { generation: 1 }, vec![(0, dead)]));
            assert!(!observer.is_takeover(0) && !observer.is_takeover(1), "it is of this host");
            // Another host may have taken over, and the next holder of the same generation is not dead.
            let mut taken = observer.clone();
            taken.note_held(now, 1, Some(value(2, 0)));
            assert_eq!(taken.step(TTL), Wait);
            taken.note(now + TTL, &[held(2, 0), Absent]);
            assert!(taken.step(TTL) == Claim { generation: 2 } && taken.is_takeover(2));
        }
        let mut observer = LeaseObserver::default();
        observer.note_dead(0, dead);
        assert_eq!(observer.step(TTL), FIRST);
        observer.note(now, &[held(2, 0), Absent]);
        assert_eq!(observer.step(TTL), Wait);
        // What cannot be is ignored.
        observer.note_dead(u64::MAX, dead);
        assert_eq!(observer.step(TTL), Wait);
    }

    /// A third process of a host, after the second one took over from the first, and was killed as well.
    #[test]
    fn a_holder_of_a_later_generation_that_is_dead_is_taken_over_at_once() {
        let now = Instant::now();
        let [first, second] = [value(1, 7).token, value(2, 0).token];
        for is_first_deleted in [false, true] {
            let mut observer = LeaseObserver::default();
            observer.note_dead(1, second);
            assert_eq!(observer.step(TTL), FIRST);
            let own = if is_first_deleted { Absent } else { held(1, 7) };
            observer.note(now, &[own, held(2, 0)]);
            assert_eq!(observer.step(TTL), Claim { generation: 2 });
            let below = [(0, first), (1, second)];
            assert_eq!(observer.below(2), below[usize::from(is_first_deleted)..]);
        }
        // Both notes, in any order.
        for order in [[(0, first), (1, second)], [(1, second), (0, first)]] {
            let mut observer = LeaseObserver::default();
            order.into_iter().for_each(|(generation, token)| observer.note_dead(generation, token));
            observer.note(now, &[held(1, 7), Absent]);
            assert_eq!(observer.step(TTL), Claim { generation: 1 });
            observer.note_held(now, 1, Some(value(2, 0)));
            assert_eq!(observer.step(TTL), Claim { generation: 2 });
        }
    }

    /// Time alone proves nothing: a host that was stopped, or got no answers, reads the lease again first.
    #[test]
    fn a_host_that_was_stopped_takes_nothing_over() {
        let (mut observer, now) = (LeaseObserver::default(), Instant::now());
        observer.note(now, &[held(1, 7), Absent]);
        assert_eq!(observer.step(TTL), Wait);
        observer.note(now + seconds(3600), &[held(1, 367), Absent]);
        assert_eq!(observer.step(TTL), Wait);
    }

    #[test]
    fn a_newcomer_finds_the_generation_that_took_over() {
        let (mut observer, now) = (LeaseObserver::default(), Instant::now());
        observer.note(now, &[held(1, 7), held(2, 0)]);
        assert_eq!((observer.generations(now, TTL).0, observer.step(TTL)), (1, Wait));
        assert_eq!(observer.below(2), [(0, value(1, 0).token), (1, value(2, 0).token)]);
        // The engine has deleted the stale generation by now.
        let mut late = LeaseObserver::default();
        late.note(now, &[Absent, held(2, 3)]);
        assert_eq!((late.generations(now, TTL).0, late.step(TTL)), (1, Wait));
    }

    #[test]
    fn another_hosts_takeover_is_observed_anew() {
        let (mut observer, now) = (LeaseObserver::default(), Instant::now());
        observer.note(now, &[held(1, 7), Absent]);
        observer.note(now + TTL, &[held(1, 7), Absent]);
        observer.note_held(now + TTL, 1, Some(value(2, 0)));
        assert_eq!((observer.generations(now + TTL, TTL), observer.step(TTL)), ((1, 1), Wait));
        observer.note(now + TTL + seconds(29), &[held(2, 0)]);
        assert_eq!(observer.step(TTL), Wait);
        observer.note(now + TTL * 2, &[held(2, 0), Absent]);
        assert_eq!(observer.step(TTL), Claim { generation: 2 });
    }

    #[test]
    fn a_lease_that_vanished_is_claimed_from_the_first_generation_on() {
        let (mut observer, now) = (LeaseObserver::default(), Instant::now());
        observer.note(now, &[held(1, 7), held(2, 0)]);
        observer.note(now + seconds(1), &[Absent]);
        assert_eq!(observer.step(TTL), FIRST);
        // The stale generation was not deleted.
        observer.note_held(now + seconds(1), 0, Some(value(1, 7)));
        assert_eq!(observer.step(TTL), Claim { generation: 1 });
        observer.note(now + seconds(2), &[Absent, Absent]);
        assert_eq!(observer.step(TTL), Claim { generation: 1 });
    }

    #[test]
    fn after_two_ends_without_an_entry_all_hosts_build() {
        let (mut observer, now) = (LeaseObserver::default(), Instant::now());
        observer.note(now, &[held(1, 0), Absent]);
        observer.note(now + seconds(1), &[Absent]);
        observer.note_held(now + seconds(1), 0, Some(value(2, 0)));
        assert_eq!(observer.step(TTL), Wait, "the first may have been cancelled");
        observer.note(now + seconds(2), &[held(3, 0)]);
        assert_eq!(observer.step(TTL), Build { is_stale: false });
        // If no other host has the lease, this one takes it.
        observer.note(now + seconds(3), &[Absent]);
        assert_eq!(observer.step(TTL), FIRST);
    }

    #[test]
    fn what_is_no_lease_keeps_no_host_waiting() {
        let (mut observer, now) = (LeaseObserver::default(), Instant::now());
        observer.note(now, &[Invalid, Absent]);
        assert_eq!(observer.step(TTL), Claim { generation: 1 });
        observer.note_held(now, 1, None);
        assert_eq!(observer.step(TTL), Claim { generation: 2 });
        for generation in 2..MAX_GENERATIONS {
            observer.note_held(now, generation, None);
        }
        assert_eq!(observer.step(TTL), Build { is_stale: true });
    }

    /// An engine that says that each lease is held, always with the same value.
    #[test]
    fn an_engine_that_lies_ends_after_some_times_to_live() {
        let (mut observer, mut now) = (LeaseObserver::default(), Instant::now());
        let began = now;
        loop {
            match observer.step(TTL) {
                Build { is_stale } => break assert!(is_stale),
                Wait => now += TTL / 3,
                Claim { generation } => observer.note_held(now, generation, Some(value(9, 9))),
            }
            let (_, count) = observer.generations(now, TTL);
            observer.note(now, &[held(9, 9); 2][..count.min(1)]);
            assert!(now - began < TTL * 10);
        }
    }

    /// The same, if each reading finds the next generation, too: each looks like a takeover.
    #[test]
    fn an_engine_in_which_every_lease_exists_ends_soon() {
        let (mut observer, mut now) = (LeaseObserver::default(), Instant::now());
        let began = now;
        while observer.step(TTL) != (Build { is_stale: true }) {
            observer.note(now, &[held(9, 9); 2][..observer.generations(now, TTL).1]);
            now += TTL / 3;
            assert!(now - began < TTL * 10);
        }
    }

    /// Two observers of one lease, whose holder exits, with the same readings: one claim succeeds, the other host waits for it.
    #[test]
    fn of_two_observers_one_takes_over() {
        let now = Instant::now();
        let mut observers = [LeaseObserver::default(), LeaseObserver::default()];
        // The second one began later by its own clock, and so waits longer.
        for (observer, late) in observers.iter_mut().zip([0, 9]) {
            observer.note(now + seconds(late), &[held(1, 0), Absent]);
        }
        let at = now + TTL;
        observers.iter_mut().for_each(|observer| observer.note(at, &[held(1, 0), Absent]));
        assert_eq!(observers.each_ref().map(|observer| observer.step(TTL)), [Claim { generation: 1 }, Wait]);
        observers[1].note(at + seconds(10), &[held(1, 0), held(2, 1)]);
        assert_eq!(observers[1].step(TTL), Wait);
        assert_eq!(observers[1].generations(at + seconds(10), TTL), (1, 1));
    }
}
