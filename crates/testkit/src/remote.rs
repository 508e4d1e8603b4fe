//! An engine in memory, for several hosts in one process: each host is a cache with a store of its own. It can be slow, wrong, full
//! or gone, lose objects, and lie about its leases.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use opkeep_cache::{
    Capabilities, ClaimAnswer, ClaimTerms, ExclusiveCreate, LeaseToken, LeaseValue, ListedObject, Listing,
    Namespace, ObjectName, ObjectNames, PutAnswer, RemoteContext, RemoteEngine, RemoteError, RemoteObject,
};
use opkeep_digest::Digest;
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
    /// It returns the object of this name for every entry.
    pub answers_with: Option<ObjectName>,
    /// A request for objects fails after so many were returned.
    pub fails_after: Option<usize>,
    /// It returns each object twice.
    pub repeats: bool,
    /// It returns answers to one request more than was made.
    pub answers_too_much: bool,
    /// What it says of exclusive creation; proven if unset. Without it, every claim succeeds.
    pub exclusive_create: Option<ExclusiveCreate>,
    /// Every lease is held by another host, which never renews it.
    pub holds_every_lease: bool,
    /// Every first lease is held by another host, which renews it before each reading.
    pub renews_every_lease: bool,
    /// Every lease is granted, also one that another host has.
    pub grants_every_lease: bool,
    /// It has no counters.
    pub has_no_counters: bool,
    /// It loses each lease and each counter at once.
    pub evicts_leases: bool,
    /// It refuses to delete objects, and to release leases.
    pub keeps_all: bool,
    /// It stores entries, and its answers do not arrive.
    pub loses_answers_to_puts: bool,
    /// The number of parts without objects at the beginning of a listing.
    pub empty_parts: usize,
    /// A listing returns to its first part after so many.
    pub repeats_listing_after: Option<usize>,
}

/// A call to a [`FakeRemote`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteCall {
    /// The capabilities were asked for.
    Capabilities,
    /// Objects were asked for.
    Get,
    /// Objects were put, unless they existed.
    Put,
    /// Objects were replaced.
    Replace,
    /// Leases were claimed.
    Claim,
    /// Leases were renewed.
    Renew,
    /// Leases were released.
    Release,
    /// A counter was read.
    Progress,
    /// A counter was advanced.
    Advance,
    /// Objects were listed.
    List,
    /// Objects were removed.
    Remove,
}

/// An engine in memory. Clones are the same.
#[derive(Clone, Default)]
pub struct FakeRemote(Arc<Shared>);

type OnCall = Arc<dyn Fn(RemoteCall, &[ObjectName]) + Send + Sync>;

#[derive(Default)]
struct Shared {
    /// The location, if it is not the usual one.
    location: Option<String>,
    state: Mutex<State>,
    called: Condvar,
}

#[derive(Default)]
struct State {
    faults: RemoteFaults,
    objects: BTreeMap<ObjectName, Vec<u8>>,
    /// The names of what is no object, such as a pipe in a directory.
    occupied: BTreeSet<ObjectName>,
    counters: BTreeMap<ObjectName, u64>,
    readings: u64,
    calls: Vec<RemoteCall>,
    /// How often each object was returned.
    returned: BTreeMap<ObjectName, usize>,
    on_call: Option<OnCall>,
}

/// The names of the objects of `target`, in the default namespace.
///
/// # Panics
/// No target has that name.
#[expect(clippy::panic, reason = "a test gave the name")]
pub fn names(target: &str) -> ObjectNames {
    match ObjectNames::new(&Namespace::default(), target) {
        Some(names) => names,
        None => panic!("`{target}` cannot be the name of a target"),
    }
}

/// The key in the name of an entry or a lease.
pub fn key_in(name: &ObjectName) -> Option<Digest> {
    let (_, last) = name.as_str().rsplit_once('/')?;
    last.split('.').next()?.parse().ok()
}

fn is_entry(name: &ObjectName) -> bool {
    name.as_str().contains("/e/")
}

