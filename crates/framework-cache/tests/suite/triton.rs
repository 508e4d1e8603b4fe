//! The repair of Triton's directory, with real cubins, second names, links and several toolchains.
#![expect(clippy::disallowed_methods, reason = "tests break files by hand")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use opkeep_digest::{Digest, Fingerprint};
use opkeep_embed::GroupDir;
use opkeep_framework_cache::quarantine::{RunId, SkipCause};
use opkeep_framework_cache::restore::{RestoreOptions, newest, quarantines, restore};
use opkeep_framework_cache::triton::{
    RepairedDir, StoredGroup, TRITON, TritonDir, TritonRecord, TritonRepairOptions, repair,
};
use opkeep_kernel_entry::{GroupKey, GroupRecord, StoredExpectations, encode_group};
use opkeep_store::{Lookup, Overwrite, Store, StoreConfig, TargetStore};
use opkeep_testkit::device;
use opkeep_validator::{Validator, device_formats};
use tempfile::TempDir;

const KEY: &str = "N6J65VMEQY7IKJXFDLW7WMCJ4WV7QN5SCQC56253V3MFSEKPLCUA";
const TARGET: &str = "cuda-sm_90";
const NAMES: [&str; 5] = ["add.json", "add.cubin", "add.ptx", "add.json.opkeep", "__grp__add.json"];

/// A store, and Triton's directory.
struct Place {
    dir: TempDir,
    target: TargetStore,
}

/// A kernel of one toolchain.
struct Kernel {
    stored: StoredGroup,
    toolchain: String,
    files: Vec<(String, Vec<u8>)>,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let target = Store::open(StoreConfig::new(dir.path().join("store"))).unwrap().target(TARGET).unwrap();
        Self { dir, target }
    }

    fn base(&self) -> PathBuf {
        self.dir.path().join("triton")
    }

    fn key(&self) -> PathBuf {
        self.base().join(KEY)
    }

    fn of(&self, kernel: &Kernel) -> PathBuf {
        self.base().join(format!("{KEY}.opkeep-{}", kernel.toolchain))
    }

    /// Stores the kernel that `ptxas` makes, and places its files as a hit does.
    fn hit(&self, ptxas: &str) -> Kernel {
        let mut toolchain = Fingerprint::new();
        toolchain.add("ptxas", Digest::of(ptxas.as_bytes()), ptxas);
        let key = GroupKey {
            framework: TRITON.to_owned(),
            target: TARGET.to_owned(),
            framework_key: Digest::of(KEY.as_bytes()),
            name: "add.json".to_owned(),
            toolchain,
        };
        let digest = GroupKey { name: String::new(), ..key.clone() }.digest().to_string();
        let mut record = GroupRecord::new(key);
        record.kernel = "add".to_owned();
        record.object = Some("add.cubin".to_owned());
        record.metadata = Some("add.json".to_owned());
        let mut cubin = device::cubin("add", 90);
        // Bytes behind the sections: other code of the same kernel.
        cubin.extend(ptxas.bytes());
        let json =
            r#"{"name":"add","shared":0,"num_warps":4,"target":{"backend":"cuda","arch":90,"warp_size":32}}"#;
        let files = vec![
            ("add.json".to_owned(), json.as_bytes().to_vec()),
            ("add.cubin".to_owned(), cubin),
            ("add.ptx".to_owned(), format!(".version {ptxas}").into_bytes()),
        ];
        let mut rules = device_formats::cubin("sm_90");
        rules.target = TARGET.to_owned();
        let rules = StoredExpectations::new(rules, &Validator::builtin());
        let stored = self.put(&files, &record, Some(&rules));
        let kernel = Kernel { stored, toolchain: digest[..32].to_owned(), files };
        self.place(&kernel);
        kernel
    }

    fn put(
        &self,
        files: &[(String, Vec<u8>)],
        record: &GroupRecord,
        rules: Option<&StoredExpectations>,
    ) -> StoredGroup {
        let named = files.iter().map(|(name, bytes)| (&**name, &**bytes));
        let encoded = encode_group(named, record, rules, 1);
        self.target.put_replacing(encoded.key(), &encoded.builder(), Overwrite::Always).unwrap();
        let Lookup::Hit(entry) = self.target.peek(encoded.key()) else { panic!("it was put") };
        StoredGroup::of(&entry).unwrap()
    }

    fn place(&self, kernel: &Kernel) {
        let record = TritonRecord { entry: kernel.stored.key, files: kernel.stored.files.clone() };
        let list = kernel
            .files
            .iter()
            .map(|(name, _)| format!("\"{name}\": \"{}\"", self.key().join(name).display()));
        let list = format!("{{\"child_paths\": {{{}}}}}", list.collect::<Vec<_>>().join(", "));
        let further = [("add.json.opkeep", record.render()), ("__grp__add.json", list)];
        let name = format!("{KEY}.opkeep-{}", kernel.toolchain);
        let dir = GroupDir::new(self.base(), &name).unwrap().with_copies(KEY).unwrap();
        let files = kernel.files.iter().map(|(name, bytes)| (&**name, &**bytes));
        dir.place_with(files, further.iter().map(|(name, text)| (*name, text.as_bytes()))).unwrap();
    }

    fn repair_with(
        &self,
        stored: &[StoredGroup],
        change: impl Fn(&mut TritonRepairOptions<'_>),
    ) -> Vec<RepairedDir> {
        let run = RunId::now();
        let entry = |group: &StoredGroup| match self.target.peek(&group.key) {
            Lookup::Hit(entry) => Some(*entry),
            Lookup::Miss(_) => None,
        };
        let mut options = TritonRepairOptions::new(&run, &entry);
        change(&mut options);
        let dirs = TritonDir::at(&self.base()).unwrap().unwrap().keys;
        repair(&dirs, stored, &options).into_iter().map(|(_, done)| done.unwrap()).collect()
    }

    fn repair(&self, stored: &[StoredGroup]) -> Vec<RepairedDir> {
        self.repair_with(stored, |_| ())
    }

    fn undo(&self) {
        for run in newest(quarantines(&self.base()).unwrap()) {
            let undone = restore(&run, &RestoreOptions::new(false)).unwrap();
            assert!(undone.unrestored.is_empty() && undone.removed, "{undone:?}");
        }
    }

    /// The files that Triton may open, with their bytes.
    fn bytes(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        self.states().into_keys().filter_map(|path| Some((path.clone(), fs::read(&path).ok()?))).collect()
    }

    /// The names that Triton may open, with all that a write would change.
    fn states(&self) -> BTreeMap<PathBuf, (u64, u64, i64, i64)> {
        let dirs = TritonDir::at(&self.base()).unwrap().unwrap().keys;
        let names =
            dirs.iter().flat_map(|dir| fs::read_dir(&dir.path).unwrap()).map(|entry| entry.unwrap().path());
        let state = |path: PathBuf| {
            let found = path.symlink_metadata().unwrap();
            (path, (found.ino(), found.len(), found.mtime_nsec(), found.mtime()))
        };
        names.map(state).collect()
    }
}

