//! The plan of an installation.

use std::io;
use std::time::Duration;

use super::platform::{SOCS, Soc};
use super::vendor::Vendor;

/// Where a release puts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `ascend-toolkit/<version>`, and `ascend-toolkit/latest`, which leads there: up to 8.x.
    AscendToolkit,
    /// `cann-<version>`, and `cann`, which leads there: later.
    Cann,
}

/// A part that an installation may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// `opc`, and `asc_opc`.
    Opc,
    /// `ccec`, `bisheng` and `ld.lld`.
    Compiler,
    /// The whole op package.
    Opp,
    /// The operator information of all chips.
    OpInfo,
    /// The platform configuration.
    PlatformConfig,
    /// `compiler/version.info`.
    CompilerVersion,
    /// `opp/version.info`.
    OppVersion,
    /// The Python packages.
    Python,
    /// `libascendalog.so`: then the log is printed.
    LogLibrary,
}

/// A toolkit that is to be installed. See the [module](super).
#[derive(Clone, Debug)]
pub struct Toolkit {
    pub(super) version: String,
    pub(super) inner_version: String,
    pub(super) timestamp: String,
    pub(super) layout: Layout,
    pub(super) socs: Vec<&'static Soc>,
    pub(super) without: Vec<Part>,
    pub(super) vendors: Vec<Vendor>,
    pub(super) more_ops: usize,
    pub(super) protobuf: String,
    pub(super) missing_modules: Vec<String>,
    pub(super) old_python: bool,
    pub(super) start_up: Duration,
    pub(super) compile_time: Duration,
}

impl Default for Toolkit {
    fn default() -> Self {
        Self::new()
    }
}

impl Toolkit {
    /// CANN 8.1.RC1, complete, for all chips, and quick.
    pub fn new() -> Self {
        Self {
            version: "8.1.RC1".to_owned(),
            inner_version: "7.7.0.1.238".to_owned(),
            timestamp: "20250428_203017761".to_owned(),
            layout: Layout::AscendToolkit,
            socs: SOCS.iter().collect(),
            without: Vec::new(),
            vendors: Vec::new(),
            more_ops: 0,
            protobuf: "3.20.3".to_owned(),
            missing_modules: Vec::new(),
            old_python: false,
            start_up: Duration::ZERO,
            compile_time: Duration::ZERO,
        }
    }

    /// Another version: as it is sold (`8.1.RC1`), and as `version.info` has it (`7.7.0.1.238`).
    ///
    /// From 9 on there is `asc_opc` too.
    pub fn version(self, version: &str, inner: &str) -> Self {
        Self { version: version.to_owned(), inner_version: inner.to_owned(), ..self }
    }

    /// Built at another time: `20250428_203017761`.
    pub fn timestamp(self, timestamp: &str) -> Self {
        Self { timestamp: timestamp.to_owned(), ..self }
    }

    /// In another place below the directory.
    pub fn layout(self, layout: Layout) -> Self {
        Self { layout, ..self }
    }

    /// For these chips only.
    ///
    /// # Errors
    /// A name that is not in [`SOCS`].
    pub fn socs(self, names: &[&str]) -> io::Result<Self> {
        let find = |name: &&str| {
            let unknown =
                || io::Error::new(io::ErrorKind::InvalidInput, format!("there is no chip `{name}`"));
            Soc::find(name).ok_or_else(unknown)
        };
        Ok(Self { socs: names.iter().map(find).collect::<io::Result<_>>()?, ..self })
    }

    /// Without a part.
    pub fn without(mut self, part: Part) -> Self {
        self.without.push(part);
        self
    }

    /// With a package below `opp/vendors`; those that come first go first in `config.ini`.
    pub fn vendor(mut self, vendor: Vendor) -> Self {
        self.vendors.push(vendor);
        self
    }

    /// With so many more files of operators, to be measured.
    pub fn more_ops(self, count: usize) -> Self {
        Self { more_ops: count, ..self }
    }

    /// With another version of protobuf: those from 4 on are too new.
    pub fn protobuf(self, version: &str) -> Self {
        Self { protobuf: version.to_owned(), ..self }
    }

    /// Without a package of the user's Python: `numpy`, `google`, ...
    pub fn without_module(mut self, name: &str) -> Self {
        self.missing_modules.push(name.to_owned());
        self
    }

    /// Made for a Python before 3.10: later ones cannot import it.
    pub fn for_old_python(self) -> Self {
        Self { old_python: true, ..self }
    }

    /// How long importing the toolkit takes.
    pub fn start_up(self, time: Duration) -> Self {
        Self { start_up: time, ..self }
    }

    /// How long a compile takes at least.
    pub fn compile_time(self, time: Duration) -> Self {
        Self { compile_time: time, ..self }
    }

    pub(super) fn has(&self, part: Part) -> bool {
        !self.without.contains(&part)
    }

    /// Whether there is `asc_opc`.
    pub(super) fn has_asc_opc(&self) -> bool {
        let major = self.version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        major.is_some_and(|major| major >= 9)
    }

    /// The compiler's stamp in objects.
    pub(super) fn stamp(&self) -> String {
        let digits = |range| self.timestamp.get(range).unwrap_or("00");
        format!(
            "{}-{}-{}T{}:{}:{}+08:00 clang version 15.0.5",
            digits(0..4),
            digits(4..6),
            digits(6..8),
            digits(9..11),
            digits(11..13),
            digits(13..15)
        )
    }
}
