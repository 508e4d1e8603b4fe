//! The explanation of misses while a build compiles them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::causes::MissExplanation;
use super::former::StoreHistory;
use super::nearest::{NearestSearch, search_while};
use crate::Outcome;
use crate::event::Event;
use crate::pipeline::{KernelPipeline, MissReason};
use crate::plan::BuildPlan;
use crate::report::KernelReport;
use crate::setup::Setup;

/// The time limit of the search if no explanation is wanted: a store may be large, and a build must not wait for it.
const SEARCH_LIMIT: Duration = Duration::from_millis(200);

/// Explains the missing kernels of a build.
pub(crate) struct BuildExplainer<'a> {
    setup: &'a Setup,
    plan: &'a BuildPlan<'a>,
    pipeline: &'a KernelPipeline<'a>,
    /// The kernels, as indices into the plan.
    missing: &'a [(usize, MissReason)],
    /// The explanations so far, by the index into `missing`.
    explained: Mutex<HashMap<usize, MissExplanation>>,
}

impl<'a> BuildExplainer<'a> {
    pub(crate) fn new(
        setup: &'a Setup,
        plan: &'a BuildPlan<'a>,
        pipeline: &'a KernelPipeline<'a>,
        missing: &'a [(usize, MissReason)],
    ) -> Self {
        Self { setup, plan, pipeline, missing, explained: Mutex::default() }
    }

    /// Runs `work`, and explains the misses at the same time.
    pub(crate) fn explain_while<T>(&self, work: impl FnOnce() -> T) -> T {
        let is_wanted = self.setup.config.explain_misses;
        if is_wanted {
            self.explain_others();
        }
        let began = Instant::now();
        let goes_on = |is_done: bool| match is_wanted {
            true => !self.pipeline.cancel.is_cancelled(),
            false => !is_done && began.elapsed() < SEARCH_LIMIT,
        };
        let searches = self.searches();
        let keys = searches.iter().flat_map(NearestSearch::keys).copied().collect();
        let store = self.pipeline.runtime.cache.store();
        let history = |goes_on: &dyn Fn() -> bool| StoreHistory::read(store?, &keys, goes_on);
        let take = |mut search: NearestSearch<'_>, history: &Option<StoreHistory>| {
            match history {
                Some(history) => {
                    if let Some(store) = store.filter(|_| is_wanted) {
                        search.look_elsewhere(store, || !self.pipeline.cancel.is_cancelled());
                    }
                    self.take(search, history);
                }
                // Without the whole history, what is near may be a wrong cause.
                None if is_wanted => search.ids().for_each(|index| {
                    self.add(index, MissExplanation::new(self.missing[index].1.reason.clone()));
                }),
                None => {}
            }
        };
        search_while(searches, goes_on, history, take, work)
    }

    /// Adds the explanations to the reports of the plan's kernels.
    pub(crate) fn add_to(self, reports: &mut [Option<KernelReport>]) {
        let is_wanted = self.setup.config.explain_misses;
        for (index, miss) in self.explained.into_inner().unwrap_or_else(PoisonError::into_inner) {
            let Some(report) = &mut reports[self.missing[index].0] else { continue };
            let is_known = miss.former.is_some() || miss.nearest.is_some();
            if let (true, Some(reason), Outcome::Compiled) = (is_known, &mut report.reason, report.outcome) {
                reason.push_str(&format!("; {miss}"));
            }
            if is_wanted && !matches!(report.outcome, Outcome::Reused | Outcome::Shared) {
                report.miss = Some(miss);
            }
        }
    }

    /// Explains the misses for which no search is made.
    fn explain_others(&self) {
        for (index, (at, miss)) in self.missing.iter().enumerate() {
            let keyed = self.plan.kernels[*at].keyed();
            if !miss.absent && keyed.is_some_and(|keyed| !keyed.spec.debug) {
                let (is_damaged, untrusted) = (miss.damaged, miss.untrusted.clone());
                let explanation = MissExplanation::new(miss.reason.clone());
                self.add(index, MissExplanation { is_damaged, untrusted, ..explanation });
            }
        }
    }

    /// Takes the result of a search that has ended.
    fn take(&self, search: NearestSearch<'_>, history: &StoreHistory) {
        for (index, explained) in search.explained(history) {
            let why = self.missing[index].1.reason.clone();
            self.add(index, MissExplanation { why, ..explained });
        }
    }

    fn add(&self, index: usize, miss: MissExplanation) {
        if self.setup.config.explain_misses {
            let kernel = self.plan.kernels[self.missing[index].0].name();
            self.setup.notify(Event::Explained { kernel, miss: &miss });
        }
        // A panic elsewhere leaves the map consistent.
        self.explained.lock().unwrap_or_else(PoisonError::into_inner).insert(index, miss);
    }

    /// Returns a search for each target, with the missing kernels that have no entry in the store.
    fn searches(&self) -> Vec<NearestSearch<'a>> {
        let mut searches: Vec<(&str, NearestSearch<'a>)> = Vec::new();
        for (index, (at, _)) in self.missing.iter().enumerate().filter(|(_, (_, miss))| miss.absent) {
            let planned = &self.plan.kernels[*at];
            let Some(keyed) = planned.keyed() else { continue };
            let Some(store) = self.pipeline.store_of(keyed) else { continue };
            let target = keyed.spec.target.as_str();
            match searches.iter_mut().find(|(known, _)| *known == target) {
                Some((_, search)) => search.add(index, planned, keyed),
                None => {
                    let mut search = NearestSearch::new(store, &*self.setup.backend);
                    search.add(index, planned, keyed);
                    searches.push((target, search));
                }
            }
        }
        searches.into_iter().map(|(_, search)| search).collect()
    }
}
