//! Arguments of the commands that build.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use opkeep_store::CacheMode;

use super::store::StoreArgs;

/// Flags that building and running share.
#[derive(Debug, clap::Args)]
pub(crate) struct CompileArgs {
    /// The target to build for, such as cpu or Ascend910B1
    ///
    /// It counts whatever the descriptors name; `opkeep targets` lists all.
    ///
    /// [default: cpu; for `build` and `explain` the chip that a descriptor names, if its toolchain is installed]
    #[arg(long, visible_alias = "soc_version", value_name = "TARGET")]
    target: Option<String>,
    /// The number of compilers that run at once [default: one per processor]
    ///
    /// Also the number of threads when a model runs. All builds of a user share these: one per processor, or as many
    /// as the largest --jobs.
    #[arg(long, short, value_name = "N", value_parser = job_count)]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Start no further compile after a kernel failed
    ///
    /// Compiles in progress finish.
    #[arg(long)]
    pub(crate) fail_fast: bool,
    /// The niceness of compilers
    ///
    /// A higher one leaves more of the processor to other programs.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=19), value_name = "0-19")]
    pub(crate) nice: u8,
    /// The time limit of a compile, after which it is killed
    ///
    /// Builds wait a little longer for another process that gives no heartbeat.
    #[arg(long, default_value_t = 600.0, value_parser = seconds, value_name = "SECONDS")]
    pub(crate) deadline: f64,
    /// How the store is used: enable, force, disable, read-only or require
    ///
    /// enable reads and writes; force compiles all and replaces entries; disable does not use the store; read-only
    /// writes nothing; require writes nothing, and a miss is an error.
    #[arg(long = "op_compiler_cache_mode", visible_alias = "cache-mode", default_value_t = CacheMode::Enable)]
    #[arg(value_name = "MODE", value_parser = mode)]
    pub(crate) cache_mode: CacheMode,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The size of a dimension that a network leaves open
    ///
    /// By its name, --dim batch=1, or by input and axis, --dim INPUT:AXIS=1. A name that no input has is an error.
    #[arg(long = "dim", value_name = "NAME=SIZE", value_parser = dim)]
    pub(crate) dims: Vec<(String, i64)>,
    /// An option of the target's compiler, for all kernels
    ///
    /// Such as deterministic=true, op_impl_mode=high_precision, coreNum=8, coreType=VectorCore, op_bank_path=DIR,
    /// mdl_bank_path=DIR, op_impl_mode_list=MatMul:high_precision,... An empty value unsets the option of a
    /// descriptor.
    ///
    /// A name that neither the target nor a descriptor has is an error, and so is a value that the target's option
    /// does not take.
    #[arg(long = "option", value_name = "NAME=VALUE", value_parser = name_and_value)]
    pub(crate) options: Vec<(String, String)>,
    /// The directory of the CANN toolkit
    ///
    /// [default: $ASCEND_HOME_PATH, $ASCEND_TOOLKIT_HOME or $ASCEND_OPP_PATH, if unset the usual directories]
    #[arg(long = "cann", value_name = "DIR")]
    pub(crate) cann: Option<PathBuf>,
    /// How CANN's compiler is run
    ///
    /// workers are Python processes that import it once; process is one process per compile. The kernels are the
    /// same.
    #[arg(long = "cann-driver", value_name = "DRIVER", default_value = "auto")]
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(["auto", "workers", "process"]))]
    pub(crate) cann_driver: String,
    /// A file or directory that the compiler reads for some kernels
    ///
    /// Its content is part of every key, and the compiler may read it, in addition to those of
    /// OPKEEP_TOOLCHAIN_INPUTS.
    #[arg(long = "toolchain-input", value_name = "PATH")]
    pub(crate) toolchain_inputs: Vec<PathBuf>,
    /// Build with the vendor's debug level, 0 to 4
    ///
    /// Kernels with a level other than 0 are never stored.
    #[arg(long = "op_debug_level", value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(0..=4))]
    pub(crate) op_debug_level: Option<u8>,
    /// A file with the vendor's debug options
    ///
    /// It has a line op_debug_config=oom,ccec_g,... and, for some operators only, a line
    /// op_debug_list=NODE,OpType::TYPE,... Kernels with debug options are never stored. An empty list or an empty
    /// FILE turns it off.
    #[arg(long = "op_debug_config", value_name = "FILE", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub(crate) op_debug_config: Option<PathBuf>,
}

impl CompileArgs {
    /// Returns the target to build for, unless a descriptor names a chip whose toolchain is installed.
    pub(crate) fn target(&self) -> &str {
        self.target.as_deref().unwrap_or("cpu")
    }

    /// Whether the user chose the target.
    pub(crate) fn chooses_target(&self) -> bool {
        self.target.is_some()
    }
}

fn mode(text: &str) -> Result<CacheMode, opkeep_store::ParseModeError> {
    text.parse()
}

/// Parses `name=value`.
fn name_and_value(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    match name.is_empty() {
        true => Err("expected NAME=VALUE, with a name".to_owned()),
        // An empty value unsets the option of a descriptor.
        false => Ok((name.to_owned(), value.to_owned())),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 1e9 => Ok(seconds),
        _ => Err("expected a number of seconds above 0".to_owned()),
    }
}

fn dim(text: &str) -> Result<(String, i64), String> {
    let size = |size: &str| size.parse().ok().filter(|size| *size >= 0);
    text.rsplit_once('=')
        .and_then(|(name, value)| Some((name.to_owned(), size(value)?)))
        .ok_or_else(|| "expected NAME=SIZE, such as batch=1".to_owned())
}

fn job_count(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "expected a number of compilers, 1 or more".to_owned())
}
