//! The work directory, `$TMPDIR/opkeep-<uid>`: one that others can write to is not used, and that is reported.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::PathBuf;

use crate::common::{Place, SQUARE};
use rustix::process::geteuid;

fn own(place: &Place) -> PathBuf {
    place.path(&format!("tmp/opkeep-{}", geteuid().as_raw()))
}

/// Builds, and returns the only warning, which is the same as text and as JSON.
#[track_caller]
fn warned(place: &Place, args: &[&str]) -> String {
    let args = [&["build", SQUARE, "--no-kernel-meta", "--cache-mode", "disable"], args].concat();
    let text = place.run(&args).ended_with(0);
    let json = place.run(&[&args[..], &["--format", "json"]].concat()).ended_with(0);
    let warnings = json.json()["warnings"].clone();
    assert_eq!(warnings.as_array().unwrap().len(), 1, "{json:?}");
    let warning = warnings[0].as_str().unwrap();
    for ran in [&text, &json] {
        assert_eq!(ran.stderr.matches(&format!("warning: {warning}\n")).count(), 1, "{ran:?}");
        assert_eq!(ran.stderr.matches("warning:").count(), 1, "{ran:?}");
        assert_eq!(ran.stderr.matches("help: TMPDIR chooses").count(), 1, "{ran:?}");
    }
    warning.to_owned()
}

#[test]
fn a_work_directory_that_others_can_write_to_is_named_with_owner_and_mode() {
    let place = Place::untouched();
    let own = own(&place);
    fs::create_dir(&own).unwrap();
    let user = geteuid().as_raw();
    for mode in [0o777, 0o1777, 0o770, 0o702] {
        fs::set_permissions(&own, Permissions::from_mode(mode)).unwrap();
        let warning = warned(&place, &[]);
        let says = [
            own.display().to_string(),
            format!("user {user}"),
            format!("mode {mode:04o}"),
            "another work directory".to_owned(),
        ];
        says.iter().for_each(|says| assert!(warning.contains(says), "{warning}"));
        assert!(
            ["digests", "compile times", "compilers of other builds"]
                .iter()
                .all(|lost| warning.contains(lost)),
            "{warning}"
        );
        assert_eq!(fs::read_dir(&own).unwrap().count(), 0, "something was put into it");
    }
    fs::set_permissions(&own, Permissions::from_mode(0o700)).unwrap();
    let ran = place.run(&["build", SQUARE]).ended_with(0);
    assert!(!ran.stderr.contains("warning"), "{ran:?}");
    if geteuid().is_root() {
        chown(&own, Some(65534), None).unwrap();
        let warning = warned(&place, &[]);
        assert!(warning.contains("belongs to user 65534") && warning.contains("mode 0700"), "{warning}");
    }
}

#[test]
fn a_file_in_place_of_the_work_directory_is_named() {
    let place = Place::untouched();
    let own = own(&place);
    let elsewhere = place.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, &own).unwrap();
    assert!(warned(&place, &[]).contains("opkeep-"));
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0, "a link was followed");
    fs::remove_file(&own).unwrap();
    fs::write(&own, "a file").unwrap();
    assert!(warned(&place, &[]).contains("Not a directory"));
}

/// If only a part of it cannot be used, that part is reported.
#[test]
fn the_directory_of_job_tokens_is_named() {
    let place = Place::untouched();
    let slots = own(&place).join("slots");
    fs::create_dir_all(&slots).unwrap();
    fs::set_permissions(own(&place), Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(&slots, Permissions::from_mode(0o777)).unwrap();
    let warning = warned(&place, &[]);
    assert!(warning.contains(&slots.display().to_string()) && warning.contains("mode 0777"), "{warning}");
    assert!(warning.contains("compilers of other builds") && !warning.contains("digests"), "{warning}");
}
