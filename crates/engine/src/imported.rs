//! Imported kernels taken from the store.

use std::collections::BTreeMap;
use std::sync::Arc;

use opkeep_descriptor::{Key, ResolvedSpec, import_key};
use opkeep_digest::Digest;
use opkeep_kernel_entry::{KernelBundle, KernelFiles, Provenance, artifact};
use opkeep_store::{Entry, Lookup, Miss, TargetStore};

use crate::Outcome;
use crate::event::Event;
use crate::make::{KernelPipeline, MissReason, ReadyKernel};
use crate::plan::PlannedKernel;
use crate::report::KernelReport;
use crate::warnings::WarningKind;

/// What is looked for among imported kernels.
pub(crate) struct ImportQuery {
    pub(crate) key: Key,
    said: BTreeMap<String, String>,
}

impl ImportQuery {
    pub(crate) fn new(job: &Digest, spec: &ResolvedSpec) -> Self {
        Self { key: import_key(job, spec), said: spec.clone().split_unkeyed_options() }
    }

    /// Whether an entry under the key will do.
    pub(crate) fn check(&self, entry: &Entry) -> Result<Provenance, String> {
        let imported = Provenance::of(entry).ok_or("what is there is no imported kernel")?;
        match imported.contradicts(&self.said) {
            Some(other) => Err(other),
            None => Ok(imported),
        }
    }
}

/// An imported kernel that will do. None if there is none; an error if there is one that will not, and why.
pub(crate) fn peek(shelf: &TargetStore, wanted: &ImportQuery) -> Option<Result<Provenance, String>> {
    match shelf.peek(wanted.key.digest()) {
        Lookup::Hit(entry) => Some(wanted.check(&entry)),
        Lookup::Miss(Miss::Absent) => None,
        Lookup::Miss(miss) => Some(Err(format!("an imported kernel cannot be used: {miss}"))),
    }
}

impl KernelPipeline<'_> {
    /// The imported kernel for what is missing, if that may be taken.
    pub(crate) fn look_up_imported(
        &self,
        planned: &PlannedKernel<'_>,
        mut missing: MissReason,
    ) -> Result<KernelReport, MissReason> {
        let found = planned.wanted().filter(|(_, spec)| self.builder.trust_imported && !spec.debug);
        let Some((job, spec)) = found.filter(|_| self.builder.mode.reads()) else { return Err(missing) };
        let Some(shelf) = self.shelf_of(&spec.target) else { return Err(missing) };
        let wanted = ImportQuery::new(job, spec);
        let mut taken = None;
        let found = shelf.get_if(wanted.key.digest(), |entry| {
            taken.insert(self.take_imported(shelf, &wanted, spec, entry)).is_ok()
        });
        let why = match found {
            Lookup::Hit(entry) => {
                match taken.unwrap_or_else(|| self.take_imported(shelf, &wanted, spec, &entry)) {
                    Ok(made) => {
                        self.builder.tell(Event::Hit { kernel: planned.name(), artifact: &made.artifact });
                        let key = Some(planned.keyed().map_or(wanted.key, |keyed| keyed.key));
                        return Ok(KernelReport { key, ..KernelReport::new(planned, Ok(made)) });
                    }
                    Err(why) => why,
                }
            }
            Lookup::Miss(Miss::Absent) => return Err(missing),
            Lookup::Miss(miss) => {
                let path = shelf.path(wanted.key.digest());
                let text = format!(
                    "an imported kernel cannot be used: `{}`: {miss}; `opkeep repair` sets aside \
                    what is damaged, and it can be imported again",
                    path.display()
                );
                self.shop.warnings.tell(WarningKind::Reading, &text);
                format!("an imported kernel cannot be used: {miss}")
            }
        };
        missing.reason = format!("{}; {why}", missing.reason);
        Err(missing)
    }

    fn take_imported(
        &self,
        shelf: &TargetStore,
        wanted: &ImportQuery,
        spec: &ResolvedSpec,
        entry: &Entry,
    ) -> Result<ReadyKernel, String> {
        let imported = wanted.check(entry)?;
        let KernelFiles { artifact, object_digest, json_digest, .. } =
            artifact(entry).map_err(|member| format!("an imported kernel has no `{member}`"))?;
        let expected = self.expected(spec);
        if !expected.covers(entry) {
            let validator = &self.shop.judging.validator;
            let report = KernelBundle::of(&artifact).validate(None, expected.expectations(), validator);
            if let Some(error) = report.errors().next() {
                return Err(format!("an imported kernel is not valid: {error}"));
            }
            if self.shop.shelves.keep_in(shelf) {
                let _ = expected.record(shelf, entry);
            }
        }
        Ok(ReadyKernel {
            artifact: Arc::new(artifact),
            digests: (object_digest, json_digest),
            outcome: Outcome::Reused,
            reason: Some(imported.to_string()),
            compile_time: None,
            imported: Some(imported),
        })
    }
}
