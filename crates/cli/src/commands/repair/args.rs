//! The arguments of `opkeep repair`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use crate::flags::store::StoreArgs;

/// The details of repair.
const DETAILS: &str = "\
A store: an entry that is damaged, or is not the kernel of its key, moves to the directory
quarantine/ of its target, with the reason beside it; the next build compiles the kernel again.
Files of processes that ended are deleted, missing directories are created, and the store's size is
counted. Files that cannot be read, are not trusted or are not the store's own are skipped, and the
report states what to do about them. Builds may use the store meanwhile.

Caches of frameworks (kernel_meta, rank_N/kernel_meta, akg_kernel_meta, kernel_cache/<soc>), found
below each DIR: damaged kernels and orphans move, with all their files, to
<directory>.opkeep-quarantine/<time>-<process>/ beside the cache, so that the framework compiles
only these again. Nothing is deleted, and --undo restores all that no program has written again.

No link is followed: a link with the name of a cache or a rank is skipped; name it to have it
checked. Training may run meanwhile: a file that changed since it was checked stays. A file that was
written in the last half hour, or is open, may be in progress, and needs --force. A locked file
always stays: wait, or end the lock holder. Operator packages are skipped: install them again. A
kernel for another chip than its descriptor names is not damaged: it stays, is reported, and is
given to no rank.

Of Triton's directory (TRITON_CACHE_DIR), or that of one of its keys, it says what is damaged or not
as in the store, and changes nothing: delete the directories of these kernels when no program uses
them. Triton, or the next hit, makes them again.

--fill then gives each rank the kernels that other ranks have intact: of MindSpore r1.5 to r2.0
only, where all ranks with a kernel agree on its bytes and on its job. --undo removes them again,
and also kernels that a build published in place of damaged ones, or with --replace.

Exit code 0: no problem is left, or none would be without --dry-run; 1: a problem is left; 2: there
is nothing that can be repaired.

Examples:
  opkeep repair --dry-run
    reports what a repair of the store would do
  opkeep repair /data/training --fill
    quarantines damaged kernels of all ranks, and fills the gaps
  opkeep repair /data/training --undo
    restores what the last repair quarantined";

/// Repair a store or caches of frameworks: quarantine kernels that verify refuses
///
/// With --fill, it also gives ranks the kernels that they lack.
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    /// A store, caches of frameworks, Triton's directory, or directories above them
    ///
    /// Also the directory of one of a store's targets; with --undo also the directory of one run in a quarantine.
    ///
    /// [default: the store that builds use]
    #[arg(value_name = "DIR", conflicts_with = "cache_dir")]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The number of kernels that are read at once [default: one per processor]
    #[arg(long, short, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Report what would be done, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Also quarantine kernels in progress
    ///
    /// These were written in the last half hour, or are open. Locked ones always stay.
    #[arg(long)]
    pub(crate) force: bool,
    /// Undo the newest repair below DIR
    ///
    /// Or the newest build that replaced kernels there, or the run whose quarantine DIR is: the files that it wrote
    /// are removed, and the quarantined ones are restored. A kernel that changed since stays.
    #[arg(long, conflicts_with_all = ["force", "fill"])]
    pub(crate) undo: bool,
    /// Then give each rank the kernels that it lacks and other ranks have intact
    #[arg(long)]
    pub(crate) fill: bool,
    /// The device of each rank whose files do not state it
    ///
    /// RANK=DEVICE,..., or a file with a line for each. Ranks in the map are filled even if they have no kernel left.
    #[arg(long, value_name = "MAP", requires = "fill")]
    pub(crate) device_map: Option<String>,
}
