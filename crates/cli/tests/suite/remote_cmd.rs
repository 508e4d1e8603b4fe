//! `opkeep remote`, on a directory that hosts share.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use opkeep_cache::Digest;
use opkeep_testkit::caches::Rank;

use crate::common::{Place, Ran, SQUARE, square_of};

/// A place with a shared directory, and its URL.
fn shared() -> (Place, String) {
    let place = Place::new();
    fs::create_dir(place.path("shared")).unwrap();
    let url = format!("file://{}", place.path("shared").display());
    (place, url)
}

#[test]
fn a_check_says_what_each_finding_means() {
    let (place, url) = shared();
    let ran = place.run(&["remote", "check", &url, "--clients", "4", "--rounds", "3"]).ended_with(0);
    assert_eq!(ran.stderr, "");
    let lines: Vec<_> = ran.stdout.lines().collect();
    assert_eq!(lines[0], url);
    let names: Vec<_> = lines[1..lines.len() - 1].iter().map(|line| line[2..18].trim_end()).collect();
    let expected = [
        "access",
        "round trip",
        "objects",
        "exclusive create",
        "lease holder",
        "lease expiry",
        "counters",
        "batch",
        "largest object",
        "listing",
        "clock",
        "left behind",
    ];
    assert_eq!(names, expected);
    let exclusive = lines[4];
    assert!(exclusive.contains("unproven: 1 of 4 clients got it in each of 3 rounds"), "{exclusive}");
    assert!(exclusive.ends_with("leases are used; no document of the server promises more"), "{exclusive}");
    assert!(lines.last().unwrap().starts_with("usable: hosts share kernels"), "{ran:?}");
    // The consequences are aligned.
    let at = |line: &str, text: &str| line[..line.find(text).unwrap()].chars().count();
    assert_eq!(at(lines[1], "kernels are fetched and sent"), at(exclusive, "leases are used"));
}

#[test]
fn a_check_as_json_has_the_same() {
    let (place, url) = shared();
    let env = [("OPKEEP_REMOTE", url.as_str())];
    let ran = place.run_with(&["remote", "check", "--rounds", "2", "--format", "json"], &env).ended_with(0);
    let json = ran.json();
    assert_eq!((&json["url"], &json["usable"], &json["clients"]), (&url.into(), &true.into(), &16.into()));
    assert_eq!((&json["access"], &json["leases"]), (&"read-write".into(), &"unproven".into()));
    assert_eq!((&json["race"]["rounds"], &json["race"]["most_winners"]), (&2.into(), &1.into()));
    assert_eq!(json["left_behind"], 0);
    assert_eq!(json["checks"].as_array().unwrap().len(), 12);
}

/// A URL may have a password, which is in no output.
#[track_caller]
fn has_no_password(ran: &Ran) {
    assert!(!ran.stdout.contains("hunter2") && !ran.stderr.contains("hunter2"), "{ran:?}");
}

#[test]
fn engines_that_cannot_be_used_are_errors() {
    let (place, _) = shared();
    place.run(&["remote", "check"]).ended_with(2).says("OPKEEP_REMOTE");
    for (url, problem) in [
        ("redis://user:hunter2@127.0.0.1:1", "cannot be reached"),
        ("file:///missing/directory", "is it mounted"),
        ("redis://user:hunter2@", "URL"),
        ("hunter2", "URL"),
    ] {
        let ran = place.run(&["remote", "check", url]).ended_with(2).says(problem);
        has_no_password(&ran);
        has_no_password(&place.run_with(&["remote", "check"], &[("OPKEEP_REMOTE", url)]).ended_with(2));
    }
    for clients in ["0", "1", "257", "many"] {
        place.run(&["remote", "check", "file:///x", "--clients", clients]).ended_with(2).says("2 to 256");
    }
}

/// The file of an object in the shared directory.
fn object(place: &Place, dir: &str, name: &str) -> PathBuf {
    place.path(&format!("shared/v1/default/{dir}/+{}/{name}", &Digest::of(name.as_bytes()).to_string()[..2]))
}

