//! The names of a store's directories and files.

use std::fmt::Write;

use opkeep_digest::Digest;

/// The directory of the format's version, in the root.
pub(crate) const VERSION: &str = "v1";
/// The file that makes backup programs skip a root.
pub(crate) const CACHEDIR_TAG: &str = "CACHEDIR.TAG";
/// The content of that file.
pub(crate) const CACHEDIR_TEXT: &str = "Signature: 8a477f597d28d172789f06886806bc55\n\
    # This folder is a cache of compiled kernels, made by opkeep. It can be deleted at any time.\n";
/// The file that makes git skip a root.
pub(crate) const GITIGNORE: &str = ".gitignore";
/// The file with limits, in the root.
pub(crate) const LIMITS_FILE: &str = "op_cache.ini";

/// The file that marks the directory of a version or a target as a store's.
pub(crate) const STORE_TAG: &str = "STORE.TAG";
/// The directories of a target.
pub(crate) const TARGET_DIRS: [&str; 5] = ["entries", "locks", "tmp", "quarantine", UNSENT];
/// The directory of the marks of entries that are to be sent to a remote cache. It is created with the first mark.
pub(crate) const UNSENT: &str = "unsent";
/// The directory of the records of builds, in the directory of the version. It is created with the first record.
pub(crate) const BUILDS: &str = ".builds";
/// The file with the size of a target.
pub(crate) const SIZE: &str = "size";
/// The file with the statistics of a target.
pub(crate) const STATS: &str = "stats";
/// The lock file for writes to the size and the statistics.
pub(crate) const NUMBERS_LOCK: &str = "numbers.lock";
/// The lock file of the process that evicts. The file is never removed.
pub(crate) const GC_LOCK: &str = "gc.lock";
/// The files of a target.
pub(crate) const TARGET_FILES: [&str; 5] = [SIZE, STATS, NUMBERS_LOCK, GC_LOCK, STORE_TAG];

/// The prefix of an entry that is being written, in `tmp`.
pub(crate) const PUT: &str = "put-";
/// The prefix of an entry that is being evicted, in `tmp`.
pub(crate) const EVICT: &str = "evict-";
/// The prefix of a directory or small file that is being created.
pub(crate) const NEW: &str = ".new-";
/// The prefix of a lock that is being created.
pub(crate) const LOCK: &str = "lock-";

/// Returns the number of the process that created a file which [`unique_name`](opkeep_fs::unique_name) named with one
/// of `prefixes`.
pub(crate) fn creator(name: &str, prefixes: &[&str]) -> Option<u32> {
    let rest = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix))?;
    let (process, number) = rest.split_once('-')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (digits(process) && digits(number)).then(|| process.parse().ok()).flatten()
}

/// Returns the name of the file of the entry for `key`.
pub(crate) fn entry_name(key: &Digest) -> String {
    let mut name = String::with_capacity(2 * Digest::LEN + ".kern".len());
    // Writing to a string does not fail.
    let _ = write!(name, "{key}.kern");
    name
}

/// Returns the path of the file of the entry for `key`, in the directory of its target.
pub(crate) fn entry_path(key: &Digest) -> String {
    let name = key.to_string();
    let mut path = String::with_capacity(96);
    for part in ["entries/", &name[..2], "/", &name, ".kern"] {
        path.push_str(part);
    }
    path
}

/// Returns the key in the name of an entry's file.
pub(crate) fn entry_key(name: &str) -> Option<Digest> {
    name.strip_suffix(".kern")?.parse().ok()
}

/// Whether `name` is the name of one of the 256 directories of entries.
pub(crate) fn is_shard(name: &str) -> bool {
    name.len() == 2 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether `name` is the name of a quarantined entry or of its reason: `<key>-<time>.kern` or `.reason`.
pub(crate) fn is_quarantined(name: &str) -> bool {
    let stem = name.strip_suffix(".kern").or_else(|| name.strip_suffix(".reason"));
    stem.and_then(|stem| stem.split_once('-')).is_some_and(|(key, when)| {
        key.parse::<Digest>().is_ok() && when.len() <= 20 && when.bytes().all(|byte| byte.is_ascii_digit())
    })
}
