//! The configuration of the backend.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use opkeep_descriptor::Op;

/// The version of the launch ABI. Part of every fingerprint.
pub const LAUNCH_ABI: u32 = 1;

/// How the backend finds its compiler. The caller says what `PATH` and `CC` are; this crate does not look.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CpuConfig {
    /// The compiler, with arguments if need be (`gcc -march=native`); a launcher such as ccache before it is left out. If
    /// unset, the first of `cc`, `gcc`, `clang` on the path.
    pub compiler: Option<String>,
    /// The directories in which programs are looked for, as in `PATH`.
    pub path: OsString,
    /// The instruction set.
    pub features: Features,
    /// The directory in which compilers are asked and probed.
    pub scratch: PathBuf,
    /// How long the compiler may take to answer a question.
    pub probe_deadline: Duration,
    /// Files, and directories of files, that the compiler reads for some kernels only: they count by content.
    pub inputs: Vec<PathBuf>,
    /// Elementwise operators whose C expression, over `x` or over `a` and `b`, is another than ours.
    pub expressions: BTreeMap<String, String>,
    /// A change to generated C before it is used.
    pub rewrite: Option<Rewrite>,
}

/// A change to generated C: for those who try a change of a kernel, and for tests that must see a broken kernel found.
///
/// The changed C counts: its kernels have other keys.
///
/// ```
/// use opkeep_backend_cpu::{CpuConfig, Rewrite};
///
/// let mut config = CpuConfig::new("/usr/bin");
/// config.rewrite = Some(Rewrite::new(|op, c| match op.op_type.as_str() {
///     "Relu" => c.replace("max_f(x, 0.0f)", "x < 0.0f ? 0.0f : x"),
///     _ => c,
/// }));
/// ```
#[derive(Clone)]
pub struct Rewrite(pub(crate) Arc<Change>);

pub(crate) type Change = dyn Fn(&Op, String) -> String + Send + Sync;

impl Rewrite {
    /// A change that makes the C of an operator into another.
    pub fn new(change: impl Fn(&Op, String) -> String + Send + Sync + 'static) -> Self {
        Self(Arc::new(change))
    }
}

impl fmt::Debug for Rewrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rewrite(..)")
    }
}

impl CpuConfig {
    /// Looks for the compiler in `path`.
    pub fn new(path: impl Into<OsString>) -> Self {
        Self {
            compiler: None,
            path: path.into(),
            features: Features::Portable,
            // Programs run in other directories than ours.
            scratch: std::path::absolute(std::env::temp_dir()).unwrap_or_else(|_| PathBuf::from("/tmp")),
            probe_deadline: Duration::from_secs(30),
            inputs: Vec::new(),
            expressions: BTreeMap::new(),
            rewrite: None,
        }
    }

    /// The same with this compiler.
    #[must_use]
    pub fn with_compiler(self, compiler: Option<String>) -> Self {
        Self { compiler, ..self }
    }

    /// The same with these instructions.
    #[must_use]
    pub fn with_features(self, features: Features) -> Self {
        Self { features, ..self }
    }

    /// The same with this deadline for answers of the compiler.
    #[must_use]
    pub fn with_probe_deadline(self, probe_deadline: Duration) -> Self {
        Self { probe_deadline, ..self }
    }
}

/// Which instructions kernels may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Features {
    /// The architecture's baseline: kernels run on every machine of the architecture.
    #[default]
    Portable,
    /// Whatever this machine has.
    Native,
}
