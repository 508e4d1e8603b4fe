//! The Ascend backend passes the suite that every backend must pass, by each driver, on the stand-in toolkit. It shows as
//! ignored where there is no Python.

#![expect(clippy::unwrap_used, reason = "a test without a backend has failed")]

use std::sync::Arc;

use crate::common::{SOC, driven};
use libtest_mimic::Trial;
use opkeep_backend::Backend;
use opkeep_backend_ascend::{AscendBackend, Driver};
use opkeep_descriptor::BuildSpec;
use opkeep_testkit::conformance::{Case, Subject, WarningCase, trials_for};
use opkeep_testkit::{job, toolkit};

pub(crate) fn trials() -> Vec<Trial> {
    let has_python = toolkit::python().is_some();
    let place = Arc::new(crate::common::Place::new());
    let subject = |driver: Driver| {
        let place = Arc::clone(&place);
        // The stand-in's kernels run nowhere: what they compute is not looked at.
        let case = |name, op_type: &str, count| Case {
            name,
            job: job(op_type, &[&[count]]),
            inputs: Vec::new(),
            expected: Vec::new(),
        };
        let backend: Arc<dyn Fn() -> Arc<dyn Backend> + Send + Sync> =
            Arc::new(move || Arc::new(AscendBackend::open(&driven(&place, driver), SOC).unwrap()));
        let mut misspelt = BuildSpec::new(SOC);
        misspelt.options.insert("op_debug_levle".to_owned(), "1".into());
        Subject {
            warning_case: Some(WarningCase {
                backend: Arc::clone(&backend),
                spec: misspelt,
                warning: "`op_debug_levle` is not passed to the compiler",
            }),
            backend,
            spec: BuildSpec::new(SOC),
            cases: vec![case("square", "Square", 8), case("relu", "Relu", 8), case("larger", "Square", 1000)],
        }
    };
    let subjects = [("process", subject(Driver::Process)), ("workers", subject(Driver::Workers))];
    trials_for(&subjects, !has_python)
}
