//! The null backend passes the suite; it has no loader, so running shows as ignored.

use std::sync::Arc;

use libtest_mimic::Trial;
use opkeep_descriptor::BuildSpec;
use opkeep_testkit::NullBackend;
use opkeep_testkit::conformance::{Subject, WarningCase, elementwise_cases, trials as suite};

pub(crate) fn trials() -> Vec<Trial> {
    let subject = Subject {
        backend: Arc::new(|| Arc::new(NullBackend::default())),
        spec: BuildSpec::new("null"),
        cases: elementwise_cases(),
        warning_case: Some(WarningCase {
            backend: Arc::new(|| {
                let backend = NullBackend::default();
                backend.warn_of("something is odd");
                Arc::new(backend)
            }),
            spec: BuildSpec::new("null"),
            warning: "something is odd",
        }),
    };
    suite("null/", &subject)
}
