//! What the server can do, by its own account.

use opkeep_cache::{Capabilities, ExclusiveCreate};

use super::blobs::LARGEST_MESSAGE;
use super::failure::Failure;
use super::messages::{CacheCapabilities, DIGEST_FUNCTIONS, SHA256, ServerCapabilities};
use super::status::{Code, Status};

/// The size of the largest object: larger ones would not fit in memory several at a time.
const LARGEST_OBJECT: u64 = 512 << 20;

/// What the server can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Abilities {
    /// The maximum number of bytes in a message of several blobs.
    pub(super) batch_bytes: u64,
    /// The size of the largest object.
    pub(super) max_object_bytes: u64,
    /// Whether this client may store objects.
    pub(super) is_writable: bool,
}

impl Abilities {
    /// Those of a server without a Capabilities service.
    pub(super) const UNKNOWN: Self =
        Self { batch_bytes: LARGEST_BATCH, max_object_bytes: LARGEST_OBJECT, is_writable: true };

    pub(super) fn read(answer: ServerCapabilities) -> Result<Self, Failure> {
        let cache = answer.cache_capabilities.ok_or_else(|| lacks("a cache"))?;
        // A server of an early version of the API names none.
        let functions = &cache.digest_functions;
        if !functions.is_empty() && !functions.contains(&SHA256) {
            return Err(lacks(&format!(
                "SHA-256 among its digest functions, which are {}",
                names(functions)
            )));
        }
        let CacheCapabilities { max_batch_total_size_bytes, max_cas_blob_size_bytes, .. } = cache;
        // Zero is no limit.
        let limit = |bytes: i64, most: u64| match u64::try_from(bytes) {
            Ok(0) | Err(_) => most,
            Ok(bytes) => bytes.min(most),
        };
        Ok(Self {
            batch_bytes: limit(max_batch_total_size_bytes, LARGEST_BATCH),
            max_object_bytes: limit(max_cas_blob_size_bytes, LARGEST_OBJECT),
            is_writable: cache.action_cache_update_capabilities.is_some_and(|update| update.update_enabled),
        })
    }

    pub(super) fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(ExclusiveCreate::None);
        capabilities.max_object_bytes = self.max_object_bytes;
        capabilities
    }
}

/// The bytes that a message may have under gRPC's usual limit, whatever the server says.
const LARGEST_BATCH: u64 = LARGEST_MESSAGE as u64 - (16 << 10);

/// Returns the names of digest functions.
fn names(functions: &[i32]) -> String {
    let name =
        |function: &i32| usize::try_from(*function).ok().and_then(|at| DIGEST_FUNCTIONS.get(at).copied());
    let names: Vec<_> = functions
        .iter()
        .take(DIGEST_FUNCTIONS.len())
        .map(|function| name(function).unwrap_or("another one"))
        .collect();
    names.join(", ")
}

fn lacks(what: &str) -> Failure {
    Status::new(Code::FAILED_PRECONDITION, &format!("the server does not have {what}")).into()
}

#[cfg(test)]
mod tests {
    use super::super::messages::UpdateCapabilities;
    use super::*;

    fn answer(digest_functions: &[i32], batch: i64, blob: i64, update_enabled: bool) -> ServerCapabilities {
        let cache = CacheCapabilities {
            digest_functions: digest_functions.to_vec(),
            action_cache_update_capabilities: Some(UpdateCapabilities { update_enabled }),
            max_batch_total_size_bytes: batch,
            max_cas_blob_size_bytes: blob,
        };
        ServerCapabilities { cache_capabilities: Some(cache) }
    }

    #[test]
    fn limits_are_the_servers_where_they_are_lower() {
        let read = |batch, blob| Abilities::read(answer(&[9, SHA256], batch, blob, true)).unwrap();
        for (batch, expected) in
            [(0, LARGEST_BATCH), (-1, LARGEST_BATCH), (1000, 1000), (i64::MAX, LARGEST_BATCH)]
        {
            assert_eq!(read(batch, 0).batch_bytes, expected, "{batch}");
        }
        assert_eq!(read(0, 0), Abilities::UNKNOWN);
        assert_eq!(read(0, 5000).max_object_bytes, 5000);
    }

    #[test]
    fn a_server_may_be_read_only_or_unfit() {
        assert!(!Abilities::read(answer(&[SHA256], 0, 0, false)).unwrap().is_writable);
        let mut silent = answer(&[SHA256], 0, 0, true);
        silent.cache_capabilities.as_mut().unwrap().action_cache_update_capabilities = None;
        assert!(!Abilities::read(silent).unwrap().is_writable);
        let unfit =
            |answer| opkeep_cache::RemoteError::from(Abilities::read(answer).unwrap_err()).to_string();
        let text = unfit(answer(&[2, 9, 99], 0, 0, true));
        assert!(
            text.contains("does not have SHA-256") && text.contains("SHA-1, BLAKE3, another one"),
            "{text}"
        );
        assert_eq!(Abilities::read(answer(&[], 0, 0, true)).unwrap(), Abilities::UNKNOWN);
        assert!(unfit(ServerCapabilities::default()).contains("a cache"));
    }
}