/// Writes an object that was last changed `days` days ago.
fn write_object(place: &Place, dir: &str, name: &str, days: u64) -> PathBuf {
    let path = object(place, dir, name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "an object").unwrap();
    make_old(&path, days);
    path
}

fn make_old(path: &Path, days: u64) {
    let then = SystemTime::now() - Duration::from_secs(days * 24 * 3600);
    fs::File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
}

/// Builds `count` kernels. Returns the target and the keys.
fn build(place: &Place, count: usize) -> (String, Vec<String>) {
    for length in 1..=count {
        place.write("square.info", square_of(length));
        place.run(&["build", "square.info", "--target", "cpu", "--no-kernel-meta"]).ended_with(0);
    }
    let entries = place.entries();
    let target = entries[0].ancestors().nth(3).unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let key = |path: &PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let mut keys: Vec<_> = entries.iter().map(key).collect();
    keys.sort();
    (target, keys)
}

#[test]
fn kernels_are_pushed_listed_and_counted() {
    let (place, url) = shared();
    let (target, keys) = build(&place, 3);
    place.run(&["remote", "ls", &url]).ended_with(0).prints("has no kernels");
    // Nothing was to be sent: no build uses this engine.
    place.run(&["remote", "push", &url]).ended_with(0).prints(&format!("{target}: sent 0 kernels"));
    place.run(&["remote", "push", &url, "--all"]).ended_with(0).prints(&format!("{target}: sent 3 kernels"));
    let env = [("OPKEEP_REMOTE", url.as_str())];
    let listed = place.run_with(&["remote", "ls", "--long", "--format", "json"], &env).ended_with(0).json();
    let found = &listed["targets"][0];
    assert_eq!((&found["target"], &found["kernels"]), (&target.as_str().into(), &3.into()));
    let entries = found["entries"].as_array().unwrap();
    assert_eq!(entries.iter().map(|entry| entry["key"].as_str().unwrap()).collect::<Vec<_>>(), keys);
    let sizes: u64 = entries.iter().map(|entry| entry["bytes"].as_u64().unwrap()).sum();
    assert_eq!(found["bytes"], sizes);
    let text = place.run(&["remote", "ls", "--long", &url]).ended_with(0).stdout;
    assert!(keys.iter().all(|key| text.contains(key.as_str())), "{text}");
    let heads = text.lines().nth(2).unwrap();
    assert_eq!(
        heads.split_whitespace().collect::<Vec<_>>(),
        ["key", "size", "age", "signed", "by"],
        "{text}"
    );
    // Objects of other kinds, and a file that is no object of a cache.
    let plan = "1".repeat(64);
    write_object(&place, &format!("{target}/b"), &plan, 0);
    write_object(&place, &format!("{target}/l"), &format!("{plan}.0"), 0);
    write_object(&place, &format!("{target}/e"), &format!("{}.0123456789abcdef", keys[0]), 0);
    write_object(&place, &format!("{target}/e"), "notes.txt", 0);
    let stats = place.run(&["remote", "stats", &url, "--format", "json"]).ended_with(0).json();
    let found = &stats["targets"][0];
    assert_eq!((&found["kernels"], &found["signed"]), (&3.into(), &1.into()));
    assert_eq!((&found["entries"]["objects"], &found["bundles"]["objects"]), (&4.into(), &1.into()));
    assert_eq!((&found["leases"]["objects"], &found["plans"]["objects"]), (&1.into(), &0.into()));
    assert_eq!((&stats["objects"], &stats["not_recognised"]), (&6.into(), &1.into()));
    place.run(&["remote", "stats", &url]).ended_with(0).prints(", and 1 other object");
    assert_eq!(found["signers"], serde_json::json!([{"signer": "0123456789abcdef", "kernels": 1}]));
    // The sums agree: a kernel may be in several objects.
    write_object(&place, &format!("{target}/e"), &format!("{}.fedcba9876543210", keys[0]), 0);
    write_object(&place, &format!("{target}/e"), &format!("{}.fedcba9876543210", keys[1]), 0);
    let text = place.run(&["remote", "stats", &url]).ended_with(0);
    text.prints("kernels  3 in 6 objects, ").prints(", 2 signed by 2 keys\n").prints("in all 8 objects");
    // Another namespace has nothing of it.
    let other = ["remote", "ls", &url, "--remote-namespace", "team-2"];
    place.run(&other).ended_with(0).prints("has no kernels");
    place.run_with(&["remote", "ls", &url], &[("OPKEEP_REMOTE_NAMESPACE", "team/2")]).ended_with(2);
}

