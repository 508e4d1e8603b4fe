//! Question: what does a build cost in which nothing is new, compared with the sum of its store hits?
//!
//! Networks are built for this machine by the CPU backend, and then again and again, in process: keys are computed from
//! scratch, every kernel is looked up and checked, and a report is written. The floor is a hit for each kernel in turn,
//! from a newly opened store, as in a build, so each of its directories is checked once. With a view, the files for a
//! framework exist and are intact; that floor has one look at each of them as well. `again` is the sum of the same hits
//! from a store that knows its directories, and `keys` the time of backend and descriptors for the keys alone, one
//! after the other.
//!
//! `resnet50` is the ONNX project's and needs `OPKEEP_CORPUS`. `made` is as large, and every one of its nodes is a
//! different kernel of the null backend: its floor is that number of small hits, and its keys cost only hashing.
//!
//! Budgets: 3 times the floor, with and without a view, for networks of this size. Small ones show the cost of a build
//! with nothing to do: half a millisecond, to look at the compiler, the store and the work directory.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a benchmark that cannot be set up has no figures")]
#![expect(clippy::print_stdout, reason = "the table is what this is for")]

#[path = "common/networks.rs"]
mod networks;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use opkeep::{Config, Engine, FileDigestCache, Outcome, Request, ViewConfig};
use opkeep_backend::{Backend, Context};
use opkeep_benches::{Budgets, Figure, Turns, directory, files_in, is_measured, look, time};
use opkeep_descriptor::{KernelName, Key, KeyParts};
use opkeep_fs::CancelToken;
use opkeep_store::{Lookup, Store, StoreConfig, TargetStore};
use opkeep_testkit::NullBackend;
use tempfile::TempDir;

const BUDGET: f64 = 3.0;

fn main() {
    let mut budgets = Budgets::default();
    println!("one warm build; ratios are to the floor: lower quartile, median, upper quartile of the turns");
    println!(
        "{:<12} {:>5} {:>7} {:<6} {:>9} {:>9} {:>9} {:>9} {:>17} {:>6}  budget",
        "network", "nodes", "kernels", "view", "keys", "again", "floor", "build", "ratio", "turns"
    );
    let nodes = if is_measured() { 415 } else { 20 };
    rows("made", Arc::new(NullBackend::default()), networks::alike(nodes), &mut budgets);
    let ours = if is_measured() { ["squeezenet", "resnet18"] } else { ["lenet"; 2] };
    for name in ours {
        rows(name, Arc::new(networks::cpu()), networks::of(&networks::ours(name)), &mut budgets);
    }
    match networks::theirs("light_resnet50.onnx") {
        Some(graph) => rows("resnet50", Arc::new(networks::cpu()), networks::of(&graph), &mut budgets),
        None => {
            println!("{:<12} is left out: OPKEEP_CORPUS does not name a directory that has it", "resnet50")
        }
    }
    budgets.settle();
}

/// A network that was built.
struct Setting {
    directory: TempDir,
    backend: Arc<dyn Backend>,
    requests: Vec<Request>,
    config: StoreConfig,
    target: String,
    keys: Vec<Key>,
}

impl Setting {
    fn new(backend: Arc<dyn Backend>, requests: Vec<Request>) -> Self {
        let directory = directory().unwrap();
        let config = StoreConfig::new(directory.path().join("store"));
        let engine = Engine::new(backend.clone(), Config::with_store(config.clone()))
            .with_config(|config| config.work_dir = Some(directory.path().to_owned()));
        let report = engine.build(&requests).unwrap();
        assert_eq!(report.count(Outcome::Failed), 0, "{:?}", report.kernels);
        let keys = report.kernels.iter().map(|kernel| kernel.key.unwrap()).collect();
        let target = report.targets[0].clone();
        Self { directory, backend, requests, config, target, keys }
    }

    fn engine(&self) -> Engine {
        Engine::new(self.backend.clone(), Config::with_store(self.config.clone()))
            .with_config(|config| config.work_dir = Some(self.directory.path().to_owned()))
    }