fn is_lease(name: &ObjectName) -> bool {
    name.as_str().contains("/l/")
}

impl FakeRemote {
    /// An empty one that works.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty one that works, at another location than all others.
    pub fn at(location: &str) -> Self {
        Self(Arc::new(Shared { location: Some(location.to_owned()), ..Shared::default() }))
    }

    /// Sets its faults from now on.
    pub fn set_faults(&self, faults: RemoteFaults) {
        self.state().faults = faults;
    }

    /// Has `on_call` called at the beginning of each call, with the names that the call is about.
    pub fn on_call(&self, on_call: impl Fn(RemoteCall, &[ObjectName]) + Send + Sync + 'static) {
        self.state().on_call = Some(Arc::new(on_call));
    }

    /// The content of an object.
    pub fn object(&self, name: &ObjectName) -> Option<Vec<u8>> {
        self.state().objects.get(name).cloned()
    }

    /// Stores an object with any content.
    pub fn set_object(&self, name: &ObjectName, content: Vec<u8>) {
        self.state().objects.insert(name.clone(), content);
    }

    /// Gives the name of an object to something that is none: it exists, and cannot be read.
    pub fn occupy(&self, name: &ObjectName) {
        self.state().occupied.insert(name.clone());
    }

    /// Removes an object.
    pub fn remove_object(&self, name: &ObjectName) {
        self.state().objects.remove(name);
    }

    /// The names of all objects.
    pub fn object_names(&self) -> Vec<ObjectName> {
        self.state().objects.keys().cloned().collect()
    }

    /// The values of all counters.
    pub fn counters(&self) -> Vec<u64> {
        self.state().counters.values().copied().collect()
    }

    /// Whether there is a lease on `key`.
    pub fn is_leased(&self, key: &Digest) -> bool {
        self.state().objects.keys().any(|name| is_lease(name) && key_in(name) == Some(*key))
    }

    /// How often `call` was made.
    pub fn count(&self, call: RemoteCall) -> usize {
        self.state().calls.iter().filter(|made| **made == call).count()
    }