#[test]
fn gc_deletes_what_is_old_or_too_much_and_nothing_else() {
    let (place, url) = shared();
    let (target, keys) = build(&place, 4);
    place.run(&["remote", "push", &url, "--all"]).ended_with(0);
    let entries: Vec<_> = keys.iter().map(|key| object(&place, &format!("{target}/e"), key)).collect();
    make_old(&entries[0], 40);
    make_old(&entries[1], 3);
    make_old(&entries[2], 2);
    let foreign = write_object(&place, &format!("{target}/e"), "notes.txt", 400);
    let stale = write_object(&place, &format!("{target}/l"), &format!("{}.0", keys[0]), 1);
    let lease = write_object(&place, &format!("{target}/l"), &format!("{}.1", keys[0]), 0);
    let other = place.path("shared/v1/team-2/cpu/e/+00/old");
    fs::create_dir_all(other.parent().unwrap()).unwrap();
    fs::write(&other, "").unwrap();
    make_old(&other, 400);
    let exist = || entries.iter().map(|path| path.exists()).collect::<Vec<_>>();
    let gc = |args: &[&str]| place.run(&[&["remote", "gc", &url], args].concat()).ended_with(0);

    gc(&["--older-than", "30d", "--dry-run"]).prints("would delete 1 kernel and 1 stale lease or plan");
    assert!(exist() == [true; 4] && stale.exists());
    gc(&[]).prints("deleted 0 kernels and 1 stale lease or plan");
    // The namespace, and the sizes that ls and stats state.
    let kernels: u64 = entries.iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    let kernels = format!("{:.1} KiB", kernels as f64 / 1024.0);
    gc(&["--dry-run"])
        .prints(&format!("of 4; left: 4 kernels ({kernels}), 1 other object (9 bytes)"))
        .prints(&format!("{url}, namespace default"));
    place.run(&["remote", "ls", &url]).ended_with(0).prints(&format!("4 kernels  {kernels}"));
    assert!(exist() == [true; 4] && !stale.exists() && lease.exists());
    gc(&["--older-than", "30d"]).prints("deleted 1 kernel (").says("left alone");
    assert_eq!(exist(), [false, true, true, true]);
    // The longest unused first; what was used within half an hour stays, unless the age is less.
    let size = fs::metadata(&entries[3]).unwrap().len() * 2 + 100;
    gc(&["--max-size", &size.to_string()]).prints("deleted 1 kernel (");
    assert_eq!(exist(), [false, false, true, true]);
    make_old(&write_object(&place, &format!("{target}/b"), &"1".repeat(64), 0), 5);
    let ran = gc(&["--max-size", "0"]).prints("deleted 1 kernel and 1 bundle (");
    ran.prints("that is more than the limit, since kernels");
    assert_eq!(exist(), [false, false, false, true]);
    gc(&["--max-size", "0", "--older-than", "0s"]).prints("deleted 1 kernel (");
    assert_eq!(exist(), [false; 4]);
    gc(&["--max-size", "0"]).prints("since leases and plans that changed within an hour stay");
    assert!(foreign.exists() && lease.exists() && other.exists());
    place.run(&["remote", "gc", &url, "--max-size", "much"]).ended_with(2);
}

