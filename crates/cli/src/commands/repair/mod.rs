//! `opkeep repair`: repairs stores and caches of frameworks.

mod args;
mod caches;
mod caches_report;
mod causes;
mod loose;
mod outcome;
mod restore;
mod store;
mod triton;

use std::path::{Path, PathBuf};

use anyhow::bail;
use opkeep_framework_cache::restore::quarantines;
use opkeep_framework_cache::scan::find;
use opkeep_framework_cache::triton::take as take_triton;
use opkeep_store::is_store;
use serde::Serialize;

use crate::input::store::StorePath;
use crate::ui::output::{ExitStatus, Output};
pub(crate) use args::Args;
use caches_report::CachesOutput;
use outcome::Repaired;
use store::StoreOutput;

/// Repairs a store, caches of frameworks, or both if one directory contains both.
pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    let named_store = match args.paths.as_slice() {
        [path] => StorePath::of(path),
        _ => None,
    };
    let has_caches = args.paths.first().is_some_and(|path| holds_caches(path));
    if args.undo && (named_store.is_none() || has_caches || has_quarantines(&args.paths)) {
        return restore::undo(args, output);
    }
    if named_store.is_none() && !args.paths.is_empty() {
        return print(&caches::repair(args, output)?, output);
    }
    if args.undo || args.fill || args.force {
        if !has_caches {
            bail!(
                "--force, --fill and --undo are for caches of frameworks: name one, such as rank_0/kernel_meta, or a \
                 directory above; what repair takes from a store is in its quarantine/"
            );
        }
        output
            .print_note("the store there is left as it is: --force and --fill are for caches of frameworks");
        return print(&caches::repair(args, output)?, output);
    }
    let store = named_store.map_or_else(|| StorePath::default_store(&args.store), Ok)?;
    let store = store::repair(args, &store, output)?;
    if has_caches {
        return print(&merge(store, caches::repair(args, output)?), output);
    }
    print(&store, output)
}

fn print(repaired: &Repaired<impl Serialize>, output: &Output) -> anyhow::Result<ExitStatus> {
    output.print_result(&repaired.text, &repaired.json)?;
    Ok(repaired.exit_status)
}

/// Whether there are caches of frameworks in the directory of a store.
fn holds_caches(path: &Path) -> bool {
    is_store(path)
        && find(path).is_ok_and(|mut found| !found.caches.is_empty() || !take_triton(&mut found).is_empty())
}

fn has_quarantines(paths: &[PathBuf]) -> bool {
    paths.iter().any(|path| quarantines(path).is_ok_and(|found| !found.is_empty()))
}

/// Combines the outcomes for a store and for the caches in its directory.
fn merge(store: Repaired<StoreOutput>, caches: Repaired<CachesOutput>) -> Repaired<CachesOutput> {
    let Repaired { mut text, json: store_json, exit_status } = store;
    text.append(&caches.text);
    let mut json = caches.json;
    json.left += store_json.left;
    json.store = Some(store_json);
    Repaired { text, json, exit_status: exit_status.max(caches.exit_status) }
}