fn outcome(repaired: &[RepairedDir]) -> (usize, usize, usize) {
    let count = |of: fn(&RepairedDir) -> usize| repaired.iter().map(of).sum();
    (count(|dir| dir.written.len()), count(|dir| dir.quarantined.len()), count(|dir| dir.skipped.len()))
}

fn cut(path: &Path) {
    let len = path.metadata().unwrap().len();
    fs::File::options().write(true).open(path).unwrap().set_len(len / 2).unwrap();
}

fn flip(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(path, bytes).unwrap();
}

fn age(path: &Path) {
    let hour_ago = SystemTime::now() - Duration::from_secs(3600);
    fs::File::options().write(true).open(path).unwrap().set_modified(hour_ago).unwrap();
}

/// The name of a damage, and what makes it.
type Damage = (&'static str, fn(&Path));

const DAMAGES: [Damage; 7] = [
    ("cut", cut),
    ("emptied", |path| fs::write(path, "").unwrap()),
    ("flipped", flip),
    ("missing", |path| fs::remove_file(path).unwrap()),
    ("another file", |path| {
        fs::remove_file(path).unwrap();
        fs::write(path, "another").unwrap();
    }),
    ("a link", |path| {
        fs::rename(path, path.with_extension("moved")).unwrap();
        symlink(path.with_extension("moved"), path).unwrap();
    }),
    ("a directory", |path| {
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
        fs::write(path.join("own"), "a file of the framework").unwrap();
    }),
];

#[test]
fn each_damage_of_each_file_is_healed_and_can_be_undone() {
    for (damage, make) in DAMAGES {
        for name in NAMES {
            for in_key in [true, false] {
                if !in_key && ["cut", "emptied", "flipped"].contains(&damage) {
                    // It is in the other directory as well: both have one file.
                    continue;
                }
                let case = format!("{damage} {name}, in the directory of the key: {in_key}");
                let place = Place::new();
                let kernel = place.hit("12.8");
                let intact = place.bytes();
                let dir = if in_key { place.key() } else { place.of(&kernel) };
                make(&dir.join(name));
                let moved = dir.join(name).with_extension("moved");
                let moved_bytes = fs::read(&moved).ok();
                let damaged = place.bytes();
                let stored = [kernel.stored.clone()];
                let would = place.repair_with(&stored, |options| options.dry_run = true);
                assert!(place.bytes() == damaged, "{case}: a dry run changes nothing");
                let done = place.repair(&stored);
                assert_eq!(outcome(&would), outcome(&done), "{case}");
                // A missing record is no damage: Triton does not need it.
                if name != "add.json.opkeep" || !["missing", "a directory"].contains(&damage) {
                    assert!(
                        outcome(&done).0 > 0 && outcome(&done).1 + outcome(&done).2 == 0,
                        "{case}: {done:?}"
                    );
                    for (path, bytes) in &intact {
                        assert_eq!(&fs::read(path).unwrap(), bytes, "{case}: {}", path.display());
                        assert!(path.symlink_metadata().unwrap().is_file(), "{case}");
                    }
                }
                assert_eq!(fs::read(&moved).ok(), moved_bytes, "{case}: the target of a link is not touched");
                let states = place.states();
                let again = place.repair(&stored);
                assert_eq!((outcome(&again), place.states()), ((0, 0, 0), states), "{case}: {again:?}");
                if ["cut", "emptied", "flipped", "another file"].contains(&damage) {
                    place.undo();
                    assert!(place.bytes() == damaged, "{case}: undone");
                }
                if damage == "a directory" {
                    let kept = fs::read_dir(place.base()).unwrap().any(|entry| {
                        fs::read(entry.unwrap().path().join("own"))
                            .is_ok_and(|own| own == b"a file of the framework")
                    });
                    let kept = kept || dir.join(name).join("own").exists();
                    assert!(kept, "{case}: a file of the framework is lost");
                }
            }
        }
    }
}

/// The directories go on sharing their files.
#[test]
fn files_have_second_names_afterwards() {
    let place = Place::new();
    let kernel = place.hit("12.8");
    cut(&place.key().join("add.cubin"));
    place.repair(std::slice::from_ref(&kernel.stored));
    for name in NAMES {
        let of = |dir: PathBuf| dir.join(name).metadata().unwrap().ino();
        assert_eq!(of(place.key()), of(place.of(&kernel)), "{name}");
    }
}

#[test]
fn the_files_are_those_of_the_toolchain_that_wrote_them() {
    for (newest, other) in [("12.8", "13.2"), ("13.2", "12.8")] {
        let place = Place::new();
        let other = place.hit(other);
        let last = place.hit(newest);
        let intact = place.bytes();
        let stored = [other.stored.clone(), last.stored.clone()];
        // The directory of the key has second names of the last one's files.
        for dir in [place.of(&last), place.of(&other)] {
            flip(&dir.join("add.cubin"));
            flip(&dir.join("add.ptx"));
        }
        assert_eq!(outcome(&place.repair(&stored)), (3, 0, 0));
        assert!(place.bytes() == intact, "{newest}");
        // Without the record, the second names show it.
        for dir in [place.key(), place.of(&last)] {
            fs::remove_file(dir.join("add.json.opkeep")).unwrap();
        }
        cut(&place.key().join("add.cubin"));
        assert_eq!(outcome(&place.repair(&stored)), (2, 0, 0));
        assert!(place.bytes() == intact, "{newest}: second names");
    }
}

/// Without evidence, no file of either toolchain is put in place.
#[test]
fn no_entry_is_guessed() {
    let own = |place: &Place, name: &str| {
        let path = place.key().join(name);
        let bytes = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, bytes).unwrap();
    };
    type Case = (&'static str, fn(&Place, &Kernel));
    let cases: [Case; 2] = [
        ("no record", |place, _| fs::remove_file(place.key().join("add.json.opkeep")).unwrap()),
        ("the record of another toolchain", |place, other| {
            let path = place.key().join("add.json.opkeep");
            fs::remove_file(&path).unwrap();
            fs::copy(place.of(other).join("add.json.opkeep"), path).unwrap();
        }),
    ];
    for (case, make) in cases {
        let place = Place::new();
        let (other, last) = (place.hit("12.8"), place.hit("12.9"));
        if case == "no record" {
            NAMES.iter().for_each(|name| own(&place, name));
        }
        make(&place, &other);
        own(&place, "add.cubin");
        cut(&place.key().join("add.cubin"));
        let damaged = place.bytes();
        let done = place.repair(&[other.stored.clone(), last.stored.clone()]);
        assert_eq!(outcome(&done), (0, 1, 0), "{case}: {done:?}");
        assert_eq!(fs::read_dir(place.key()).unwrap().count(), 0, "{case}");
        assert_eq!(place.repair(&[other.stored, last.stored]).iter().map(|dir| dir.intact).sum::<usize>(), 2);
        place.undo();
        assert!(place.bytes() == damaged, "{case}");
    }
}

/// What Triton's own manager wrote stays if it is intact, whatever the store has.
#[test]
fn a_foreign_group_that_is_intact_stays() {
    let place = Place::new();
    let kernel = place.hit("12.8");
    fs::remove_dir_all(place.key()).unwrap();
    fs::create_dir(place.key()).unwrap();
    for (name, bytes) in &kernel.files {
        let bytes = if name == "add.ptx" { b".version 9.9".to_vec() } else { bytes.clone() };
        fs::write(place.key().join(name), bytes).unwrap();
    }
    fs::copy(place.of(&kernel).join("__grp__add.json"), place.key().join("__grp__add.json")).unwrap();
    fs::write(place.key().join("tuned.autotune.json"), "torn").unwrap();
    let states = place.states();
    assert_eq!(outcome(&place.repair(&[kernel.stored])), (0, 0, 0));
    assert_eq!(place.states(), states);
}

#[test]
fn a_damaged_kernel_that_is_not_stored_is_quarantined() {
    type Case = (&'static str, fn(&Path));
    let cases: [Case; 4] = [
        ("cut object", |dir| cut(&dir.join("add.cubin"))),
        ("torn metadata", |dir| fs::write(dir.join("add.json"), "{").unwrap()),
        ("not as in the record", |dir| flip(&dir.join("add.ptx"))),
        ("missing file", |dir| fs::remove_file(dir.join("add.cubin")).unwrap()),
    ];
    for (case, make) in cases {
        let place = Place::new();
        place.hit("12.8");
        fs::write(place.key().join("launcher.so"), "foreign").unwrap();
        assert_eq!(outcome(&place.repair(&[])), (0, 0, 0), "{case}");
        make(&place.key());
        let damaged = place.bytes();
        assert_eq!(outcome(&place.repair_with(&[], |options| options.dry_run = true)).1, damages(&place));
        assert!(place.bytes() == damaged, "{case}");
        let expected = damages(&place);
        assert_eq!(outcome(&place.repair(&[])), (0, expected, 0), "{case}");
        let left: BTreeSet<_> =
            fs::read_dir(place.key()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, BTreeSet::from(["launcher.so".into()]), "{case}");
        assert_eq!(outcome(&place.repair(&[])), (0, 0, 0), "{case}: a second repair");
        place.undo();
        assert!(place.bytes() == damaged, "{case}");
    }
}

/// How many directories have a damaged kernel.
fn damages(place: &Place) -> usize {
    let dirs = TritonDir::at(&place.base()).unwrap().unwrap().keys;
    let groups = dirs.iter().flat_map(|dir| dir.judge().unwrap().groups);
    groups.filter(|group| !group.is_intact()).count()
}

/// Triton compiles a kernel again whose list is torn, and writes the list last.
#[test]
fn a_kernel_that_may_be_compiled_again_now_stays() {
    let place = Place::new();
    let kernel = place.hit("12.8");
    fs::remove_dir_all(place.of(&kernel)).unwrap();
    fs::remove_file(place.key().join("add.json.opkeep")).unwrap();
    cut(&place.key().join("__grp__add.json"));
    let done = place.repair(&[]);
    assert!(matches!(done[0].skipped[0].cause, SkipCause::InProgress(_)), "{done:?}");
    let states = place.states();
    assert_eq!(place.states(), states);
    for name in ["add.json", "add.cubin", "add.ptx", "__grp__add.json"] {
        age(&place.key().join(name));
    }
    assert_eq!(outcome(&place.repair(&[])), (0, 1, 0));
    assert_eq!(fs::read_dir(place.key()).unwrap().count(), 0);
    place.undo();
    fs::write(place.key().join("add.ptx"), "written now").unwrap();
    assert_eq!(outcome(&place.repair_with(&[], |options| options.force = true)), (0, 1, 0));
}

/// An entry that is damaged itself heals nothing.
#[test]
fn a_damaged_entry_is_not_used() {
    let place = Place::new();
    let kernel = place.hit("12.8");
    let stored = [kernel.stored.clone()];
    flip(&place.key().join("add.ptx"));
    let damaged = place.bytes();
    let run = RunId::now();
    let none = |_: &StoredGroup| None;
    let dirs = TritonDir::at(&place.base()).unwrap().unwrap().keys;
    for (_, done) in repair(&dirs, &stored, &TritonRepairOptions::new(&run, &none)) {
        let done = done.unwrap();
        assert_eq!((done.written.len(), done.quarantined.len()), (0, 1), "{done:?}");
    }
    place.undo();
    assert!(place.bytes() == damaged);
}

/// A process that reads a file finds it at each moment, and one that has it open goes on reading the same bytes.
#[test]
fn a_running_process_is_not_disturbed() {
    let place = Place::new();
    let kernel = place.hit("12.8");
    let (path, stored) = (place.key().join("add.cubin"), [kernel.stored.clone()]);
    let intact = fs::read(&path).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reads = 0;
            while !stop.load(Ordering::Relaxed) {
                fs::read(&path).expect("a file has its name at each moment");
                reads += 1;
            }
            reads
        });
        for _ in 0..20 {
            flip(&path);
            let open = fs::File::open(&path).unwrap();
            let before = fs::read(&path).unwrap();
            place.repair(&stored);
            let mut after = Vec::new();
            std::io::Read::read_to_end(&mut &open, &mut after).unwrap();
            assert_eq!(after, before);
            assert_eq!(fs::read(&path).unwrap(), intact);
        }
        stop.store(true, Ordering::Relaxed);
        assert!(reader.join().unwrap() > 0);
    });
}

