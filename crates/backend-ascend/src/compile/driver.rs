//! The programs that compile, and their environment.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use opkeep_cann_toolkit::{Toolkit, ToolkitError, absolute};
use opkeep_fs::Fs;

use crate::config::{AscendConfig, Driver};
use crate::probe::interpreter::merged;
use crate::worker::pool::Pool;

/// The driver in use.
pub(crate) enum ActiveDriver {
    /// A process of `opc`, which has options for knowledge banks, or of `asc_opc`, which has none.
    Process {
        program: PathBuf,
        has_banks: bool,
    },
    Workers(Pool),
}

/// The environment of the toolkit's programs: the toolkit's variables and those set here, nothing else.
pub(crate) fn environment(toolkit: &Toolkit, config: &AscendConfig) -> Vec<(OsString, OsString)> {
    // Workers run in another working directory.
    let scratch = absolute(config.scratch.clone());
    let own = [
        ("LC_ALL", OsStr::new("C.UTF-8")),
        ("PYTHONUNBUFFERED", OsStr::new("1")),
        // Bytecode beside sources may belong to other sources, so none is read or written: no path can be below this
        // file.
        ("PYTHONPYCACHEPREFIX", OsStr::new("/dev/null")),
        ("PYTHONDONTWRITEBYTECODE", OsStr::new("1")),
        ("TMPDIR", scratch.as_os_str()),
        // By default, the log goes to files below the home directory.
        ("ASCEND_SLOG_PRINT_TO_STDOUT", OsStr::new("1")),
        ("ASCEND_GLOBAL_LOG_LEVEL", OsStr::new("3")),
        ("ASCEND_GLOBAL_EVENT_ENABLE", OsStr::new("0")),
    ];
    let found = toolkit.environment();
    let found = found.iter().map(|(name, value)| (OsStr::new(name), value.as_os_str()));
    merged(found.chain(own.iter().map(|(name, value)| (OsStr::new(*name), *value))))
}

pub(crate) fn active_driver(toolkit: &Toolkit, config: &AscendConfig) -> Result<ActiveDriver, ToolkitError> {
    let is_there = tool_dir(toolkit).is_some();
    if config.driver == Driver::Workers || (config.driver == Driver::Auto && is_there) {
        return Ok(ActiveDriver::Workers(pool(toolkit)?));
    }
    let (program, has_banks) = match (&toolkit.opc, &toolkit.asc_opc) {
        (Some(opc), _) => (opc.clone(), true),
        (None, Some(asc_opc)) => (asc_opc.clone(), false),
        // `find` accepts no toolkit that lacks both.
        (None, None) => (toolkit.root.join("bin/opc"), true),
    };
    Ok(ActiveDriver::Process { program, has_banks })
}

/// The directory of the package through which workers compile, if the toolkit has it.
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
