//! The interface that the client of an engine implements. An engine is what stores objects on the network, such as Redis or S3.
//!
//! An engine stores named objects and leases. It knows nothing of kernels, of trust, or of when to try again: that is the cache's.
//! A lease only saves work, and no answer is trusted. So an engine that loses objects, or grants one lease twice, costs compiles,
//! and nothing else.

use std::fmt;
use std::time::Duration;

use opkeep_text::counted;

use super::context::RemoteContext;
use super::error::RemoteError;
use super::object::{LeaseToken, LeaseValue, ObjectName};

/// The client of an engine.
///
/// A call may block until the deadline of its context, or until the context's token is cancelled, which the client checks ten
/// times a second or more often. Many threads call a client at the same time. A client does not try again, except over a new
/// connection, if the engine had closed an idle one, and for a moment, while the engine has too many calls.
pub trait RemoteEngine: Send + Sync {
    /// Returns where the engine is, for messages: a URL without credentials.
    fn location(&self) -> &str;

    /// Returns what the engine does. A client that cannot know it asks the engine at the first call, and remembers the answer.
    ///
    /// # Errors
    /// The engine gave no answer.
    fn capabilities(&self, context: &RemoteContext<'_>) -> Result<Capabilities, RemoteError>;

    /// Requests objects. Calls `found` with the index of a name and the object's content as each arrives, in any order, and at
    /// most once for an index. An object that the engine does not have is not reported. Something that has its name and is no object, such
    /// as a link in a directory, is reported without content, if the engine knows of it.
    ///
    /// # Errors
    /// The engine did not answer for all names. What was reported before counts.
    fn get_many(
        &self,
        names: &[ObjectName],
        context: &RemoteContext<'_>,
        found: &mut dyn FnMut(usize, Vec<u8>),
    ) -> Result<(), RemoteError>;

    /// Stores objects that the engine does not have, each as a whole or not at all. Returns an answer for each.
    ///
    /// # Errors
    /// The engine did not answer for all objects, or refused one. Some may be stored.
    fn put_if_absent(
        &self,
        objects: &[RemoteObject<'_>],
        context: &RemoteContext<'_>,
    ) -> Result<Vec<PutAnswer>, RemoteError>;

    /// Stores objects, in place of existing ones, and of what has their names and is no object.
    ///
    /// # Errors
    /// As [`put_if_absent`](Self::put_if_absent).
    fn replace(&self, objects: &[RemoteObject<'_>], context: &RemoteContext<'_>) -> Result<(), RemoteError>;

    /// Creates leases exclusively, in the order of their names, until the number in `terms` are granted. Returns an answer for
    /// each name.
    ///
    /// # Errors
    /// The engine did not answer for all names, or has no leases. Some may be granted; they end when nothing renews them.
    fn claim(
        &self,
        names: &[ObjectName],
        value: &LeaseValue,
        terms: ClaimTerms,
        context: &RemoteContext<'_>,
    ) -> Result<Vec<ClaimAnswer>, RemoteError>;

    /// Replaces the value of each lease that still has the token of `value`. Returns for each whether it had.
    ///
    /// # Errors
    /// The engine did not answer for all names.
    fn renew(
        &self,
        names: &[ObjectName],
        value: &LeaseValue,
        keep_for: Duration,
        context: &RemoteContext<'_>,
    ) -> Result<Vec<bool>, RemoteError>;

    /// Deletes each lease that still has this token. An engine that cannot compare deletes them after it has read them.
    ///
    /// # Errors
    /// The engine did not answer for all names.
    fn release(
        &self,
        names: &[ObjectName],
        token: &LeaseToken,
        context: &RemoteContext<'_>,
    ) -> Result<(), RemoteError>;

    /// Returns the value of a counter, 0 if nothing was added to it. `None`: the engine has no counters.
    ///
    /// # Errors
    /// The engine gave no answer.
    fn progress(&self, counter: &ObjectName, context: &RemoteContext<'_>)
    -> Result<Option<u64>, RemoteError>;

    /// Adds `by` to a counter, which the engine keeps for `keep_for` from now. Does nothing if the engine has no counters.
    ///
    /// # Errors
    /// The engine gave no answer.
    fn advance(
        &self,
        counter: &ObjectName,
        by: u64,
        keep_for: Duration,
        context: &RemoteContext<'_>,
    ) -> Result<(), RemoteError>;

    /// Returns a part of the objects whose names begin with `prefix`, which is empty or ends with `/`. `cursor` is empty at first,
    /// and that of the last answer afterwards.
    ///
    /// # Errors
    /// The engine gave no answer, or cannot list objects ([`RemoteError::Unsupported`]).
    fn list(&self, prefix: &str, cursor: &str, context: &RemoteContext<'_>) -> Result<Listing, RemoteError>;

    /// Deletes objects, and what has their names and is no object. A missing one is fine.
    ///
    /// # Errors
    /// The engine did not answer for all names, refused one, or cannot delete objects ([`RemoteError::Unsupported`]).
    fn remove(&self, names: &[ObjectName], context: &RemoteContext<'_>) -> Result<(), RemoteError>;

    /// Returns the engine's limit on the size of all objects, if it has one. By default there is none.
    ///
    /// # Errors
    /// The engine gave no answer, does not state its limit, or not for these credentials ([`RemoteError::Refused`]).
    fn space(&self, context: &RemoteContext<'_>) -> Result<Option<EngineSpace>, RemoteError> {
        let _ = context;
        Ok(None)
    }
}

/// The space of an engine with a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineSpace {
    /// The bytes in use.
    pub used: u64,
    /// The maximum.
    pub limit: u64,
    /// Whether the engine deletes objects to store others. If not, one that is full refuses them.
    pub evicts: bool,
}

impl EngineSpace {
    /// Creates the space of an engine that evicts nothing.
    pub fn new(used: u64, limit: u64) -> Self {
        Self { used, limit, evicts: false }
    }

    /// Whether nine tenths of it are in use, and nothing is evicted.
    pub fn is_nearly_full(&self) -> bool {
        !self.evicts && self.used / 9 >= self.limit / 10
    }
}

/// What an engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Whether one of several clients that create the same name succeeds.
    pub exclusive_create: ExclusiveCreate,
    /// Whether the engine deletes leases that nothing renews.
    pub expires_leases: bool,
    /// Whether it has counters.
    pub has_counters: bool,
    /// Whether it lists its objects.
    pub has_listing: bool,
    /// The size of the largest object, in bytes.
    pub max_object_bytes: u64,
}

impl Capabilities {
    /// Creates the capabilities of an engine that stores objects of any size, and does nothing else.
    pub fn new(exclusive_create: ExclusiveCreate) -> Self {
        Self {
            exclusive_create,
            expires_leases: false,
            has_counters: false,
            has_listing: false,
            max_object_bytes: u64::MAX,
        }
    }
}

/// Whether one of several clients that create the same name at the same time succeeds, and all others fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExclusiveCreate {
    /// The engine guarantees it.
    Proven,
    /// The engine refuses to create an existing name. Nothing says what it does if clients create it at the same time.
    Unproven,
    /// The engine replaces an existing name: it has no leases.
    None,
}

/// An object to store.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct RemoteObject<'a> {
    /// Its name.
    pub name: &'a ObjectName,
    /// Its content.
    pub content: &'a [u8],
}

impl<'a> RemoteObject<'a> {
    /// Creates an object.
    pub fn new(name: &'a ObjectName, content: &'a [u8]) -> Self {
        Self { name, content }
    }
}

impl fmt::Debug for RemoteObject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, counted(self.content.len(), "byte"))
    }
}

