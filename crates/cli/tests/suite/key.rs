//! `opkeep key`: key pairs as files, and what is never printed.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use opkeep_fs::Fs;
use opkeep_trust::{SigningKey, TrustedKeys};

use crate::common::{Place, Ran};

/// Checks that no 8 characters of the seed in the secret key are in any output.
#[track_caller]
fn has_no_secret(ran: &Ran, secret: &str) {
    let seed = &secret.split_once(':').unwrap().1[..43];
    for at in 0..seed.len() - 8 {
        let part = &seed[at..at + 8];
        assert!(!ran.stdout.contains(part) && !ran.stderr.contains(part), "{ran:?}");
    }
}

fn generate(place: &Place, name: &str, file: &str) -> (Ran, String) {
    let ran = place.run(&["key", "generate", name, "--out", file]).ended_with(0);
    let secret = fs::read_to_string(place.path(file)).unwrap();
    has_no_secret(&ran, &secret);
    (ran, secret)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_key_pair_is_made_and_shown() {
    let place = Place::untouched();
    let (made, secret) = generate(&place, "builds-1", "secret");
    assert_eq!(mode(&place.path("secret")), 0o600);
    let key: SigningKey = secret.trim_end().parse().unwrap();
    let expected = format!("{}  # signer {}\n", key.public_key(), key.public_key().signer());
    assert_eq!(made.stdout, expected);
    let made = made.says("note: `secret` has the secret key").says("lists of trusted keys");
    assert_eq!(made.stderr.lines().count(), 1, "{made:?}");

    // What is printed is a list of trusted keys; several files make a longer one.
    let (two, _) = generate(&place, "builds-1", "secret-2");
    let list = place.write("trusted-keys", format!("# team\n{}{}", made.stdout, two.stdout));
    assert_eq!(TrustedKeys::read(&Fs::new(), &list).unwrap().len(), 2);
    let shown = place.run(&["key", "show", "secret"]).ended_with(0);
    assert_eq!((shown.stdout.as_str(), shown.stderr.as_str()), (expected.as_str(), ""));
    has_no_secret(&shown, &secret);
    let shown = place.run(&["key", "show", "trusted-keys"]).ended_with(0);
    assert_eq!(shown.stdout, format!("{}{}", made.stdout, two.stdout));
}

#[test]
fn json_has_the_same() {
    let place = Place::untouched();
    let made = place.run(&["key", "generate", "builds-1", "--out", "secret", "--format", "json"]);
    let made = made.ended_with(0).json();
    let secret = fs::read_to_string(place.path("secret")).unwrap();
    let key: SigningKey = secret.trim_end().parse().unwrap();
    let public = key.public_key().to_string();
    let signer = key.public_key().signer().to_string();
    assert_eq!((&made["file"], &made["name"]), (&"secret".into(), &"builds-1".into()));
    assert_eq!((&made["public_key"], &made["signer"]), (&public.as_str().into(), &signer.as_str().into()));
    place.write("list", &public);
    for (file, kind) in [("secret", "secret"), ("list", "public")] {
        let shown = place.run(&["key", "show", file, "--format", "json"]).ended_with(0);
        has_no_secret(&shown, &secret);
        let shown = shown.json();
        assert_eq!((&shown["file"], &shown["kind"]), (&file.into(), &kind.into()));
        let keys = serde_json::json!([{ "name": "builds-1", "public_key": public, "signer": signer }]);
        assert_eq!(shown["keys"], keys);
    }
}

#[test]
fn no_file_is_replaced() {
    let place = Place::untouched();
    let (_, secret) = generate(&place, "one", "secret");
    symlink("nothing", place.path("link")).unwrap();
    for file in ["secret", "link", "tmp"] {
        let ran = place.run(&["key", "generate", "two", "--out", file]).ended_with(2);
        let ran = ran.says(&format!("`{file}` exists and is kept\nhelp: choose another file"));
        assert_eq!(ran.stdout, "");
        has_no_secret(&ran, &secret);
    }
    assert_eq!(fs::read_to_string(place.path("secret")).unwrap(), secret);
    assert!(!place.path("nothing").exists());
    place
        .run(&["key", "generate", "two", "--out", "no/secret"])
        .ended_with(2)
        .says("cannot write `no/secret`");
    for name in ["", "a b", "a:b", "a/b"] {
        let ran = place.run(&["key", "generate", name, "--out", "other"]).ended_with(2);
        ran.says("is no name of a key");
    }
    place.run(&["key", "generate", "two"]).ended_with(2).says("--out");
    assert!(!place.path("other").exists());
}

/// Whatever the user's default for new files.
#[test]
fn a_new_secret_key_is_private() {
    let place = Place::untouched();
    let script = format!("umask 0; exec '{}' key generate one --out secret", env!("CARGO_BIN_EXE_opkeep"));
    let ran = crate::common::ran(&mut place.program("/bin/sh".as_ref(), &["-c", &script])).ended_with(0);
    assert_eq!(mode(&place.path("secret")), 0o600, "{ran:?}");
}

#[test]
fn a_secret_key_that_others_can_read_is_not_used() {
    let place = Place::untouched();
    let (_, secret) = generate(&place, "one", "secret");
    let path = place.path("secret");
    for mode in [0o644, 0o604, 0o660, 0o602] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let ran = place.run(&["key", "show", "secret"]).ended_with(2);
        let ran = ran.says(&format!("has mode {mode:04o}")).says("help: `chmod 600 secret`");
        assert_eq!(ran.stdout, "");
        has_no_secret(&ran, &secret);
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    symlink("secret", place.path("link")).unwrap();
    // A secret that is mounted into a container is a link.
    has_no_secret(&place.run(&["key", "show", "link"]).ended_with(0), &secret);
}

/// Damaged files, files of other kinds, and keys in the wrong place: a reason, and no part of a secret.
#[test]
fn no_secret_is_ever_printed() {
    let place = Place::untouched();
    let (made, secret) = generate(&place, "one", "secret");
    let line = secret.trim_end();
    let public = &made.stdout;
    let halves = {
        let (_, other) = generate(&place, "one", "other");
        format!("{}{}", &line[..50], &other[50..])
    };
    for (content, problem) in [
        (String::new(), "there is no key in `file`"),
        ("# nothing\n".to_owned(), "there is no key in `file`"),
        (format!("{line}{line}"), "line 1: expected the base64 of 32 bytes"),
        (line[..line.len() - 1].to_owned(), "line 1: expected the base64 of 32 bytes"),
        (line.replace(':', " "), "line 1: expected NAME:BASE64"),
        (line.replace("one:", "o ne:"), "line 1: expected NAME:BASE64"),
        (line.replace("one:", "o/ne:"), "line 1: what stands before the `:`"),
        (format!("{public}{line}\n"), "line 2: expected a public key of 32 bytes, found 64 bytes"),
        (format!("{line}\n{line}\n"), "line 1: expected a public key of 32 bytes, found 64 bytes"),
        (halves, "its public half is not the one of its secret half"),
        (format!("\u{1b}[31m{line}"), "line 1: what stands before the `:`"),
    ] {
        let path = place.write("file", &content);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        for format in ["text", "json"] {
            let ran = place.run(&["key", "show", "file", "--format", format]).ended_with(2).says(problem);
            has_no_secret(&ran, &secret);
        }
    }
    place.write("file", b"\xff\xfe");
    place.run(&["key", "show", "file"]).ended_with(2).says("byte 0 is not UTF-8");
    place.run(&["key", "show", "tmp"]).ended_with(2).says("cannot read `tmp`");
    place.run(&["key", "show", "missing"]).ended_with(2).says("cannot read `missing`");
    // The key in place of its file.
    has_no_secret(&place.run(&["key", "show", line]).ended_with(2).says("text of a secret key"), &secret);
    let ran = place.run(&["key", "show", "secret", "--format", "json"]).ended_with(0);
    has_no_secret(&ran, &secret);
}

#[test]
fn the_help_has_the_next_step() {
    let place = Place::untouched();
    for (args, text) in [
        (&["help", "key"][..], "Remove the key from the lists."),
        (&["key", "generate", "--help"], "Next: copy FILE to the hosts that sign"),
        (&["key", "show", "--help"], "Next: `opkeep key show FILE >> trusted-keys`"),
    ] {
        let ran = place.run(args).ended_with(0);
        assert!(ran.stdout.contains(text), "{ran:?}");
        assert!(ran.stdout.lines().all(|line| line.chars().count() <= 100), "{ran:?}");
    }
    place.run(&["key"]).ended_with(2).says("generate");
}
