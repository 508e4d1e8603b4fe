//! A remote tier in memory, for several hosts in one process: each host is a cache with a store of its own. It can be slow,
//! wrong, full or gone, and lie about its leases.
//!
//! The time of its leases is a clock of its own, which stands still until [`FakeRemote::advance`] moves it.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use opkeep_cache::{Lease, LeaseGuard, RemoteContext, RemoteError, RemoteKey, RemoteTier};
use opkeep_fs::CancelToken;

/// The faults of a [`FakeRemote`]; none by default.
#[derive(Clone, Debug, Default)]
pub struct RemoteFaults {
    /// Every call fails: it cannot be reached.
    pub is_gone: bool,
    /// No entry is put: it has no space.
    pub is_full: bool,
    /// So long each call takes. A call ends without an answer at its deadline, or when its token is cancelled.
    pub delay: Duration,
    /// The calls ignore their deadlines and tokens.
    pub ignores_deadlines: bool,
    /// One bit of each entry that it returns is flipped: the one at this position, modulo the number of bits.
    pub flips_bit: Option<usize>,
    /// So many bytes of each entry that it returns are missing at the end.
    pub cuts: usize,
    /// It returns the entry of this key for every request.
    pub answers_with: Option<RemoteKey>,
    /// It has no leases.
    pub has_no_leases: bool,
    /// Every lease is held by another host, for so long.
    pub holds_every_lease: Option<Duration>,
    /// Every lease is granted, also one that another host has.
    pub grants_every_lease: bool,
}

/// A call to a [`FakeRemote`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteCall {
    /// An entry was asked for.
    Get,
    /// An entry was put.
    Put,
    /// A lease was asked for.
    Lease,
    /// A lease was renewed.
    Renew,
    /// A lease was released.
    Release,
}

/// A remote tier in memory. Clones are the same.
#[derive(Clone, Default)]
pub struct FakeRemote(Arc<Shared>);

type OnCall = Arc<dyn Fn(RemoteCall, &RemoteKey) + Send + Sync>;

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    called: Condvar,
}

#[derive(Default)]
struct State {
    faults: RemoteFaults,
    entries: HashMap<RemoteKey, Vec<u8>>,
    /// The number of the grant of each lease, and its end.
    leases: HashMap<RemoteKey, (u64, Duration)>,
    granted: u64,
    now: Duration,
    calls: Vec<RemoteCall>,
    on_call: Option<OnCall>,
}

impl FakeRemote {
    /// An empty one that works.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets its faults from now on.
    pub fn set_faults(&self, faults: RemoteFaults) {
        self.state().faults = faults;
    }

    /// Has `on_call` called at the beginning of each call.
    pub fn on_call(&self, on_call: impl Fn(RemoteCall, &RemoteKey) + Send + Sync + 'static) {
        self.state().on_call = Some(Arc::new(on_call));
    }

    /// Moves the clock of the leases.
    pub fn advance(&self, time: Duration) {
        self.state().now += time;
    }

    /// The bytes under `key`.
    pub fn file(&self, key: &RemoteKey) -> Option<Vec<u8>> {
        self.state().entries.get(key).cloned()
    }

    /// Puts any bytes under `key`.
    pub fn set_file(&self, key: &RemoteKey, file: Vec<u8>) {
        self.state().entries.insert(key.clone(), file);
    }

    /// Whether a host has the lease of `key`.
    pub fn is_leased(&self, key: &RemoteKey) -> bool {
        let state = self.state();
        state.leases.get(key).is_some_and(|(_, until)| *until > state.now)
    }

    /// How often `call` was made.
    pub fn count(&self, call: RemoteCall) -> usize {
        self.state().calls.iter().filter(|made| **made == call).count()
    }

    /// All calls so far.
    pub fn calls(&self) -> Vec<RemoteCall> {
        self.state().calls.clone()
    }

