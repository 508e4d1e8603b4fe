//! The invariants after any fault.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use opkeep_digest::Digest;
use opkeep_fs::{Clock, FsOp};
use opkeep_store::{
    GcOptions, LockOutcome, Lookup, Miss, Overwrite, PutOutcome, Store, StoreConfig, TargetStore,
};

use opkeep_testkit::DirSnapshot;

use crate::common::{self, Created, TARGET, hit, key, names, within};
use crate::rows::{self, Row, State};

/// How names of temps begin.
const TEMPS: [&str; 4] = ["put-", "lock-", ".new-", "evict-"];

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum End {
    Well,
    /// One call failed, or was cut short.
    Error,
    /// Its process was killed.
    Death,
}

/// One end of an operation.
pub(crate) struct Check<'a> {
    pub(crate) row: &'a Row,
    pub(crate) root: &'a Path,
    pub(crate) end: End,
    /// Which call failed, if one did and its process lives on.
    pub(crate) failed: Option<FsOp>,
    /// The operation reported success.
    pub(crate) said: bool,
    pub(crate) power_lost: bool,
    /// The files.
    pub(crate) found: &'a DirSnapshot,
}

impl Check<'_> {
    /// The files, without details that do not matter to the next process: their times, and how
    /// many temporary files the same process had created before.
    pub(crate) fn files(&self) -> DirSnapshot {
        let number_of_temp = |path: PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if let Some(start) = TEMPS.iter().find(|start| name.starts_with(**start)) {
                return path.with_file_name(start);
            }
            match parts(&path)[..] {
                // Its name is the time of its quarantine.
                [.., "quarantine", _] => path
                    .with_file_name(name.get(..64).unwrap_or(&name))
                    .with_extension(path.extension().unwrap_or_default()),
                _ => path,
            }
        };
        self.found.clone().alike(number_of_temp)
    }

    /// Opens the store, reads all entries, and builds as the next process does. Returns the state of the subject. This changes
    /// the files.
    pub(crate) fn look(&self) -> State {
        let store = common::open(self.root);
        self.root_is_marked();
        self.entries_are_whole_or_damaged(&store);
        for name in rows::bystanders().iter().take(self.row.bystanders) {
            Created::new(name, 1).assert_is(&hit(&store, &key(name)));
        }
        let state = State::of(&store, &key(rows::SUBJECT));
        serves_the_next(&store);
        drop(store);
        self.the_rest_is_collected();
        state
    }

    /// Also a store whose first process was killed while it created the root.
    fn root_is_marked(&self) {
        let tag = fs::read_to_string(self.root.join("CACHEDIR.TAG")).unwrap();
        assert!(tag.starts_with("Signature: 8a477f597d28d172789f06886806bc55\n"), "{tag:?}");
        assert!(tag.ends_with(".\n"), "{tag:?}");
        assert_eq!(fs::read_to_string(self.root.join(".gitignore")).unwrap(), "*\n");
    }

    /// Every file under `entries/` is a hit with bytes that were put under that key, or is reported as damaged; and
    /// nothing else is damaged, not even by a power cut.
    fn entries_are_whole_or_damaged(&self, store: &TargetStore) {
        for path in self.found.files().filter(|path| parts(path).contains(&"entries")) {
            let [.., shard, name] = parts(path)[..] else { panic!("{}", path.display()) };
            if shard.starts_with(".new-") {
                // Its directory lost its new name, and is a temporary one again.
                continue;
            }
            let entry: Digest = name.strip_suffix(".kern").unwrap().parse().unwrap();
            assert_eq!(self.root.join(path), store.path(&entry));
            let state = State::of(store, &entry);
            let damaged = self.row.may_be.contains(&State::Damaged) && entry == key(rows::SUBJECT);
            assert!(state != State::Absent && (state != State::Damaged || damaged), "{name}: {state:?}");
        }
    }

    /// Files that killed processes left are pruned by another process some day; no entry is.
    fn the_rest_is_collected(&self) {
        let config = StoreConfig::new(self.root).with_clock(Arc::new(NextWeek));
        let store = Store::open(config).unwrap().target(TARGET).unwrap();
        store.gc(&GcOptions::default()).unwrap();
        made_next().assert_is(&hit(&store, &key(rows::SUBJECT)));
        let left = DirSnapshot::of(self.root).unwrap();
        for path in left.paths() {
            let is_litter = |part: &&str| TEMPS.iter().any(|start| part.starts_with(start));
            assert!(!parts(path).iter().any(is_litter), "{} is never collected", path.display());
        }
        assert!(names(&store.dir().join("locks")).is_empty());
    }

    /// Whether an operation with this end may leave this state.
    pub(crate) fn check(&self, state: State) {
        assert!(self.row.may_be.contains(&state), "{state:?}");
        // The promised entry exists; after a power cut only if it was synced.
        if self.said && (!self.power_lost || (self.row.lasts && self.end == End::Well)) {
            assert!(self.row.done.contains(&state), "it said that it is done, and is {state:?}");
        }
        // A quarantined file is not deleted.
        let is_quarantined =
            |path: &Path| matches!(parts(path)[..], [.., "quarantine", name] if name.ends_with(".kern"));
        let was_damaged = self.row.may_be.contains(&State::Damaged) && self.row.done == [State::Absent];
        if was_damaged && state == State::Absent && !self.power_lost {
            assert!(self.found.files().any(is_quarantined), "it is nowhere");
        }
        self.found.files().for_each(|path| assert!(self.may_be_left(path), "{} is left", path.display()));
    }

    /// Only files of known kinds, and none of the kinds that a live process cleans up.
    fn may_be_left(&self, path: &Path) -> bool {
        let interrupted = self.end == End::Death || self.power_lost;
        let parts = parts(path);
        if parts.iter().any(|name| name.contains(rows::DEAD)) {
            // The operation may have ended before.
            return true;
        }
        if parts.iter().any(|part| part.starts_with(".new-")) {
            return interrupted || self.failed == Some(FsOp::Remove);
        }
        let in_target = match parts[..] {
            ["CACHEDIR.TAG" | ".gitignore" | "op_cache.ini"] | ["v1", "STORE.TAG"] => return true,
            ["v1", TARGET, ref rest @ ..] => rest,
            _ => return false,
        };
        match *in_target {
            ["size" | "stats" | "numbers.lock" | "gc.lock" | "STORE.TAG"] => true,
            ["entries", _, name] => name.ends_with(".kern"),
            ["quarantine", name] => name.ends_with(".kern") || name.ends_with(".reason"),
            ["locks", name] => name.parse::<Digest>().is_ok() || name.starts_with("lock-"),
            [name] if name.starts_with("lock-") => interrupted || self.failed == Some(FsOp::Remove),
            ["tmp", name] => {
                let cleaned_up = !interrupted && self.failed != Some(FsOp::Remove);
                TEMPS.iter().any(|start| name.starts_with(start)) && !cleaned_up
            }
            _ => false,
        }
    }
}

fn parts(path: &Path) -> Vec<&str> {
    path.iter().map(|part| part.to_str().unwrap()).collect()
}

/// Late enough for all files to be old.
struct NextWeek;

impl Clock for NextWeek {
    fn now(&self) -> SystemTime {
        SystemTime::now() + Duration::from_secs(8 * 24 * 3600)
    }
}

fn made_next() -> Created {
    Created::new(rows::SUBJECT, 3)
}

/// The next build succeeds without a manual step, as in the engine.
fn serves_the_next(store: &TargetStore) {
    let (key, made) = (key(rows::SUBJECT), made_next());
    let LockOutcome::Acquired(lock) = within(store, &key, Duration::ZERO) else { panic!("it is locked") };
    if let Lookup::Miss(Miss::Damaged(judged)) = store.get(&key) {
        assert!(store.quarantine(&key, &judged, &lock).unwrap());
        assert_eq!(State::of(store, &key), State::Absent);
    }
    assert_eq!(store.put_replacing(&key, &made.entry(), Overwrite::Always).unwrap(), PutOutcome::Published);
    made.assert_is(&hit(store, &key));
    drop(lock);
    let locks = names(&store.dir().join("locks"));
    assert!(!locks.contains(&key.to_string()), "{locks:?}");
}
