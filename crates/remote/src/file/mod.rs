//! A directory of a file system that all hosts mount, as NFS or Lustre.
//!
//! ```text
//! <directory>/
//!   +tmp/                            files that are being written, and moved directories
//!   v1/default/cpu-x86_64/e/+4f/     a directory for each first byte of the names' digests
//!     00c1...                        the object `v1/default/cpu-x86_64/e/00c1...`
//! ```
//!
//! An object is written under a temporary name, synced, and then named, so that it exists as a whole or not at all. A name is
//! taken exclusively by a rename that keeps existing files, or by a link. No file is locked. Links below the directory are
//! not followed.
//!
//! What has the name of an object and is no file, such as a link or a pipe, is an object without content for a reader, which refuses it
//! as any wrong content. An object that replaces it takes its name. A directory that is not empty is moved to `+tmp`, and never deleted.
//!
//! The directory itself must exist: where it is missing, the file system is not mounted. If it has the set-group-id bit, all
//! that is created in it has its mode, so that a group of users shares it.
//!
//! A call to a file system may never return, if its server is gone. So each call runs in a thread of its own, which is left
//! behind at the call's deadline.

mod calls;
mod listing;
mod shared_dir;

use std::path::Path;
use std::time::Duration;

use opkeep_cache::{
    Capabilities, ClaimAnswer, ClaimTerms, ExclusiveCreate, LeaseToken, LeaseValue, Listing, ObjectName,
    PutAnswer, RemoteContext, RemoteEngine, RemoteError, RemoteObject,
};

use crate::url::FileUrl;
use calls::Calls;
use shared_dir::{Put, SharedDir};

/// The client of a shared directory.
#[derive(Debug)]
pub(crate) struct FileEngine {
    location: String,
    dir: SharedDir,
    calls: Calls,
}

impl FileEngine {
    pub(crate) fn new(url: &FileUrl) -> Self {
        let location = format!("file://{}", url.directory.display());
        Self { location, dir: SharedDir::new(&url.directory), calls: Calls::default() }
    }

    /// Runs `act` within the limits of a call.
    fn call<T: Send + 'static>(
        &self,
        context: &RemoteContext<'_>,
        act: impl FnOnce(&SharedDir) -> Result<T, RemoteError> + Send + 'static,
    ) -> Result<T, RemoteError> {
        let dir = self.dir.clone();
        self.calls.run(context, move |_: &dyn Fn(())| act(&dir), |()| {})
    }

    /// Writes objects, each of which is progress, and passes to `wrote` whether it was written.
    fn write_all(
        &self,
        objects: &[RemoteObject<'_>],
        put: Put,
        context: &RemoteContext<'_>,
        wrote: impl FnMut(bool),
    ) -> Result<(), RemoteError> {
        let (dir, objects) = (self.dir.clone(), owned(objects));
        let write = move |send: &dyn Fn(bool)| {
            let root = dir.enter()?;
            // One object that cannot be written keeps no other from it.
            let mut refusal = None;
            for (name, content) in &objects {
                match dir.write(&root, name, content, put) {
                    Err(error) if is_of_object(&error) => refusal = refusal.or(Some(error)),
                    written => send(written?),
                }
            }
            refusal.map_or(Ok(()), Err)
        };
        self.calls.run(context, write, wrote)
    }
}

/// Whether an error may concern one object, and not the directory as a whole.
fn is_of_object(error: &RemoteError) -> bool {
    matches!(error, RemoteError::Refused { .. } | RemoteError::Invalid { .. })
}

