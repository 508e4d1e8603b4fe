//! Why each kernel would be a hit or a miss, without building any.

use std::collections::BTreeMap;
use std::sync::Arc;

use opkeep_descriptor::Key;
use opkeep_store::{Access, Config, Lookup, Miss, Mode, Store, TargetStore};

use crate::builder::Builder;
use crate::imported::{self, Imported, Wanted};
use crate::nearest::{Hunt, Nearest};
use crate::plan::{Keyed, Plan, Planned, State};
use crate::{BuildError, DigestMemo, JobError, Request};

/// What would become of one kernel.
#[derive(Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// The kernel's name; who asked for it, if the backend does not take it.
    pub name: String,
    /// Its key, if the backend takes it.
    pub key: Option<Key>,
    /// The types of its operators, joined.
    pub op_type: String,
    /// Who asks for it.
    pub asked_by: Vec<String>,
    /// Hit or miss, and why.
    pub fate: Fate,
    /// The imported kernel that is the hit; or that would be one, if such were [trusted](Builder::trust_imported).
    pub imported: Option<Imported>,
    /// Why an imported kernel of the same job will not do.
    pub imported_problem: Option<String>,
}

/// Whether a kernel would be taken from the store.
#[derive(Debug)]
#[non_exhaustive]
pub enum Fate {
    /// It is there.
    Hit,
    /// It would be compiled.
    Miss {
        /// Why it is not taken.
        why: String,
        /// The stored kernel of the same operators that differs least, if it is simply not there.
        nearest: Option<Box<Nearest>>,
    },
    /// It has debug options: it would be compiled, and not kept.
    Bypassed,
    /// The backend does not take it.
    Refused(Arc<JobError>),
}

impl Builder {
    /// What [`build`](Self::build) would do with each kernel. Compiles nothing and writes nothing.
    ///
    /// # Errors
    /// The backend has no toolchain, so nothing has a key.
    pub fn explain(&self, requests: &[Request]) -> Result<Vec<Explanation>, BuildError> {
        let memo = DigestMemo::default();
        let plan = Plan::new(self, requests, &memo)?;
        let shelves = Shelves::of(self, &plan);
        let mut explanations: Vec<Explanation> =
            plan.kernels.iter().map(|planned| shelves.explanation(planned)).collect();
        shelves.add_nearest(&plan, &mut explanations);
        Ok(explanations)
    }
}

/// The stored kernels of each target of a plan, or why there are none.
struct Shelves<'a> {
    builder: &'a Builder,
    targets: BTreeMap<String, Result<TargetStore, String>>,
}

impl<'a> Shelves<'a> {
    fn of(builder: &'a Builder, plan: &Plan<'_>) -> Self {
        let store = match &builder.store {
            Some(config) => Store::open(Config { access: Access::ReadOnly, ..config.clone() })
                .map_err(|error| error.to_string()),
            None => Err("there is no store".to_owned()),
        };
        let shelf = |target: &String| {
            let shelf = store.as_ref().map_err(Clone::clone)?.target(target);
            shelf.map_err(|error| error.to_string())
        };
        let targets =
            plan.stored_targets().into_iter().map(|target| (target.clone(), shelf(&target))).collect();
        Self { builder, targets }
    }

    fn explanation(&self, planned: &Planned<'_>) -> Explanation {
        let (name, op_type) = (planned.name().to_owned(), planned.op_type());
        let asked_by = planned.asked_by.iter().map(|name| (*name).to_owned()).collect();
        let key = planned.keyed().map(|keyed| Key::from(*keyed.key.digest()));
        let fate = match &planned.state {
            State::Keyed(keyed) => self.fate(keyed),
            State::Refused(refused) => Fate::Refused(Arc::clone(&refused.error)),
        };
        let mut explanation =
            Explanation { name, key, op_type, asked_by, fate, imported: None, imported_problem: None };
        if let Fate::Miss { .. } | Fate::Refused(_) = explanation.fate {
            self.add_imported(planned, &mut explanation);
        }
        explanation
    }

    /// Looks whether there is an imported kernel for what would be compiled.
    fn add_imported(&self, planned: &Planned<'_>, explanation: &mut Explanation) {
        let Some((job, spec)) = planned.wanted().filter(|(_, spec)| !spec.debug) else { return };
        let Some(Ok(shelf)) = self.targets.get(&spec.target) else { return };
        if !self.builder.mode.takes() || self.is_made_again(planned, shelf) {
            return;
        }
        match imported::peek(shelf, &Wanted::new(job, spec)) {
            None => {}
            Some(Err(problem)) => explanation.imported_problem = Some(problem),
            Some(Ok(imported)) => {
                explanation.imported = Some(imported);
                if self.builder.trust_imported {
                    explanation.fate = Fate::Hit;
                }
            }
        }
    }

    /// Whether there is a damaged kernel of ours, which a build compiles again.
    fn is_made_again(&self, planned: &Planned<'_>, shelf: &TargetStore) -> bool {
        let is_damaged =
            |keyed: &Keyed| matches!(shelf.peek(keyed.key.digest()), Lookup::Miss(Miss::Damaged(_)));
        self.builder.mode != Mode::Require && planned.keyed().is_some_and(is_damaged)
    }

    fn fate(&self, keyed: &Keyed) -> Fate {
        let missed = |why: String| Fate::Miss { why, nearest: None };
        if keyed.spec.debug {
            return Fate::Bypassed;
        }
        if !self.builder.mode.takes() {
            return missed(format!("cache mode is {}", self.builder.mode));
        }
        match self.targets.get(&keyed.spec.target) {
            Some(Ok(shelf)) => match shelf.peek(keyed.key.digest()) {
                Lookup::Hit(_) => Fate::Hit,
                Lookup::Miss(miss) => missed(miss.to_string()),
            },
            Some(Err(why)) => missed(why.clone()),
            None => missed("there is no store".to_owned()),
        }
    }

    /// Finds the nearest of those that are simply not there, in one pass over each shelf.
    fn add_nearest(&self, plan: &Plan<'_>, explanations: &mut [Explanation]) {
        for (target, shelf) in &self.targets {
            let Ok(shelf) = shelf else { continue };
            let mut hunt = Hunt::new(shelf);
            for (at, planned) in plan.kernels.iter().enumerate() {
                if let Some(keyed) = planned.keyed().filter(|keyed| keyed.spec.target == *target)
                    && matches!(&explanations[at].fate, Fate::Miss { .. })
                    && matches!(shelf.peek(keyed.key.digest()), Lookup::Miss(Miss::Absent))
                {
                    hunt.add(at, planned, keyed);
                }
            }
            if hunt.is_empty() {
                continue;
            }
            hunt.run(|| true);
            for (at, found) in hunt.found() {
                if let Fate::Miss { nearest, .. } = &mut explanations[at].fate {
                    *nearest = Some(Box::new(found));
                }
            }
        }
    }
}
