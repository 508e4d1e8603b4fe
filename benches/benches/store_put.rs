//! Question: what does a put cost, beside writing, syncing and renaming the same bytes, and does it grow with the store?
//!
//! An entry is 15 KiB. Each iteration puts one that is not there, into stores that begin with 0 and 10 000 entries.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot be set up has no figures")]

use criterion::{Criterion, criterion_group, criterion_main};
use opbuild_benches::{folder, info, json, object, publish};
use opbuild_digest::Digest;
use opbuild_store::{Config, Draft, Store};

fn store_put(c: &mut Criterion) {
    let folder = folder().unwrap();
    let (object, json, info) = (object(), json(), info());
    let mut group = c.benchmark_group("store_put");
    let mut count = 0u64;
    let mut fresh = move || {
        count += 1;
        Digest::of(&count.to_le_bytes())
    };

    let bytes = [&object[..], &json[..], &info[..]].concat();
    group.bench_function("floor: write, sync, rename", |b| {
        b.iter(|| publish(folder.path(), &folder.path().join(fresh().to_string()), &bytes).unwrap());
    });
    for entries in [0, 10_000] {
        let root = folder.path().join(format!("store-{entries}"));
        let shelf = Store::open(Config::new(root)).unwrap().target("bench").unwrap();
        let draft = Draft::new(1).eager("json", &json).eager("object", &object).lazy("info", &info);
        for _ in 0..entries {
            shelf.put(&fresh(), &draft).unwrap();
        }
        group.bench_function(format!("put beside {entries}"), |b| {
            b.iter(|| shelf.put(&fresh(), &draft).unwrap())
        });
    }
    group.finish();
}

criterion_group!(benches, store_put);
criterion_main!(benches);