/// Objects with their own memory, for a thread that may be left behind.
fn owned(objects: &[RemoteObject<'_>]) -> Vec<(ObjectName, Vec<u8>)> {
    objects.iter().map(|object| (object.name.clone(), object.content.to_vec())).collect()
}

impl RemoteEngine for FileEngine {
    fn location(&self) -> &str {
        &self.location
    }

    fn capabilities(&self, context: &RemoteContext<'_>) -> Result<Capabilities, RemoteError> {
        self.call(context, |dir| {
            dir.enter()?;
            // The file system's kind does not say what its server does.
            let mut capabilities = Capabilities::new(ExclusiveCreate::Unproven);
            capabilities.has_counters = true;
            capabilities.has_listing = true;
            capabilities.max_object_bytes = shared_dir::MAX_OBJECT;
            Ok(capabilities)
        })
    }

    fn get_many(
        &self,
        names: &[ObjectName],
        context: &RemoteContext<'_>,
        found: &mut dyn FnMut(usize, Vec<u8>),
    ) -> Result<(), RemoteError> {
        let (dir, names) = (self.dir.clone(), names.to_vec());
        // A missing object is an answer, too: many of them on a slow file system are progress.
        let read = move |send: &dyn Fn((usize, Option<Vec<u8>>))| {
            let root = dir.enter()?;
            let mut refusal = None;
            for (index, name) in names.iter().enumerate() {
                match dir.read(&root, name) {
                    Err(error) if is_of_object(&error) => refusal = refusal.or(Some(error)),
                    content => send((index, content?)),
                }
            }
            refusal.map_or(Ok(()), Err)
        };
        self.calls.run(context, read, |(index, content)| {
            content.into_iter().for_each(|content| found(index, content))
        })
    }

    fn put_if_absent(
        &self,
        objects: &[RemoteObject<'_>],
        context: &RemoteContext<'_>,
    ) -> Result<Vec<PutAnswer>, RemoteError> {
        let mut answers = Vec::with_capacity(objects.len());
        self.write_all(objects, Put::IfAbsent, context, |is_stored| {
            answers.push(if is_stored { PutAnswer::Stored } else { PutAnswer::Existed });
        })?;
        Ok(answers)
    }

    fn replace(&self, objects: &[RemoteObject<'_>], context: &RemoteContext<'_>) -> Result<(), RemoteError> {
        self.write_all(objects, Put::Replace, context, |_| {})
    }

    fn claim(
        &self,
        names: &[ObjectName],
        value: &LeaseValue,
        terms: ClaimTerms,
        context: &RemoteContext<'_>,
    ) -> Result<Vec<ClaimAnswer>, RemoteError> {
        let (names, value) = (names.to_vec(), *value);
        self.call(context, move |dir| {
            let root = dir.enter()?;
            let mut granted = 0;
            let claim = |name: &ObjectName| {
                if granted == terms.limit {
                    return Ok(ClaimAnswer::NotTried);
                }
                let answer = dir.claim(&root, name, &value)?;
                granted += usize::from(answer == ClaimAnswer::Granted);
                Ok(answer)
            };
            names.iter().map(claim).collect()
        })
    }

    fn renew(
        &self,
        names: &[ObjectName],
        value: &LeaseValue,
        _: Duration,
        context: &RemoteContext<'_>,
    ) -> Result<Vec<bool>, RemoteError> {
        let (names, value) = (names.to_vec(), *value);
        self.call(context, move |dir| {
            let root = dir.enter()?;
            let renew = |name: &ObjectName| {
                let is_own = dir.has_token(&root, name, &value.token)?;
                if is_own {
                    dir.write(&root, name, value.to_string().as_bytes(), Put::Lease)?;
                }
                Ok(is_own)
            };
            names.iter().map(renew).collect()
        })
    }

    fn release(
        &self,
        names: &[ObjectName],
        token: &LeaseToken,
        context: &RemoteContext<'_>,
    ) -> Result<(), RemoteError> {
        let (names, token) = (names.to_vec(), *token);
        self.call(context, move |dir| {
            let root = dir.enter()?;
            for name in &names {
                if dir.has_token(&root, name, &token)? {
                    dir.remove(&root, name)?;
                }
            }
            Ok(())
        })
    }

    fn progress(
        &self,
        counter: &ObjectName,
        context: &RemoteContext<'_>,
    ) -> Result<Option<u64>, RemoteError> {
        let counter = counter.clone();
        self.call(context, move |dir| dir.count(&dir.enter()?, &counter).map(Some))
    }

    fn advance(
        &self,
        counter: &ObjectName,
        by: u64,
        _: Duration,
        context: &RemoteContext<'_>,
    ) -> Result<(), RemoteError> {
        let counter = counter.clone();
        self.call(context, move |dir| dir.add(&dir.enter()?, &counter, by))
    }

    fn list(&self, prefix: &str, cursor: &str, context: &RemoteContext<'_>) -> Result<Listing, RemoteError> {
        let (prefix, cursor) = (prefix.to_owned(), cursor.to_owned());
        self.call(context, move |dir| {
            let now = dir.now(&dir.enter()?);
            listing::list(dir.path(), Path::new(&prefix), Path::new(&cursor), now).map_err(shared_dir::failed)
        })
    }

    fn remove(&self, names: &[ObjectName], context: &RemoteContext<'_>) -> Result<(), RemoteError> {
        let (dir, names) = (self.dir.clone(), names.to_vec());
        // Each file is progress.
        let remove = move |send: &dyn Fn(())| {
            let root = dir.enter()?;
            let mut refusal = None;
            for name in &names {
                match dir.remove(&root, name) {
                    Err(error) if is_of_object(&error) => refusal = refusal.or(Some(error)),
                    removed => removed?,
                }
                send(());
            }
            dir.remove_empty_dirs(&root, &names);
            refusal.map_or(Ok(()), Err)
        };
        self.calls.run(context, remove, |()| {})
    }
}
