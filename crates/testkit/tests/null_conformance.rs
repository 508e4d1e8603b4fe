//! The null backend passes the suite; it has no loader, so running shows as ignored.

use std::process::ExitCode;
use std::sync::Arc;

use opbuild_descriptor::BuildSpec;
use opbuild_testkit::NullBackend;
use opbuild_testkit::conformance::{Subject, elementwise_cases, main as run};

fn main() -> ExitCode {
    run(&Subject {
        backend: Arc::new(|| Arc::new(NullBackend::default())),
        spec: BuildSpec::new("null"),
        cases: elementwise_cases(),
    })
}
