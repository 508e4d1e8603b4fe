//! Odd names, odd files, odd environments.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

use crate::common::{Place, SQUARE, square_of};
use serde_json::json;

#[test]
fn names_that_are_not_utf8() {
    let place = Place::new();
    let name = OsStr::from_bytes(b"x\xff.info");
    std::fs::write(place.dir.path().join(name), square_of(3)).unwrap();
    for args in
        [&["build"][..], &["inspect"], &["build", "--format", "json"], &["inspect", "--format", "json"]]
    {
        let output = place.command(args).arg(name).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {output:?}");
    }
    std::fs::write(place.dir.path().join(name), "torn").unwrap();
    let output = place.command(&["build", "--format", "json"]).arg(name).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn a_pipe_is_no_descriptor() {
    let place = Place::new();
    assert!(Command::new("mkfifo").arg(place.path("pipe.info")).status().unwrap().success());
    place.run(&["build", "pipe.info"]).ended_with(2).says("not a regular file");
    place.run(&["inspect", "pipe.info"]).ended_with(2).says("not a regular file");
}

#[test]
fn output_that_cannot_be_written() {
    let place = Place::new();
    let full = || Stdio::from(std::fs::File::options().write(true).open("/dev/full").unwrap());
    // The output cannot be written: the build continues.
    let status = place.command(&["build", SQUARE]).stdout(Stdio::null()).stderr(full()).status().unwrap();
    assert_eq!(status.code(), Some(0));
    // A lost result is not a success.
    let output = place.command(&["build", SQUARE, "--format", "json"]).stdout(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write the result"));
}

#[test]
fn without_a_home_the_store_is_in_the_system_directory_or_a_warning_is_printed() {
    let place = Place::new();
    let output = place
        .command(&["build", SQUARE, "--format", "json"])
        .env_remove("OPKEEP_CACHE_DIR")
        .env("HOME", place.path("home"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(place.path("home/.cache/opkeep/v1").is_dir());
    let output = place
        .command(&["build", SQUARE])
        .env_remove("OPKEEP_CACHE_DIR")
        .env("XDG_CACHE_HOME", "relative")
        .env("ASCEND_CACHE_PATH", place.path("ascend"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(place.path("ascend/opkeep/v1").is_dir());
}

/// The order of precedence: the flag, our variable, the vendor's, the user's.
#[test]
fn the_first_setting_decides_the_location_of_the_store() {
    let place = Place::new();
    let said: [(&str, &str, &str); 4] = [
        ("OPKEEP_CACHE_DIR", "ours", "ours"),
        ("ASCEND_CACHE_PATH", "vendors", "vendors/opkeep"),
        ("XDG_CACHE_HOME", "users", "users/opkeep"),
        ("HOME", "home", "home/.cache/opkeep"),
    ];
    let mut command = place.command(&["build", SQUARE, "--op_compiler_cache_dir", "flag"]);
    command.envs(said.map(|(name, dir, _)| (name, place.path(dir))));
    assert!(command.output().unwrap().status.success());
    assert!(place.path("flag/v1").is_dir());
    assert!(said.iter().all(|(.., root)| !place.path(root).exists()));
    for first in 0..said.len() {
        let mut command = place.command(&["build", SQUARE]);
        command.env_remove("OPKEEP_CACHE_DIR");
        command.envs(said[first..].iter().map(|(name, dir, _)| (name, place.path(dir))));
        assert!(command.output().unwrap().status.success());
        let there = said.map(|(.., root)| place.path(root).join("v1").is_dir());
        let expected: Vec<bool> = (0..said.len()).map(|at| at <= first).collect();
        assert_eq!(there.as_slice(), expected, "{}", said[first].0);
    }
}

#[test]
fn a_warm_build_needs_no_temporary_directory() {
    let place = Place::new();
    place.run(&["build", SQUARE]).ended_with(0);
    let nowhere = ("TMPDIR", "/nonexistent/tmp");
    let ran = place.run_with(&["build", SQUARE, "--format", "json"], &[nowhere]).ended_with(0);
    assert_eq!(ran.count("reused"), 1);
    let other = place.write("other.info", square_of(5));
    let ran = place.run_with(&["build", other.to_str().unwrap()], &[nowhere]).ended_with(1);
    assert!(ran.stdout.contains("TMPDIR"), "{ran:?}");
}

#[test]
fn one_name_for_two_kernels_is_a_problem() {
    let place = Place::new();
    // A name from CANN is not changed: its hash covers data that the descriptor lacks.
    let name = format!("te_square_{}", "0123456789abcdef".repeat(4));
    let named = square_of(3).replace("square_3_2", &name);
    place.write("a/same.info", &named);
    place.write("b/same.info", named.replace("\"Square\"", "\"Neg\""));
    let ran = place.run(&["build", "a", "b", "--format", "json"]).ended_with(1).says(&name);
    assert_eq!(ran.json()["contested_names"], json!([name]));
    let kernel = place.path(&format!("rank_0/kernel_meta/{name}.json"));
    assert!(!kernel.exists());
    place.run(&["build", "a"]).ended_with(0);
    assert!(kernel.exists());
}

/// After an upgrade that broke the compiler, the framework must not run yesterday's kernel.
#[test]
fn a_failed_rebuild_leaves_no_old_kernel() {
    let place = Place::new();
    place.run(&["build", SQUARE]).ended_with(0);
    let json = place.path("rank_0/kernel_meta/square_12484080525657478220_2.json");
    assert!(json.exists());
    let broken = place.compiler("cc-broken", "exit 1");
    let ran = place.run_with(&["build", SQUARE], &[("CC", broken.to_str().unwrap())]).ended_with(1);
    assert!(!ran.stdout.contains("kernels are in"), "{ran:?}");
    assert!(!json.exists());
}

#[test]
fn json_is_printed_for_every_outcome() {
    let place = Place::new();
    std::fs::create_dir(place.path("empty")).unwrap();
    let empty = place.path("empty");
    let failures = [
        place.run(&["build", "nothing.info", "--format", "json"]),
        place.run(&["build", "empty", "--format", "json"]),
        place.run_with(&["build", SQUARE, "--format", "json"], &[("PATH", empty.to_str().unwrap())]),
        Place::new().run(&["build", SQUARE, "--cache-mode", "require", "--format", "json"]),
        place.run(&["run", SQUARE, "--format", "json"]),
    ];
    for ran in failures {
        let json = ran.ended_with(2).json();
        assert!(json["error"].is_string() || json["unreadable"].is_array(), "{json}");
    }
    place.write("rank_0", "a file stands in the way");
    let ran = place.run(&["build", SQUARE, "--format", "json"]).ended_with(1);
    assert!(ran.json()["kernel_meta_error"].as_str().unwrap().contains("rank_0"), "{ran:?}");
}

/// Names in descriptors are foreign text: they forge no lines and do not control the terminal.
#[test]
fn names_are_printed_harmlessly() {
    let place = Place::new();
    let text = std::fs::read_to_string(SQUARE).unwrap().replace("\"Square\"", "\"Odd\"");
    let text =
        text.replace("\"full_name\": \"Default/Square-op1\"", "\"full_name\": \"A\\u001b[31m\\nreused x\"");
    place.write("odd.info", text);
    let ran = place.run(&["build", "odd.info"]).ended_with(1);
    assert!(!ran.stdout.contains('\x1b') && !ran.stdout.contains("\nreused"), "{ran:?}");
    let ran = place.run(&["inspect", "odd.info"]).ended_with(0);
    assert!(!ran.stdout.contains('\x1b') && !ran.stdout.contains("\nreused"), "{ran:?}");
}

#[test]
fn a_store_that_others_can_write_is_refused_where_it_is_needed() {
    let place = Place::new();
    place.run(&["build", SQUARE]).ended_with(0);
    let target = place.path(&format!("cache/v1/cpu-{}", std::env::consts::ARCH));
    assert!(Command::new("chmod").arg("o+w").arg(&target).status().unwrap().success());
    for mode in ["read-only", "require"] {
        place
            .run(&["build", SQUARE, "--cache-mode", mode])
            .ended_with(2)
            .says("not trusted")
            .says("chmod o-w");
    }
    let ran = place.run(&["build", SQUARE, "--format", "json"]).ended_with(0).says("not trusted");
    assert_eq!(ran.count("compiled"), 1);
}

/// A cache directory inside a user's project gets no marks that would apply to the project.
#[test]
fn a_directory_with_other_files_in_it_is_not_marked() {
    let place = Place::new();
    place.write("project/main.py", "");
    place.run(&["build", SQUARE, "--cache-dir", "project"]).ended_with(0);
    assert!(place.path("project/v1").is_dir() && !place.path("project/.gitignore").exists());
    place.run(&["build", SQUARE, "--cache-dir", "fresh"]).ended_with(0);
    assert!(place.path("fresh/.gitignore").exists() && place.path("fresh/CACHEDIR.TAG").exists());
}

/// An interrupted build must not damage the view.
#[test]
fn an_interrupted_rebuild_keeps_valid_kernels() {
    let place = Place::new();
    place.run(&["build", SQUARE]).ended_with(0);
    let json = place.path("rank_0/kernel_meta/square_12484080525657478220_2.json");
    let slow = place.compiler("cc-slow", "exec sleep 60");
    let build = ["build", SQUARE, "--cache-mode", "force", "--deadline", "3"];
    let other = place.run_with(&build, &[("CC", slow.to_str().unwrap())]).ended_with(1);
    // Another compiler, so another kernel: the old one is removed.
    assert!(other.stdout.contains("deadline") && !json.exists(), "{other:?}");
    place.run(&["build", SQUARE]).ended_with(0);
    // There is no space to compile, but the right kernel exists.
    let nowhere = [("TMPDIR", "/nonexistent")];
    place.run_with(&["build", SQUARE, "--cache-mode", "force"], &nowhere).ended_with(1);
    assert!(json.exists());
}

#[test]
fn the_exact_target_is_a_target() {
    let place = Place::new();
    let target = format!("cpu-{}", std::env::consts::ARCH);
    assert!(place.run(&["build", SQUARE]).ended_with(0).stdout.contains(&target));
    let ran = place.run(&["build", SQUARE, "--target", &target, "--format", "json"]).ended_with(0);
    assert_eq!(ran.count("reused"), 1);
}
