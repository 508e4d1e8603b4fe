//! The registry of all backends.

use opkeep_backend::Registry;
use opkeep_backend_ascend::{AscendBackend, AscendConfig};
use opkeep_backend_cpu::{CpuBackend, CpuConfig};

/// Returns all backends.
pub(crate) fn registry(cpu: CpuConfig, ascend: AscendConfig) -> Registry {
    let mut registry = Registry::new();
    registry.add(CpuBackend::entry(cpu));
    registry.add(AscendBackend::entry(ascend));
    registry
}
