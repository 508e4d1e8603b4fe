//! `opkeep doctor`: what prevents builds, what is only worth a line, and that nothing stays.
#![expect(clippy::disallowed_methods, reason = "tests look at files")]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use opkeep_testkit::caches::{Rank, age};
use opkeep_testkit::toolkit::{Part, Toolkit};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{Place, Ran, SQUARE, files};

/// The row of a check, and the whole result for messages.
#[track_caller]
fn row(ran: &Ran, check: &str) -> Value {
    let result = ran.json();
    let found = result["checks"].as_array().unwrap().iter().find(|row| row["check"] == check);
    found.unwrap_or_else(|| panic!("no `{check}` in {result}")).clone()
}

#[track_caller]
fn status(ran: &Ran, check: &str) -> String {
    row(ran, check)["status"].as_str().unwrap().to_owned()
}

fn doctor(place: &Place, args: &[&str], env: &[(&str, &str)]) -> Ran {
    place.run_with(&[&["doctor", "--format", "json"], args].concat(), env)
}

/// The host's toolkits do not matter.
fn without_cann(place: &Place) -> String {
    place.path("tmp").display().to_string()
}

#[test]
fn a_host_that_builds_is_well_and_nothing_stays() {
    let place = Place::untouched();
    let cann = without_cann(&place);
    let everything = || files(place.dir.path()).into_iter().collect::<BTreeSet<PathBuf>>();
    let before = everything();
    let ran = doctor(&place, &["--target", "cpu"], &[("ASCEND_HOME_PATH", &cann)]).ended_with(0);
    assert_eq!(everything(), before);
    assert!(!place.path("cache").exists());
    for check in ["compiler", "reads", "test kernel", "temporary files", "renames", "locks", "permissions"] {
        assert_eq!(status(&ran, check), "ok", "{}", row(&ran, check));
    }
    assert!(row(&ran, "store")["finding"].as_str().unwrap().ends_with("does not exist yet"));

    place.run(&["build", SQUARE, "--target", "cpu", "--no-kernel-meta"]).ended_with(0);
    let before = everything();
    let ran = doctor(&place, &[], &[("ASCEND_HOME_PATH", &cann)]).ended_with(0);
    assert_eq!((everything(), status(&ran, "store")), (before, "ok".to_owned()));
    let text = place.run_with(&["doctor"], &[("ASCEND_HOME_PATH", &cann)]).ended_with(0);
    assert!(text.stdout.lines().last().unwrap().starts_with("builds can work"), "{text:?}");
}

/// A target that builds cannot write to is named, with what helps; it is a problem only of a user who builds for it.
#[test]
fn a_target_that_is_not_trusted_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::untouched();
    let cann = without_cann(&place);
    let env = [("ASCEND_HOME_PATH", &*cann)];
    place.run(&["build", SQUARE, "--target", "cpu", "--no-kernel-meta"]).ended_with(0);
    let rank = Rank::new(0);
    rank.square(7).write(&rank.dir(&place.path("run"))).unwrap();
    place.run(&["import", "run"]).ended_with(0);
    let stats = place.run(&["stats", "--format", "json"]).ended_with(0).json();
    let names = stats["targets"].as_array().unwrap().iter().map(|one| one["target"].as_str().unwrap());
    let name = names.filter(|name| !name.starts_with("cpu")).collect::<String>();
    let other = place.path("cache/v1").join(&name);
    fs::set_permissions(&other, fs::Permissions::from_mode(0o777)).unwrap();
    for (args, expected) in
        [(&[][..], "problem"), (&["--target", "cpu"], "note"), (&["--target", &name], "problem")]
    {
        let ran = doctor(&place, args, &env);
        let checks = ran.json()["checks"].as_array().unwrap().clone();
        let finding = format!("kernels for {name} are built and not kept: ");
        let row = checks.iter().find(|row| row["finding"].as_str().unwrap().starts_with(&finding)).unwrap();
        assert_eq!(row["status"], expected, "{args:?} {row}");
        assert!(!row["help"].as_array().unwrap().is_empty(), "{row}");
    }
}