    /// How often each object was returned, of those that were.
    pub fn returned(&self) -> BTreeMap<ObjectName, usize> {
        self.state().returned.clone()
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
        names: &[ObjectName],
        context: &RemoteContext<'_>,
    ) -> Result<RemoteFaults, RemoteError> {
        let on_call = {
            let mut state = self.state();
            state.calls.push(call);
            state.on_call.clone()
        };
        self.0.called.notify_all();
        if let Some(on_call) = on_call {
            on_call(call, names);
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

    /// Begins a call that stores objects.
    fn begin_put(
        &self,
        call: RemoteCall,
        objects: &[RemoteObject<'_>],
        context: &RemoteContext<'_>,
    ) -> Result<RemoteFaults, RemoteError> {
        let names: Vec<_> = objects.iter().map(|object| object.name.clone()).collect();
        let faults = self.begin(call, &names, context)?;
        match faults.is_full {
            true => Err(RemoteError::Full { reason: "a test".to_owned() }),
            false => Ok(faults),
        }
    }
}

fn refused() -> RemoteError {
    RemoteError::Refused { reason: "these credentials delete nothing".to_owned() }
}

/// Takes `time`, within the limits of a call.
fn take_time(time: Duration, context: &RemoteContext<'_>) -> Result<(), RemoteError> {
    let began = Instant::now();
    loop {
        let left = time.saturating_sub(began.elapsed());
        if left.is_zero() {
            return match context.cancel.is_some_and(CancelToken::is_cancelled) {
                true => Err(RemoteError::Cancelled),
                false => Ok(()),
            };
        }
        std::thread::sleep(left.min(context.time_left()?).min(Duration::from_millis(1)));
    }
}

impl State {
    /// The content of an object as a faulty engine returns it.
    fn read(&mut self, name: &ObjectName) -> Option<Vec<u8>> {
        let faults = self.faults.clone();
        let is_renewed = faults.renews_every_lease && name.as_str().ends_with(".0");
        if is_lease(name) && (faults.holds_every_lease || is_renewed) {
            return Some(self.lease_of_another().to_string().into_bytes());
        }
        if !is_entry(name) {
            return self.objects.get(name).cloned();
        }
        let name = faults.answers_with.as_ref().unwrap_or(name);
        let mut content = self.objects.get(name)?.clone();
        if let Some(bit) = faults.flips_bit {
            let bit = bit % (content.len() * 8);
            content[bit / 8] ^= 1 << (bit % 8);
        }
        content.truncate(content.len().saturating_sub(faults.cuts));
        Some(content)
    }

    /// The value of every lease, if another host has all of them.
    fn lease_of_another(&mut self) -> LeaseValue {
        self.readings += u64::from(self.faults.renews_every_lease);
        LeaseValue::new(LeaseToken::new([0xee; 16]), self.readings)
    }

    fn holder(&self, name: &ObjectName) -> Option<LeaseValue> {
        self.objects.get(name).and_then(|content| LeaseValue::decode(content))
    }
}

impl RemoteEngine for FakeRemote {
    fn location(&self) -> &str {
        self.0.location.as_deref().unwrap_or("memory:")
    }

    fn capabilities(&self, context: &RemoteContext<'_>) -> Result<Capabilities, RemoteError> {
        let faults = self.begin(RemoteCall::Capabilities, &[], context)?;
        let mut found = Capabilities::new(faults.exclusive_create.unwrap_or(ExclusiveCreate::Proven));
        found.has_counters = !faults.has_no_counters;
        found.has_listing = true;
        found.expires_leases = true;
        Ok(found)
    }

    fn get_many(
        &self,
        names: &[ObjectName],
        context: &RemoteContext<'_>,
        found: &mut dyn FnMut(usize, Vec<u8>),
    ) -> Result<(), RemoteError> {
        let faults = self.begin(RemoteCall::Get, names, context)?;
        let mut returned = 0;
        for (at, name) in names.iter().enumerate() {
            let Some(content) = self.state().read(name) else { continue };
            if faults.fails_after.is_some_and(|count| returned >= count) {
                return Err(RemoteError::Unreachable { reason: "connection reset".to_owned() });
            }
            if faults.repeats {
                found(at, content.clone());
            }
            *self.state().returned.entry(name.clone()).or_default() += 1;
            found(at, content);
            returned += 1;
        }
        if faults.answers_too_much {
            found(names.len(), Vec::new());
        }
        Ok(())
    }

    fn put_if_absent(
        &self,
        objects: &[RemoteObject<'_>],
        context: &RemoteContext<'_>,
    ) -> Result<Vec<PutAnswer>, RemoteError> {
        let faults = self.begin_put(RemoteCall::Put, objects, context)?;
        let mut state = self.state();
        let mut answers = Vec::new();
        for object in objects {
            if state.objects.contains_key(object.name) || state.occupied.contains(object.name) {
                answers.push(PutAnswer::Existed);
                continue;
            }
            state.objects.insert(object.name.clone(), object.content.to_vec());
            answers.push(PutAnswer::Stored);
        }
        answers.extend(faults.answers_too_much.then_some(PutAnswer::Stored));
        if faults.loses_answers_to_puts {
            return Err(RemoteError::TimedOut);
        }
        Ok(answers)
    }

    fn replace(&self, objects: &[RemoteObject<'_>], context: &RemoteContext<'_>) -> Result<(), RemoteError> {
        self.begin_put(RemoteCall::Replace, objects, context)?;
        let mut state = self.state();
        for object in objects {
            state.occupied.remove(object.name);
            state.objects.insert(object.name.clone(), object.content.to_vec());
        }
        Ok(())
    }

    fn claim(
        &self,
        names: &[ObjectName],
        value: &LeaseValue,
        terms: ClaimTerms,
        context: &RemoteContext<'_>,
    ) -> Result<Vec<ClaimAnswer>, RemoteError> {
        let faults = self.begin(RemoteCall::Claim, names, context)?;
        let mut state = self.state();
        let (mut answers, mut granted) = (Vec::new(), 0);
        for name in names {
            if granted >= terms.limit {
                answers.push(ClaimAnswer::NotTried);
                continue;
            }
            if faults.holds_every_lease || faults.renews_every_lease && name.as_str().ends_with(".0") {
                answers.push(ClaimAnswer::Held(Some(state.lease_of_another())));
                continue;
            }
            if state.objects.contains_key(name) && !faults.grants_every_lease {
                answers.push(ClaimAnswer::Held(state.holder(name)));
                continue;
            }
            if !faults.evicts_leases {
                state.objects.insert(name.clone(), value.to_string().into_bytes());
            }
            granted += 1;
            answers.push(ClaimAnswer::Granted);
        }
        answers.extend(faults.answers_too_much.then_some(ClaimAnswer::NotTried));
        Ok(answers)
    }

    fn renew(
        &self,
        names: &[ObjectName],
        value: &LeaseValue,
        _keep_for: Duration,
        context: &RemoteContext<'_>,
    ) -> Result<Vec<bool>, RemoteError> {
        let faults = self.begin(RemoteCall::Renew, names, context)?;
        let mut state = self.state();
        let mut answers = Vec::new();
        for name in names {
            let is_own = state.holder(name).is_some_and(|holder| holder.token == value.token);
            if is_own {
                state.objects.insert(name.clone(), value.to_string().into_bytes());
            }
            answers.push(is_own);
        }
        answers.extend(faults.answers_too_much.then_some(true));
        Ok(answers)
    }

    fn release(
        &self,
        names: &[ObjectName],
        token: &LeaseToken,
        context: &RemoteContext<'_>,
    ) -> Result<(), RemoteError> {
        if self.begin(RemoteCall::Release, names, context)?.keeps_all {
            return Err(refused());
        }
        let mut state = self.state();
        for name in names {
            if state.holder(name).is_some_and(|holder| holder.token == *token) {
                state.objects.remove(name);
            }
        }
        Ok(())
    }

    fn progress(
        &self,
        counter: &ObjectName,
        context: &RemoteContext<'_>,
    ) -> Result<Option<u64>, RemoteError> {
        let faults = self.begin(RemoteCall::Progress, std::slice::from_ref(counter), context)?;
        let value = self.state().counters.get(counter).copied().unwrap_or(0);
        Ok((!faults.has_no_counters).then_some(value))
    }

    fn advance(
        &self,
        counter: &ObjectName,
        by: u64,
        _keep_for: Duration,
        context: &RemoteContext<'_>,
    ) -> Result<(), RemoteError> {
        let faults = self.begin(RemoteCall::Advance, std::slice::from_ref(counter), context)?;
        if !faults.has_no_counters && !faults.evicts_leases {
            *self.state().counters.entry(counter.clone()).or_default() += by;
        }
        Ok(())
    }

    fn list(&self, prefix: &str, cursor: &str, context: &RemoteContext<'_>) -> Result<Listing, RemoteError> {
        let faults = self.begin(RemoteCall::List, &[], context)?;
        let part: usize = cursor.parse().unwrap_or(0);
        let last = faults.repeats_listing_after.unwrap_or(usize::MAX);
        if part < faults.empty_parts {
            let next = if part == last { 1 } else { part + 1 };
            return Ok(Listing::new(Vec::new(), Some(next.to_string())));
        }
        let state = self.state();
        let listed = state.objects.iter().filter(|(name, _)| name.as_str().starts_with(prefix));
        let object = |(name, content): (&ObjectName, &Vec<u8>)| {
            ListedObject::new(name.clone(), content.len() as u64, None)
        };
        Ok(Listing::new(listed.map(object).collect(), None))
    }

    fn remove(&self, names: &[ObjectName], context: &RemoteContext<'_>) -> Result<(), RemoteError> {
        if self.begin(RemoteCall::Remove, names, context)?.keeps_all {
            return Err(refused());
        }
        names.iter().for_each(|name| self.remove_object(name));
        Ok(())
    }
}