/// The answer to the request to store one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PutAnswer {
    /// It is stored.
    Stored,
    /// The engine has something of this name. A reader may find that it is no valid object.
    Existed,
}

/// How leases are claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimTerms {
    /// The maximum number of leases that are granted.
    pub limit: usize,
    /// The time after which an engine may delete a lease that nothing renews.
    pub keep_for: Duration,
}

impl ClaimTerms {
    /// Creates terms.
    pub fn new(limit: usize, keep_for: Duration) -> Self {
        Self { limit, keep_for }
    }
}

/// The answer to the claim of one lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClaimAnswer {
    /// The caller has the lease.
    Granted,
    /// The lease exists, with this value. `None`: its content is no value of a lease.
    Held(Option<LeaseValue>),
    /// Enough leases were granted before.
    NotTried,
}

/// A part of the objects of an engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listing {
    /// The objects, in no order. An object may be in two parts.
    pub objects: Vec<ListedObject>,
    /// The cursor of the next part; `None` after the last one.
    pub next: Option<String>,
}

impl Listing {
    /// Creates a part.
    pub fn new(objects: Vec<ListedObject>, next: Option<String>) -> Self {
        Self { objects, next }
    }
}

/// An object in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedObject {
    /// Its name.
    pub name: ObjectName,
    /// Its size in bytes.
    pub bytes: u64,
    /// The time since it was stored or last used, by the engine's clock, if the engine knows it.
    pub idle: Option<Duration>,
    /// Whether it is an object. If not, something else has its name, such as a link in a directory.
    pub is_object: bool,
}

impl ListedObject {
    /// Creates a listed object.
    pub fn new(name: ObjectName, bytes: u64, idle: Option<Duration>) -> Self {
        Self { name, bytes, idle, is_object: true }
    }
}
