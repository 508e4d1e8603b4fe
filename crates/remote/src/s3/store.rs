//! Objects into the bucket, and out of it.

use opkeep_cache::{ExclusiveCreate, ObjectName, PutAnswer, RemoteContext, RemoteError, RemoteObject};

use super::engine::{Call, LARGEST_OBJECT, Outcome, S3Engine};
use super::error::ServerError;
use super::parallel::for_each;
use crate::check_objects::probe_name;

/// The number of attempts to create an object while the server reports conflicts with requests of others.
pub(super) const MOST_ATTEMPTS: usize = 4;

/// A header that makes a request conditional.
pub(super) type Condition<'a> = (&'static str, &'a str);

/// The condition that there is no object.
pub(super) const ABSENT: Condition<'static> = ("if-none-match", "*");

/// The condition that an object has this version.
pub(super) fn version(tag: &str) -> Condition<'_> {
    ("if-match", tag)
}

/// The answer to a request under a condition.
pub(super) enum Conditional {
    Done,
    /// The condition is not met. If the request was sent twice, the first one may have been executed.
    NotMet {
        was_repeated: bool,
    },
    /// Another request for the object is in progress.
    Conflict,
    /// The server does not know the condition, and has done nothing.
    Unsupported,
}

impl S3Engine {
    /// Stores an object under a condition.
    pub(super) fn put_if(
        &self,
        name: &ObjectName,
        content: &[u8],
        condition: Condition<'_>,
        context: &RemoteContext<'_>,
    ) -> Result<Conditional, RemoteError> {
        Ok(self.try_put_if(name, content, condition, context)??)
    }

    /// As [`put_if`](Self::put_if), with the server's error apart.
    fn try_put_if(
        &self,
        name: &ObjectName,
        content: &[u8],
        condition: Condition<'_>,
        context: &RemoteContext<'_>,
    ) -> Result<Result<Conditional, ServerError>, RemoteError> {
        let condition = Some(condition);
        let call = Call { condition, body: content, ..Call::new("PUT", self.place.object(name)) };
        Ok(match self.call(&call, context)? {
            Outcome::Success(_) => Ok(Conditional::Done),
            // The object of `If-Match` is gone.
            Outcome::Failure { error, was_repeated, .. } if error.is("NoSuchKey") => {
                Ok(Conditional::NotMet { was_repeated })
            }
            Outcome::Failure { error, was_repeated, .. } => conditional(error, was_repeated),
        })
    }

    /// Stores an object in place of an existing one.
    pub(super) fn put(
        &self,
        name: &ObjectName,
        content: &[u8],
        context: &RemoteContext<'_>,
    ) -> Result<(), RemoteError> {
        let call = Call { body: content, ..Call::new("PUT", self.place.object(name)) };
        match self.call(&call, context)? {
            Outcome::Success(_) => Ok(()),
            Outcome::Failure { error, .. } => Err(error.into()),
        }
    }

