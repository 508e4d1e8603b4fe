//! Question: what does it cost to find that nothing changed in a CANN toolkit with the files of a thousand operators?
//!
//! Budget: 50 ms for all of it, the toolchain and the widest operator, if every digest is cached. The floor is one stat
//! for each file. `a new process` starts with the cache file. It fails if the budget is broken.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot be set up has no figures")]
#![expect(clippy::print_stdout, reason = "the table is what this is for")]
#![expect(clippy::disallowed_methods, reason = "the floor is plain file calls")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use opkeep::FileDigestCache;
use opkeep_backend::FileDigests;
use opkeep_backend_ascend::{OpsInfo, Search, Sources, Toolkit, toolchain};
use opkeep_benches::{Budgets, Figure, Turns, directory, is_measured, time};
use opkeep_descriptor::{Job, ResolvedSpec};
use opkeep_digest::{Digest, Fingerprint};
use opkeep_testkit::toolkit;

const SOC: &str = "Ascend910B1";
const MORE_OPS: usize = 1000;
const BUDGET: Duration = Duration::from_millis(50);

/// An operator whose imports are computed at run time, so that all of `impl` counts.
const WIDE: &str = "BatchMatMulV2";

/// Records the files that are digested.
struct Asked<'a>(&'a FileDigestCache, Mutex<Vec<PathBuf>>);

impl FileDigests for Asked<'_> {
    fn digest(&self, path: &Path) -> std::io::Result<Digest> {
        self.1.lock().unwrap().push(path.to_owned());
        self.0.digest(path)
    }
}

struct Setting {
    toolkit: Toolkit,
    sources: Sources,
    ops: OpsInfo,
    spec: ResolvedSpec,
}

impl Setting {
    fn new(system: &Path) -> Self {
        let search =
            Search { explicit: None, environment: BTreeMap::new(), home: None, system: system.to_owned() };
        let toolkit = search.find().unwrap();
        let ops = OpsInfo::read(&toolkit, &toolkit.platforms.soc(SOC).unwrap()).unwrap();
        let spec = ResolvedSpec { target: SOC.to_owned(), ..ResolvedSpec::default() };
        Self { sources: Sources::new(&toolkit), toolkit, ops, spec }
    }

    fn toolchain(&self, files: &dyn FileDigests) -> Fingerprint {
        toolchain(&self.toolkit, files).unwrap()
    }

    fn sources(&self, op_type: &str, files: &dyn FileDigests) -> Fingerprint {
        self.sources.fingerprint(&job(op_type), &self.spec, &self.ops, files).unwrap()
    }
}

fn job(op_type: &str) -> Job {
    let mut job = opkeep_testkit::job("Square", &[&[8]]);
    job.ops[0].op_type = op_type.to_owned();
    job.ops[0].module_name = String::new();
    job
}

fn main() {
    let place = directory().unwrap();
    let system = place.path().join("Ascend");
    let _installed = toolkit::Toolkit::new().more_ops(MORE_OPS).write(&system).unwrap();
    if is_measured() {
        // Digests of new files are not cached.
        std::thread::sleep(Duration::from_millis(2100));
    }
    let file = place.path().join("digests");
    let memo = FileDigestCache::open(&file);
    let asked = Asked(&memo, Mutex::default());
    let setting = Setting::new(&system);
    let cold = time(|| (setting.toolchain(&asked), setting.sources(WIDE, &asked)));
    memo.save();
    let mut files = asked.1.into_inner().unwrap();
    files.sort_unstable();
    files.dedup();
    assert!(files.len() > MORE_OPS, "{} files", files.len());

    let all =
        |setting: &Setting, memo: &FileDigestCache| (setting.toolchain(memo), setting.sources(WIDE, memo));
    let turns = Turns::take(
        Duration::from_secs(2),
        [
            &mut || time(|| files.iter().filter(|path| std::fs::metadata(path).is_ok()).count()),
            &mut || time(|| setting.toolchain(&memo)),
            &mut || time(|| setting.sources("Square", &memo)),
            &mut || time(|| setting.sources(WIDE, &memo)),
            &mut || time(|| all(&setting, &memo)),
            &mut || {
                let start = Instant::now();
                let (memo, setting) = (FileDigestCache::open(&file), Setting::new(&system));
                let found = all(&setting, &memo);
                let took = start.elapsed();
                assert_eq!(found, all(&setting, &memo));
                took
            },
        ],
    );
    let names = [
        "floor: one stat a file",
        "toolchain",
        "sources of Square",
        "sources of an operator that all of impl counts for",
        "toolchain and the widest operator",
        "the same in a new process, finding the toolkit too",
    ];
    let mut budgets = Budgets::default();
    println!("{} files; cold {cold:.1?}", files.len());
    for (way, name) in names.iter().enumerate() {
        let median = turns.median(way);
        let is_all = [4, 5].contains(&way);
        let verdict = is_all.then(|| budgets.judge(turns.quartiles(way), BUDGET.as_secs_f64()));
        if way > 0 {
            let figure = Figure::new("fingerprint", *name).entries(files.len());
            let figure = figure.times(median, turns.median(0)).ratio(turns.ratio(way, 0));
            let times = [median, BUDGET].map(|time| time.as_secs_f64());
            figure.budget(format!("{BUDGET:?}"), times, verdict).note();
        }
        println!("{median:>10.1?}  {:<6} {name}", verdict.unwrap_or_default());
    }
    budgets.settle();
}
