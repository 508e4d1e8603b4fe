//! Credentials that expire: they are read when they are first needed, and again when a server has refused them.

use std::sync::{Arc, Mutex, PoisonError};

use opkeep_cache::RemoteError;
use opkeep_cache::fs::without_fork;

/// Reads credentials. The error states what is missing, and has no part of them.
type Read<T> = dyn Fn() -> Result<T, String> + Send + Sync;

/// The credentials that are in use.
pub(crate) struct Renewable<T> {
    read: Box<Read<T>>,
    current: Mutex<Option<Arc<T>>>,
}

impl<T: PartialEq> Renewable<T> {
    pub(crate) fn new(read: impl Fn() -> Result<T, String> + Send + Sync + 'static) -> Self {
        Self { read: Box::new(read), current: Mutex::default() }
    }

    /// Returns the credentials.
    pub(crate) fn get(&self) -> Result<Arc<T>, RemoteError> {
        self.change(|current| current.clone()).map_or_else(|| self.read(), Ok)
    }

    /// Returns the credentials after the server has refused `refused`. `None`: there are no others.
    pub(crate) fn renew(&self, refused: &T) -> Result<Option<Arc<T>>, RemoteError> {
        let is_other = |credentials: &Arc<T>| **credentials != *refused;
        // Another call may have read them meanwhile.
        match self.change(|current| current.clone()).filter(is_other) {
            Some(credentials) => Ok(Some(credentials)),
            None => Ok(Some(self.read()?).filter(is_other)),
        }
    }

    fn read(&self) -> Result<Arc<T>, RemoteError> {
        let credentials = (self.read)().map_err(|reason| RemoteError::Refused { reason })?;
        let credentials = Arc::new(credentials);
        let before = self.change(|current| current.replace(Arc::clone(&credentials)));
        drop(before);
        Ok(credentials)
    }

    fn change<A>(&self, change: impl FnOnce(&mut Option<Arc<T>>) -> A) -> A {
        without_fork(|| change(&mut self.current.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}
