//! Imported kernels in a build: used if there is no compiled kernel, and if imported kernels are trusted.
//!
//! A build looks for an imported kernel only if neither the store nor the remote tier, which has no imported kernels,
//! has a compiled one, and never with the mode `force` or `disable`, with debug options, or if only signed kernels are taken:
//! an import signs nothing. The outcome is `Reused`,
//! with the provenance. If the entry of a compiled kernel is damaged, the kernel is compiled again, which repairs the
//! entry; only `require`, which never compiles, uses an imported kernel instead.

use std::sync::{Arc, Mutex, PoisonError};

use opkeep_cache::TargetCache;
use opkeep_descriptor::ResolvedSpec;
use opkeep_kernel_entry::{KernelBundle, KernelFiles, artifact};
use opkeep_store::{Entry, Lookup, Miss};

use super::kernel_pipeline::{KernelPipeline, MissReason, record};
use crate::Outcome;
use crate::import_query::ImportQuery;
use crate::plan::{KeyedKernel, PlannedKernel};
use crate::ready::ReadyKernel;
use crate::report::KernelReport;
use crate::warning::WarningKind;

impl KernelPipeline<'_> {
    /// Looks up the imported kernel of the same job. If none can be used, returns `missing`, with the reason added.
    pub(crate) fn look_up_imported(
        &self,
        planned: &PlannedKernel<'_>,
        mut missing: MissReason,
    ) -> Result<KernelReport, MissReason> {
        let found = planned.wanted().filter(|(_, spec)| self.setup.config.trust_imported && !spec.debug);
        let Some((job, spec)) = found.filter(|_| self.setup.config.mode.reads()) else { return Err(missing) };
        let target = self.target_of(&spec.target).filter(|target| !target.demands_signatures());
        let Some(target) = target else { return Err(missing) };
        let Some(store) = target.store() else { return Err(missing) };
        let wanted = ImportQuery::new(job, spec);
        let (mut taken, mut compiled) = (None, None);
        let found = store.get_if(wanted.key.digest(), |entry| {
            let usable = taken.insert(self.take_imported(target, &wanted, spec, entry)).is_ok();
            compiled = planned.keyed().filter(|_| usable).and_then(|keyed| self.remote_kernel(target, keyed));
            usable && compiled.is_none()
        });
        if let Some(made) = compiled {
            self.notify_hit(planned, &made);
            return Ok(KernelReport::new(planned, Ok(made)));
        }
        let why = match found {
            Lookup::Hit(entry) => {
                match taken.unwrap_or_else(|| self.take_imported(target, &wanted, spec, &entry)) {
                    Ok(made) => {
                        self.notify_hit(planned, &made);
                        let key = Some(planned.keyed().map_or(wanted.key, |keyed| keyed.key));
                        return Ok(KernelReport { key, ..KernelReport::new(planned, Ok(made)) });
                    }
                    Err(why) => why,
                }
            }
            Lookup::Miss(Miss::Absent) => return Err(missing),
            Lookup::Miss(miss) => {
                let path = store.path(wanted.key.digest());
                let text = format!(
                    "an imported kernel cannot be used: `{}`: {miss}; a repair of the store \
                     quarantines it, and it can be imported again",
                    path.display()
                );
                self.runtime.warnings.warn_once(WarningKind::Read, &text);
                format!("an imported kernel cannot be used: {miss}")
            }
        };
        missing.reason = format!("{}; {why}", missing.reason);
        Err(missing)
    }

    /// Returns the compiled kernel in the remote tier, if there is one: it takes precedence over an imported one.
    fn remote_kernel(&self, target: &TargetCache, keyed: &KeyedKernel) -> Option<ReadyKernel> {
        let taken = Mutex::new(None);
        let accept = |entry: &Entry| self.accept(keyed, entry, &taken);
        target.get_remote(keyed.key.digest(), &self.query(&accept))?;
        let made = taken.into_inner().unwrap_or_else(PoisonError::into_inner)?;
        Some(ReadyKernel { outcome: Outcome::Reused, from_remote: true, ..made })
    }

    fn take_imported(
        &self,
        target: &TargetCache,
        wanted: &ImportQuery,
        spec: &ResolvedSpec,
        entry: &Entry,
    ) -> Result<ReadyKernel, String> {
        let imported = wanted.check(entry)?;
        let KernelFiles { artifact, object_digest, json_digest, .. } =
            artifact(entry).map_err(|member| format!("an imported kernel has no `{member}`"))?;
        let expected = self.expected(spec);
        if !expected.covers(entry) {
            let validator = &self.runtime.rules.validator;
            let report = KernelBundle::of(&artifact).validate(None, expected.expectations(), validator);
            if let Some(error) = report.errors().next() {
                return Err(format!("an imported kernel is not valid: {error}"));
            }
            record(&expected, target, entry);
        }
        Ok(ReadyKernel {
            artifact: Arc::new(artifact),
            digests: (object_digest, json_digest),
            outcome: Outcome::Reused,
            reason: Some(imported.to_string()),
            compile_time: None,
            compile_began: None,
            saved_time: None,
            imported: Some(imported),
            from_remote: false,
            kept: None,
        })
    }
}
