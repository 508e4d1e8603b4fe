//! The files of bundles: what an export replaces, what an import reads, and pipes.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::fs::{self, File, Permissions};
use std::io::Cursor;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use opkeep_bundle::BundleReader;

use crate::bundle::{BUILD, NETWORK, built, export};
use crate::common::{Place, SQUARE, ran};

#[test]
fn an_input_is_not_replaced() {
    let place = Place::new();
    place.run(&BUILD).ended_with(0);
    let line = place.run(&["key", "generate", "builds-1", "--out", "secret"]).ended_with(0).stdout;
    let key = place.entries()[0].file_stem().unwrap().to_str().unwrap().to_owned();
    place.write("trusted", line);
    place.write("keys", key);
    place.write("square.info", fs::read(SQUARE).unwrap());
    fs::hard_link(place.path("square.info"), place.path("other.info")).unwrap();
    for (output, args) in [
        ("secret", &["--sign-key", "secret"][..]),
        ("./keys", &["--keys", "keys"]),
        ("trusted", &["--trusted-keys", "@trusted"]),
        ("other.info", &["--plan", "square.info", "--target", "cpu"]),
    ] {
        let before = fs::read(place.path(output)).unwrap();
        let args = [&["bundle", "export", "--output", output], args].concat();
        place.run(&args).ended_with(2).says("is an input");
        assert!(fs::read(place.path(output)).unwrap() == before, "{output}");
    }
}

/// A file may be an input that no argument names: a list of keys in the environment, a model in a directory, the weights of a network.
#[test]
fn only_a_bundle_or_an_empty_file_is_replaced() {
    let built = built();
    let line = built.run(&["key", "generate", "builds-1", "--out", "secret"]).ended_with(0).stdout;
    built.write("trusted", line);
    fs::hard_link(built.path("trusted"), built.path("same")).unwrap();
    for output in ["trusted", "same"] {
        let before = fs::read(built.path(output)).unwrap();
        let mut command = built.command(&["bundle", "export", "--output", output]);
        let ran = ran(command.env("OPKEEP_TRUSTED_KEYS", "@trusted").stderr(Stdio::piped()));
        ran.ended_with(2).says("is an input");
        assert!(fs::read(built.path(output)).unwrap() == before, "{output}");
    }
    fs::create_dir(built.path("models")).unwrap();
    built.write("models/square.info", fs::read(SQUARE).unwrap());
    built.write("weights", [7; 40]);
    for output in ["models/square.info", "weights"] {
        let before = fs::read(built.path(output)).unwrap();
        let args = ["bundle", "export", "--output", output, "--plan", "models", "--target", "cpu"];
        built.run(&args).ended_with(2).says("is no bundle, so it is not replaced");
        assert!(fs::read(built.path(output)).unwrap() == before, "{output}");
    }
    built.write("all.bundle", "");
    for _ in 0..2 {
        export(&built, &[]).ended_with(0);
    }
    // A later version may write another format.
    let mut bundle = fs::read(built.path("all.bundle")).unwrap();
    bundle[16] ^= 0x40;
    built.write("all.bundle", bundle);
    export(&built, &[]).ended_with(0);
}

/// The file may belong to another user, in a directory of this one. Root reads all files, so it becomes another user.
#[test]
fn a_file_that_cannot_be_read_is_not_replaced() {
    let place = Place::untouched();
    fs::set_permissions(place.dir.path(), Permissions::from_mode(0o777)).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_opkeep"), place.path("opkeep")).unwrap();
    let output = place.write("notes", "of another user");
    let mut command = place.program(&place.path("opkeep"), &["bundle", "export", "--output", "notes"]);
    let metadata = fs::metadata(&output).unwrap();
    let is_root = metadata.uid() == 0;
    fs::set_permissions(&output, Permissions::from_mode(if is_root { 0o600 } else { 0o200 })).unwrap();
    if is_root {
        command.uid(65534).gid(65534);
    }
    ran(&mut command).ended_with(2).says("cannot be read, so it is not replaced");
    assert_eq!(fs::metadata(&output).unwrap().ino(), metadata.ino());
}

