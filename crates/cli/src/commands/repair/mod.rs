//! `opkeep repair`: repairs stores and caches of frameworks.

mod args;
mod caches;
mod caches_report;
mod outcome;
mod restore;
mod store;

use std::path::{Path, PathBuf};

use anyhow::bail;
use opkeep_framework_cache::restore::quarantines;
use opkeep_framework_cache::scan::find;
use opkeep_store::is_store;
use serde::Serialize;

use crate::input::store::Place;
use crate::ui::output::{ExitStatus, Output};
pub(crate) use args::Args;
use caches_report::CachesOutput;
use outcome::Repaired;
use store::StoreOutput;

/// Repairs a store, caches of frameworks, or both if one directory contains both.
pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    let place = match args.paths.as_slice() {
        [] => Some(None),
        [path] => Place::of(path).map(Some),
        _ => None,
    };
    let has_caches = args.paths.first().is_some_and(|path| holds_caches(path));
    let may_undo = || args.paths.is_empty() || place.is_none() || has_caches || has_quarantines(&args.paths);
    if args.undo && may_undo() {
        return restore::undo(args, output);
    }
    match place {
        None => print(&caches::repair(args, output)?, output),
        Some(place) => {
            let for_caches = args.undo || args.fill || args.force;
            match (for_caches, has_caches) {
                (true, false) => bail!(
                    "--force, --fill and --undo are for caches of frameworks: name one, such as rank_0/kernel_meta, or a \
                     directory above; what repair takes from a store is in its quarantine/"
                ),
                (true, true) => {
                    output.print_note(
                        "the store there is left as it is: --force and --fill are for caches of frameworks",
                    );
                    print(&caches::repair(args, output)?, output)
                }
                (false, true) => {
                    let both = both(store::repair(args, place, output)?, caches::repair(args, output)?);
                    print(&both, output)
                }
                (false, false) => print(&store::repair(args, place, output)?, output),
            }
        }
    }
}

fn print(repaired: &Repaired<impl Serialize>, output: &Output) -> anyhow::Result<ExitStatus> {
    output.print_result(&repaired.text, &repaired.json)?;
    Ok(repaired.exit_status)
}

/// Whether there are caches of frameworks in the directory of a store.
fn holds_caches(path: &Path) -> bool {
    is_store(path) && find(path).is_ok_and(|found| !found.caches.is_empty())
}

fn has_quarantines(paths: &[PathBuf]) -> bool {
    paths.iter().any(|path| quarantines(path).is_ok_and(|found| !found.is_empty()))
}

/// Combines the outcomes for a store and for the caches in its directory.
fn both(store: Repaired<StoreOutput>, caches: Repaired<CachesOutput>) -> Repaired<CachesOutput> {
    let Repaired { mut text, json: store_json, exit_status } = store;
    text.append(&caches.text);
    let mut json = caches.json;
    json.left += store_json.left;
    json.store = Some(store_json);
    Repaired { text, json, exit_status: exit_status.max(caches.exit_status) }
}
