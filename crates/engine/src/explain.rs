//! Why each kernel would be a hit or a miss, without building any.

use std::collections::BTreeMap;
use std::sync::Arc;

use opbuild_descriptor::Key;
use opbuild_store::{Access, Config, Lookup, Miss, Store, TargetStore};

use crate::builder::Builder;
use crate::nearest::{Nearest, Neighbours};
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
        Ok(plan.kernels.iter().map(|planned| shelves.explanation(planned)).collect())
    }
}

/// The stored kernels of each target of a plan, or why there are none.
struct Shelves<'a> {
    builder: &'a Builder,
    targets: BTreeMap<String, Result<(TargetStore, Neighbours), String>>,
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
            let shelf = shelf.map_err(|error| error.to_string())?;
            Ok((shelf, Neighbours::default()))
        };
        let targets = plan.targets().into_iter().map(|target| (target.clone(), shelf(&target))).collect();
        Self { builder, targets }
    }

    fn explanation(&self, planned: &Planned<'_>) -> Explanation {
        let (name, op_type) = (planned.name().to_owned(), planned.op_type());
        let asked_by = planned.asked_by.iter().map(|name| (*name).to_owned()).collect();
        let key = planned.keyed().map(|keyed| Key::from(*keyed.key.digest()));
        let fate = match &planned.state {
            State::Keyed(keyed) => self.fate(planned, keyed, &op_type),
            State::Refused(error) => Fate::Refused(Arc::clone(error)),
        };
        Explanation { name, key, op_type, asked_by, fate }
    }

    fn fate(&self, planned: &Planned<'_>, keyed: &Keyed, op_type: &str) -> Fate {
        let missed = |why: String| Fate::Miss { why, nearest: None };
        if keyed.spec.debug {
            return Fate::Bypassed;
        }
        if !self.builder.mode.takes() {
            return missed(format!("cache mode is {}", self.builder.mode));
        }
        let (shelf, neighbours) = match self.targets.get(&keyed.spec.target) {
            Some(Ok(found)) => found,
            Some(Err(why)) => return missed(why.clone()),
            None => return missed("there is no store".to_owned()),
        };
        match shelf.peek(keyed.key.digest()) {
            Lookup::Hit(_) => Fate::Hit,
            Lookup::Miss(miss @ Miss::Absent) => Fate::Miss {
                why: miss.to_string(),
                nearest: neighbours.nearest(shelf, planned.job, op_type, keyed).map(Box::new),
            },
            Lookup::Miss(miss) => missed(miss.to_string()),
        }
    }
}
