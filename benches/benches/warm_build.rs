//! Question: what does a build cost in which nothing is new, beside the sum of its store hits?
//!
//! Each iteration builds 400 different operators, all of them in the store, without a view. The floor is a hit for
//! each.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a benchmark that cannot be set up has no figures")]

use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use opbuild::{Builder, Outcome, Request};
use opbuild_benches::folder;
use opbuild_store::{Config, Lookup, Store};
use opbuild_testkit::{NullBackend, descriptor};

fn warm_build(c: &mut Criterion) {
    let folder = folder().unwrap();
    let config = Config::new(folder.path().join("store"));
    let requests: Vec<Request> =
        (1..=400).map(|length| Request::new(descriptor("node", "Square", &[&[length]]))).collect();
    let builder =
        Builder::new(Arc::new(NullBackend::default())).store(config.clone()).work_base(folder.path());
    let report = builder.build(&requests).unwrap();
    let keys: Vec<_> = report.kernels.iter().map(|kernel| *kernel.key.unwrap().digest()).collect();
    let shelf = Store::open(config).unwrap().target(&report.targets[0]).unwrap();

    let mut group = c.benchmark_group("warm_build");
    group.bench_function("floor: 400 store hits", |b| {
        b.iter(|| {
            for key in &keys {
                let Lookup::Hit(_) = shelf.get(key) else { panic!("a miss") };
            }
        });
    });
    group.bench_function("build of 400 operators", |b| {
        b.iter(|| {
            let report = builder.build(&requests).unwrap();
            assert_eq!(report.count(Outcome::Reused), 400);
        });
    });
    group.finish();
}

criterion_group!(benches, warm_build);
criterion_main!(benches);
