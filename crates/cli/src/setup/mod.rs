//! The backend, the store and the engine, created from the arguments and the environment.

mod remote;
pub(crate) mod targets;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use opkeep::{CacheMode, Config, Engine, RecordConfig};
use opkeep_backend::Backend;
use opkeep_backend_ascend::{AscendConfig, Driver};
use opkeep_backend_cpu::CpuConfig;
use opkeep_fs::CancelToken;
use opkeep_store::StoreConfig;

pub(crate) use self::remote::{
    remote_settings, remote_settings_of, sign_key, signature_settings, trust_settings,
};
use crate::config::Settings;
use crate::config::table::{CANN, CC, TOOLCHAIN_INPUTS};
use crate::config::value::Value;
use crate::flags::compile::CompileArgs;
use crate::flags::record::RecordArgs;
use crate::flags::store::StoreArgs;
use crate::ui::env;
use crate::ui::output::Output;
use crate::ui::registry::registry;

/// Returns the configuration of the C compiler, without flags.
pub(crate) fn cpu_config(config: &Settings, timeout: Duration) -> anyhow::Result<CpuConfig> {
    env::cpu_config(config.get(&CC).map(Value::text), timeout, &inputs(config))
}

/// Returns the configuration of CANN, without flags. Where the environment names it, several variables belong together.
pub(crate) fn ascend_config(config: &Settings) -> anyhow::Result<AscendConfig> {
    env::ascend_config(config.path_in_file(&CANN), &inputs(config))
}

fn inputs(config: &Settings) -> Vec<PathBuf> {
    config.get(&TOOLCHAIN_INPUTS).into_iter().flat_map(Value::paths).collect()
}

/// Opens the backend for `target`.
pub(crate) fn backend(common: &CompileArgs, target: &str) -> anyhow::Result<Arc<dyn Backend>> {
    let cpu = env::cpu_config(common.cc(), common.deadline(), &common.toolchain_inputs())?;
    registry(cpu, ascend(common)?).open(target).context("opening the backend")
}

/// Returns the configuration of CANN from the flags.
pub(crate) fn ascend(common: &CompileArgs) -> anyhow::Result<AscendConfig> {
    let driver = match common.cann_driver().as_deref() {
        Some("workers") => Driver::Workers,
        Some("process") => Driver::Process,
        _ => Driver::Auto,
    };
    let mut config = env::ascend_config(common.cann(), &common.toolchain_inputs())?;
    config.driver = driver;
    Ok(config)
}

/// Creates an engine for the target in the flags.
pub(crate) fn engine(common: &CompileArgs, cancel: &CancelToken, output: &Output) -> anyhow::Result<Engine> {
    let engine = engine_of(backend(common, common.target())?, common, cancel);
    let is_written = matches!(common.cache_mode(), CacheMode::Enable | CacheMode::Force);
    if engine.config().store.is_none() && is_written {
        output.print_warning(
            "no directory for the store is known, so nothing is stored: set OPKEEP_CACHE_DIR or HOME",
        );
    }
    engine.warm_up();
    Ok(engine)
}

/// Creates an engine with this backend.
pub(crate) fn engine_of(backend: Arc<dyn Backend>, common: &CompileArgs, cancel: &CancelToken) -> Engine {
    let mut config = Config::default();
    config.store = store(&common.store).ok();
    config.mode = common.cache_mode();
    config.jobs = common.jobs();
    config.nice = common.nice();
    config.fail_fast = common.fail_fast;
    config.compile_timeout = Some(common.deadline());
    Engine::new(backend, config).with_cancel(cancel.clone())
}

/// Returns the configuration of the record of a build with `label`; `None` if the store gets none and nothing else `needs` it.
pub(crate) fn record(args: &RecordArgs, label: String, needs: bool) -> Option<RecordConfig> {
    let mut config = RecordConfig::stored(label);
    config.is_stored = args.are_stored();
    (config.is_stored || needs).then_some(config)
}

/// Returns the store that the flags, the environment or a file of settings names.
///
/// # Errors
/// None names a store.
pub(crate) fn store(args: &StoreArgs) -> anyhow::Result<StoreConfig> {
    let root = args.dir().context(
        "no directory for the store is known: set OPKEEP_CACHE_DIR or HOME, or give --op_compiler_cache_dir",
    )?;
    Ok(store_at(root, args))
}

/// Returns the configuration of the store at `root`, with its limits.
pub(crate) fn store_at(root: PathBuf, args: &StoreArgs) -> StoreConfig {
    StoreConfig::new(root).with_trusted_owners(args.trusted_owners()).with_limits(args.limits())
}
