//! The arguments of `opkeep repair`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use crate::flags::store::StoreArgs;

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

/// Put a store or caches of frameworks in order: set aside what verify refuses; give ranks what they lack
#[derive(Debug, clap::Args)]
#[command(after_help = REPAIRS)]
pub(crate) struct Args {
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
