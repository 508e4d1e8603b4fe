//! A store is checked and repaired.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::common::{Place, Ran, SQUARE, files, square_of};
use opkeep_digest::Digest;
use opkeep_store::{Access, Entry, EntryBuilder, Lookup, Overwrite, Store, StoreConfig};
use serde_json::Value;

/// Four kernels.
fn stocked() -> Place {
    let place = Place::new();
    for length in [3, 4, 5, 6] {
        let file = place.write(&format!("{length}.info"), square_of(length));
        place.run(&["build", file.to_str().unwrap()]).ended_with(0);
    }
    assert_eq!(place.entries().len(), 4);
    place
}

fn key(entry: &Path) -> Digest {
    entry.file_stem().unwrap().to_str().unwrap().parse().unwrap()
}

fn target() -> String {
    format!("cpu-{}", std::env::consts::ARCH)
}

fn flip(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

/// Stores an entry under another key: every digest in it is right.
fn poison(place: &Place, from: &Path, to: &Path) {
    let store = Store::open(StoreConfig::new(place.path("cache"))).unwrap().target(&target()).unwrap();
    let Lookup::Hit(entry) = store.peek(&key(from)) else { unreachable!("it was just built") };
    let members: Vec<_> =
        entry.names().map(|name| (name, entry.lazy_member(name).unwrap().unwrap())).collect();
    let draft = members.iter().fold(EntryBuilder::new(entry.validation()), |draft, (name, bytes)| {
        if entry.member(name).is_some() { draft.eager(name, bytes) } else { draft.lazy(name, bytes) }
    });
    store.put_replacing(&key(to), &draft, Overwrite::Always).unwrap();
}

/// The owner, the times and the content of each file.
fn snapshot(dir: &Path) -> BTreeMap<PathBuf, (i64, i64, u64, Vec<u8>)> {
    let one = |path: PathBuf| {
        let meta = path.symlink_metadata().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        (path, (meta.mtime(), meta.ctime_nsec(), meta.ino(), bytes))
    };
    files(dir).into_iter().map(one).collect()
}

fn json(ran: &Ran) -> Value {
    let json = ran.json();
    let targets = if json["stores"].is_array() { &json["stores"][0]["targets"] } else { &json["targets"] };
    assert_eq!(targets.as_array().unwrap().len(), 1, "{json}");
    targets[0].clone()
}

/// The kinds of problems, by path.
fn kinds(flaws: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    flaws.as_array().unwrap().iter().map(|flaw| (text(&flaw["file"]), text(&flaw["kind"]))).collect()
}

#[test]
fn a_valid_store_is_not_changed() {
    let place = stocked();
    let before = snapshot(&place.path("cache"));
    let ran = place.run(&["verify"]).ended_with(0);
    assert!(
        ran.stdout.ends_with("4 kernels checked: 4 valid, 0 refused; 0 files could not be checked\n"),
        "{ran:?}"
    );
    assert!(ran.stderr.is_empty(), "{ran:?}");
    let target_store = format!("cache/v1/{}", target());
    for paths in [&["cache"][..], &["cache/"], &[&target_store], &["--jobs", "3"], &["--cache-dir", "cache"]]
    {
        let args = [&["verify", "--format", "json"], paths].concat();
        let found = place.run(&args).ended_with(0).json();
        assert_eq!((&found["checked"], &found["valid"]), (&4.into(), &4.into()), "{paths:?}");
        assert_eq!(found["stores"][0]["targets"][0]["target"], target());
    }
    assert_eq!(snapshot(&place.path("cache")), before, "verify writes nothing");

    let ran = place.run(&["repair", "--dry-run"]).ended_with(0);
    assert!(ran.stdout.contains("nothing was changed"), "{ran:?}");
    assert_eq!(snapshot(&place.path("cache")), before);
    let ran = place.run(&["repair"]).ended_with(0);
    assert!(ran.stdout.ends_with(": 4 kernels checked, 4 valid\nno problem is left\n"), "{ran:?}");
    assert_eq!(place.entries().len(), 4);
}

#[test]
fn damaged_and_poisoned_entries_are_named_quarantined_and_built_again() {
    let place = stocked();
    let entries = place.entries();
    flip(&entries[0]);
    poison(&place, &entries[3], &entries[1]);
    // Only this check finds it: for the store it is a hit.
    let store = Store::open(StoreConfig::new(place.path("cache")).with_access(Access::ReadOnly)).unwrap();
    assert!(matches!(store.target(&target()).unwrap().peek(&key(&entries[1])), Lookup::Hit(_)));

    let expected: BTreeMap<String, String> = [(&entries[0], "damaged"), (&entries[1], "refused")]
        .map(|(path, kind)| (path.to_str().unwrap().to_owned(), kind.to_owned()))
        .into();
    let ran = place.run(&["verify"]).ended_with(1);
    assert!(ran.stdout.contains("\ndamaged   ") && ran.stdout.contains("\nrefused   "), "{ran:?}");
    assert!(ran.stdout.contains("of another key") && ran.stdout.contains("opkeep repair"), "{ran:?}");
    let found = place.run(&["verify", "--format", "json"]).ended_with(1);
    assert_eq!((found.json()["valid"].clone(), found.json()["refused"].clone()), (2.into(), 2.into()));
    assert_eq!(kinds(&json(&found)["flaws"]), expected);

    let dry = json(&place.run(&["repair", "--dry-run", "--format", "json"]).ended_with(0));
    assert_eq!(kinds(&dry["done"]), expected);
    assert!(entries.iter().all(|path| path.exists()));
    let done = json(&place.run(&["repair", "--format", "json"]).ended_with(0));
    assert_eq!(kinds(&done["done"]), expected);
    assert_eq!(
        (&done["kernels"], &done["whole"], &done["size"]["kernels"]),
        (&4.into(), &2.into(), &2.into())
    );
    for action in done["done"].as_array().unwrap() {
        let place = PathBuf::from(action["place"].as_str().unwrap());
        let reason = std::fs::read_to_string(place.with_extension("reason")).unwrap();
        assert!(place.exists() && reason.trim_end() == action["problem"].as_str().unwrap(), "{action}");
    }
    assert!(!entries[0].exists() && !entries[1].exists());
    let ran = place.run(&["verify"]).ended_with(0);
    assert!(
        ran.stdout.contains("2 kernels checked: 2 valid") && ran.stdout.contains("4 quarantined"),
        "{ran:?}"
    );

    let infos: Vec<PathBuf> = [3, 4, 5, 6].map(|length| place.path(&format!("{length}.info"))).into();
    let args: Vec<&str> = ["build", "--format", "json"]
        .into_iter()
        .chain(infos.iter().map(|path| path.to_str().unwrap()))
        .collect();
    let built = place.run(&args).ended_with(0);
    assert_eq!((built.count("compiled"), built.count("reused")), (2, 2));
    place.run(&["verify"]).ended_with(0);
}

#[test]
fn an_entry_can_be_checked_by_itself() {
    let place = stocked();
    let entries = place.entries();
    let of = |at: usize| entries[at].to_str().unwrap();
    poison(&place, &entries[3], &entries[1]);
    flip(&entries[2]);
    let ran = place.run(&["verify", of(0)]).ended_with(0);
    assert!(ran.stdout.starts_with(&format!("valid    {} for {}\n", of(0), target())), "{ran:?}");
    let ran = place.run(&["verify", of(1)]).ended_with(1);
    assert!(ran.stdout.contains("of another key"), "{ran:?}");
    assert!(place.run(&["inspect", of(1)]).ended_with(1).stdout.contains("of another key"));
    let found = place.run(&["verify", of(2), of(0), "--format", "json"]).ended_with(1).json();
    assert_eq!((&found["valid"], &found["refused"]), (&1.into(), &1.into()));
    let problems = |file: &Value| file["problems"].as_array().unwrap().len();
    assert_eq!(found["files"].as_array().unwrap().iter().map(problems).sum::<usize>(), 1);
    // A directory of entries, and another target.
    let dir = entries[0].parent().unwrap().to_str().unwrap();
    place.run(&["verify", dir]).ended_with(0);
    place.run(&["verify", of(0), "--target", "Ascend910B1"]).ended_with(1);
    place.run(&["verify", "cache", "--target", "cpu"]).ended_with(2).says("--target");
    // Under a name without a key it is judged by its own content.
    std::fs::copy(&entries[0], place.path("copy.kern")).unwrap();
    place.run(&["verify", "copy.kern"]).ended_with(0);
    std::fs::copy(&entries[0], place.path(entries[3].file_name().unwrap().to_str().unwrap())).unwrap();
    let renamed = entries[3].file_name().unwrap().to_str().unwrap();
    let ran = place.run(&["verify", renamed]).ended_with(1);
    assert!(ran.stdout.contains("belongs to key"), "{ran:?}");
}

#[test]
fn foreign_files_in_a_store_stay_and_are_reported_with_help() {
    let place = stocked();
    let entries = place.entries();
    std::fs::set_permissions(&entries[0], std::fs::Permissions::from_mode(0o666)).unwrap();
    std::fs::remove_file(&entries[1]).unwrap();
    std::fs::create_dir(&entries[1]).unwrap();
    let notes = place.write(&format!("cache/v1/{}/notes", target()), "precious");
    let stray = place.write(&format!("cache/v1/{}/tmp/put-4000000-1", target()), "half an en");
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(300_000);
    std::fs::File::open(&stray).unwrap().set_modified(old).unwrap();
    std::fs::write(place.path(&format!("cache/v1/{}/stats", target())), "torn").unwrap();

    let ran = place.run(&["verify"]).ended_with(1);
    for said in [
        "chmod o-w",
        "a directory is where a file",
        "1 stale temporary file, 1 foreign file",
        "corrupt-counters ",
    ] {
        assert!(ran.stdout.contains(said), "{said}: {ran:?}");
    }
    let ran = place.run(&["repair"]).ended_with(1);
    for said in
        ["deleted, stale temporary file", "reset: ", "chmod o-w", "move it away", "problems are left: 2\n"]
    {
        assert!(ran.stdout.contains(said), "{said}: {ran:?}");
    }
    assert!(entries[0].exists() && entries[1].is_dir() && notes.exists() && !stray.exists());
    let left = json(&place.run(&["repair", "--format", "json"]).ended_with(1));
    assert_eq!(left["left"].as_array().unwrap().len(), 2, "{left}");
    assert!(left["done"].as_array().unwrap().is_empty(), "{left}");
    // A user follows the help.
    std::fs::set_permissions(&entries[0], std::fs::Permissions::from_mode(0o644)).unwrap();
    std::fs::remove_dir(&entries[1]).unwrap();
    place.run(&["repair"]).ended_with(0);
}

#[test]
fn without_a_store_none_is_created() {
    let place = Place::new();
    for command in ["verify", "repair"] {
        let ran = place.run(&[command]).ended_with(0);
        assert!(ran.stdout.contains("there is no store at") && !place.path("cache").exists(), "{ran:?}");
        place.run(&[command, "--format", "json"]).ended_with(0).json();
        place.run(&[command, "cache", "--cache-dir", "other"]).ended_with(2).says("cannot be used with");
    }
    place.run(&["build", SQUARE]).ended_with(0);
    let ran = place.run(&["repair", "rank_0"]).ended_with(0);
    assert!(
        ran.stdout.contains("rank_0/kernel_meta: 1 kernel, 1 intact"),
        "what a build puts there: {ran:?}"
    );
    std::fs::create_dir(place.path("empty")).unwrap();
    place.run(&["repair", "empty"]).ended_with(2).says("is no store").says("opkeep build");
    place.run(&["repair", SQUARE]).ended_with(2).says("is no store");
    for command in ["verify", "repair"] {
        place.run(&[command, "nowhere"]).ended_with(2).says("cannot read `nowhere`: No such file");
    }
    // A directory `v1` does not make its parent a store.
    std::fs::create_dir_all(place.path("kernels")).unwrap();
    std::fs::rename(place.path("rank_0"), place.path("kernels/v1")).unwrap();
    let found = place.run(&["verify", "kernels", "--format", "json"]).ended_with(0).json();
    assert_eq!((&found["checked"], &found["stores"]), (&1.into(), &Value::Array(Vec::new())));
    let ran = place.run(&["repair", "kernels"]).ended_with(0);
    assert!(ran.stdout.starts_with("kernels/v1/kernel_meta: 1 kernel"), "{ran:?}");
}

/// The printed command can be typed: it names the checked store, and helps with the problems.
#[test]
fn help_names_the_store_and_is_printed_where_it_applies() {
    let place = stocked();
    std::fs::rename(place.path("cache"), place.path("other")).unwrap();
    let store = place.path("other");
    let root = store.to_str().unwrap();
    let entries: Vec<PathBuf> =
        files(&store).into_iter().filter(|path| path.extension().is_some_and(|e| e == "kern")).collect();
    let mode = |mode| std::fs::set_permissions(&entries[0], std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0o666);
    let ran = place.run(&["verify", root]).ended_with(1);
    assert!(ran.stdout.contains("chmod o-w") && !ran.stdout.contains("opkeep repair"), "{ran:?}");
    mode(0o644);
    flip(&entries[1]);
    // The directory of this version is a part of the store, and no directory of kernels.
    for path in [root, &format!("{root}/v1"), &format!("{root}/v1/{}", target())] {
        let ran = place.run(&["verify", path]).ended_with(1);
        assert!(ran.stdout.contains(&format!("`opkeep repair {root}`")), "{ran:?}");
    }
    place.run(&["repair", &format!("{root}/v1")]).ended_with(0);
    let ran = place.run(&["verify", &format!("{root}/v1")]).ended_with(0);
    assert!(ran.stdout.contains("2 quarantined") && !ran.stdout.contains("opkeep repair"), "{ran:?}");
}

/// Other processes compile all kernels again and again.
#[test]
fn no_entry_is_reported_as_damaged_during_builds() {
    let place = stocked();
    let infos: Vec<String> = [3, 4, 5, 6].map(|length| format!("{length}.info")).into();
    let args: Vec<&str> = ["build", "--cache-mode", "force", "--no-kernel-meta"]
        .into_iter()
        .chain(infos.iter().map(String::as_str))
        .collect();
    let mut builds = Vec::new();
    for round in 0..12 {
        builds.retain_mut(|build: &mut std::process::Child| build.try_wait().unwrap().is_none());
        if builds.len() < 2 {
            let quiet = std::process::Stdio::null;
            builds.push(place.command(&args).stdout(quiet()).stderr(quiet()).spawn().unwrap());
        }
        let command = if round % 3 == 0 { "repair" } else { "verify" };
        place.run(&[command]).ended_with(0);
    }
    builds.iter_mut().for_each(|build| assert!(build.wait().unwrap().success()));
    place.run(&["verify"]).ended_with(0);
    assert!(files(&place.path("cache")).iter().all(|path| !path.to_string_lossy().contains("/quarantine/")));
    assert!(place.entries().iter().all(|path| Entry::decode(std::fs::read(path).unwrap(), None).is_ok()));
}