#[test]
fn gc_deletes_what_killed_checks_left() {
    let (place, url) = shared();
    // A check of another host may still run; a product may have the namespace as well.
    let old = [
        write_object(&place, "../check/check-0123456789abcdef/e", "0", 1),
        // Of a check with a namespace.
        write_object(&place, "check-0123456789abcdef/e", "0", 1),
    ];
    let kept = [
        write_object(&place, "../check/check-fedcba9876543210/e", "0", 0),
        write_object(&place, "../check/cpu-x86_64/e", "0", 400),
        write_object(&place, "../check/check-1/e", "0", 400),
        write_object(&place, "check-fedcba9876543210/e", "0", 0),
        write_object(&place, "../other/check-0123456789abcdef/e", "0", 400),
    ];
    let gc = |args: &[&str]| place.run(&[&["remote", "gc", &url], args].concat()).ended_with(0);
    gc(&["--dry-run"]).prints("checks that were killed: would delete 2 objects");
    assert!(old.iter().all(|path| path.exists()));
    let json = gc(&["--format", "json"]).json();
    assert_eq!((&json["left_by_checks"], &json["not_recognised"]), (&2.into(), &0.into()), "{json}");
    assert!(!old.iter().any(|path| path.exists()) && kept.iter().all(|path| path.exists()));
    assert!(!gc(&[]).stdout.contains("checks"));
}

/// Gives a name to something else than a file, which nothing changed for two hours.
fn make_other(path: &Path, what: &str) {
    let _ = fs::remove_file(path);
    let mut command = match what {
        "pipe" => Command::new("mkfifo"),
        "directory" => Command::new("mkdir"),
        _ => Command::new("ln"),
    };
    command.args((what == "link").then_some(["-s", "/etc/hostname"]).iter().flatten());
    assert!(command.arg(path).status().unwrap().success());
    let touched = Command::new("touch").args(["-h", "-c", "-d", "2 hours ago"]).arg(path).status().unwrap();
    assert!(touched.success());
}

#[test]
fn what_is_in_the_place_of_a_kernel_is_counted_apart_and_replaced() {
    let (place, url) = shared();
    let (target, keys) = build(&place, 4);
    place.run(&["remote", "push", &url, "--all"]).ended_with(0);
    let at = |number: usize| object(&place, &format!("{target}/e"), &keys[number]);
    let things = ["pipe", "link", "directory"];
    let occupy = || (0..).zip(things).for_each(|(number, thing)| make_other(&at(number), thing));
    occupy();
    let of = |args: &[&str]| place.run(&[&["remote"], args, &[&url]].concat());
    of(&["ls"]).ended_with(0).prints(&format!("{target}  1 kernel ")).prints("3 other objects");
    of(&["stats"])
        .ended_with(0)
        .prints("kernels  1, ")
        .prints("in all 1 object, ")
        .prints(", and 3 other objects");
    // A host that lacks them compiles and replaces them; the next one fetches them.
    for (store, counts) in [("second", (1, 3)), ("third", (4, 0))] {
        let infos: Vec<_> = (1..=4).map(|length| format!("square-{length}.info")).collect();
        infos.iter().zip(1..).for_each(|(info, length)| drop(place.write(info, square_of(length))));
        let store = place.path(store);
        let flags = ["--target", "cpu", "--no-kernel-meta", "--remote", &url, "--format", "json"];
        let store = ["--cache-dir", store.to_str().unwrap()];
        let infos: Vec<&str> = infos.iter().map(String::as_str).collect();
        let ran = place.run(&[&["build"], &infos[..], &flags, &store].concat()).ended_with(0).json();
        // Both stores are new.
        assert_eq!((&ran["reused"], &ran["compiled"]), (&counts.0.into(), &counts.1.into()), "{ran}");
    }
    of(&["ls"]).ended_with(0).prints(&format!("{target}  4 kernels "));
    assert!(!of(&["ls"]).stdout.contains("other"));

    // What no host replaces is deleted, without a directory that has files.
    occupy();
    make_other(&at(3), "directory");
    fs::write(at(3).join("file"), "another program's").unwrap();
    let touched = Command::new("touch").args(["-d", "2 hours ago"]).arg(at(3)).status().unwrap();
    assert!(touched.success());
    of(&["gc", "--dry-run"]).ended_with(0).prints("would delete 4 files in the place of objects");
    of(&["gc"]).ended_with(1).prints("deleted 3 files in the place of objects").says("not empty");
    assert!(at(3).join("file").exists() && !(0..3).any(|number| fs::symlink_metadata(at(number)).is_ok()));
}