#[test]
fn a_launcher_is_healed_by_the_directory_of_its_toolchain() {
    let place = Place::new();
    let mut record = GroupRecord::new(GroupKey {
        framework: TRITON.to_owned(),
        target: TARGET.to_owned(),
        framework_key: Digest::of(KEY.as_bytes()),
        name: "launcher.so".to_owned(),
        toolchain: Fingerprint::new(),
    });
    record.is_local = true;
    let files = vec![("launcher.so".to_owned(), b"machine code".to_vec())];
    let stored = place.put(&files, &record, None);
    let digest = GroupKey { name: String::new(), ..record.key.clone() }.digest().to_string();
    let name = format!("{KEY}.opkeep-{}", &digest[..32]);
    let dir = GroupDir::new(place.base(), &name).unwrap().with_copies(KEY).unwrap();
    dir.place([("launcher.so", &b"machine code"[..])]).unwrap();
    let intact = place.bytes();
    cut(&place.key().join("launcher.so"));
    assert_eq!(outcome(&place.repair(std::slice::from_ref(&stored))), (2, 0, 0));
    assert!(place.bytes() == intact);
    // A launcher that nothing shows to be opkeep's.
    fs::remove_file(place.key().join("launcher.so")).unwrap();
    fs::write(place.key().join("launcher.so"), "another compiler's").unwrap();
    assert_eq!(outcome(&place.repair(&[stored])), (0, 0, 0));
}

/// What other users can write is not trusted, as at a hit.
#[test]
fn a_directory_that_others_can_write_is_left() {
    let place = Place::new();
    let kernel = place.hit("12.8");
    cut(&place.of(&kernel).join("add.cubin"));
    fs::set_permissions(place.of(&kernel), fs::Permissions::from_mode(0o777)).unwrap();
    let states = place.states();
    let done = place.repair(std::slice::from_ref(&kernel.stored));
    let of_toolchain = done.iter().find(|dir| dir.dir.toolchain.is_some()).unwrap();
    assert!(of_toolchain.skipped[0].cause.to_string().contains("other users can write"), "{done:?}");
    let path = place.of(&kernel).join("add.cubin");
    assert_eq!(place.states()[&path], states[&path]);
    // The other directory is healed.
    assert_eq!(fs::read(place.key().join("add.cubin")).unwrap(), kernel.files[1].1);
}
