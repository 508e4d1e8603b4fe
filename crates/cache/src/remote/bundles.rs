//! What this process knows of the bundles of plans in an engine.

use std::collections::BTreeMap;
use std::sync::Mutex;

use opkeep_digest::Digest;

/// The maximum number of plans that are remembered.
const MAX_PLANS: usize = 64;

/// The plans without a bundle that can be used.
#[derive(Default)]
pub(crate) struct PlanBundles(Mutex<Plans>);

#[derive(Default)]
struct Plans {
    unbundled: BTreeMap<Digest, UnbundledPlan>,
    /// The plan of the last build, whose bundle was not looked for.
    last: Option<(Digest, Vec<Digest>)>,
}

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
        if plans.unbundled.len() >= MAX_PLANS {
            plans.unbundled.clear();
        }
        plans.unbundled.insert(plan, UnbundledPlan { keys: keys.to_vec(), replaces });
    }

    /// Records the plan of a build.
    pub(crate) fn note_plan(&self, plan: Digest, keys: &[Digest]) {
        let Ok(mut plans) = self.0.try_lock() else { return };
        plans.last = Some((plan, keys.to_vec()));
    }

    /// Records that entries were sent that an earlier build left, so the plan may have no bundle yet.
    pub(crate) fn note_sent(&self) {
        let Ok(mut plans) = self.0.try_lock() else { return };
        if let Some((plan, keys)) = plans.last.take() {
            plans.unbundled.entry(plan).or_insert(UnbundledPlan { keys, replaces: false });
        }
    }

    pub(crate) fn take(&self) -> BTreeMap<Digest, UnbundledPlan> {
        let Ok(mut plans) = self.0.try_lock() else { return BTreeMap::new() };
        std::mem::take(&mut plans.unbundled)
    }
}
