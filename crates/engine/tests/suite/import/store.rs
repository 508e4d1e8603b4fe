//! The effects of an import on the store.

use std::fs::{File, FileTimes};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, SystemTime};

use opkeep::CacheMode;
use opkeep_descriptor::Generation;
use opkeep_framework_cache::import::{CacheImport, ImportReport};
use opkeep_framework_cache::scan::{ScanOptions, find, scan};
use opkeep_fs::{CancelToken, Clock};
use opkeep_kernel_entry::verify_entry;
use opkeep_store::{Entry, GcOptions, LockOutcome, RepairOptions, VerifyOptions, WaitOptions};
use opkeep_testkit::caches::{CachedKernelFiles, Rank};
use opkeep_validator::Validator;

use super::{Place, TARGET, counts, only, request, square};

fn judge(entry: &Entry) -> Result<(), String> {
    verify_entry(entry, TARGET, &Validator::builtin()).into_result().map_err(|error| error.to_string())
}

#[test]
fn twice_changes_nothing() {
    let place = Place::with_squares(3);
    assert_eq!(counts(&place.import()), (3, 0, 0, vec![]));
    let state = || -> Vec<_> {
        let entries = place.bench.entries();
        entries.into_iter().map(|path| (std::fs::read(&path).unwrap(), path)).collect()
    };
    let before = state();
    assert_eq!(counts(&place.import()), (0, 3, 0, vec![]));
    assert!(before == state() && before.len() == 3);
}

#[test]
fn a_dry_run_writes_nothing() {
    let place = Place::with_squares(3);
    let dry = || place.importer().dry_run(true).import(&[place.base()]).unwrap();
    assert_eq!(counts(&dry()), (3, 0, 0, vec![]));
    assert!(!place.bench.root().exists());
    place.import();
    place.keep(&Rank::new(0), 4);
    assert_eq!(counts(&dry()), (1, 3, 0, vec![]));
    assert_eq!(place.bench.entries().len(), 3);
}

/// One kernel that would be stored is enough, and those that are stored are not imported again.
#[test]
fn whether_an_import_finds_something_is_known_at_the_first_kernel() {
    let place = Place::with_squares(5);
    let [cache] = &find(&place.base()).unwrap().caches[..] else { panic!("one cache") };
    let scan = scan(cache, &ScanOptions::new(NonZeroUsize::MIN)).unwrap();
    let looked = Arc::new(AtomicU64::new(0));
    let would_import = || {
        let seen = Arc::clone(&looked);
        looked.store(0, Ordering::Relaxed);
        let importer = place.importer().threads(NonZeroUsize::MIN).observer(move |_, done, of| {
            assert_eq!(of, 5);
            seen.store(done, Ordering::Relaxed);
        });
        (importer.would_import(cache, &scan).unwrap(), looked.load(Ordering::Relaxed))
    };
    assert_eq!(would_import(), (true, 1));
    assert!(!place.bench.root().exists());
    place.import();
    assert_eq!(would_import(), (false, 5));

    // What cannot be found out is an error, and no "no".
    std::fs::remove_dir_all(place.bench.root()).unwrap();
    std::fs::write(place.bench.root(), "a file").unwrap();
    let error = place.importer().would_import(cache, &scan).unwrap_err().to_string();
    assert!(error.contains(place.bench.root().to_str().unwrap()), "{error}");
}

#[test]
fn many_at_once_are_fine() {
    let place = Place::with_squares(12);
    let start = Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                start.wait();
                let (new, existing, duplicates, reasons) = counts(&place.import());
                assert_eq!((new + existing, duplicates, reasons), (12, 0, vec![]));
            });
        }
    });
    assert_eq!(place.bench.entries().len(), 12);
    let report = place.shelf().verify(&VerifyOptions::default().with_check(&judge));
    assert!(report.is_valid() && report.valid.files == 12, "{report:?}");
}

/// Another rank's kernel of the same job differs in its names, or is from another compiler; the import cannot decide which.
#[test]
fn of_one_job_the_first_kernel_stays() {
    let place = Place::with_squares(1);
    place.import();
    let rank = Rank::new(1);
    let CachedKernelFiles { stem, info, .. } = rank.square(1);
    // Another object, which is valid by itself.
    let CachedKernelFiles { json, object, .. } = rank.square_of(1, 999);
    CachedKernelFiles { stem, json, object, info }.write(&rank.dir(&place.base())).unwrap();
    let report = place.import();
    let found: Vec<_> = report.caches.iter().map(|cache| (cache.existing, cache.duplicates)).collect();
    assert_eq!(found, [(1, 0), (0, 1)]);
    let report = place.build(&place.trusting(), &[request(&rank.square(1))]);
    assert_eq!(report.kernels[0].artifact.as_ref().unwrap().object, Rank::new(0).square(1).object);
}

