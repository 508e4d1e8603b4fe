//! Key files of other users, which only an administrator can make. Shown as ignored for others.

#![expect(clippy::disallowed_methods, reason = "tests make files as other programs do")]
#![expect(clippy::unwrap_used, reason = "these tests are functions without `#[test]`")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use libtest_mimic::{Arguments, Trial};
use opkeep_fs::Fs;
use opkeep_trust::{SigningKey, TrustError, TrustedKeys, read_public_keys};

const OTHER: u32 = 12_345;

fn give(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    chown(path, Some(OTHER), None).unwrap();
}

/// Another user may have put it there, and knows it.
fn a_secret_key_of_another_user() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key");
    let key = SigningKey::generate("one".parse().unwrap()).unwrap();
    key.write_new(&Fs::new(), &path).unwrap();
    give(&path, 0o600);
    let error = SigningKey::read(&Fs::new(), &path).unwrap_err();
    assert!(matches!(error, TrustError::NotPrivate { owner: OTHER, mode: 0o600, .. }), "{error}");
}

fn a_list_of_another_user() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("keys");
    let key = SigningKey::generate("one".parse().unwrap()).unwrap();
    fs::write(&path, key.public_key().to_string()).unwrap();
    give(&path, 0o644);
    let error = TrustedKeys::read(&Fs::new(), &path).unwrap_err();
    assert!(matches!(error, TrustError::Writable { owner: OTHER, mode: 0o644, .. }), "{error}");
    assert_eq!(read_public_keys(&Fs::new(), &path).unwrap(), [key.public_key().clone()]);
}

fn main() {
    let tests: [(&str, fn()); 2] = [
        ("a_secret_key_of_another_user_is_refused", a_secret_key_of_another_user),
        ("a_list_of_another_user_is_refused", a_list_of_another_user),
    ];
    let is_root = rustix::process::geteuid().is_root();
    let trials = tests.into_iter().map(|(name, body)| {
        let trial = Trial::test(name, move || {
            body();
            Ok(())
        });
        trial.with_ignored_flag(!is_root)
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit();
}
