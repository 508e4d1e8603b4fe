//! Leases: objects that are created and changed under conditions.

use opkeep_cache::{ClaimAnswer, LeaseToken, LeaseValue, ObjectName, RemoteContext, RemoteError};

use super::engine::{LARGEST_DOCUMENT, S3Engine};
use super::fetch::Fetched;
use super::parallel::for_each;
use super::store::{ABSENT, Conditional, MOST_ATTEMPTS, too_many_conflicts, version};

/// The number of leases that are claimed before their answers are counted.
const MOST_CLAIMS: usize = 64;

impl S3Engine {
    /// Claims leases in order. No more are tried at once than may be granted.
    pub(super) fn claim_up_to(
        &self,
        names: &[ObjectName],
        value: &LeaseValue,
        limit: usize,
        context: &RemoteContext<'_>,
    ) -> Result<Vec<ClaimAnswer>, RemoteError> {
        let (mut answers, mut left) = (vec![ClaimAnswer::NotTried; names.len()], limit);
        let mut first = 0;
        while left > 0 && first < names.len() {
            let part = &names[first..names.len().min(first + left.min(MOST_CLAIMS))];
            let claim = |index: usize| self.claim_one(&part[index], value, context);
            for_each(part.len(), claim, |index, answer| {
                left -= usize::from(answer == ClaimAnswer::Granted);
                answers[first + index] = answer;
            })?;
            first += part.len();
        }
        Ok(answers)
    }

    fn claim_one(
        &self,
        name: &ObjectName,
        value: &LeaseValue,
        context: &RemoteContext<'_>,
    ) -> Result<ClaimAnswer, RemoteError> {
        let content = value.to_string();
        for _ in 0..MOST_ATTEMPTS {
            let answer = self.put_if(name, content.as_bytes(), ABSENT, context)?;
            let was_repeated = match answer {
                Conditional::Done => return Ok(ClaimAnswer::Granted),
                Conditional::NotMet { was_repeated } => was_repeated,
                Conditional::Conflict => false,
                Conditional::Unsupported => {
                    return Err(RemoteError::Unsupported { what: "create leases exclusively" });
                }
            };
            // A lease that was released meanwhile is claimed again.
            let Some(lease) = self.fetch(name, LARGEST_DOCUMENT, context)? else { continue };
            let holder = LeaseValue::decode(&lease.content);
            let is_own = was_repeated && holder == Some(*value);
            return Ok(if is_own { ClaimAnswer::Granted } else { ClaimAnswer::Held(holder) });
        }
        Err(too_many_conflicts(name))
    }

    pub(super) fn renew_all(
        &self,
        names: &[ObjectName],
        value: &LeaseValue,
        context: &RemoteContext<'_>,
    ) -> Result<Vec<bool>, RemoteError> {
        let mut answers = vec![false; names.len()];
        let renew = |index: usize| self.renew_one(&names[index], value, context);
        for_each(names.len(), renew, |index, answer| answers[index] = answer)?;
        Ok(answers)
    }

    /// Replaces a lease of this token. If its version changed meanwhile, the lease is compared again.
    fn renew_one(
        &self,
        name: &ObjectName,
        value: &LeaseValue,
        context: &RemoteContext<'_>,
    ) -> Result<bool, RemoteError> {
        let content = value.to_string();
        for attempt in 0..MOST_ATTEMPTS {
            let Some((lease, held)) = self.own_lease(name, &value.token, context)? else { return Ok(false) };
            // An attempt before that was reported as failed.
            if attempt > 0 && held == *value {
                return Ok(true);
            }
            match self.put_if(name, content.as_bytes(), version(&lease.tag), context)? {
                Conditional::Done => return Ok(true),
                Conditional::NotMet { .. } | Conditional::Conflict => {}
                Conditional::Unsupported => {
                    return self.put(name, content.as_bytes(), context).map(|()| true);
                }
            }
        }
        Err(too_many_conflicts(name))
    }

    pub(super) fn release_all(
        &self,
        names: &[ObjectName],
        token: &LeaseToken,
        context: &RemoteContext<'_>,
    ) -> Result<(), RemoteError> {
        for_each(names.len(), |index| self.release_one(&names[index], token, context), |_, ()| {})
    }

    fn release_one(
        &self,
        name: &ObjectName,
        token: &LeaseToken,
        context: &RemoteContext<'_>,
    ) -> Result<(), RemoteError> {
        for _ in 0..MOST_ATTEMPTS {
            let Some((lease, _)) = self.own_lease(name, token, context)? else { return Ok(()) };
            match self.delete_if(name, version(&lease.tag), context)? {
                Conditional::Done => return Ok(()),
                Conditional::NotMet { .. } | Conditional::Conflict => {}
                Conditional::Unsupported => return self.delete(name, context),
            }
        }
        Err(too_many_conflicts(name))
    }

    /// Returns a lease and its value, if it has this token.
    fn own_lease(
        &self,
        name: &ObjectName,
        token: &LeaseToken,
        context: &RemoteContext<'_>,
    ) -> Result<Option<(Fetched, LeaseValue)>, RemoteError> {
        let Some(lease) = self.fetch(name, LARGEST_DOCUMENT, context)? else { return Ok(None) };
        let value = LeaseValue::decode(&lease.content).filter(|value| value.token == *token);
        Ok(value.map(|value| (lease, value)))
    }
}