    pub(super) fn replace_all(
        &self,
        objects: &[RemoteObject<'_>],
        context: &RemoteContext<'_>,
    ) -> Result<(), RemoteError> {
        check_sizes(objects)?;
        let replace = |index: usize| self.put(objects[index].name, objects[index].content, context);
        for_each(objects.len(), replace, |_, ()| {})
    }

    pub(super) fn create_all(
        &self,
        objects: &[RemoteObject<'_>],
        context: &RemoteContext<'_>,
    ) -> Result<Vec<PutAnswer>, RemoteError> {
        check_sizes(objects)?;
        let mut answers = vec![PutAnswer::Existed; objects.len()];
        let create = |index: usize| self.create(&objects[index], context);
        for_each(objects.len(), create, |index, answer| answers[index] = answer)?;
        Ok(answers)
    }

    fn create(
        &self,
        object: &RemoteObject<'_>,
        context: &RemoteContext<'_>,
    ) -> Result<PutAnswer, RemoteError> {
        for _ in 0..MOST_ATTEMPTS {
            match self.put_if(object.name, object.content, ABSENT, context)? {
                Conditional::Done => return Ok(PutAnswer::Stored),
                // What this request stored itself exists as well.
                Conditional::NotMet { .. } => return Ok(PutAnswer::Existed),
                Conditional::Conflict if self.exists(object.name, context)? => return Ok(PutAnswer::Existed),
                Conditional::Conflict => {}
                Conditional::Unsupported if self.exists(object.name, context)? => {
                    return Ok(PutAnswer::Existed);
                }
                Conditional::Unsupported => {
                    self.put(object.name, object.content, context)?;
                    return Ok(PutAnswer::Stored);
                }
            }
        }
        Err(too_many_conflicts(object.name))
    }

    fn exists(&self, name: &ObjectName, context: &RemoteContext<'_>) -> Result<bool, RemoteError> {
        match self.call(&Call::new("HEAD", self.place.object(name)), context)? {
            Outcome::Success(_) => Ok(true),
            Outcome::Failure { error, .. } if matches!(error.status(), 404 | 403) => Ok(false),
            Outcome::Failure { error, .. } => Err(error.into()),
        }
    }

    pub(super) fn remove_all(
        &self,
        names: &[ObjectName],
        context: &RemoteContext<'_>,
    ) -> Result<(), RemoteError> {
        for_each(names.len(), |index| self.delete(&names[index], context), |_, ()| {})
    }

    /// Deletes an object. A missing one is fine.
    pub(super) fn delete(&self, name: &ObjectName, context: &RemoteContext<'_>) -> Result<(), RemoteError> {
        match self.call(&Call::new("DELETE", self.place.object(name)), context)? {
            Outcome::Success(_) => Ok(()),
            Outcome::Failure { error, has_body, .. } if error.is_missing_object(has_body) => Ok(()),
            Outcome::Failure { error, .. } => Err(error.into()),
        }
    }

    /// Deletes an object if it still has a version. A missing one is fine.
    pub(super) fn delete_if(
        &self,
        name: &ObjectName,
        condition: Condition<'_>,
        context: &RemoteContext<'_>,
    ) -> Result<Conditional, RemoteError> {
        let condition = Some(condition);
        match self.call(&Call { condition, ..Call::new("DELETE", self.place.object(name)) }, context)? {
            Outcome::Success(_) => Ok(Conditional::Done),
            Outcome::Failure { error, has_body, .. } if error.is_missing_object(has_body) => {
                Ok(Conditional::Done)
            }
            Outcome::Failure { error, was_repeated, .. } => Ok(conditional(error, was_repeated)?),
        }
    }

    /// Creates an object twice, and learns whether the server replaces an existing one. Keys that may not write have no leases.
    pub(super) fn probe(&self, context: &RemoteContext<'_>) -> Result<ExclusiveCreate, RemoteError> {
        let name = probe_name().map_err(|error| RemoteError::Refused { reason: error.to_string() })?;
        let first = match self.try_put_if(&name, b"", ABSENT, context)? {
            Err(error) if error.is("AccessDenied") => return Ok(ExclusiveCreate::None),
            first => first?,
        };
        let exclusive_create = match first {
            Conditional::Done => match self.put_if(&name, b"", ABSENT, context)? {
                Conditional::Done | Conditional::Unsupported => ExclusiveCreate::None,
                Conditional::NotMet { .. } | Conditional::Conflict => ExclusiveCreate::Unproven,
            },
            Conditional::NotMet { .. } | Conditional::Conflict => ExclusiveCreate::Unproven,
            Conditional::Unsupported => return Ok(ExclusiveCreate::None),
        };
        match self.delete(&name, context) {
            // Keys that may not delete leave an empty object.
            Ok(()) | Err(RemoteError::Refused { .. }) => Ok(exclusive_create),
            Err(error) => Err(error),
        }
    }
}

/// Whether an error is about the condition of a request.
fn conditional(error: ServerError, was_repeated: bool) -> Result<Conditional, ServerError> {
    match error.status() {
        412 => Ok(Conditional::NotMet { was_repeated }),
        409 if error.is("ConditionalRequestConflict") || !error.has_code() => Ok(Conditional::Conflict),
        _ if error.is_unsupported() => Ok(Conditional::Unsupported),
        _ => Err(error),
    }
}

pub(super) fn too_many_conflicts(name: &ObjectName) -> RemoteError {
    RemoteError::Unreachable { reason: format!("`{name}`: each of {MOST_ATTEMPTS} requests met another one") }
}

fn check_sizes(objects: &[RemoteObject<'_>]) -> Result<(), RemoteError> {
    match objects.iter().find(|object| object.content.len() as u64 > LARGEST_OBJECT) {
        None => Ok(()),
        Some(object) => {
            let reason = format!("{object:?}: the largest object has {LARGEST_OBJECT} bytes");
            Err(RemoteError::Refused { reason })
        }
    }
}