#[test]
fn it_ends_when_it_is_cancelled() {
    let place = Place::with_squares(40);
    let (cancel, done) = (CancelToken::new(), AtomicU64::new(0));
    let stop = cancel.clone();
    let importer = place.importer().cancel(cancel).observer(move |_, at, of| {
        // The second half of the progress is the writing of kernels.
        if at > of / 2 && done.fetch_add(1, Ordering::Relaxed) == 5 {
            stop.cancel();
        }
    });
    let report = importer.import(&[place.base()]).unwrap();
    let cache = only(&report);
    assert!(report.interrupted && cache.unprocessed > 0 && !cache.imported.is_empty(), "{report:?}");
    assert_eq!(place.bench.entries().len(), cache.imported.len());
    let there = cache.imported.len();
    assert_eq!(counts(&place.import()), (40 - there, there, 0, vec![]));
}

/// A damaged imported kernel is reported and compiled; a repair quarantines it, and it can be imported again.
#[test]
fn a_damaged_one_is_compiled_repaired_and_imported_again() {
    let place = Place::with_squares(1);
    place.import();
    let path = place.bench.entries().remove(0);
    let mut bytes = std::fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let problem = place.engine().explain(&[square(1)]).unwrap().remove(0).imported_problem.unwrap();
    assert!(problem.contains("damaged"), "{problem}");
    let report = place.build(&place.trusting(), &[square(1)]);
    assert_eq!(report.kernels[0].outcome.name(), "compiled");
    assert!(report.warnings.iter().any(|warning| warning.text.contains("repair")), "{:?}", report.warnings);
    let repaired = place.shelf().repair(&RepairOptions::new(VerifyOptions::default().with_check(&judge)));
    assert!(repaired.is_ok());
    assert!(!path.exists());
    assert_eq!(counts(&place.import()), (1, 0, 0, vec![]));
    assert_eq!(
        place.outcome(&place.trusting().with_config(|config| config.mode = CacheMode::Force), &square(1)),
        ("compiled", false)
    );
}

#[test]
fn gc_takes_imported_kernels_like_any_other() {
    let place = Place::with_squares(2);
    place.import();
    let options = GcOptions::default().with_older_than(std::time::Duration::ZERO);
    let report = place.shelf().gc(&options).unwrap();
    assert_eq!(report.removed.entries.files, 2);
    assert_eq!(counts(&place.import()).0, 2);
}

/// A store that cannot be written is reported once, and the import ends.
#[test]
fn a_store_that_cannot_be_written_is_reported() {
    let place = Place::with_squares(3);
    std::fs::create_dir_all(place.bench.root().parent().unwrap()).unwrap();
    std::fs::write(place.bench.root(), "no directory").unwrap();
    let error = place.importer().import(&[place.base()]).unwrap_err();
    assert!(error.to_string().contains("not a directory"), "{error}");
}

/// A name of the first release is reported as such.
#[test]
fn ranks_of_two_releases_are_imported_together() {
    let place = Place::with_squares(1);
    place.keep(&Rank { generation: Generation::R1_5, ..Rank::new(1) }, 2);
    let report = place.import();
    assert_eq!(report.caches.iter().map(|cache| cache.imported.len()).sum::<usize>(), 2);
}

/// The framework compiled the kernel again after the import, usually after an upgrade: the imported one is not reused.
#[test]
fn a_kernel_that_was_compiled_since_takes_the_place_of_the_old_one() {
    let place = Place::with_squares(2);
    place.import();
    let anew = |code_bytes, at| compiled_again(&place, &Rank::new(0), code_bytes, at);
    let object = || {
        let report = place.build(&place.trusting(), &[square(1)]);
        report.kernels[0].artifact.as_ref().unwrap().object.clone()
    };
    let replaced = |report: &ImportReport| {
        let cache = only(report);
        (cache.imported.len(), cache.replaced.len(), cache.existing, cache.duplicates)
    };
    let (first, now, minute) = (object(), place.clock.now(), Duration::from_secs(60));

    // A kernel of another rank that was compiled before the import: the first one stays.
    let copy = anew(900, now - minute);
    assert_eq!(replaced(&place.import()), (0, 0, 1, 1));
    assert_eq!(object(), first);

    let newer = anew(1_000, place.after_an_import());
    assert!(newer != first && newer != copy);
    let dry = place.importer().dry_run(true).import(&[place.base()]).unwrap();
    assert_eq!((replaced(&dry), object()), ((0, 1, 1, 0), first));
    let report = place.import();
    assert_eq!(replaced(&report), (0, 1, 1, 0));
    assert!(only(&report).replaced[0].name.starts_with("square_"));
    assert_eq!(object(), newer);
    assert_eq!((replaced(&place.import()), place.bench.entries().len()), ((0, 0, 2, 0), 2));
}

