//! What this process knows of the bundles of plans in an engine.

use std::collections::BTreeMap;
use std::sync::Mutex;

use opkeep_digest::Digest;

/// The maximum number of plans that are remembered.
const MAX_PLANS: usize = 64;

/// The plans without a bundle that can be used.
#[derive(Default)]
pub(crate) struct PlanBundles(Mutex<BTreeMap<Digest, UnbundledPlan>>);

/// A plan without a bundle that can be used.
pub(crate) struct UnbundledPlan {
    pub(crate) keys: Vec<Digest>,
    /// Whether the bundle of this host's name is wrong, so that it is replaced.
    pub(crate) replaces: bool,
}

impl PlanBundles {
    pub(crate) fn lacks(&self, plan: Digest, keys: &[Digest], replaces: bool) {
        // In a forked child the lock may be held for ever: then nothing is remembered.
        let Ok(mut plans) = self.0.try_lock() else { return };
        if plans.len() >= MAX_PLANS {
            plans.clear();
        }
        plans.insert(plan, UnbundledPlan { keys: keys.to_vec(), replaces });
    }

    pub(crate) fn take(&self) -> BTreeMap<Digest, UnbundledPlan> {
        self.0.try_lock().map(|mut plans| std::mem::take(&mut *plans)).unwrap_or_default()
    }
}