/// The mark of an earlier version, which names no engine: this command sends the kernel, and no build does.
#[test]
fn what_a_build_could_not_send_is_pushed() {
    let (place, url) = shared();
    let (target, keys) = build(&place, 2);
    let marks = place.path("cache/v1").join(&target).join("unsent");
    fs::create_dir_all(&marks).unwrap();
    fs::write(marks.join(&keys[0]), "").unwrap();
    let stats = place.run(&["stats", "--format", "json"]).ended_with(0).json();
    assert_eq!(stats["targets"][0]["unsent"], 1, "{stats}");
    let built =
        ["build", "square.info", "--target", "cpu", "--no-kernel-meta", "--remote", &url, "--format", "json"];
    let ran = place.run(&built).ended_with(0).json();
    assert_eq!((&ran["remote"]["sent"], &ran["remote"]["unsent"]), (&0.into(), &0.into()), "{ran}");
    let gone = place.run(&["remote", "push", "redis://127.0.0.1:1"]).ended_with(1);
    gone.prints("sent 0 kernels, 1 still to be sent").says("cannot be reached");
    place.run(&["remote", "push", &url]).ended_with(0).prints(&format!("{target}: sent 1 kernel"));
    assert!(fs::read_dir(&marks).unwrap().next().is_none());
    place.run(&["remote", "ls", &url]).ended_with(0).prints("1 kernel");
}

/// What a build could not send to its namespace goes to no other one.
#[test]
fn what_is_for_another_namespace_is_not_sent() {
    let (place, url) = shared();
    let built =
        ["build", SQUARE, "--target", "cpu", "--no-kernel-meta", "--remote", &url, "--format", "json"];
    let build = |namespace: &str| {
        let ran = place.run(&[&built[..], &["--remote-namespace", namespace]].concat()).ended_with(0);
        let count = |field: &str| ran.json()["remote"][field].as_u64().unwrap();
        (count("sent"), count("unsent"))
    };
    // It can be read, and refuses what is sent.
    fs::write(place.path("shared/v1"), "").unwrap();
    assert_eq!(build("secret-a"), (0, 1));
    fs::remove_file(place.path("shared/v1")).unwrap();
    assert_eq!(build("public-b"), (0, 0));
    let public = ["--remote-namespace", "public-b"];
    place
        .run(&[&["remote", "push", &url], &public[..]].concat())
        .ended_with(0)
        .prints("sent 0 kernels, 1 to be sent to another engine or namespace");
    place.run(&[&["remote", "ls", &url], &public[..]].concat()).ended_with(0).prints("has no kernels");
    place.run(&["stats"]).ended_with(0).prints("1 still to be sent");
    assert_eq!(build("secret-a"), (1, 0));
}

