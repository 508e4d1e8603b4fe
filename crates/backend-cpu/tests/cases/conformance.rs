//! The CPU backend passes the suite that every backend must pass.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test finds a compiler, and makes a launcher for it"
)]

use std::sync::Arc;

use libtest_mimic::Trial;
use opkeep_backend_cpu::{CpuBackend, CpuConfig};
use opkeep_descriptor::BuildSpec;
use opkeep_testkit::conformance::{Subject, WarningCase, elementwise_cases, trials as suite};

pub(crate) fn trials() -> Vec<Trial> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dir = tempfile::tempdir().unwrap();
    let launcher = dir.path().join("ccache");
    std::fs::write(&launcher, "#!/bin/sh\nexec \"$@\"\n").unwrap();
    std::fs::set_permissions(&launcher, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let with_launcher = CpuConfig::new(&path).with_compiler(Some(format!("{} cc", launcher.display())));
    let subject = Subject {
        backend: Arc::new(move || Arc::new(CpuBackend::new(CpuConfig::new(path.clone())))),
        spec: BuildSpec::new("cpu"),
        cases: elementwise_cases(),
        warning_case: Some(WarningCase {
            backend: Arc::new(move || {
                // Keeps the launcher's directory alive.
                let _ = &dir;
                Arc::new(CpuBackend::new(with_launcher.clone()))
            }),
            spec: BuildSpec::new("cpu"),
            warning: "ccache` is left out",
        }),
    };
    suite("conformance/", &subject)
}
