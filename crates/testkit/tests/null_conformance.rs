//! The null backend passes the suite; it has no loader, so running shows as ignored.

use std::process::ExitCode;
use std::sync::Arc;

use opkeep_descriptor::BuildSpec;
use opkeep_testkit::NullBackend;
use opkeep_testkit::conformance::{Subject, elementwise_cases, main as run};

fn main() -> ExitCode {
    run(&Subject {
        backend: Arc::new(|| Arc::new(NullBackend::default())),
        spec: BuildSpec::new("null"),
        cases: elementwise_cases(),
    })
}
