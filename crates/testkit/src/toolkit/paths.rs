//! Paths in a toolkit.

use std::path::{Path, PathBuf};

/// The processor of this host, as directories are called after it.
pub(super) const ARCH: &str = std::env::consts::ARCH;

/// The operator information of a family of chips, in lower case, below the directory of operators' Python.
pub(super) fn op_info(tbe: &Path, short: &str) -> PathBuf {
    tbe.join(format!("config/{short}/aic-{short}-ops-info.json"))
}

/// The platform configuration of a chip, below the root.
pub(super) fn platform_config(root: &Path, soc: &str) -> PathBuf {
    root.join(format!("{ARCH}-linux/data/platform_config/{soc}.ini"))
}
