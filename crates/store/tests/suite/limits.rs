//! The sources of a store's limits.

#![expect(clippy::disallowed_methods, reason = "these tests write what people write")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::common::room::MB;
use crate::common::{open, snapshot};
use opkeep_store::{Access, LimitSettings, LimitWarning, Store, StoreConfig};

const BOTH: &str = "[op_compiler_cache]\nmax_op_cache_size=7\nremain_cache_size_ratio=9\n";

/// The bytes, the percentage, and the notices of a store with these texts in the environment.
fn limits(root: &Path, size: &str, ratio: &str) -> (Option<u64>, u8, Vec<LimitWarning>) {
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let mut limits = LimitSettings::new();
    limits.max_op_cache_size = text(size);
    limits.remain_cache_size_ratio = text(ratio);
    let store = Store::open(StoreConfig::new(root).with_limits(limits)).unwrap();
    (store.limits().max_bytes, store.limits().remain_percent, store.limit_warnings().to_vec())
}

#[test]
fn a_missing_file_is_created_with_explanations_and_no_values() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    assert_eq!(limits(root, "3", "4"), (Some(3 * MB), 4, vec![]));
    let text = fs::read_to_string(root.join("op_cache.ini")).unwrap();
    for word in [
        "[op_compiler_cache]",
        "max_op_cache_size",
        "remain_cache_size_ratio",
        "-1:",
        "ASCEND_MAX_OP_CACHE_SIZE",
        "ASCEND_REMAIN_CACHE_SIZE_RATIO",
        "both are set and valid",
        "half an hour",
        "500",
    ] {
        assert!(text.contains(word), "{word}");
    }
    // The environment still counts when the file exists; an edited file has precedence.
    assert_eq!(limits(root, "3", "4"), (Some(3 * MB), 4, vec![]));
    let edited = text.replace("# max_op_cache_size=500", "max_op_cache_size=8");
    fs::write(
        root.join("op_cache.ini"),
        edited.replace("# remain_cache_size_ratio=50", "remain_cache_size_ratio=60"),
    )
    .unwrap();
    assert_eq!(limits(root, "3", "4"), (Some(8 * MB), 60, vec![]));
}

#[test]
fn an_existing_file_stays_and_counts() {
    let directory = tempfile::tempdir().unwrap();
    let (root, ini) = (directory.path(), directory.path().join("op_cache.ini"));
    for text in [
        BOTH,
        &BOTH.replace("[op_compiler_cache]\n", ""),
        "max_op_cache_size = 7\r\nremain_cache_size_ratio = 9 # %\r\n",
    ] {
        fs::write(&ini, text).unwrap();
        assert_eq!(limits(root, "3", "4"), (Some(7 * MB), 9, vec![]), "{text}");
        assert_eq!(fs::read_to_string(&ini).unwrap(), text);
    }
    // A root with no other file is still a store.
    assert!(root.join("CACHEDIR.TAG").exists());
    fs::write(&ini, BOTH.replace("=7", "=-1")).unwrap();
    assert_eq!(limits(root, "3", "4"), (None, 9, vec![]));
    fs::write(&ini, BOTH.replace("=9", "=0")).unwrap();
    let (bytes, percent, warnings) = limits(root, "3", "");
    assert_eq!((bytes, percent), (Some(3 * MB), 50));
    assert!(
        matches!(&warnings[..], [LimitWarning::Value { value, name: "remain_cache_size_ratio", range, default: "50", .. }]
        if value == "0" && range.contains("[1, 100]")),
        "{warnings:?}"
    );
    assert!(warnings[0].to_string().contains(ini.to_str().unwrap()));
}

#[test]
fn a_reader_has_the_limits_and_writes_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let before = snapshot(root);
    let read = || Store::open(StoreConfig::new(root).with_access(Access::ReadOnly)).unwrap();
    assert_eq!(read().limits().max_bytes, Some(500 * MB));
    assert_eq!(snapshot(root), before);
    fs::write(root.join("op_cache.ini"), BOTH).unwrap();
    assert_eq!(read().limits().max_bytes, Some(7 * MB));
}

#[test]
fn a_file_that_cannot_be_read_is_named_and_does_not_count() {
    let directory = tempfile::tempdir().unwrap();
    let (root, ini) = (directory.path(), directory.path().join("op_cache.ini"));
    let outside = root.join("outside");
    fs::write(&outside, BOTH).unwrap();
    symlink(&outside, &ini).unwrap();
    let unread = || {
        let (bytes, percent, warnings) = limits(root, "3", "4");
        assert_eq!((bytes, percent), (Some(3 * MB), 4));
        assert!(matches!(&warnings[..], [LimitWarning::Unread { .. }]), "{warnings:?}");
        assert!(warnings[0].to_string().contains(ini.to_str().unwrap()), "{}", warnings[0]);
    };
    unread();
    fs::remove_file(&ini).unwrap();
    fs::create_dir(&ini).unwrap();
    unread();
    fs::remove_dir(&ini).unwrap();
    fs::write(&ini, vec![b'#'; 70_000]).unwrap();
    unread();
    // None of it prevents the use of the store.
    open(root);
}
