//! The command line.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Parser, Subcommand, ValueEnum};
use opkeep_store::CacheMode;

/// What the environment decides.
const ENVIRONMENT: &str = "\
Environment:
  CC                      the C compiler of the target cpu, with arguments if need be
  OPKEEP_TOOLCHAIN_INPUTS
                          files and directories, separated by colons, that count as parts of the
                          compiler
  OPKEEP_CACHE_DIR        the store's directory; if unset, ASCEND_CACHE_PATH/opkeep,
                          XDG_CACHE_HOME/opkeep or ~/.cache/opkeep; in CANN's kernel_cache, its
                          directory opkeep
  ASCEND_MAX_OP_CACHE_SIZE, ASCEND_REMAIN_CACHE_SIZE_RATIO, OPKEEP_MAX_CACHE_ENTRIES
                          how large the store may become; see opkeep help gc
  ASCEND_HOME_PATH, ASCEND_TOOLKIT_HOME, ASCEND_OPP_PATH
                          where CANN is, unless --cann says; see opkeep targets
  ASCEND_CUSTOM_OPP_PATH  packages of custom operators, separated by colons
  HI_PYTHON               the Python that CANN runs with [default: python3]
  MS_COMPILER_CACHE_PATH  the folder that holds rank_N/kernel_meta [default: .]
  RANK_ID                 the N of rank_N [default: 0]
  NPU_COLLECT_PATH        if set, everything is compiled for debugging and nothing kept, as CANN
                          does it, unless --op_debug_config says what is
  TMPDIR                  where compilers work, and what failed ones left is kept [default: /tmp]";

/// What verify prints.
const FINDINGS: &str = "\
Each kernel is valid or refused. Findings have codes (OPV001, ...): errors refuse a kernel,
warnings and notes do not. A .json is checked with the object of its name, or of its binFileName
(.o, .so, lib*.so); one that only lists parts, with its parts.
Of a store every entry is read in full, beside builds that use it: each byte, the kernel in it,
and whether it is the kernel of its key. Other files in the store are reported. `opkeep repair`
repairs a store.
Below a directory, every directory with kernels is checked, whatever it is in: the caches that
MindSpore, AKG and CANN keep themselves, CANN's work directories, operator packages and the trees
that they are built in, and pairs anywhere else. Links to directories are followed, each directory
is checked once, and a link to a directory above the one that is named is reported instead. File
systems that the kernel makes up (/proc, /sys) are skipped.
In caches, each kernel is intact, damaged, left over (an orphan), for another chip, or in
progress: written within half an hour, open or locked. It is for another chip if its object is, by
its machine and e_flags, for another one than the descriptor (.info) beside it or the directory's
name says; without these, than the other kernels of the directory. The report says what the
framework would do with it, and which kernels a rank lacks that others have; `opkeep repair DIR`
repairs what is damaged or left over.
Exit code 1: a kernel was refused, a store or cache has problems, or a rank lacks kernels; 2: a
file could not be checked, a path has no kernel, or --op_compiler_cache_dir names no store.";

/// What repair does.
const REPAIRS: &str = "\
A store: an entry that is damaged, or holds another kernel than its key stands for, moves to the
directory quarantine/ of its target, with the reason beside it; the next build compiles it again.
Files of dead processes are deleted, missing directories are created, and the store's size is
counted. What cannot be read, is not trusted, or is not the store's own is skipped, and the report
says what to do about it. Builds may use the store meanwhile.
Caches of frameworks (kernel_meta, rank_N/kernel_meta, akg_kernel_meta, kernel_cache/<soc>), found
below each DIR: damaged kernels and orphans move, with all their files, into
<directory>.opkeep-quarantine/<time>-<process>/ beside the cache, so that the framework compiles
only these again. Nothing is deleted, and --undo restores what no program wrote again since. No
link is followed: one with the name of a cache or a rank is skipped; name it to have it checked.
Training may run meanwhile: a file that changed since it was checked stays. A file that was
written within half an hour, or is open, may be in progress, and needs --force. A locked one is
never touched, not even with --force: wait, or end the lock holder. Operator packages are skipped:
install them again. A kernel for another chip than its descriptor names is not damaged: it stays,
is reported, and no rank is filled with it.
--fill then gives each rank the kernels that other ranks have intact: of MindSpore r1.5 to r2.0
only, where all ranks that have a kernel agree on its bytes and on what they were made for. --undo
removes them again, and also kernels that a build published in place of damaged ones, or with
--replace.
Exit code 0: no problem is left, or none would be without --dry-run; 1: a problem is left; 2:
there is nothing that can be repaired.";