/// The standard input may never end, and its copy would fill the disk.
#[test]
fn no_more_is_read_of_an_endless_input_than_shows_that_it_is_no_bundle() {
    for command in ["import", "inspect"] {
        let place = Place::new();
        let mut command = place.command(&["bundle", command, "-"]);
        let ran = ran(command.stdin(File::open("/dev/zero").unwrap()).stderr(Stdio::piped()));
        ran.ended_with(2).says("it is not a bundle");
    }
}

/// The standard input may never end.
#[test]
fn an_interrupt_ends_the_reading_of_standard_input() {
    let built = built();
    export(&built, &[]).ended_with(0);
    let bundle = fs::read(built.path("all.bundle")).unwrap();
    for command in ["import", "inspect"] {
        let place = Place::new();
        let mut child = place.command(&["bundle", command, "-"]);
        let mut child =
            child.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // More than a pipe holds: it is being read.
        let mut input = child.stdin.take().unwrap();
        let begin = [&bundle[..], &vec![0; 4 << 20]].concat();
        std::io::Write::write_all(&mut input, &begin).unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        // A process in the background of a shell ignores the other one.
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        drop(input);
        let status = child.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15), "{status:?}");
    }
}

#[test]
fn bundles_go_through_pipes() {
    let place = built();
    let (bundle, other) = (place.path("piped"), Place::new());
    let mut command = place.command(&["bundle", "export", "--output", "-"]);
    let exported = ran(command.stdout(File::create(&bundle).unwrap()).stderr(Stdio::piped())).ended_with(0);
    assert!(exported.stderr.contains("note: -: "), "{exported:?}");
    export(&place, &[]).ended_with(0);
    assert!(fs::read(&bundle).unwrap() == fs::read(place.path("all.bundle")).unwrap());
    let mut command = other.command(&["bundle", "import", "-", "--format", "json"]);
    let imported = ran(command.stdin(File::open(&bundle).unwrap())).ended_with(0).json();
    assert_eq!(imported["files"][0]["imported"], place.entries().len(), "{imported}");
    let ran = ran(other.command(&["bundle", "inspect", "-"]).stdin(File::open(&bundle).unwrap()));
    ran.ended_with(0);
    place
        .run(&["bundle", "export", "--output", "-", "--format", "json"])
        .ended_with(2)
        .says("cannot share the standard output");
    assert_eq!(
        fs::read_dir(other.path("tmp")).unwrap().filter(|it| it.as_ref().unwrap().path().is_file()).count(),
        0
    );
}

/// What had the name stays if the bundle cannot be written, and nothing else is left.
#[test]
fn a_file_appears_when_it_is_complete() {
    /// The begin of a bundle: no other file is replaced.
    const BEFORE: &[u8] = b"\x5b\x2a\x4d\x18";
    let place = Place::new();
    place.write("all.bundle", BEFORE);
    place.run(&BUILD).ended_with(0);
    let files = || fs::read_dir(place.dir.path()).unwrap().count();
    let before = files();
    for args in
        [&["--sign-key", "missing"][..], &["--keys", "missing"], &["--plan", "missing"], &["--target", "npu"]]
    {
        export(&place, args).ended_with(2);
        assert_eq!(
            (fs::read(place.path("all.bundle")).unwrap().as_slice(), files()),
            (BEFORE, before),
            "{args:?}"
        );
    }
    let limited =
        format!("ulimit -f 4; exec '{}' bundle export --output all.bundle", env!("CARGO_BIN_EXE_opkeep"));
    place.run(&["build", NETWORK, "--target", "cpu", "--no-kernel-meta"]).ended_with(0);
    let full = ran(&mut place.program("/bin/sh".as_ref(), &["-c", &limited]));
    assert!(full.code != Some(0), "{full:?}");
    assert_eq!(
        (fs::read(place.path("all.bundle")).unwrap().as_slice(), files()),
        (BEFORE, before),
        "{full:?}"
    );
    export(&place, &[]).ended_with(0);
    assert!(BundleReader::open(Cursor::new(fs::read(place.path("all.bundle")).unwrap())).is_ok());
    let empty = Place::new();
    export(&empty, &[]).ended_with(2).says("there is no store");
}
