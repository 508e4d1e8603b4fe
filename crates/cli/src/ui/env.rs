//! The environment, which is read here and nowhere else.
#![expect(clippy::disallowed_methods, reason = "the command line is where the environment is read")]

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::ui::text::quotable;
use anyhow::{Context, bail};
use opkeep::ViewConfig;
use opkeep_artifact::is_safe_file_name;
use opkeep_backend_ascend::{AscendConfig, Search, VARIABLES};
use opkeep_backend_cpu::CpuConfig;
use opkeep_remote::Variables;
use opkeep_store::LimitSettings;

/// The variable that limits the number of entries of a store.
pub const MAX_ENTRIES_VARIABLE: &str = "OPKEEP_MAX_CACHE_ENTRIES";

/// The prefix of the variables that name a remote cache and keys.
const PREFIX: &str = "OPKEEP";

/// The variables that name the remote cache and its use.
pub(crate) const REMOTE: &str = "OPKEEP_REMOTE";
pub(crate) const REMOTE_MODE: &str = "OPKEEP_REMOTE_MODE";

/// The variable that says which events are printed.
pub(crate) const LOG: &str = "OPKEEP_LOG";

/// The variable that names a file of settings.
pub(crate) const CONFIG: &str = "OPKEEP_CONFIG";

/// The environment says that the remote cache is not written.
#[derive(Debug)]
pub(crate) struct RemoteNotWritten;

impl fmt::Display for RemoteNotWritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{REMOTE_MODE} is not read-write, so nothing is sent to a remote cache")
    }
}

impl std::error::Error for RemoteNotWritten {}

