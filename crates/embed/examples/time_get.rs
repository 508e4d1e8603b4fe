//! Times `TargetFiles::get` of one entry: `time_get ROOT TARGET FRAMEWORK ROUNDS` prints the nanoseconds of each round, for
//! `crates/python/benches/cache_get.py`. The key of the entry is 32 zero bytes.

#![expect(clippy::print_stdout, reason = "a program for a benchmark")]

use std::time::Instant;

use opkeep_embed::{FileCache, FileCacheConfig, FileKey, StoreConfig};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [root, target, framework, rounds] = &arguments[..] else {
        return Err("usage: time_get ROOT TARGET FRAMEWORK ROUNDS".into());
    };
    let files = FileCache::open(FileCacheConfig::new(StoreConfig::new(root), framework))?.target(target)?;
    let key = FileKey::new([0; 32]);
    for _ in 0..rounds.parse()? {
        let begin = Instant::now();
        let group = files.get(&key)?.ok_or("there is no entry")?;
        let bytes = group.get("kernel").ok_or("there is no file")?.len();
        let elapsed = begin.elapsed();
        assert!(bytes > 0);
        println!("{}", elapsed.as_nanos());
    }
    Ok(())
}