/// What import does.
const IMPORTS: &str = "\
Kernels are taken unchanged from kernel_meta, rank_N/kernel_meta and akg_kernel_meta at and below
each directory, which stay as they are. One is taken if it is intact, if a descriptor (.info)
beside it names it and is no newer than it, if its .json calls it by no other kernel's name, if it
was not compiled for debugging, if its operator is the toolkit's, and if it is a kernel for the
chip that the descriptor says. All others are skipped, with the reason: caches of CANN and
operator packages have no descriptors, AKG's kernels for the host run in no backend of opkeep's,
kernels that opkeep published there are in a store already, and the source of a custom operator
at that time is unknown.
The toolchain and the sources of such a kernel are unknown, so builds skip it unless
--trust-imported is given; then it is reused for an equal job, target and options, on every rank
and device. A kernel that opkeep compiled comes before it. Of kernels of one job the first is
kept, until one is imported that by the dates of its files was compiled since: it replaces the
older one. To import the same again changes nothing.
Exit code 0: kernels are imported, or were; 1: kernels are imported, and others had problems; 2:
nothing could be imported, or a directory could not be read.";

/// What decides how large a store may become.
const LIMITS: &str = "\
Limits, for each target's folder of the store:
  op_cache.ini            in the store's folder: max_op_cache_size (MB, or -1 for no limit) and
                          remain_cache_size_ratio (percent that is left when something must go);
                          counts only if both are right, and then before the variables
  ASCEND_MAX_OP_CACHE_SIZE, ASCEND_REMAIN_CACHE_SIZE_RATIO
                          the same from the environment [default: 500 and 50]
  OPKEEP_MAX_CACHE_ENTRIES
                          a limit on the number of kernels [default: none]
What was used within half an hour is kept, whatever the limits say, unless --older-than asks for
less.

With DIR, CANN's own cache is aged, by CANN's own limits: op_cache.ini in kernel_cache, then the
two variables, then 500 and 50; -1: no kernel is deleted. What CANN counts and never deletes goes
first: objects without their .json, .json without their object, .temp, stray .lock, then _pre.json
whose kernel is gone; kernels only if there is still too much, the longest unused first. What was
used within half an hour, is open or locked, or is not CANN's stays, whatever is asked for. Sizes
in an op_cache.ini without adk_version and ops_version count here, though CANN passes over them.
Exit code 1: something could not be deleted or looked into; 2: there is no such cache.";

