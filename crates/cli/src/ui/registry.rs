//! The registry of all backends.

use std::path::PathBuf;
use std::time::Duration;

use opkeep_backend::Registry;
use opkeep_backend_ascend::{AscendBackend, AscendConfig};
use opkeep_backend_cpu::CpuBackend;

use crate::ui::env;

/// Returns all backends. `timeout` limits each query to a compiler.
pub(crate) fn registry(
    timeout: Duration,
    ascend: AscendConfig,
    toolchain_inputs: &[PathBuf],
) -> anyhow::Result<Registry> {
    let mut registry = Registry::new();
    registry.add(CpuBackend::entry(env::cpu_config(timeout, toolchain_inputs)?));
    registry.add(AscendBackend::entry(ascend));
    Ok(registry)
}