    /// Waits until `call` was made `times` times.
    ///
    /// # Panics
    /// It was not within 20 s.
    pub fn wait_for(&self, call: RemoteCall, times: usize) {
        let enough = |state: &mut State| state.calls.iter().filter(|made| **made == call).count() < times;
        let waited = self.0.called.wait_timeout_while(self.state(), Duration::from_secs(20), enough);
        let (_state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(!timeout.timed_out(), "{call:?} was not made {times} times");
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a call, and applies the faults that every call has.
    fn begin(
        &self,
        call: RemoteCall,
        key: &RemoteKey,
        context: &RemoteContext<'_>,
    ) -> Result<RemoteFaults, RemoteError> {
        let on_call = {
            let mut state = self.state();
            state.calls.push(call);
            state.on_call.clone()
        };
        self.0.called.notify_all();
        if let Some(on_call) = on_call {
            on_call(call, key);
        }
        let faults = self.state().faults.clone();
        if faults.ignores_deadlines {
            std::thread::sleep(faults.delay);
        } else {
            take_time(faults.delay, context)?;
        }
        match faults.is_gone {
            true => Err(RemoteError::Unreachable { reason: "connection refused".to_owned() }),
            false => Ok(faults),
        }
    }
}

/// Takes `time`, within the limits of a call.
fn take_time(time: Duration, context: &RemoteContext<'_>) -> Result<(), RemoteError> {
    let began = Instant::now();
    loop {
        if context.cancel.is_some_and(CancelToken::is_cancelled) {
            return Err(RemoteError::Cancelled);
        }
        let left = time.saturating_sub(began.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        if Instant::now() >= context.deadline {
            return Err(RemoteError::TimedOut);
        }
        std::thread::sleep(left.min(Duration::from_millis(1)));
    }
}

impl RemoteTier for FakeRemote {
    fn get(&self, key: &RemoteKey, context: &RemoteContext<'_>) -> Result<Option<Vec<u8>>, RemoteError> {
        let faults = self.begin(RemoteCall::Get, key, context)?;
        let key = faults.answers_with.as_ref().unwrap_or(key);
        let Some(mut file) = self.file(key) else { return Ok(None) };
        if let Some(bit) = faults.flips_bit {
            let bit = bit % (file.len() * 8);
            file[bit / 8] ^= 1 << (bit % 8);
        }
        file.truncate(file.len().saturating_sub(faults.cuts));
        Ok(Some(file))
    }

    fn put(&self, key: &RemoteKey, file: &[u8], context: &RemoteContext<'_>) -> Result<(), RemoteError> {
        let faults = self.begin(RemoteCall::Put, key, context)?;
        if faults.is_full {
            return Err(RemoteError::Full { reason: "a test".to_owned() });
        }
        self.set_file(key, file.to_vec());
        Ok(())
    }

    fn lease(
        &self,
        key: &RemoteKey,
        ttl: Duration,
        context: &RemoteContext<'_>,
    ) -> Result<Lease, RemoteError> {
        let faults = self.begin(RemoteCall::Lease, key, context)?;
        if faults.has_no_leases {
            return Ok(Lease::Unsupported);
        }
        if let Some(remaining) = faults.holds_every_lease {
            return Ok(Lease::Held { remaining, holder: 0 });
        }
        let mut state = self.state();
        let now = state.now;
        if let Some((holder, until)) = state.leases.get(key)
            && *until > now
            && !faults.grants_every_lease
        {
            return Ok(Lease::Held { remaining: *until - now, holder: *holder });
        }
        state.granted += 1;
        let number = state.granted;
        state.leases.insert(key.clone(), (number, now + ttl));
        Ok(Lease::Granted(Box::new(FakeLease { remote: self.clone(), key: key.clone(), number })))
    }
}

struct FakeLease {
    remote: FakeRemote,
    key: RemoteKey,
    number: u64,
}

impl LeaseGuard for FakeLease {
    fn renew(&mut self, ttl: Duration, context: &RemoteContext<'_>) -> Result<bool, RemoteError> {
        self.remote.begin(RemoteCall::Renew, &self.key, context)?;
        let mut state = self.remote.state();
        let until = state.now + ttl;
        match state.leases.get_mut(&self.key) {
            Some(lease) if lease.0 == self.number => {
                lease.1 = until;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn release(self: Box<Self>, context: &RemoteContext<'_>) {
        if self.remote.begin(RemoteCall::Release, &self.key, context).is_err() {
            return;
        }
        let mut state = self.remote.state();
        if state.leases.get(&self.key).is_some_and(|(number, _)| *number == self.number) {
            state.leases.remove(&self.key);
        }
    }
}
