//! The client of a remote cache whose calls Python's signals end.
//!
//! Python runs the handlers of signals in its main thread only, and only if that asks for them. A call to an engine may block for
//! seconds, for each of several reasons: a name that is resolved, a connection, an answer, a file. So it is made by another thread
//! if the caller handles signals meanwhile.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use opkeep_cache::{
    Capabilities, ClaimAnswer, ClaimTerms, EngineSpace, LeaseToken, LeaseValue, Listing, ObjectName,
    PutAnswer, RemoteContext, RemoteEngine, RemoteError, RemoteObject,
};

use crate::signals::Signals;

/// An engine whose calls end when a handler of a signal raises an exception.
pub(crate) struct SignalledEngine(Arc<dyn RemoteEngine>);

impl SignalledEngine {
    pub(crate) fn new(engine: Arc<dyn RemoteEngine>) -> Self {
        Self(engine)
    }

    /// Makes a call, and runs the handlers of signals meanwhile.
    fn call<T: Send>(
        &self,
        call: impl FnOnce(&dyn RemoteEngine) -> Result<T, RemoteError> + Send,
    ) -> Result<T, RemoteError> {
        match Signals::current() {
            Some(signals) => {
                let made = signals.deliver(|_: &dyn Fn(())| call(&*self.0), |()| {});
                made.unwrap_or_else(|error| Err(no_thread(&error)))
            }
            None => call(&*self.0),
        }
    }
}

fn no_thread(error: &io::Error) -> RemoteError {
    RemoteError::Unreachable { reason: format!("no thread can be started: {error}") }
}

impl RemoteEngine for SignalledEngine {
    fn location(&self) -> &str {
        self.0.location()
    }

    fn capabilities(&self, context: &RemoteContext<'_>) -> Result<Capabilities, RemoteError> {
        self.call(|engine| engine.capabilities(context))
    }

    fn get_many(
        &self,
        names: &[ObjectName],
        context: &RemoteContext<'_>,
        found: &mut dyn FnMut(usize, Vec<u8>),
    ) -> Result<(), RemoteError> {
        let Some(signals) = Signals::current() else { return self.0.get_many(names, context, found) };
        let get = |send: &dyn Fn((usize, Vec<u8>))| {
            self.0.get_many(names, context, &mut |at, content| send((at, content)))
        };
        let made = signals.deliver(get, |(at, content)| found(at, content));
        made.unwrap_or_else(|error| Err(no_thread(&error)))
    }

    fn put_if_absent(
        &self,
        objects: &[RemoteObject<'_>],
        context: &RemoteContext<'_>,
    ) -> Result<Vec<PutAnswer>, RemoteError> {
        self.call(|engine| engine.put_if_absent(objects, context))
    }

    fn replace(&self, objects: &[RemoteObject<'_>], context: &RemoteContext<'_>) -> Result<(), RemoteError> {
        self.call(|engine| engine.replace(objects, context))
    }

    fn claim(
        &self,
        names: &[ObjectName],
        value: &LeaseValue,
        terms: ClaimTerms,
        context: &RemoteContext<'_>,
    ) -> Result<Vec<ClaimAnswer>, RemoteError> {
        self.call(|engine| engine.claim(names, value, terms, context))
    }

    fn renew(
        &self,
        names: &[ObjectName],
        value: &LeaseValue,
        keep_for: Duration,
        context: &RemoteContext<'_>,
    ) -> Result<Vec<bool>, RemoteError> {
        self.call(|engine| engine.renew(names, value, keep_for, context))
    }

    fn release(
        &self,
        names: &[ObjectName],
        token: &LeaseToken,
        context: &RemoteContext<'_>,
    ) -> Result<(), RemoteError> {
        self.call(|engine| engine.release(names, token, context))
    }

    fn progress(
        &self,
        counter: &ObjectName,
        context: &RemoteContext<'_>,
    ) -> Result<Option<u64>, RemoteError> {
        self.call(|engine| engine.progress(counter, context))
    }

    fn advance(
        &self,
        counter: &ObjectName,
        by: u64,
        keep_for: Duration,
        context: &RemoteContext<'_>,
    ) -> Result<(), RemoteError> {
        self.call(|engine| engine.advance(counter, by, keep_for, context))
    }

    fn list(&self, prefix: &str, cursor: &str, context: &RemoteContext<'_>) -> Result<Listing, RemoteError> {
        self.call(|engine| engine.list(prefix, cursor, context))
    }

    fn remove(&self, names: &[ObjectName], context: &RemoteContext<'_>) -> Result<(), RemoteError> {
        self.call(|engine| engine.remove(names, context))
    }

    fn space(&self, context: &RemoteContext<'_>) -> Result<Option<EngineSpace>, RemoteError> {
        self.call(|engine| engine.space(context))
    }
}