/// Returns the value of a variable that is set and not empty.
fn var(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns the variables that name a remote cache and keys. One that is empty is not unset: it must not turn off the verification of
/// signatures.
pub(crate) fn variables() -> Variables {
    Variables::new(PREFIX, Arc::new(|name: &str| std::env::var_os(name))).with_home(std::env::home_dir())
}

/// Returns the width of the terminal that the environment states, for an output that is none.
pub(crate) fn columns() -> Option<usize> {
    var("COLUMNS")?.to_str()?.parse().ok()
}

/// Returns the filter of the events that are printed.
pub(crate) fn log_filter() -> Option<String> {
    var(LOG).map(|filter| filter.to_string_lossy().into_owned())
}

/// Returns the value of a variable that is set, also if it is empty.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Returns all variables.
pub(crate) fn all_variables() -> Vec<(OsString, OsString)> {
    std::env::vars_os().collect()
}

/// Returns the path of the program that this process runs.
pub(crate) fn own_program() -> Option<PathBuf> {
    std::env::current_exe().ok()
}

/// Returns the directory for temporary files.
pub(crate) fn temp_dir() -> PathBuf {
    std::env::temp_dir()
}

/// Returns the directory in a variable. By the XDG rules, a relative path counts as unset.
fn xdg_dir(name: &str) -> Option<PathBuf> {
    var(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Returns HOME; if unset, the home directory in the system's user database.
pub(crate) fn home() -> Option<PathBuf> {
    std::env::home_dir().filter(|home| home.is_absolute())
}

/// Returns the store's directory if no setting names one.
pub(crate) fn default_cache_dir() -> Option<PathBuf> {
    let cache = xdg_dir("XDG_CACHE_HOME").or_else(|| Some(home()?.join(".cache")));
    cache.map(|cache| cache.join("opkeep"))
}

/// Returns the file of settings that the environment names.
pub(crate) fn config_file() -> Option<PathBuf> {
    var(CONFIG).map(PathBuf::from)
}

/// Returns the directory with the files of settings of this user.
pub(crate) fn user_config_dir() -> Option<PathBuf> {
    xdg_dir("XDG_CONFIG_HOME").or_else(|| Some(home()?.join(".config")))
}

/// Returns the directories with the files of settings of the system, the most important first.
pub(crate) fn system_config_dirs() -> Vec<PathBuf> {
    let named = var("XDG_CONFIG_DIRS").unwrap_or_else(|| "/etc/xdg".into());
    let named = std::env::split_paths(&named).filter(|path| path.is_absolute());
    named.chain(std::iter::once(PathBuf::from("/etc"))).collect()
}

/// Returns the current directory.
pub(crate) fn current_dir() -> Option<PathBuf> {
    std::env::current_dir().ok()
}

/// Returns the values of the variables that limit CANN's cache.
pub(crate) fn limits() -> LimitSettings {
    let text = |name: &str| var(name).map(|value| value.to_string_lossy().into_owned());
    let mut limits = LimitSettings::new();
    limits.max_op_cache_size = text("ASCEND_MAX_OP_CACHE_SIZE");
    limits.remain_cache_size_ratio = text("ASCEND_REMAIN_CACHE_SIZE_RATIO");
    limits.max_entries_name = MAX_ENTRIES_VARIABLE;
    limits.max_entries = text(limits.max_entries_name);
    limits
}

/// Whether CANN collects information for its maintainers; its own operator cache is off then.
pub(crate) fn is_collecting() -> bool {
    var("NPU_COLLECT_PATH").is_some()
}

/// Returns the directory where the framework reads kernels. It is below `MS_COMPILER_CACHE_PATH`; if unset, below the
/// current directory. The rank is `RANK_ID`; if unset, 0.
pub(crate) fn kernel_meta() -> anyhow::Result<ViewConfig> {
    let base = var("MS_COMPILER_CACHE_PATH").map_or_else(|| PathBuf::from("."), PathBuf::from);
    let rank = match var("RANK_ID") {
        None => "0".to_owned(),
        Some(rank) => match rank.into_string() {
            Ok(rank) if is_safe_file_name(&rank) => rank,
            Ok(rank) => bail!(
                "RANK_ID is `{rank}`, expected letters, digits, `_`, `-` and `.` only; it names the directory rank_{rank}"
            ),
            Err(rank) => bail!("RANK_ID is {rank:?}, expected letters, digits, `_`, `-` and `.` only"),
        },
    };
    Ok(ViewConfig::rank(base, rank))
}

/// Returns the absolute paths of files and directories that are part of the compiler.
fn toolchain_inputs(declared: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let absolute = |path: &PathBuf| {
        std::path::absolute(path)
            .with_context(|| format!("`{}`: the current directory is gone", quotable(path)))
    };
    declared.iter().map(absolute).collect()
}

/// Returns the configuration of the C compiler: `compiler`, looked up in `PATH`. `timeout` limits each query to the compiler;
/// `declared` are files that are part of it.
pub(crate) fn cpu_config(
    compiler: Option<OsString>,
    timeout: Duration,
    declared: &[PathBuf],
) -> anyhow::Result<CpuConfig> {
    let mut config = CpuConfig::new(var("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into()));
    config.probe_deadline = config.probe_deadline.min(timeout);
    config.inputs = toolchain_inputs(declared)?;
    if let Some(compiler) = compiler {
        config.compiler =
            Some(compiler.into_string().ok().context("CC is not UTF-8; name the compiler by another path")?);
    }
    Ok(config)
}

/// Returns the configuration of CANN in `explicit`; if unset, where the environment names it. `declared` are files that
/// are part of it.
pub(crate) fn ascend_config(explicit: Option<PathBuf>, declared: &[PathBuf]) -> anyhow::Result<AscendConfig> {
    let mut config = AscendConfig::new(ascend_search(explicit)).keep_answers_below(&std::env::temp_dir());
    config.inputs = toolchain_inputs(declared)?;
    Ok(config)
}

/// Returns the paths at which CANN is searched: `explicit`; if unset, those that the environment names.
pub(crate) fn ascend_search(explicit: Option<PathBuf>) -> Search {
    let set = VARIABLES.iter().filter_map(|name| Some(((*name).to_owned(), var(name)?)));
    Search { explicit, ..Search::new(opkeep_order::map(set), home()) }
}
