//! The plan of a toolkit for operator packages.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::super::platform::Soc;
use super::super::{Layout, Toolkit};
use super::installation::PackageInstallation;

/// A toolkit for operator packages that is to be installed. See the [module](super).
#[derive(Clone, Debug)]
pub struct PackageToolkit(pub(super) Toolkit);

impl Default for PackageToolkit {
    fn default() -> Self {
        Self::new()
    }
}

impl PackageToolkit {
    /// CANN 9.1.0, for one chip of each family that the stand-in writes objects for, and quick.
    pub fn new() -> Self {
        let toolkit = Toolkit::new().version("9.1.0", "9.1.0.1.100").timestamp("20260730_010203004");
        let mut toolkit = toolkit.layout(Layout::Cann);
        let names = ["Ascend910B1", "Ascend910_9391", "Ascend310P3", "Ascend910A"];
        toolkit.socs = names.iter().filter_map(|name| Soc::find(name)).collect();
        Self(toolkit)
    }

    /// Another version: as it is sold, and as `version.info` has it.
    pub fn version(self, version: &str, inner: &str) -> Self {
        Self(self.0.version(version, inner))
    }

    /// The compiler was built at another time: `20260730_010203004`.
    pub fn timestamp(self, timestamp: &str) -> Self {
        Self(self.0.timestamp(timestamp))
    }

    /// How long `asc_opc` takes to start.
    pub fn start_up(self, time: Duration) -> Self {
        Self(self.0.start_up(time))
    }

    /// How long a task takes at least.
    pub fn compile_time(self, time: Duration) -> Self {
        Self(self.0.compile_time(time))
    }

    /// Installs it below `folder`.
    ///
    /// # Errors
    /// The directory cannot be written to, or the machine has no clang.
    pub fn write(&self, folder: &Path) -> io::Result<PackageInstallation> {
        PackageInstallation::write(&self.0, folder)
    }
}
