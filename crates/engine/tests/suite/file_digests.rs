//! The digests that the cache may remember.
#![expect(clippy::disallowed_methods, reason = "tests change what is on the disk")]

use std::fs::FileTimes;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use opkeep::FileDigestCache;
use opkeep_backend::FileDigests;
use opkeep_digest::Digest;
use opkeep_fs::Fs;
use opkeep_testkit::TestClock;

/// A cache to whose clock all files are old.
fn settled(file: &Path) -> FileDigestCache {
    let clock = TestClock::default();
    clock.advance(Duration::from_secs(3600));
    FileDigestCache::open_with(Fs::new().with_clock(Arc::new(clock)), file)
}

/// A file that changed just now is read every time: another change could hide in the clock's grain.
#[test]
fn a_fresh_file_is_not_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let (file, memo_file) = (folder.path().join("cc1"), folder.path().join("digests"));
    std::fs::write(&file, "one").unwrap();
    let memo = FileDigestCache::open(&memo_file);
    assert_eq!(memo.digest(&file).unwrap(), Digest::of(b"one"));
    memo.save();
    assert!(!memo_file.exists());
    std::fs::write(&file, "two").unwrap();
    assert_eq!(memo.digest(&file).unwrap(), Digest::of(b"two"));
}

/// Settled files are remembered across processes, and not once anything about them changed.
#[test]
fn a_settled_file_is_remembered_until_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    let (file, memo_file) = (folder.path().join("cc1"), folder.path().join("digests"));
    std::fs::write(&file, "one").unwrap();
    let memo = settled(&memo_file);
    assert_eq!(memo.digest(&file).unwrap(), Digest::of(b"one"));
    memo.save();
    let saved = std::fs::read_to_string(&memo_file).unwrap();
    assert!(saved.contains(&Digest::of(b"one").to_string()));

    // A memo with another digest in it, sealed: if the file is taken from memory, that digest is what comes back.
    let planted = saved.replace(&Digest::of(b"one").to_string(), &Digest::of(b"planted").to_string());
    let body = &planted[..planted.trim_end().rfind('\n').unwrap() + 1];
    std::fs::write(&memo_file, format!("{body}{}\n", Digest::of(body.as_bytes()))).unwrap();
    assert_eq!(FileDigestCache::open(&memo_file).digest(&file).unwrap(), Digest::of(b"planted"));
    // Not sealed: no memo.
    std::fs::write(&memo_file, &planted).unwrap();
    assert_eq!(FileDigestCache::open(&memo_file).digest(&file).unwrap(), Digest::of(b"one"));

    // Same size, same modification time: the change time gives it away.
    let modified = std::fs::metadata(&file).unwrap().modified().unwrap();
    std::fs::write(&memo_file, format!("{body}{}\n", Digest::of(body.as_bytes()))).unwrap();
    std::fs::write(&file, "two").unwrap();
    std::fs::File::options()
        .write(true)
        .open(&file)
        .unwrap()
        .set_times(FileTimes::new().set_modified(modified))
        .unwrap();
    assert_eq!(FileDigestCache::open(&memo_file).digest(&file).unwrap(), Digest::of(b"two"));
}

/// Two versions side by side, and a link that is switched over: the same path, size and dates, and another file.
#[test]
fn another_file_of_the_same_size_and_dates_is_another() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two, link) = (folder.path().join("one"), folder.path().join("two"), folder.path().join("cc1"));
    let times = |path: &Path| {
        let found = std::fs::metadata(path).unwrap();
        (found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec())
    };
    // A file system's clock goes by ticks of milliseconds.
    for attempt in 0.. {
        assert!(attempt < 10_000, "no two files of one tick");
        std::fs::write(&one, "one").unwrap();
        std::fs::write(&two, "two").unwrap();
        if times(&one) == times(&two) {
            break;
        }
    }
    symlink(&one, &link).unwrap();
    let memo = settled(&folder.path().join("digests"));
    assert_eq!(memo.digest(&link).unwrap(), Digest::of(b"one"));
    std::fs::remove_file(&link).unwrap();
    symlink(&two, &link).unwrap();
    assert_eq!(memo.digest(&link).unwrap(), Digest::of(b"two"));
}

/// A date in the future does not make a file settled.
#[test]
fn a_file_from_the_future_is_not_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let (file, memo_file) = (folder.path().join("cc1"), folder.path().join("digests"));
    std::fs::write(&file, "one").unwrap();
    let future = SystemTime::now() + Duration::from_secs(3600);
    std::fs::File::options()
        .write(true)
        .open(&file)
        .unwrap()
        .set_times(FileTimes::new().set_modified(future))
        .unwrap();
    let memo = FileDigestCache::open(&memo_file);
    memo.digest(&file).unwrap();
    memo.save();
    assert!(!memo_file.exists());
}

#[test]
fn a_missing_file_is_an_error_and_a_torn_memo_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let memo_file = folder.path().join("digests");
    for text in ["", "rubbish", "opkeep digests 1\n", "\u{0}\n\n"] {
        std::fs::write(&memo_file, text).unwrap();
        assert!(FileDigestCache::open(&memo_file).digest(&folder.path().join("absent")).is_err());
    }
}
