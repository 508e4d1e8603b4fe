//! The windows of two seconds by the machine's clock. All other tests move a clock of their own.

use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use libtest_mimic::Trial;
use opkeep::FileDigestCache;
use opkeep_backend::FileDigests;
use opkeep_testkit::NullBackend;

use crate::common::{Bench, request};

const MOMENT: Duration = Duration::from_millis(2300);

/// They take time, so they run only in the long form of the tests.
pub(crate) fn trials() -> Vec<Trial> {
    let is_long = std::env::var_os("OPKEEP_SOAK_SECONDS").is_some();
    let trial = |name: &str, run: fn()| {
        let run = move || {
            run();
            Ok(())
        };
        Trial::test(name, run).with_ignored_flag(!is_long)
    };
    vec![
        trial("a_file_is_remembered_after_a_moment", a_file_is_remembered_after_a_moment),
        trial("a_toolchain_is_looked_at_after_a_moment", a_toolchain_is_looked_at_after_a_moment),
    ]
}

fn a_file_is_remembered_after_a_moment() {
    let dir = tempfile::tempdir().unwrap();
    let (file, cache_file) = (dir.path().join("cc1"), dir.path().join("digests"));
    std::fs::write(&file, "one").unwrap();
    // Its change time is its own, also where directories of several file systems are one.
    let past = std::time::SystemTime::now() - Duration::from_secs(3600);
    let written = std::fs::File::options().write(true).open(&file).unwrap();
    written.set_times(std::fs::FileTimes::new().set_modified(past)).unwrap();
    for (pause, is_remembered) in [(Duration::ZERO, false), (MOMENT, true)] {
        sleep(pause);
        let cache = FileDigestCache::open(&cache_file);
        cache.digest(&file).unwrap();
        cache.save();
        assert_eq!(cache_file.exists(), is_remembered);
    }
}

fn a_toolchain_is_looked_at_after_a_moment() {
    let (bench, backend) = (Bench::new(), Arc::<NullBackend>::default());
    let (engine, request) = (bench.engine(&backend), request("Square", &[3]));
    let old = engine.get_or_build(&request).unwrap();
    backend.upgrade("2");
    assert!(Arc::ptr_eq(&engine.get_or_build(&request).unwrap(), &old));
    sleep(MOMENT);
    assert_ne!(engine.get_or_build(&request).unwrap().key, old.key);
}
