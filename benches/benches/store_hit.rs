//! Question: what does a store hit with all its checks cost, beside reading and hashing the same bytes?
//!
//! An entry is 8 KiB of object, 1 KiB of description, 6 KiB of descriptor; a hit returns the first two. Each iteration
//! is one hit, over 1 000 entries in turn.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a benchmark that cannot be set up has no figures")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use opbuild_benches::{folder, info, json, object, read, write};
use opbuild_digest::Digest;
use opbuild_store::{Config, Draft, Lookup, Store};

const ENTRIES: u32 = 1000;

fn store_hit(c: &mut Criterion) {
    let folder = folder().unwrap();
    let shelf = Store::open(Config::new(folder.path().join("store"))).unwrap().target("bench").unwrap();
    let (object, json, info) = (object(), json(), info());
    let keys: Vec<Digest> = (0..ENTRIES).map(|i| Digest::of(&i.to_le_bytes())).collect();
    let draft = Draft::new(1).eager("json", &json).eager("object", &object).lazy("info", &info);
    for key in &keys {
        shelf.put(key, &draft).unwrap();
    }
    // The floor's files hold just the bytes that a hit returns, and stand in one folder as long as the store's names.
    let needed = [&object[..], &json[..]].concat();
    let floor: Vec<_> = keys.iter().map(|key| folder.path().join(key.to_string())).collect();
    floor.iter().for_each(|path| write(path, &needed).unwrap());

    let mut group = c.benchmark_group("store_hit");
    group.throughput(Throughput::Bytes(needed.len() as u64));
    let mut at = 0;
    let mut next = move || {
        at = (at + 1) % ENTRIES as usize;
        at
    };
    group.bench_function("floor: open, read, SHA-256", |b| {
        b.iter(|| Digest::of(&read(&floor[next()]).unwrap()));
    });
    group.bench_function("hit", |b| {
        b.iter(|| match shelf.get(&keys[next()]) {
            Lookup::Hit(entry) => entry,
            Lookup::Miss(miss) => panic!("{miss}"),
        });
    });
    let absent = Digest::of(b"absent");
    group.bench_function("miss", |b| b.iter(|| shelf.get(&absent)));
    group.finish();
}

criterion_group!(benches, store_hit);
criterion_main!(benches);
