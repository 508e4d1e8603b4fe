//! The backends there are.

use std::path::PathBuf;
use std::time::Duration;

use opkeep_backend::Registry;
use opkeep_backend_ascend::{AscendBackend, AscendConfig};
use opkeep_backend_cpu::CpuBackend;

use crate::ui::env;

/// The backends there are. A compiler that is asked something has `patience` to answer.
pub(crate) fn registry(
    patience: Duration,
    ascend: AscendConfig,
    toolchain_inputs: &[PathBuf],
) -> anyhow::Result<Registry> {
    let mut registry = Registry::new();
    registry.add(CpuBackend::entry(env::cpu_config(patience, toolchain_inputs)?));
    registry.add(AscendBackend::entry(ascend));
    Ok(registry)
}
