//! The CPU backend passes the suite that every backend must pass.
#![expect(clippy::disallowed_methods, reason = "tests look for the compiler where the user's shell would")]

use std::process::ExitCode;
use std::sync::Arc;

use opkeep_backend_cpu::{CpuBackend, CpuConfig};
use opkeep_descriptor::BuildSpec;
use opkeep_testkit::conformance::{Subject, elementwise_cases, main as run};

fn main() -> ExitCode {
    let path = std::env::var_os("PATH").unwrap_or_default();
    run(&Subject {
        backend: Arc::new(move || Arc::new(CpuBackend::new(CpuConfig::new(path.clone())))),
        spec: BuildSpec::new("cpu"),
        cases: elementwise_cases(),
    })
}
