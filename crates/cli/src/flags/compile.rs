//! Arguments of the commands that build.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use opkeep_store::CacheMode;

use super::store::StoreArgs;
use crate::config::Settings;
use crate::config::checks::{
    CANN_DRIVERS, DEFAULT_DEADLINE, cann_driver, job_count, mode, niceness, seconds,
};
use crate::config::table::{
    CANN, CANN_DRIVER, CC, DEADLINE, JOBS, NICE, STORE_MODE, TARGET, TOOLCHAIN_INPUTS,
};
use crate::config::value::Value;
use crate::ui::text::{quoted_path, quoted_word};

/// Flags that building and running share.
#[derive(Clone, Debug, clap::Args)]
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
    jobs: Option<NonZeroUsize>,
    /// Start no further compile after a kernel failed
    ///
    /// Compiles in progress finish.
    #[arg(long)]
    pub(crate) fail_fast: bool,
    /// The niceness of compilers [default: 0]
    ///
    /// A higher one leaves more of the processor to other programs.
    #[arg(long, value_parser = niceness, value_name = "0-19")]
    nice: Option<u8>,
    /// The time limit of a compile, after which it is killed [default: 600]
    ///
    /// Builds wait a little longer for another process that gives no heartbeat.
    #[arg(long, value_parser = seconds, value_name = "SECONDS")]
    deadline: Option<f64>,
    /// How the store is used: enable, force, disable, read-only or require [default: enable]
    ///
    /// enable reads and writes; force compiles all and replaces entries; disable does not use the store; read-only
    /// writes nothing; require writes nothing, and a miss is an error.
    #[arg(long = "op_compiler_cache_mode", visible_alias = "cache-mode", value_name = "MODE", value_parser = mode)]
    cache_mode: Option<CacheMode>,
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
    /// descriptor. Of these options, those of chips have no effect on the target cpu, which a note says.
    ///
    /// A name that neither the target nor a descriptor has is an error, and so is a value that the target's option
    /// does not take.
    #[arg(long = "option", value_name = "NAME=VALUE", value_parser = name_and_value)]
    pub(crate) options: Vec<(String, String)>,
    /// The directory of the CANN toolkit
    ///
    /// [default: $ASCEND_HOME_PATH, $ASCEND_TOOLKIT_HOME or $ASCEND_OPP_PATH, if unset the usual directories]
    #[arg(long = "cann", value_name = "DIR")]
    cann: Option<PathBuf>,
    /// How CANN's compiler is run [default: auto]
    ///
    /// workers are Python processes that import it once; process is one process per compile. The kernels are the
    /// same.
    #[arg(long = "cann-driver", value_name = "DRIVER")]
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(CANN_DRIVERS))]
    cann_driver: Option<String>,
    /// A file or directory that the compiler reads for some kernels
    ///
    /// Its content is part of every key, and the compiler may read it, in addition to those of
    /// OPKEEP_TOOLCHAIN_INPUTS.
    #[arg(long = "toolchain-input", value_name = "PATH")]
    toolchain_inputs: Vec<PathBuf>,
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
    #[command(flatten)]
    pub(crate) config: Settings,
}

impl CompileArgs {
    /// Returns the target to build for, unless a descriptor names a chip whose toolchain is installed.
    pub(crate) fn target(&self) -> &str {
        self.chosen_target().unwrap_or("cpu")
    }

    /// Whether the user chose the target.
    pub(crate) fn chooses_target(&self) -> bool {
        self.chosen_target().is_some()
    }

    /// Returns the flags that decide which kernels are looked for, and in which store, as they were given, quoted for a shell. `None` if there
    /// are others than the usual ones. A new flag is to be added here, or to be named as one that decides nothing of that.
    pub(crate) fn key_flags(&self) -> Option<Vec<String>> {
        let Self {
            target,
            store,
            dims,
            options,
            cann,
            toolchain_inputs,
            op_debug_level,
            op_debug_config,
            jobs: _,
            fail_fast: _,
            nice: _,
            deadline: _,
            cache_mode: _,
            // The kernels are the same.
            cann_driver: _,
            // That of the store.
            config: _,
        } = self;
        if !toolchain_inputs.is_empty() || op_debug_level.is_some() || op_debug_config.is_some() {
            return None;
        }
        let mut flags = Vec::new();
        let mut add = |name: &str, value: String| flags.extend([name.to_owned(), value]);
        target.iter().for_each(|target| add("--target", quoted_word(target)));
        dims.iter().for_each(|(name, size)| add("--dim", quoted_word(&format!("{name}={size}"))));
        options.iter().for_each(|(name, value)| add("--option", quoted_word(&format!("{name}={value}"))));
        if let Some(dir) = cann {
            add("--cann", quoted_path(dir));
        }
        flags.extend(store.given_flags());
        Some(flags)
    }

    fn chosen_target(&self) -> Option<&str> {
        self.target.as_deref().or_else(|| self.config.get(&TARGET)?.texts.first()?.to_str())
    }

    /// Whether a flag says how many compilers run at once.
    pub(crate) fn has_jobs_flag(&self) -> bool {
        self.jobs.is_some()
    }

    pub(crate) fn jobs(&self) -> Option<NonZeroUsize> {
        self.jobs.or_else(|| self.config.parsed(&JOBS, job_count))
    }

    pub(crate) fn nice(&self) -> u8 {
        self.nice.or_else(|| self.config.parsed(&NICE, niceness)).unwrap_or_default()
    }

    /// Returns the time limit of a compile.
    pub(crate) fn deadline(&self) -> Duration {
        let seconds = self.deadline.or_else(|| self.config.parsed(&DEADLINE, seconds));
        Duration::from_secs_f64(seconds.unwrap_or(DEFAULT_DEADLINE))
    }

    pub(crate) fn cache_mode(&self) -> CacheMode {
        self.cache_mode.or_else(|| self.config.parsed(&STORE_MODE, mode)).unwrap_or_default()
    }

    /// Returns the directory of CANN that the user names. Where the environment names it, none: several of its variables
    /// belong together.
    pub(crate) fn cann(&self) -> Option<PathBuf> {
        self.cann.clone().or_else(|| self.config.path_in_file(&CANN))
    }

    pub(crate) fn cann_driver(&self) -> Option<String> {
        self.cann_driver.clone().or_else(|| self.config.parsed(&CANN_DRIVER, cann_driver))
    }

    /// Returns the C compiler that the user names.
    pub(crate) fn cc(&self) -> Option<OsString> {
        self.config.get(&CC).map(Value::text)
    }

    /// Returns the files and directories that are part of the compiler: those of flags add to the others.
    pub(crate) fn toolchain_inputs(&self) -> Vec<PathBuf> {
        let configured = self.config.get(&TOOLCHAIN_INPUTS).into_iter().flat_map(Value::paths);
        configured.chain(self.toolchain_inputs.iter().cloned()).collect()
    }
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

pub(crate) fn dim(text: &str) -> Result<(String, i64), String> {
    let size = |size: &str| size.parse().ok().filter(|size| *size >= 0);
    text.rsplit_once('=')
        .and_then(|(name, value)| Some((name.to_owned(), size(value)?)))
        .ok_or_else(|| "expected NAME=SIZE, such as batch=1".to_owned())
}