/// Incremental operator build: compile each kernel once, check it, reuse it everywhere
///
/// Exit codes: 0 done; 1 done, and problems were found (a kernel failed, an input is no model, damage); 2 wrong usage, an
/// input cannot be read, or nothing could be done; 130 interrupted.
#[derive(Debug, Parser)]
#[command(name = "opkeep", version, propagate_version = true, after_help = ENVIRONMENT)]
pub(crate) struct Args {
    /// How results are printed. With json, one object on stdout; everything else goes to stderr
    #[arg(long, global = true, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    pub(crate) format: Format,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Build a network or single operators: compile what is new or changed, reuse the rest, fill rank_N/kernel_meta
    #[command(after_help = ENVIRONMENT)]
    Build(BuildArgs),
    /// Build a network or one operator, run it, and compare what comes out
    Run(RunArgs),
    /// Say of each kernel whether it is in the store, and if not, what is different from those that are. Compiles nothing
    #[command(after_help = ENVIRONMENT)]
    Explain(ExplainArgs),
    /// Say what a .info, .json, .o or .kern file is, field by field, and whether it is valid
    Inspect(InspectArgs),
    /// Check the store, the caches that frameworks keep, or kernels: a .json with its object, an object alone, all in a
    /// folder. Changes nothing
    #[command(after_help = FINDINGS)]
    Verify(VerifyArgs),
    /// Put a store or caches of frameworks in order: set aside what verify refuses; give ranks what they lack
    #[command(after_help = REPAIRS)]
    Repair(RepairArgs),
    /// Take the kernels of MindSpore's kernel_meta folders into the store, for builds that trust them
    #[command(after_help = IMPORTS)]
    Import(ImportArgs),
    /// Delete stored kernels that nobody used for a while, as far as the limits call for it, and what dead processes left;
    /// in our store, or in CANN's kernel_cache
    #[command(after_help = LIMITS)]
    Gc(GcArgs),
    /// Tell what the store did so far: hits, misses, compiles, time saved
    Stats(StatsArgs),
    /// Delete all stored kernels; what builds in progress are about to take, they compile again
    Clear(ClearArgs),
    /// List the targets, their toolchains, and the operators they have
    Targets,
}

#[derive(Debug, clap::Args)]
pub(crate) struct BuildArgs {
    /// Networks (.onnx), operator descriptors (.info), or directories of them, links and pseudo file systems (/proc) not
    /// followed
    #[arg(required = true, value_name = "PATH")]
    pub(crate) inputs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
    /// Do not put kernels into rank_N/kernel_meta
    #[arg(long)]
    pub(crate) no_kernel_meta: bool,
    /// Put kernels into this directory, in place of rank_N/kernel_meta
    #[arg(long, value_name = "DIR", conflicts_with = "no_kernel_meta")]
    pub(crate) kernel_meta: Option<PathBuf>,
    /// Replace kernels in kernel_meta that opkeep did not write, and releases by kernels for debugging. A copy of what is
    /// not ours is kept beside it, which `opkeep repair --undo DIR` restores
    #[arg(long, conflicts_with = "no_kernel_meta")]
    pub(crate) replace: bool,
    /// Reuse imported kernels, too, where there are none of our own: of an equal job, target and options, by a toolchain
    /// that is not known; see opkeep help import
    #[arg(long)]
    pub(crate) trust_imported: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// Networks (.onnx), operator descriptors (.info), or folders of them
    #[arg(required = true, value_name = "PATH")]
    pub(crate) inputs: Vec<PathBuf>,
    /// Say instead what is different between the operator of this descriptor and that of the only input
    #[arg(long, value_name = "FILE")]
    pub(crate) against: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
    /// Explain a build with --trust-imported
    #[arg(long)]
    pub(crate) trust_imported: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// A network (.onnx) or an operator descriptor (.info)
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// The values of an input: a TensorProto (.pb) or a NumPy array (.npy). A name in the file that is an input's says
    /// which one it is for; else they are for the inputs in order
    #[arg(long = "input", value_name = "FILE")]
    pub(crate) inputs: Vec<PathBuf>,
    /// The values of an input, row by row, such as 1,4,9; once for each input, in order
    #[arg(long, value_name = "V,V,...", allow_hyphen_values = true, conflicts_with = "inputs")]
    pub(crate) input_values: Vec<String>,
    /// What inputs hold that are not given: ramp (element i of n is i/n; of whole numbers 0 and 1 in turn) or
    /// random:SEED (normally distributed; of whole numbers 0 or 1)
    #[arg(long, value_name = "FILL", value_parser = fill)]
    pub(crate) input_fill: Option<Fill>,
    /// Write each output as output_<i>.npy, in the network's order, to this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Compare an output with a reference (.pb or .npy); exit code 1 if they differ. A name in the file that is an
    /// output's says which one it is for; else they are for the outputs in order
    #[arg(long, value_name = "FILE")]
    pub(crate) compare: Vec<PathBuf>,
    /// How far an element may be from its reference, as a part of it [default: 1e-3]. Floats only: whole numbers and truth
    /// values must be equal. NaN equals NaN only, and an infinity only the same one, whatever is allowed
    #[arg(long, value_parser = tolerance, value_name = "R")]
    pub(crate) rtol: Option<f64>,
    /// How far it may be besides, whole numbers too [default: 0 for these; for floats 1e-4 of M, but no more than a tenth of
    /// the reference itself and no less than the type's noise: 2^-20 of M for float32, 2^-9 for float16, 2^-6 for bfloat16,
    /// 2^-49 for float64. M is the median of the output's references that are not 0, each value once, up to 2^24 times as
    /// large as the element's own]
    #[arg(long, value_parser = tolerance, value_name = "A")]
    pub(crate) atol: Option<f64>,
    /// Show what each node took
    #[arg(long)]
    pub(crate) profile: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// What inputs hold that are not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    Ramp,
    Random(u64),
}