#[test]
fn a_compiler_that_is_missing_prevents_builds_for_this_machine() {
    let place = Place::untouched();
    let cann = without_cann(&place);
    let env = [("CC", "nothing-there"), ("ASCEND_HOME_PATH", &*cann)];
    let ran = doctor(&place, &[], &env).ended_with(1);
    let compiler = row(&ran, "compiler");
    assert_eq!((&compiler["status"], &compiler["prevents_builds"]), (&"problem".into(), &true.into()));
    assert!(compiler["finding"].as_str().unwrap().contains("install a C compiler"), "{compiler}");
    let text = place.run_with(&["doctor"], &env).ended_with(1);
    assert_eq!(text.stdout.lines().last(), Some("builds cannot work: compiler"));
    // One that compiles what cannot be loaded.
    let broken = place.compiler("cc", "touch \"$PWD/none\"; exit 1");
    let ran = doctor(&place, &[], &[("CC", broken.to_str().unwrap()), ("ASCEND_HOME_PATH", &cann)]);
    assert_eq!(status(&ran.ended_with(1), "test kernel"), "problem");
}

/// CANN is needed for its chips only.
#[test]
fn a_toolkit_that_is_not_complete_prevents_builds_for_its_chips() {
    let place = Place::untouched();
    let half = Toolkit::new().without(Part::Opc).write(&place.path("half")).unwrap();
    let env = [("ASCEND_HOME_PATH", half.root().to_str().unwrap()), ("CC", "nothing-there")];
    let ran = doctor(&place, &["--target", "Ascend910B1"], &env).ended_with(1);
    let cann = row(&ran, "cann");
    assert!(cann["help"].as_array().unwrap().len() > 1 && cann["prevents_builds"] == true, "{cann}");
    // The compiler of the other target is no reason.
    assert_eq!(row(&ran, "compiler")["prevents_builds"], false);
    let whole = Toolkit::new().write(&place.path("whole")).unwrap();
    let env = [("ASCEND_HOME_PATH", whole.root().to_str().unwrap())];
    let ran = doctor(&place, &["--target", "Ascend910B1"], &env).ended_with(0);
    assert_eq!((status(&ran, "cann"), status(&ran, "target")), ("ok".to_owned(), "ok".to_owned()));
}

