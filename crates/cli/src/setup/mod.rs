//! The backend, the store and the engine as the arguments and the environment have them.

pub(crate) mod parts;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use opkeep::{Builder, CacheMode};
use opkeep_backend::Backend;
use opkeep_backend_ascend::{AscendConfig, Driver};
use opkeep_fs::CancelToken;
use opkeep_store::StoreConfig;

use crate::flags::compile::CompileArgs;
use crate::ui::env;
use crate::ui::output::Output;
use crate::ui::registry::registry;

/// Opens the backend for `target`.
pub(crate) fn backend(common: &CompileArgs, target: &str) -> anyhow::Result<Arc<dyn Backend>> {
    let deadline = Duration::from_secs_f64(common.deadline);
    let registry = registry(deadline, ascend(common)?, &common.toolchain_inputs)?;
    registry.open(target).context("opening the backend")
}

/// How CANN is found and driven, as the flags have it.
fn ascend(common: &CompileArgs) -> anyhow::Result<AscendConfig> {
    let driver = match common.cann_driver.as_str() {
        "workers" => Driver::Workers,
        "process" => Driver::Process,
        _ => Driver::Auto,
    };
    let config = env::ascend_config(common.cann.clone(), &common.toolchain_inputs)?;
    Ok(AscendConfig { driver, ..config })
}

/// A builder as the flags have it.
pub(crate) fn builder(
    common: &CompileArgs,
    cancel: &CancelToken,
    output: &Output,
) -> anyhow::Result<Builder> {
    let builder = builder_of(backend(common, common.target())?, common, cancel);
    let keeps = matches!(common.cache_mode, CacheMode::Enable | CacheMode::Force);
    if store(common).is_none() && keeps {
        output.print_warning("there is no place for a store: set OPKEEP_CACHE_DIR or HOME; nothing is kept");
    }
    builder.warm_up();
    Ok(builder)
}

/// A builder with this backend as the flags have it.
pub(crate) fn builder_of(backend: Arc<dyn Backend>, common: &CompileArgs, cancel: &CancelToken) -> Builder {
    let deadline = Duration::from_secs_f64(common.deadline);
    let mut builder =
        Builder::new(backend).cancel(cancel.clone()).mode(common.cache_mode).deadline(Some(deadline));
    if let Some(jobs) = common.jobs {
        builder = builder.jobs(jobs);
    }
    builder = builder.niceness(common.nice).fail_fast(common.fail_fast);
    if let Some(config) = store(common) {
        builder = builder.store(config);
    }
    builder
}

/// The store as the flags have it, if there is a place for one.
pub(crate) fn store(common: &CompileArgs) -> Option<StoreConfig> {
    store_config(common.cache_dir.as_deref(), &common.trusted_owners)
}

/// The store in `dir`, else where the environment has it.
pub(crate) fn store_config(dir: Option<&Path>, trusted_owners: &[u32]) -> Option<StoreConfig> {
    let root = dir.map(Path::to_owned).or_else(env::cache_dir)?;
    Some(StoreConfig {
        trusted_owners: trusted_owners.to_vec(),
        limits: env::limits(),
        ..StoreConfig::new(root)
    })
}