#[derive(Debug, clap::Args)]
pub(crate) struct InspectArgs {
    /// A descriptor (.info), a kernel's description (.json), an object (.o, .so), or a store entry (.kern)
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    /// Descriptions of kernels (.json), objects (.o, .so), entries of a store (.kern), folders of them; a store, or its
    /// folder for one target; caches of frameworks (kernel_meta, akg_kernel_meta, kernel_cache), or what they are in
    /// [default: the store that builds use]
    #[arg(value_name = "PATH", conflicts_with = "cache_dir")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// How many entries of a store are read at once [default: one a processor]
    #[arg(long, short, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// What the kernels are to run on: cpu (this host), aicpu, or a chip such as Ascend910B1 [default: what the object
    /// says, or any target if it says nothing; for what is in a store, what its folder is called]
    #[arg(long, visible_alias = "soc_version", value_name = "TARGET")]
    pub(crate) target: Option<String>,
}

/// Which store.
#[derive(Debug, clap::Args)]
pub(crate) struct StoreArgs {
    /// The store's directory; import makes it, other commands expect it there [default: $OPKEEP_CACHE_DIR, else
    /// $ASCEND_CACHE_PATH/opkeep, else the user's cache directory]
    #[arg(long = "op_compiler_cache_dir", visible_alias = "cache-dir", value_name = "DIR")]
    pub(crate) cache_dir: Option<PathBuf>,
    /// Another user, by number, whose stored kernels may be used
    #[arg(long = "trusted-owner", value_name = "UID")]
    pub(crate) trusted_owners: Vec<u32>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RepairArgs {
    /// A store, or its folder for one target; or caches of frameworks, or folders with some below; with --undo also the
    /// folder of one run in a quarantine [default: the store that builds use]
    #[arg(value_name = "DIR", conflicts_with = "cache_dir")]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// How many kernels are read at once [default: one a processor]
    #[arg(long, short, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Quarantine also kernels that were written just now or are open, which a build may be writing; never locked ones
    #[arg(long)]
    pub(crate) force: bool,
    /// Undo the newest repair, or build that replaced kernels, below DIR, or the one in the directory DIR: remove the files
    /// that it wrote, and restore those that it quarantined. A kernel that another program changed since stays
    #[arg(long, conflicts_with_all = ["force", "fill"])]
    pub(crate) undo: bool,
    /// Then give each rank what other ranks have intact and it lacks
    #[arg(long)]
    pub(crate) fill: bool,
    /// Which device each rank has, where its files do not say: RANK=DEVICE,..., or a file with a line for each. Ranks that
    /// are named are filled even if nothing is left of them
    #[arg(long, value_name = "MAP", requires = "fill")]
    pub(crate) device_map: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ImportArgs {
    /// Folders with caches of a framework in them
    #[arg(required = true, value_name = "DIR")]
    pub(crate) folders: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// How many kernels are read at once [default: one a processor]
    #[arg(long, short, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Say what would be imported, and import nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct GcArgs {
    /// CANN's kernel_cache, a chip's folder in it, or anything above [default: the store that builds use]
    #[arg(value_name = "DIR", conflicts_with = "cache_dir")]
    pub(crate) dirs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Say what would be deleted, and delete nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Leave at most so much of each target: 300M, 2G, or bytes; instead of the limits
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_size: Option<u64>,
    /// Delete what was not used for so long: 30d, 12h, 45m, 10s; even where there is room
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub(crate) older_than: Option<Duration>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ClearArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Say what would be deleted, and delete nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Begin to count anew, after telling what was counted
    #[arg(long)]
    pub(crate) zero: bool,
}

/// Flags that building and running share.
#[derive(Debug, clap::Args)]
pub(crate) struct Common {
    /// The target to build for, whatever the descriptors name; see `opkeep targets` [default: cpu; `build` and `explain`
    /// take the chip that a descriptor names, if its toolchain is there]
    #[arg(long, visible_alias = "soc_version", value_name = "TARGET")]
    target: Option<String>,
    /// How many compilers run at once, and threads when a model is run [default: one a processor]. All builds of a user
    /// together run one a processor, or as many as the one that asks for most
    #[arg(long, short, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Begin nothing more once a kernel failed; what is being compiled is finished
    #[arg(long)]
    pub(crate) fail_fast: bool,
    /// How much less of the processor compilers ask for than other programs
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=19), value_name = "0-19")]
    pub(crate) nice: u8,
    /// How long one compile may take before it is killed; who is seen to do nothing for a little longer than that is no
    /// longer waited for
    #[arg(long, default_value_t = 600.0, value_parser = seconds, value_name = "SECONDS")]
    pub(crate) deadline: f64,
    /// What to do with the store: enable (take and keep), force (compile all, replace), disable (neither), read-only
    /// (take, keep nothing), require (take; a miss is an error)
    #[arg(long = "op_compiler_cache_mode", visible_alias = "cache-mode", default_value_t = CacheMode::Enable)]
    #[arg(value_name = "MODE", value_parser = mode)]
    pub(crate) cache_mode: CacheMode,
    /// The store's folder [default: $OPKEEP_CACHE_DIR, else $ASCEND_CACHE_PATH/opkeep, else the user's cache folder]
    #[arg(long = "op_compiler_cache_dir", visible_alias = "cache-dir", value_name = "DIR")]
    pub(crate) cache_dir: Option<PathBuf>,
    /// Another user, by number, whose stored kernels may be used
    #[arg(long = "trusted-owner", value_name = "UID")]
    pub(crate) trusted_owners: Vec<u32>,
    /// The size of a dimension that a network leaves open: --dim batch=1 by its name, or --dim INPUT:AXIS=1. A name that no
    /// input has is an error
    #[arg(long = "dim", value_name = "NAME=SIZE", value_parser = dim)]
    pub(crate) dims: Vec<(String, i64)>,
    /// An option of the target's compiler, for all kernels: deterministic=true, op_impl_mode=high_precision, coreNum=8,
    /// coreType=VectorCore, op_bank_path=DIR, mdl_bank_path=DIR, op_impl_mode_list=MatMul:high_precision,... Without a value
    /// what a descriptor says does not count. A name that neither the target nor a descriptor has, or a value that the
    /// target's option does not take, is an error, on every target
    #[arg(long = "option", value_name = "NAME=VALUE", value_parser = named)]
    pub(crate) options: Vec<(String, String)>,
    /// The folder of the CANN toolkit [default: $ASCEND_HOME_PATH, $ASCEND_TOOLKIT_HOME, $ASCEND_OPP_PATH, else where it
    /// usually is]
    #[arg(long = "cann", value_name = "DIR")]
    pub(crate) cann: Option<PathBuf>,
    /// How CANN's compiler is driven: workers (Python processes that import it once), process (one each time), or auto.
    /// Kernels are the same
    #[arg(long = "cann-driver", value_name = "DRIVER", default_value = "auto")]
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(["auto", "workers", "process"]))]
    pub(crate) cann_driver: String,
    /// A file, or a directory of files, that the compiler reads for some kernels only: it counts by content, and may be
    /// read; may be given several times. Beside those of OPKEEP_TOOLCHAIN_INPUTS
    #[arg(long = "toolchain-input", value_name = "PATH")]
    pub(crate) toolchain_inputs: Vec<PathBuf>,
    /// Build with the vendor's debug level (0 to 4); kernels with a level other than 0 are never stored
    #[arg(long = "op_debug_level", value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(0..=4))]
    pub(crate) op_debug_level: Option<u8>,
    /// A file with a line op_debug_config=oom,ccec_g,... and, if not all operators are meant, op_debug_list=NODE,
    /// OpType::TYPE,...; kernels that are meant are never stored. No words, or no FILE: off
    #[arg(long = "op_debug_config", value_name = "FILE", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub(crate) op_debug_config: Option<PathBuf>,
}