/// The clock of a file server may be ahead, so its files do not count as newer than all others.
#[test]
fn of_files_from_a_clock_that_is_ahead_the_first_stays() {
    let place = Place::new();
    let ahead = SystemTime::now() + Duration::from_secs(3600);
    for rank in [0, 1].map(Rank::new) {
        compiled_again(&place, &rank, 900, ahead);
    }
    assert_eq!(cache_counts(&place.import()), [(1, 0, 0, 0), (0, 0, 0, 1)]);
    assert_eq!(cache_counts(&place.import()), [(0, 0, 1, 0), (0, 0, 0, 1)]);
    // The clock is corrected.
    let object = compiled_again(&place, &Rank::new(0), 1_000, place.after_an_import());
    assert_eq!(cache_counts(&place.import()), [(0, 1, 0, 0), (0, 0, 0, 1)]);
    let report = place.build(&place.trusting(), &[square(1)]);
    assert!(report.kernels[0].artifact.as_ref().unwrap().object == object);
}

#[test]
fn a_dry_run_foresees_which_of_several_stays() {
    let place = Place::new();
    for code_bytes in [900, 1_000] {
        let at = place.after_an_import();
        for rank in [0, 1].map(Rank::new) {
            compiled_again(&place, &rank, code_bytes, at);
        }
        let dry = || place.importer().dry_run(true).import(&[place.base()]).unwrap();
        let foreseen = cache_counts(&dry());
        assert_eq!(foreseen, cache_counts(&place.import()));
        assert_eq!(cache_counts(&dry()), [(0, 0, 1, 0), (0, 0, 0, 1)]);
    }
}

/// The holder of an entry's lock changes or removes that entry. A replacement waits for the lock.
#[test]
fn an_older_kernel_is_replaced_under_its_lock() {
    let place = Place::with_squares(1);
    place.import();
    let before = std::fs::read(&place.bench.entries()[0]).unwrap();
    compiled_again(&place, &Rank::new(0), 900, place.after_an_import());
    let shelf = place.shelf();
    let patience = WaitOptions::new(&|| false);
    let lock = shelf.lock(&shelf.keys(1)[0], patience).unwrap();
    assert!(matches!(lock, LockOutcome::Acquired(_)), "{lock:?}");
    let cancel = CancelToken::new();
    std::thread::scope(|scope| {
        let import = scope.spawn(|| place.importer().cancel(cancel.clone()).import(&[place.base()]).unwrap());
        // Time in which an import without the lock would replace the entry.
        std::thread::sleep(Duration::from_millis(300));
        cancel.cancel();
        assert_eq!(only(&import.join().unwrap()).replaced.len(), 0);
    });
    assert!(before == std::fs::read(&place.bench.entries()[0]).unwrap());
    drop(lock);
    assert_eq!(cache_counts(&place.import()), [(0, 1, 0, 0)]);
}

/// Writes a rank's kernel of length 1 with so many bytes of code, compiled at that time. Returns the object.
fn compiled_again(place: &Place, rank: &Rank, code_bytes: usize, at: SystemTime) -> Vec<u8> {
    let (kept, dir) = (rank.square_of(1, code_bytes), rank.dir(&place.base()));
    kept.write(&dir).unwrap();
    for ending in ["info", "o", "json"] {
        let file = File::open(dir.join(format!("{}.{ending}", kept.stem))).unwrap();
        file.set_times(FileTimes::new().set_modified(at)).unwrap();
    }
    kept.object
}

/// Returns the numbers of imported, replaced and existing kernels and of duplicates, for each cache.
fn cache_counts(report: &ImportReport) -> Vec<(usize, usize, usize, usize)> {
    let of =
        |cache: &CacheImport| (cache.imported.len(), cache.replaced.len(), cache.existing, cache.duplicates);
    report.caches.iter().map(of).collect()
}
