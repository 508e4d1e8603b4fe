//! `opkeep gc`: evicts kernels from the store or from CANN's caches.

pub(crate) mod args;
mod kernel_cache;
pub(crate) mod store;

use opkeep_store::GcOptions;

use crate::ui::output::{ExitStatus, Output};
pub(crate) use args::{Args, age, size};
use store::evict;

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    if !args.dirs.is_empty() {
        return kernel_cache::gc(args, output);
    }
    let options = GcOptions::default()
        .with_dry_run(args.dry_run)
        .with_max_bytes(args.max_size)
        .with_older_than(args.older_than);
    evict(&args.store, &args.target, &options, output)
}