/// Builds go on without a remote cache and without a directory for the store, and not with a setting that is not valid.
#[test]
fn only_what_ends_a_build_prevents_it() {
    let place = Place::untouched();
    let cann = without_cann(&place);
    let run = |args: &[&str], env: &[(&str, &str)]| {
        doctor(&place, args, &[env, &[("ASCEND_HOME_PATH", &cann)]].concat())
    };
    // Nothing listens on this port.
    let gone = run(&["--remote", "redis://user:s3cret@127.0.0.1:1"], &[]).ended_with(0);
    let remote = row(&gone, "remote");
    assert!(remote["status"] == "problem" && remote.to_string().contains("opkeep remote check"), "{remote}");
    assert!(!gone.stdout.contains("s3cret"), "{gone:?}");
    let shared = format!("file://{}", place.path("tmp").display());
    assert_eq!(status(&run(&["--remote", &shared], &[]).ended_with(0), "remote"), "ok");
    let wrong = run(&["--remote", "nowhere://host"], &[]).ended_with(1);
    assert_eq!(row(&wrong, "remote")["prevents_builds"], true);
    let keys = run(&[], &[("OPKEEP_TRUSTED_KEYS", "")]).ended_with(1);
    assert_eq!(row(&keys, "keys")["prevents_builds"], true);
    let settings = run(&[], &[("OPKEEP_JOBS", "0")]).ended_with(1);
    let errors = settings.json()["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["check"] == "configuration")
        .count();
    assert_eq!(errors, 2, "{settings:?}");

    let mode = run(&["--cache-mode", "require"], &[]).ended_with(1);
    assert_eq!(status(&mode, "store"), "problem");
    assert_eq!(status(&run(&["--cache-mode", "disable"], &[]).ended_with(0), "store"), "note");
    place.write("file", "");
    let file = place.path("file").display().to_string();
    assert_eq!(status(&run(&["--cache-dir", &file], &[]).ended_with(0), "store"), "problem");
    let temporary = run(&[], &[("TMPDIR", "/nowhere")]).ended_with(1);
    assert_eq!(row(&temporary, "temporary files")["prevents_builds"], true);
}

/// Each limit has its origin.
#[test]
fn limits_are_reported_with_where_each_is_from() {
    let place = Place::untouched();
    let own = place.write("own.toml", "jobs = 3\n[store]\nmax-size-mb = 7\n");
    place.write("cache/op_cache.ini", "[op_compiler_cache]\nmax_op_cache_entries=9\n");
    let env = [("ASCEND_REMAIN_CACHE_SIZE_RATIO", "40"), ("ASCEND_HOME_PATH", &*without_cann(&place))];
    let ran = doctor(&place, &["--config", own.to_str().unwrap()], &env).ended_with(0);
    let finding = |check: &str| row(&ran, check)["finding"].as_str().unwrap().to_owned();
    let (own, ini) = (own.display(), place.path("cache/op_cache.ini"));
    assert_eq!(
        finding("store limits"),
        format!(
            "7 MiB a target ({own}:3:15), of which an eviction leaves 40 % (ASCEND_REMAIN_CACHE_SIZE_RATIO); 9 kernels a \
             target ({})",
            ini.display()
        )
    );
    assert_eq!(finding("jobs"), format!("3 compilers at once ({own}:1:8)"));
    assert!(finding("configuration").contains(&format!("`{own}` (named)")));
    let flag = doctor(&place, &["--jobs", "2"], &env).ended_with(0);
    assert_eq!(row(&flag, "jobs")["finding"], "2 compilers at once (--jobs)");
}

/// The directories of doctor that exist, in the directory for temporary files and in the store.
fn scratch(place: &Place) -> Vec<PathBuf> {
    let dirs = ["tmp", "cache"].map(|dir| place.path(dir));
    let paths = dirs.iter().flat_map(fs::read_dir).flatten().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.file_name().unwrap().to_string_lossy().contains("opkeep-doctor-")).collect()
}

/// Begins a doctor whose compiler hangs, and waits until it does.
fn hanging(place: &Place) -> std::process::Child {
    let begun = place.path("begun");
    let _ = fs::remove_file(&begun);
    let cc = place.compiler("cc-hangs", &format!("touch '{}'; sleep 100", begun.display()));
    let mut command = place.command(&["doctor", "--target", "cpu"]);
    command.env("CC", cc).env("ASCEND_HOME_PATH", without_cann(place));
    let mut doctor = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !begun.exists() {
        assert!(doctor.try_wait().unwrap().is_none(), "it ended");
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(!scratch(place).is_empty());
    doctor
}

#[test]
fn a_signal_leaves_nothing_and_a_later_doctor_removes_what_a_kill_leaves() {
    let place = Place::untouched();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut doctor = hanging(&place);
        kill_process(Pid::from_child(&doctor), signal).unwrap();
        assert_eq!(doctor.wait().unwrap().code(), Some(130), "{signal:?}");
        assert_eq!(scratch(&place), Vec::<PathBuf>::new(), "{signal:?}");
    }
    let mut doctor = hanging(&place);
    doctor.kill().unwrap();
    doctor.wait().unwrap();
    let left = scratch(&place);
    assert!(!left.is_empty());
    let cann = without_cann(&place);
    let again = || drop(place.run_with(&["doctor"], &[("ASCEND_HOME_PATH", &*cann)]).ended_with(0));
    again();
    assert_eq!(scratch(&place), left, "they are young");
    left.iter().for_each(|dir| age(dir).unwrap());
    again();
    assert_eq!(scratch(&place), Vec::<PathBuf>::new());
}