impl Common {
    /// The target to build for, unless a descriptor names one whose toolchain is there.
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

/// `name=value`.
fn named(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    match name.is_empty() {
        true => Err("expected NAME=VALUE, with a name".to_owned()),
        // Nothing behind it unsets what a descriptor says.
        false => Ok((name.to_owned(), value.to_owned())),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 1e9 => Ok(seconds),
        _ => Err("expected a number of seconds above 0".to_owned()),
    }
}

/// `300M` and the like; the letters are powers of 1024.
fn size(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.char_indices().last() {
        Some((at, 'K' | 'k')) => (&text[..at], 1 << 10),
        Some((at, 'M' | 'm')) => (&text[..at], 1 << 20),
        Some((at, 'G' | 'g')) => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    bytes.ok_or_else(|| "expected bytes, or a whole number with K, M or G".to_owned())
}

/// `30d` and the like.
fn age(text: &str) -> Result<Duration, String> {
    let expected = || "expected a whole number with d, h, m or s".to_owned();
    let (at, unit) = text.char_indices().last().ok_or_else(expected)?;
    let seconds = match unit {
        'd' => 24 * 60 * 60,
        'h' => 60 * 60,
        'm' => 60,
        's' => 1,
        _ => return Err(expected()),
    };
    let age = text[..at].parse::<u64>().ok().and_then(|number| number.checked_mul(seconds));
    age.map(Duration::from_secs).ok_or_else(expected)
}

fn fill(text: &str) -> Result<Fill, String> {
    match text.split_once(':') {
        None if text == "ramp" => Ok(Fill::Ramp),
        Some(("random", seed)) => {
            seed.parse().map(Fill::Random).map_err(|_| format!("the seed `{seed}` is not a whole number"))
        }
        _ => Err("expected `ramp` or `random:SEED`".to_owned()),
    }
}

fn tolerance(text: &str) -> Result<f64, String> {
    let value: Option<f64> = text.parse().ok();
    // An infinite one would let everything pass.
    let value = value.filter(|value| *value >= 0.0 && value.is_finite());
    value.ok_or_else(|| "expected a number of 0 or more".to_owned())
}

fn dim(text: &str) -> Result<(String, i64), String> {
    let size = |size: &str| size.parse().ok().filter(|size| *size >= 0);
    text.rsplit_once('=')
        .and_then(|(name, value)| Some((name.to_owned(), size(value)?)))
        .ok_or_else(|| "expected NAME=SIZE, such as batch=1".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Or the command would wrap lines that are wrapped here already.
    #[test]
    fn texts_are_no_wider_than_the_help() {
        for text in [ENVIRONMENT, FINDINGS, REPAIRS, IMPORTS, LIMITS] {
            for line in text.lines() {
                assert!(line.chars().count() <= 100, "{line}");
            }
        }
    }
}
