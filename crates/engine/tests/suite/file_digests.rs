//! The digests that the cache keeps.
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

/// Returns a cache whose clock is far ahead of all files.
fn settled(file: &Path) -> FileDigestCache {
    let clock = TestClock::default();
    clock.advance(Duration::from_secs(3600));
    FileDigestCache::open_with(Fs::new().with_clock(Arc::new(clock)), file)
}

/// A file that has just changed is read every time: another change could have the same modification time.
#[test]
fn a_fresh_file_is_not_remembered() {
    let dir = tempfile::tempdir().unwrap();
    let (file, cache_file) = (dir.path().join("cc1"), dir.path().join("digests"));
    std::fs::write(&file, "one").unwrap();
    let cache = FileDigestCache::open(&cache_file);
    assert_eq!(cache.digest(&file).unwrap(), Digest::of(b"one"));
    cache.save();
    assert!(!cache_file.exists());
    std::fs::write(&file, "two").unwrap();
    assert_eq!(cache.digest(&file).unwrap(), Digest::of(b"two"));
}

/// Writes a file, and then sets an older time, as an installer does.
fn install(path: &Path, content: &str, modified: SystemTime) {
    std::fs::write(path, content).unwrap();
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_times(FileTimes::new().set_modified(modified)).unwrap();
}

/// Replaces a digest in the file of a cache.
fn plant(cache_file: &Path, old: &[u8], new: &[u8]) {
    let planted = std::fs::read_to_string(cache_file).unwrap();
    let planted = planted.replace(&Digest::of(old).to_string(), &Digest::of(new).to_string());
    let body = &planted[..planted.trim_end().rfind('\n').unwrap() + 1];
    std::fs::write(cache_file, format!("{body}{}\n", Digest::of(body.as_bytes()))).unwrap();
}

/// The digest of an old file is kept across processes, until anything about the file changes.
#[test]
fn a_settled_file_is_remembered_until_it_changes() {
    let dir = tempfile::tempdir().unwrap();
    let (file, cache_file) = (dir.path().join("cc1"), dir.path().join("digests"));
    let modified = SystemTime::now() - Duration::from_secs(3600);
    install(&file, "one", modified);
    let cache = settled(&cache_file);
    assert_eq!(cache.digest(&file).unwrap(), Digest::of(b"one"));
    cache.save();
    let saved = std::fs::read_to_string(&cache_file).unwrap();
    assert!(saved.contains(&Digest::of(b"one").to_string()));

    // A valid cache with another digest: if the cache is used, it returns that digest.
    plant(&cache_file, b"one", b"planted");
    assert_eq!(FileDigestCache::open(&cache_file).digest(&file).unwrap(), Digest::of(b"planted"));
    // Without its checksum, the cache counts as missing.
    let planted = std::fs::read_to_string(&cache_file).unwrap();
    std::fs::write(
        &cache_file,
        saved.replace(&Digest::of(b"one").to_string(), &Digest::of(b"planted").to_string()),
    )
    .unwrap();
    assert_eq!(FileDigestCache::open(&cache_file).digest(&file).unwrap(), Digest::of(b"one"));

    // With the same size and the same modification time, the change time shows the change.
    std::fs::write(&cache_file, planted).unwrap();
    install(&file, "two", modified);
    assert_eq!(FileDigestCache::open(&cache_file).digest(&file).unwrap(), Digest::of(b"two"));
}

/// A container's image reports the times that its builder chose, so an equal state in another process may be another
/// content. As with `proc`, which has no times of its own either, such a digest is of one process.
#[test]
fn a_digest_on_a_file_system_without_change_times_is_not_shared() {
    let dir = tempfile::tempdir().unwrap();
    let cache_file = dir.path().join("digests");
    let image = Path::new("/proc/version");
    // The state of the file stays the same while it is open.
    let (_open, content) = (std::fs::File::open(image).unwrap(), std::fs::read(image).unwrap());
    let installed = dir.path().join("cc1");
    install(&installed, "one", SystemTime::now() - Duration::from_secs(3600));
    let cache = settled(&cache_file);
    assert_eq!(cache.digest(image).unwrap(), Digest::of(&content));
    cache.save();
    assert!(!cache_file.exists());
    cache.digest(&installed).unwrap();
    cache.save();
    let saved = std::fs::read_to_string(&cache_file).unwrap();
    assert!(saved.contains(" /") && !saved.contains("/proc"), "{saved}");

    // The record of an earlier release, with the state that the file still has.
    let found = std::fs::metadata(image).unwrap();
    let of = |seconds: i64, nanos: i64| seconds * 1_000_000_000 + nanos;
    let (mtime, ctime) = (of(found.mtime(), found.mtime_nsec()), of(found.ctime(), found.ctime_nsec()));
    let line = format!("{} {} {} {mtime} {ctime} {}", found.dev(), found.ino(), found.len(), image.display());
    std::fs::write(&cache_file, format!("opkeep digests 1\n{} {line}\n-\n", Digest::of(b"old"))).unwrap();
    plant(&cache_file, b"old", b"planted");
    assert_eq!(settled(&cache_file).digest(image).unwrap(), Digest::of(&content));
}

/// Two versions side by side, and a link that is switched over: another file with the same path, size and times.
#[test]
fn another_file_of_the_same_size_and_dates_is_another() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two, link) = (dir.path().join("one"), dir.path().join("two"), dir.path().join("cc1"));
    let times = |path: &Path| {
        let found = std::fs::metadata(path).unwrap();
        (found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec())
    };
    // A file system's clock advances in steps of milliseconds.
    for attempt in 0.. {
        assert!(attempt < 10_000, "no two files of one tick");
        std::fs::write(&one, "one").unwrap();
        std::fs::write(&two, "two").unwrap();
        if times(&one) == times(&two) {
            break;
        }
    }
    symlink(&one, &link).unwrap();
    let cache = settled(&dir.path().join("digests"));
    assert_eq!(cache.digest(&link).unwrap(), Digest::of(b"one"));
    std::fs::remove_file(&link).unwrap();
    symlink(&two, &link).unwrap();
    assert_eq!(cache.digest(&link).unwrap(), Digest::of(b"two"));
}

/// A file with a time in the future does not count as old.
#[test]
fn a_file_from_the_future_is_not_remembered() {
    let dir = tempfile::tempdir().unwrap();
    let (file, cache_file) = (dir.path().join("cc1"), dir.path().join("digests"));
    install(&file, "one", SystemTime::now() + Duration::from_secs(3600));
    let cache = FileDigestCache::open(&cache_file);
    cache.digest(&file).unwrap();
    cache.save();
    assert!(!cache_file.exists());
}

#[test]
fn a_missing_file_is_an_error_and_a_corrupt_cache_counts_as_missing() {
    let dir = tempfile::tempdir().unwrap();
    let cache_file = dir.path().join("digests");
    for text in ["", "rubbish", "opkeep digests 1\n", "\u{0}\n\n"] {
        std::fs::write(&cache_file, text).unwrap();
        assert!(FileDigestCache::open(&cache_file).digest(&dir.path().join("absent")).is_err());
    }
}
