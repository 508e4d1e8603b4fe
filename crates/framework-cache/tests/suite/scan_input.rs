//! Unusual caches: links, pipes, strange names, files that change, and a million files.

#![expect(clippy::disallowed_methods, reason = "tests make and damage caches by hand")]

use std::ffi::OsStr;
use std::fs;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use opkeep_framework_cache::scan::{CacheScan, ItemState, ScanOptions, find, scan};
use opkeep_testkit::caches::Rank;

fn scan_of(base: &Path) -> CacheScan {
    let places = find(base).unwrap().caches;
    assert_eq!(places.len(), 1, "{places:?}");
    let options = ScanOptions::new(NonZeroUsize::new(2).unwrap());
    scan(&places[0], &options).unwrap()
}

#[test]
fn links_are_not_followed() {
    let base = tempfile::tempdir().unwrap();
    let rank = Rank::new(0);
    let (dir, kernel) = (rank.dir(base.path()), rank.square(1));
    kernel.write(&dir).unwrap();
    // The file behind a link is not checked, although MindSpore would follow it.
    let object = dir.join(format!("{}.o", kernel.stem));
    fs::rename(&object, base.path().join("elsewhere.o")).unwrap();
    symlink(base.path().join("elsewhere.o"), &object).unwrap();
    // Directories behind links do not count, nor do their files.
    symlink(&dir, base.path().join("rank_1")).unwrap();
    fs::create_dir(base.path().join("rank_2")).unwrap();
    symlink(&dir, base.path().join("rank_2/kernel_meta")).unwrap();
    symlink(&dir, dir.join("tbe_prebuild_res")).unwrap();
    symlink("/nowhere", dir.join("a.json")).unwrap();
    let scan = scan_of(base.path());
    assert_eq!(scan.foreign_count, 2, "{:?}", scan.foreign);
    let [item] = &scan.items[..] else { panic!("{:?}", scan.items) };
    assert!(matches!(&item.state, ItemState::Unreadable { file, .. } if file.ends_with(".o")), "{item:?}");
    let links = find(base.path()).unwrap().links;
    assert_eq!(links, [base.path().join("rank_1"), base.path().join("rank_2/kernel_meta")]);
    // A path from the user may be a link.
    assert_eq!(scan_of(&base.path().join("rank_2/kernel_meta")).items.len(), 1);
}

#[test]
fn pipes_and_directories_do_not_block_a_scan() {
    let base = tempfile::tempdir().unwrap();
    let rank = Rank::new(0);
    let (dir, kernel) = (rank.dir(base.path()), rank.square(1));
    kernel.write(&dir).unwrap();
    let pipe = |name: &str| {
        let path = dir.join(name);
        let _ = fs::remove_file(&path);
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    };
    pipe(&format!("{}.o", kernel.stem));
    pipe("b.json");
    fs::create_dir(dir.join("c.json")).unwrap();
    let scan = scan_of(base.path());
    assert_eq!(scan.foreign_count, 3, "{:?}", scan.foreign);
    assert!(matches!(&scan.items[..], [item] if matches!(item.state, ItemState::Damaged(_))));
}

#[test]
fn names_that_are_not_utf8_are_foreign() {
    let base = tempfile::tempdir().unwrap();
    let rank = Rank::new(0);
    rank.square(1).write(&rank.dir(base.path())).unwrap();
    for name in [&b"caf\xe9.json"[..], b"\xff.o", b"\x1b[31m.info\xff"] {
        fs::write(rank.dir(base.path()).join(OsStr::from_bytes(name)), "").unwrap();
    }
    let scan = scan_of(base.path());
    assert_eq!((scan.items.len(), scan.foreign_count), (1, 3));
    assert!(matches!(scan.items[0].state, ItemState::Intact));
}

/// A kernel that is replaced during the scan must not be called damaged.
#[test]
fn a_kernel_that_is_replaced_during_the_scan_is_intact_or_in_use() {
    let base = tempfile::tempdir().unwrap();
    let rank = Rank::new(0);
    let (dir, one) = (rank.dir(base.path()), rank.square_of(1, 8000));
    let other = rank.square_of(1, 9000);
    one.write(&dir).unwrap();
    let done = AtomicBool::new(false);
    let write = |name: &str, bytes: &[u8]| {
        fs::write(base.path().join("temp"), bytes).unwrap();
        fs::rename(base.path().join("temp"), dir.join(name)).unwrap();
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // As a careful framework does: without the .json there is no kernel.
            let (json, object) = (format!("{}.json", one.stem), format!("{}.o", one.stem));
            while !done.load(Ordering::Relaxed) {
                for kernel in [&other, &one] {
                    let _ = fs::remove_file(dir.join(&json));
                    write(&object, &kernel.object);
                    write(&json, &kernel.json);
                }
            }
        });
        let looks = (0..600).map(|_| scan_of(base.path()));
        let wrong: Vec<_> = looks
            .flat_map(|scan| scan.items)
            .filter(|item| item.name == one.stem && matches!(item.state, ItemState::Damaged(_)))
            .collect();
        done.store(true, Ordering::Relaxed);
        assert!(wrong.is_empty(), "{wrong:?}");
    });
}

#[test]
fn a_million_files_are_scanned() {
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
    let rank = Rank::new(0);
    let (dir, kernel) = (rank.dir(base.path()), rank.square(1));
    kernel.write(&dir).unwrap();
    let mut source = base.path().join("source0");
    for number in 0..1_000_000 {
        // A file system limits the number of names of a file.
        if number % 10_000 == 0 {
            source = base.path().join(format!("source{number}"));
            fs::write(&source, "{").unwrap();
        }
        let suffix = if number % 20 == 0 { "info" } else { "cce" };
        fs::hard_link(&source, dir.join(format!("op_{number}.{suffix}"))).unwrap();
    }
    let scan = scan_of(base.path());
    assert_eq!((scan.items.len(), scan.foreign_count), (50_001, 950_000));
    assert_eq!(scan.items.iter().filter(|item| matches!(item.state, ItemState::Intact)).count(), 1);
    assert_eq!(scan.foreign.len(), 100);
}
