//! Question: how much memory does a build of many kernels need if it keeps none of them?
//!
//! The compiler returns kernels of 64 KiB at once. Each row is a separate process; `heap` is the peak of allocated
//! memory, as counted by the allocator, without the requests; `resident` is the growth of the process (`VmHWM`).
//!
//! * `kept`: the report holds every kernel.
//! * `streamed`: it holds none (`keep_artifacts(false)`).
//! * `streamed, view`: the same, and they are written into a view.
//! * `one by one`: each is requested with `get_or_build`, which may cache 16 MiB of them.
//!
//! Budgets: 10 000 kernels that are not kept take at most 4 KiB each, for their names, keys and reports; with a view
//! twice that, plus two batches of kernels. Those that are requested one by one take twice the size of the cache.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a benchmark that cannot be set up has no figures")]
#![expect(clippy::print_stdout, reason = "the table is what this is for")]

#[path = "common/mod.rs"]
mod common;
#[path = "common/networks.rs"]
mod networks;

use std::path::Path;
use std::sync::Arc;

use common::child;
use opkeep::{Config, Engine, Outcome, Request, ViewConfig};
use opkeep_artifact::Artifact;
use opkeep_benches::{Budgets, Figure, directory, has_room, is_measured, most_resident, thousands};
use opkeep_cann_meta::KernelMeta;
use opkeep_digest::Digest;
use opkeep_store::{LimitSettings, StoreConfig};
use opkeep_testkit::{Counting, NullBackend, most_bytes};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const KERNEL_BYTES: usize = 64 << 10;
const EACH: u64 = 4 << 10;
/// The size of a batch for a view, and of the cache of `get_or_build`.
const BATCH: u64 = 16 << 20;

fn main() {
    if let Some(arguments) = common::child_arguments() {
        return other_process(&arguments);
    }
    let mut budgets = Budgets::default();
    println!(
        "{:>8} {:<16} {:>13} {:>13} {:>13} {:>9}  budget",
        "kernels", "", "their bytes", "heap", "resident", "heap each"
    );
    for kernels in if is_measured() { [1000, 10_000] } else { [10, 20] } {
        for what in ["kept", "streamed", "streamed, view", "one by one"] {
            // The store, the view, and the same amount of memory.
            if has_room(kernels * KERNEL_BYTES as u64 * 2) {
                row(kernels, what, &mut budgets);
            } else {
                println!("{:>8} {what:<16} left out: there is no room in memory", thousands(kernels));
            }
        }
    }
    budgets.settle();
}

fn row(kernels: u64, what: &str, budgets: &mut Budgets) {
    let directory = directory().unwrap();
    let arguments = [directory.path().to_str().unwrap().to_owned(), what.to_owned(), kernels.to_string()];
    let output = child(&arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let numbers: Vec<u64> = text.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let [heap, resident] = numbers[..] else { panic!("{text}") };
    let allowed = match what {
        "kept" => None,
        "streamed" => Some(kernels * EACH),
        "streamed, view" => Some(kernels * EACH * 2 + BATCH * 2),
        _ => Some(BATCH * 2),
    };
    // A few kernels are no measure for many: the processors dominate, each of which holds one kernel.
    let allowed = allowed.filter(|_| kernels == 10_000);
    let verdict = allowed.map(|allowed| budgets.judge_count(heap, allowed));
    let limit = allowed.unwrap_or(u64::MAX);
    let figure = Figure::new("many_kernels", format!("{what}: memory")).entries(kernels as usize);
    let figure = figure.bytes(KERNEL_BYTES).value("B", heap as f64);
    figure.budget(format!("{} bytes", thousands(limit)), [heap as f64, limit as f64], verdict).note();
    let verdict = verdict.map_or("-".to_owned(), |verdict| format!("{} {verdict}", thousands(limit)));
    println!(
        "{:>8} {what:<16} {:>13} {:>13} {:>13} {:>9}  {verdict}",
        thousands(kernels),
        thousands(kernels * KERNEL_BYTES as u64),
        thousands(heap),
        thousands(resident),
        thousands(heap / kernels),
    );
}

/// Builds, and prints the memory that it took.
fn other_process(arguments: &[String]) {
    let [root, what, kernels] = arguments else { panic!("{arguments:?}") };
    let root = Path::new(root);
    let requests = networks::alike(kernels.parse().unwrap());
    let limits = LimitSettings::new().with_size(common::AMPLE);
    let engine = Engine::new(
        Arc::new(NullBackend::new(|_, artifact| Ok(padded(artifact)))),
        Config::with_store(StoreConfig::new(root.join("store")).with_limits(limits)),
    )
    .with_config(|config| {
        config.work_dir = Some(root.to_owned());
        config.memory_bytes = BATCH as usize;
        config.keep_artifacts = what == "kept";
    });
    let engine = match what.as_str() {
        "streamed, view" => {
            engine.with_config(|config| config.view = Some(ViewConfig::rank(root.to_owned(), "0".to_owned())))
        }
        _ => engine,
    };
    let resident = most_resident().unwrap();
    let ((), heap) = most_bytes(|| match what.as_str() {
        "one by one" => requests.iter().for_each(|request| drop(engine.get_or_build(request).unwrap())),
        _ => build(&engine, &requests, what),
    });
    println!("{heap} {}", most_resident().unwrap() - resident);
}

fn build(engine: &Engine, requests: &[Request], what: &str) {
    let report = engine.build(requests).unwrap();
    assert_eq!(report.count(Outcome::Compiled), requests.len());
    let kept = report.kernels.iter().filter(|kernel| kernel.artifact.is_some()).count();
    assert_eq!(kept, if what == "kept" { requests.len() } else { 0 });
    assert!(!matches!(&report.view, Some(Err(_))), "{:?}", report.view);
}

/// The same kernel with unused bytes appended.
fn padded(artifact: Artifact) -> Artifact {
    let mut object = artifact.object;
    object.resize(KERNEL_BYTES, 0);
    let mut meta = KernelMeta::parse(&artifact.metadata).unwrap();
    meta.sha256 = Some(Digest::of(&object).to_string());
    Artifact { metadata: meta.to_json().into_bytes(), object, extra: Vec::new() }
}