    fn build(&self, engine: &Engine) {
        let report = engine.build(&self.requests).unwrap();
        assert_eq!(report.count(Outcome::Reused), self.keys.len());
        assert!(!matches!(&report.view, Some(Err(_))), "{:?}", report.view);
    }

    /// Its part of the store, newly opened.
    fn open(&self) -> TargetStore {
        Store::open(self.config.clone()).unwrap().target(&self.target).unwrap()
    }

    fn hits(&self, target: &TargetStore) {
        for key in &self.keys {
            match target.get(key.digest()) {
                Lookup::Hit(entry) => drop(entry),
                Lookup::Miss(miss) => panic!("{miss}"),
            }
        }
    }

    /// Computes the keys of all jobs.
    fn make_keys(&self) -> usize {
        let (backend, files) = (&self.backend, FileDigestCache::open(self.directory.path().join("digests")));
        let cancel = CancelToken::new();
        let cx = Context::new(&files, &cancel, &|_| {});
        let toolchain = Arc::new(backend.toolchain(&cx).unwrap());
        let mut known = BTreeSet::new();
        for request in &self.requests {
            let job = &request.descriptor.job;
            let digest = job.digest();
            if !known.insert(digest) {
                continue;
            }
            let spec = backend.resolve(&cx, &request.spec).unwrap();
            let sources = backend.op_sources(&cx, job, &spec).unwrap();
            let key = KeyParts::of_digest(backend.name(), digest, &spec, toolchain.clone(), sources).key();
            let _ = std::hint::black_box(KernelName::new(job, &key));
        }
        files.save();
        files.save();
        known.len()
    }
}

fn rows(name: &str, backend: Arc<dyn Backend>, requests: Vec<Request>, budgets: &mut Budgets) {
    let setting = Setting::new(backend, requests);
    let without = setting.engine();
    let view = ViewConfig::rank(setting.directory.path().to_owned(), "0".to_owned());
    let with = setting.engine().with_config(|config| config.view = Some(view));
    setting.build(&with);
    if is_measured() {
        // Files that changed a moment ago are read again.
        std::thread::sleep(Duration::from_millis(2200));
        setting.build(&with);
    }
    let files: Vec<PathBuf> = files_in(&setting.directory.path().join("rank_0/kernel_meta")).unwrap();
    let known = setting.open();
    let turns = Turns::take(
        Duration::from_secs(4),
        [
            &mut || time(|| setting.make_keys()),
            &mut || time(|| setting.hits(&known)),
            &mut || {
                let target = setting.open();
                time(|| setting.hits(&target))
            },
            &mut || time(|| setting.build(&without)),
            &mut || {
                let target = setting.open();
                time(|| {
                    setting.hits(&target);
                    files.iter().for_each(|file| look(file).unwrap());
                })
            },
            &mut || time(|| setting.build(&with)),
        ],
    );
    for (title, floor, way) in [("no", 2, 3), ("intact", 4, 5)] {
        let ratios @ [low, ratio, high] = turns.ratio(way, floor);
        let verdict = ["made", "resnet50"].contains(&name).then(|| budgets.judge(ratios, BUDGET));
        let figure = Figure::new("warm_build", format!("{name}, {title} view")).entries(setting.keys.len());
        let figure = figure.times(turns.median(way), turns.median(floor)).ratio(ratios);
        figure.budget(format!("{BUDGET} times"), [ratio, BUDGET], verdict).note();
        let verdict = verdict.map_or("-".to_owned(), |verdict| format!("{BUDGET} {verdict}"));
        println!(
            "{name:<12} {:>5} {:>7} {title:<6} {:>9.1?} {:>9.1?} {:>9.1?} {:>9.1?} {low:>5.2} {ratio:>5.2} {high:>5.2} {:>6}  {verdict}",
            setting.requests.len(),
            setting.keys.len(),
            turns.median(0),
            turns.median(1),
            turns.median(floor),
            turns.median(way),
            turns.count(),
        );
    }
}