#[test]
fn own_kernels_are_signed_when_they_are_pushed() {
    let (place, url) = shared();
    place.run(&["key", "generate", "builds-1", "--out", "secret"]).ended_with(0);
    let env = [("OPKEEP_SIGN_KEY", "secret")];
    let built = ["build", SQUARE, "--target", "cpu", "--no-kernel-meta"];
    place.run_with(&built, &env).ended_with(0);
    place
        .run(&["remote", "push", &url, "--all", "--sign-key", "secret"])
        .ended_with(0)
        .prints("sent 1 kernel");
    let stats = place.run(&["remote", "stats", &url, "--format", "json"]).ended_with(0).json();
    assert_eq!((&stats["targets"][0]["signed"], &stats["objects"]), (&1.into(), &1.into()), "{stats}");
    place.run(&["remote", "push", &url, "--all", "--sign-key", "missing"]).ended_with(2).says("--sign-key");
}

#[test]
fn imported_kernels_are_not_pushed() {
    let (place, url) = shared();
    let rank = Rank::new(0);
    rank.square(1).write(&rank.dir(&place.path("run"))).unwrap();
    place.run(&["import", "run"]).ended_with(0);
    let pushed = place.run(&["remote", "push", &url, "--all"]).ended_with(0);
    pushed.prints("sent 0 kernels, 1 not for other hosts");
    place.run(&["remote", "ls", &url]).ended_with(0).prints("has no kernels");
}

#[test]
fn a_push_that_sends_nothing_says_why() {
    let (place, url) = shared();
    build(&place, 1);
    let push = ["remote", "push", &url];
    place.run(&push).ended_with(0).prints("sent 0 kernels: builds left none; --all");
    // This host signs nothing, and other hosts take nothing unsigned.
    let public = place.run(&["key", "generate", "builds-1", "--out", "secret"]).ended_with(0).stdout;
    let public = public.split_whitespace().find(|word| word.starts_with("builds-1:")).unwrap().to_owned();
    for args in [&push[..], &[&push[..], &["--all"]].concat()] {
        let ran = place.run(&[args, &["--trusted-keys", &public]].concat()).ended_with(2);
        ran.says("keys are trusted, and no key signs").says("help: --sign-key");
    }
    place.run(&["remote", "ls", &url]).ended_with(0).prints("has no kernels");
    let signed = [&push[..], &["--all", "--trusted-keys", &public, "--sign-key", "secret"]].concat();
    // What was compiled without keys is not signed afterwards.
    place.run(&signed).ended_with(0).prints("sent 0 kernels, 1 not for other hosts").says("is not sent");
}

#[test]
fn a_store_is_not_created_by_a_push() {
    let (place, url) = shared();
    place.run(&["remote", "push", &url]).ended_with(0).prints("there is no store");
    assert!(!place.path("cache").exists());
    place.run(&["remote", "push", &url, "--op_compiler_cache_dir", "missing"]).ended_with(2);
    place.run(&["build", SQUARE, "--target", "cpu", "--no-kernel-meta"]).ended_with(0);
    place.run(&["remote", "push"]).ended_with(2).says("OPKEEP_REMOTE");
    for command in ["ls", "stats", "gc"] {
        place.run(&["remote", command, "file:///missing"]).ended_with(2).says("is it mounted");
    }
}

#[test]
fn a_cache_that_is_only_read_gets_no_push() {
    let (place, url) = shared();
    build(&place, 1);
    for mode in ["read", "off"] {
        let env = [("OPKEEP_REMOTE_MODE", mode)];
        let ran = place.run_with(&["remote", "push", &url, "--all"], &env).ended_with(2);
        ran.says("OPKEEP_REMOTE_MODE is not read-write").says("help: ");
    }
    let env = [("OPKEEP_REMOTE_MODE", "some")];
    place
        .run_with(&["remote", "push", &url, "--all"], &env)
        .ended_with(2)
        .says("expected off, read or read-write");
    place.run(&["remote", "ls", &url]).ended_with(0).prints("has no kernels");
}

#[test]
fn the_help_names_every_kind_of_engine() {
    let place = Place::new();
    let help = place.run(&["build", "--help"]).ended_with(0).stdout;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for scheme in ["redis://", "rediss://", "s3://", "grpc://", "grpcs://", "file://"] {
        assert!(help.contains(scheme), "{scheme}");
    }
}
