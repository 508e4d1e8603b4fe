//! Objects that are in an engine afterwards.
//!
//! That an object exists proves little: an engine may have something of that name that no host can read, or another content. So what
//! existed is read, in one call, and what is no valid object is replaced. That is rare, except if all entries of a store are sent again:
//! then an engine is asked for no more than it was sent.

use super::call::Limits;
use super::client::{Existing, PutFailure, RemoteClient};
use super::engine::RemoteObject;

/// Whether the object with an index in a call may stay in the engine, by its content.
type IsValid<'a> = dyn Fn(usize, Vec<u8>) -> bool + 'a;

impl RemoteClient {
    /// Stores objects. Returns whether they, or valid ones in their place, are in the engine now.
    pub(super) fn store(
        &self,
        objects: &[RemoteObject<'_>],
        existing: Existing,
        limits: Limits<'_>,
        is_valid: &IsValid<'_>,
    ) -> Result<bool, PutFailure> {
        let Some(existed) = self.put(objects, existing, limits)? else { return Ok(false) };
        let names: Vec<_> = existed.iter().map(|at| objects[*at].name.clone()).collect();
        let mut may_stay = vec![false; names.len()];
        let answered = self.get_many(&names, limits, &mut |place, content| {
            let at = existed[place];
            may_stay[place] = content == objects[at].content || is_valid(at, content);
        });
        if !answered.map_err(|reason| PutFailure { is_refused: false, reason })? {
            return Ok(false);
        }
        let wrong: Vec<_> = existed
            .iter()
            .zip(may_stay)
            .filter(|(_, may_stay)| !may_stay)
            .map(|(at, _)| objects[*at])
            .collect();
        match wrong.is_empty() {
            true => Ok(true),
            false => Ok(self.put(&wrong, Existing::Replace, limits)?.is_some()),
        }
    }
}
