//! Listings of several parts.

use std::collections::HashSet;
use std::time::Instant;

use opkeep_cache::{ListedObject, RemoteContext, RemoteEngine, RemoteError};

/// The maximum number of parts: a Redis server looks at 512 names of any program for one.
const MAX_PARTS: usize = 2_000_000;
/// The maximum number of objects.
const MAX_OBJECTS: usize = 50_000_000;

/// Lists all objects whose names begin with `prefix`, and gives each to `object`; one may come twice. Each part has the limits of
/// `context`. If `until` is set, no part begins after it.
///
/// # Errors
/// The engine gave no answer; it returned to an earlier part, or its listing has no end in two million parts
/// ([`RemoteError::Invalid`]); `until` has passed ([`RemoteError::TimedOut`]). An incomplete listing is always an error.
pub fn list_all<'a>(
    engine: &dyn RemoteEngine,
    prefix: &str,
    until: Option<Instant>,
    context: impl Fn() -> RemoteContext<'a>,
    mut object: impl FnMut(ListedObject),
) -> Result<(), RemoteError> {
    let invalid = |reason: String| Err(RemoteError::Invalid { reason });
    let (mut cursor, mut seen, mut objects) = (String::new(), HashSet::new(), 0);
    while seen.len() < MAX_PARTS {
        if until.is_some_and(|until| Instant::now() >= until) {
            return Err(RemoteError::TimedOut);
        }
        let part = engine.list(prefix, &cursor, &context())?;
        objects += part.objects.len();
        if objects > MAX_OBJECTS {
            return invalid(format!("a listing has more than {MAX_OBJECTS} objects"));
        }
        part.objects.into_iter().for_each(&mut object);
        let Some(next) = part.next else { return Ok(()) };
        seen.insert(std::mem::replace(&mut cursor, next));
        if seen.contains(&cursor) {
            return invalid(format!("a listing returns to its part `{cursor}`"));
        }
    }
    invalid(format!("a listing has more than {MAX_PARTS} parts"))
}
