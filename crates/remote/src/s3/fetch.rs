//! Objects from the bucket.

use opkeep_cache::{ObjectName, RemoteContext, RemoteError};

use super::engine::{Call, LARGEST_OBJECT, Outcome, S3Engine};
use super::parallel::for_each;

/// An object.
pub(super) struct Fetched {
    pub(super) content: Vec<u8>,
    /// The version, for `If-Match`: any (`*`) if the server does not state it.
    pub(super) tag: String,
}

impl S3Engine {
    /// Requests objects, several at the same time.
    pub(super) fn fetch_all(
        &self,
        names: &[ObjectName],
        context: &RemoteContext<'_>,
        found: &mut dyn FnMut(usize, Vec<u8>),
    ) -> Result<(), RemoteError> {
        let fetch = |index: usize| self.fetch(&names[index], LARGEST_OBJECT, context);
        for_each(names.len(), fetch, |index, fetched| {
            if let Some(fetched) = fetched {
                found(index, fetched.content);
            }
        })
    }

    /// Requests an object of `largest` bytes at most. `None`: there is none.
    pub(super) fn fetch(
        &self,
        name: &ObjectName,
        largest: u64,
        context: &RemoteContext<'_>,
    ) -> Result<Option<Fetched>, RemoteError> {
        let call = Call { largest, ..Call::new("GET", self.place.object(name)) };
        match self.call(&call, context)? {
            Outcome::Success(answer) => {
                let tag = answer.header("etag").unwrap_or("*").to_owned();
                Ok(Some(Fetched { content: answer.body, tag }))
            }
            // Without the right to list, a server does not distinguish what is missing from what is secret.
            Outcome::Failure { error, has_body, .. }
                if error.is_missing_object(has_body) || error.is("AccessDenied") =>
            {
                Ok(None)
            }
            Outcome::Failure { error, .. } => Err(error.into()),
        }
    }
}
