//! How the toolkit is driven: by which programs, and with which environment.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use opkeep_cann_toolkit::{Toolkit, ToolkitError, absolute};
use opkeep_fs::Fs;

use crate::config::{AscendConfig, Driver};
use crate::probe::interpreter::merged;
use crate::worker::pool::Pool;

/// How kernels are made.
pub(crate) enum Means {
    /// By `opc`, which has options for banks, or `asc_opc`, which has none.
    Process {
        program: PathBuf,
        has_banks: bool,
    },
    Workers(Pool),
}

/// The environment of the toolkit's programs: its own, its log where we read it, and nothing else.
pub(crate) fn environment(toolkit: &Toolkit, config: &AscendConfig) -> Vec<(OsString, OsString)> {
    // Workers run elsewhere.
    let scratch = absolute(config.scratch.clone());
    let own = [
        ("LC_ALL", OsStr::new("C.UTF-8")),
        ("PYTHONUNBUFFERED", OsStr::new("1")),
        // Bytecode beside sources may be of other sources: none is read, and none is left. Nothing is below this file.
        ("PYTHONPYCACHEPREFIX", OsStr::new("/dev/null")),
        ("PYTHONDONTWRITEBYTECODE", OsStr::new("1")),
        ("TMPDIR", scratch.as_os_str()),
        // Errors would go to files below the home directory.
        ("ASCEND_SLOG_PRINT_TO_STDOUT", OsStr::new("1")),
        ("ASCEND_GLOBAL_LOG_LEVEL", OsStr::new("3")),
        ("ASCEND_GLOBAL_EVENT_ENABLE", OsStr::new("0")),
    ];
    let found = toolkit.environment();
    let found = found.iter().map(|(name, value)| (OsStr::new(name), value.as_os_str()));
    merged(found.chain(own.iter().map(|(name, value)| (OsStr::new(*name), *value))))
}

pub(crate) fn means(toolkit: &Toolkit, config: &AscendConfig) -> Result<Means, ToolkitError> {
    let is_there = tool_dir(toolkit).is_some();
    if config.driver == Driver::Workers || (config.driver == Driver::Auto && is_there) {
        return Ok(Means::Workers(pool(toolkit)?));
    }
    let (program, has_banks) = match (&toolkit.opc, &toolkit.asc_opc) {
        (Some(opc), _) => (opc.clone(), true),
        (None, Some(asc_opc)) => (asc_opc.clone(), false),
        // `find` takes no toolkit without either.
        (None, None) => (toolkit.root.join("bin/opc"), true),
    };
    Ok(Means::Process { program, has_banks })
}

/// The package through which workers compile, if the toolkit has it.
pub(crate) fn tool_dir(toolkit: &Toolkit) -> Option<PathBuf> {
    let dir = toolkit.site_packages.join("opc_tool");
    Fs::new().is_file(&dir.join("opc_api.py")).then_some(dir)
}

pub(crate) fn pool(toolkit: &Toolkit) -> Result<Pool, ToolkitError> {
    Pool::new().map_err(|source| ToolkitError::Io {
        action: "start workers for",
        path: toolkit.root.clone(),
        source,
    })
}
