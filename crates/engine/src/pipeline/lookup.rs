//! The first look-up of a kernel in a build.

use opkeep_store::{CacheMode, Lookup, Miss};

use super::kernel_pipeline::{KernelPipeline, MissReason};
use crate::Outcome;
use crate::explain::untrusted::UntrustedEntries;
use crate::plan::PlannedKernel;
use crate::report::KernelReport;

impl KernelPipeline<'_> {
    /// Looks up a kernel in the store, and an imported one if imported kernels are trusted. Returns the kernel, or the
    /// reason for the miss.
    pub(crate) fn look_up(&self, planned: &PlannedKernel<'_>) -> Result<KernelReport, MissReason> {
        let missing = |reason: &str| MissReason {
            reason: reason.to_owned(),
            damaged: false,
            absent: false,
            untrusted: None,
        };
        let Some(keyed) = planned.keyed() else {
            return self.look_up_imported(planned, missing("refused by the backend"));
        };
        if keyed.spec.debug {
            return Err(missing("debug options are on"));
        }
        let mode = self.setup.config.mode;
        if !mode.reads() {
            return Err(missing(&format!("cache mode is {mode}")));
        }
        let target = self.target_of(&keyed.spec.target).filter(|target| target.store().is_some());
        let target = target.ok_or_else(|| missing("there is no store that can be used"))?;
        // A miss is counted only if there is no imported kernel either.
        let (mut uncounted, trusts) = (None, self.setup.config.trust_imported);
        let key = keyed.key.digest();
        let missing = match if trusts { target.get_uncounted(key) } else { target.get(key) } {
            Lookup::Hit(entry) => match self.take_entry(keyed, &entry, Outcome::Reused) {
                Ok(made) => {
                    self.notify_hit(planned, &made);
                    return Ok(KernelReport::new(planned, Ok(made)));
                }
                Err(error) => MissReason {
                    reason: format!("the stored kernel is not valid: {error}"),
                    damaged: true,
                    absent: false,
                    untrusted: None,
                },
            },
            Lookup::Miss(miss) => {
                let miss = uncounted.insert(miss);
                let untrusted = match &*miss {
                    Miss::Untrusted(error) => UntrustedEntries::of(error).map(Box::new),
                    _ => None,
                };
                MissReason {
                    // The path is that of the key, and the help is the same for all kernels.
                    reason: untrusted.as_ref().map_or_else(|| miss.to_string(), ToString::to_string),
                    untrusted,
                    damaged: matches!(miss, Miss::Damaged(_)),
                    absent: matches!(miss, Miss::Absent),
                }
            }
        };
        let found = match missing.damaged && mode != CacheMode::Require {
            // A damaged entry is quarantined and compiled again: if an imported kernel were used, the damage would stay
            // unnoticed.
            true => Err(missing),
            false => self.look_up_imported(planned, missing),
        };
        if let (true, Err(_), Some(miss)) = (trusts, &found, &uncounted) {
            target.count_miss(miss);
        }
        found
    }
}
