//! Files with keys: what is refused, what is kept, and what is read.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use opkeep_fs::Fs;
use opkeep_trust::{KeyTextError, SigningKey, TrustError, TrustedKeys, read_public_keys};
use tempfile::TempDir;

use crate::{PUBLIC, SECRET, key};

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>, mode: u32) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        set_mode(&path, mode);
        path
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn read(path: &Path) -> Result<SigningKey, TrustError> {
    SigningKey::read(&Fs::new(), path)
}

fn trusted(path: &Path) -> Result<TrustedKeys, TrustError> {
    TrustedKeys::read(&Fs::new(), path)
}

#[test]
fn a_key_comes_back_from_its_file() {
    let place = Place::new();
    let (key, path) = (key("one"), place.path("key"));
    key.write_new(&Fs::new(), &path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", key.to_secret_text().as_str()));
    assert_eq!(read(&path).unwrap().to_secret_text(), key.to_secret_text());
    // As Nix writes it, and with white space around it.
    for text in [SECRET.to_owned(), format!("\n  {SECRET}\r\n\n")] {
        let path = place.write("other", text, 0o400);
        assert_eq!(read(&path).unwrap().public_key().to_string(), PUBLIC);
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_new_key_replaces_no_file_and_no_link() {
    let place = Place::new();
    let file = place.write("file", "notes", 0o600);
    let link = place.path("link");
    symlink(place.path("nothing"), &link).unwrap();
    fs::create_dir(place.path("dir")).unwrap();
    for path in [file.clone(), link, place.path("dir")] {
        let error = key("one").write_new(&Fs::new(), &path).unwrap_err();
        assert!(matches!(&error, TrustError::Exists { path: at } if *at == path), "{error:?}");
    }
    assert_eq!(fs::read_to_string(file).unwrap(), "notes");
    assert!(!place.path("nothing").exists());
    let error = key("one").write_new(&Fs::new(), &place.path("no/key")).unwrap_err();
    assert!(matches!(error, TrustError::Io { action: "write", .. }), "{error:?}");
}

#[test]
fn a_secret_key_that_others_can_access_is_refused() {
    let place = Place::new();
    let path = place.write("key", SECRET, 0o600);
    let is_root = rustix::process::geteuid().is_root();
    for others in 1..0o100 {
        set_mode(&path, 0o600 | others);
        let found = read(&path);
        // The group of a file of root is root's choice.
        if is_root && others == 0o040 {
            assert!(found.is_ok());
            continue;
        }
        let error = found.unwrap_err();
        assert!(
            matches!(error, TrustError::NotPrivate { mode, .. } if mode == 0o600 | others),
            "{others:o}: {error}"
        );
    }
    for mode in [0o600, 0o400, 0o700] {
        set_mode(&path, mode);
        assert!(read(&path).is_ok(), "{mode:o}");
    }
}

/// A secret that is mounted into a container is a link to a link: its directory is replaced as a whole.
#[test]
fn a_link_leads_to_a_key_whose_own_access_counts() {
    let place = Place::new();
    fs::create_dir(place.path("..2026_11_27")).unwrap();
    let file = place.write("..2026_11_27/signing", SECRET, 0o400);
    symlink("..2026_11_27", place.path("..data")).unwrap();
    let link = place.path("signing");
    symlink("..data/signing", &link).unwrap();
    assert_eq!(read(&link).unwrap().public_key().to_string(), PUBLIC);
    set_mode(&file, 0o644);
    let error = read(&link).unwrap_err();
    assert!(matches!(&error, TrustError::NotPrivate { mode: 0o644, .. }), "{error}");
    let broken = place.path("broken");
    symlink("nothing", &broken).unwrap();
    assert!(matches!(read(&broken).unwrap_err(), TrustError::Io { .. }));
}

#[test]
fn what_is_no_secret_key_is_refused_with_its_line() {
    let place = Place::new();
    let mut count = 0;
    let mut refused = |bytes: &[u8]| {
        count += 1;
        read(&place.write(&format!("file-{count}"), bytes, 0o600)).unwrap_err()
    };
    let key_error = |error: TrustError| match error {
        TrustError::Key { path: Some(_), line, problem } => (line, problem),
        other => unreachable!("{other:?}"),
    };
    assert_eq!(key_error(refused(PUBLIC.as_bytes())), (1, KeyTextError::PublicKey));
    assert_eq!(key_error(refused(b"")), (1, KeyTextError::NoColon));
    assert_eq!(key_error(refused(b"\n\nnotes")), (3, KeyTextError::NoColon));
    // Of two keys, neither is taken.
    let two = format!("{SECRET}\n{SECRET}\n");
    assert!(matches!(key_error(refused(two.as_bytes())).1, KeyTextError::Base64 { expected: 64, .. }));
    assert!(matches!(refused(b"test-1:\xff"), TrustError::NoText { at: 7, .. }));
    assert!(matches!(refused(&[b' '; 5000]), TrustError::Io { action: "read", .. }));
    assert!(matches!(read(&place.path("missing")).unwrap_err(), TrustError::Io { .. }));
    assert!(matches!(read(place.0.path()).unwrap_err(), TrustError::Io { .. }));
    let pipe = place.path("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    assert!(matches!(read(&pipe).unwrap_err(), TrustError::Io { .. }));
    assert!(matches!(trusted(&pipe).unwrap_err(), TrustError::Io { .. }));
}

/// A list of public keys is for everyone to read: that its mode is to be changed would be the wrong advice.
#[test]
fn a_public_key_in_place_of_a_secret_one_is_named() {
    let place = Place::new();
    for mode in [0o600, 0o644, 0o666] {
        for (text, expected) in
            [(PUBLIC.to_owned(), 1), (format!("# our hosts\n\n{PUBLIC} # the first\n{PUBLIC}\n"), 3)]
        {
            match read(&place.write("keys", &text, mode)).unwrap_err() {
                TrustError::Key { line, problem: KeyTextError::PublicKey, .. } => assert_eq!(line, expected),
                other => panic!("{mode:o}: {other}"),
            }
        }
        // The mode of a file that has a secret as well counts.
        for text in [format!("{PUBLIC}\n{SECRET}\n"), SECRET.to_owned(), "# nothing\n".to_owned()] {
            let error = read(&place.write("keys", &text, mode)).err();
            let is_refused = matches!(&error, Some(TrustError::NotPrivate { .. }));
            assert_eq!(is_refused, mode != 0o600, "{mode:o}: {error:?}");
        }
    }
}

/// Every cut, and every bit that is changed behind the name, which is not secret and not checked.
#[test]
fn a_damaged_secret_key_is_refused() {
    let place = Place::new();
    for end in 0..SECRET.len() {
        assert!(read(&place.write("cut", &SECRET[..end], 0o600)).is_err(), "{end}");
    }
    let begin = SECRET.find(':').unwrap();
    for (at, bit) in (begin..SECRET.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
        let mut bytes = SECRET.as_bytes().to_vec();
        bytes[at] ^= 1 << bit;
        assert!(read(&place.write("changed", bytes, 0o600)).is_err(), "byte {at}, bit {bit}");
    }
}

#[test]
fn a_list_that_others_can_change_is_refused() {
    let place = Place::new();
    let path = place.write("keys", PUBLIC, 0o644);
    let link = place.path("link");
    symlink(&path, &link).unwrap();
    for mode in [0o644, 0o444, 0o600, 0o755] {
        set_mode(&path, mode);
        assert_eq!(trusted(&path).unwrap().len(), 1, "{mode:o}");
        assert_eq!(trusted(&link).unwrap().len(), 1, "{mode:o}");
    }
    for mode in [0o664, 0o646, 0o666, 0o620, 0o602] {
        set_mode(&path, mode);
        for path in [&path, &link] {
            let error = trusted(path).unwrap_err();
            assert!(matches!(error, TrustError::Writable { mode: found, .. } if found == mode), "{error}");
        }
        // To show a key is not to trust it.
        assert_eq!(read_public_keys(&Fs::new(), &path).unwrap().len(), 1);
    }
}

#[test]
fn a_list_with_something_else_is_refused_as_a_whole() {
    let place = Place::new();
    let list = format!("# team\n{PUBLIC}\n\n{SECRET}\n");
    let error = trusted(&place.write("keys", list, 0o600)).unwrap_err();
    assert!(error.is_secret_key(), "{error}");
    assert!(error.to_string().contains("line 4"), "{error}");
    let error = trusted(&place.write("text", b"\x80", 0o600)).unwrap_err();
    assert!(matches!(error, TrustError::NoText { at: 0, .. }), "{error}");
    let error = trusted(&place.write("large", vec![b'\n'; (1 << 20) + 1], 0o600)).unwrap_err();
    assert!(matches!(error, TrustError::Io { .. }), "{error}");
    assert!(matches!(trusted(&place.path("missing")).unwrap_err(), TrustError::Io { .. }));
    assert!(trusted(&place.write("empty", "# none yet\n", 0o600)).unwrap().is_empty());
}

/// Processes that start at once make one key.
#[test]
fn the_key_of_a_host_is_made_once() {
    let place = Place::new();
    let path = place.path("below/here/host-key");
    assert!(SigningKey::open_for_host(&Fs::new(), &path, false).unwrap().is_none());
    assert!(!place.path("below").exists());
    let open = || SigningKey::open_for_host(&Fs::new(), &path, true).unwrap().unwrap();
    let keys: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap().public_key().to_string()).collect()
    });
    let key = SigningKey::open_for_host(&Fs::new(), &path, false).unwrap().unwrap();
    assert!(keys.iter().all(|other| *other == key.public_key().to_string()), "{keys:?}");
    // Its name is of its own bytes, and other users have no access to its file or directory.
    assert_eq!(key.public_key().name().as_str(), format!("host-{}", key.public_key().signer()));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&path), mode(&place.path("below"))), (0o600, 0o700));
    assert_eq!(fs::read_dir(place.path("below/here")).unwrap().count(), 1);
    // A file that cannot be used is kept.
    set_mode(&path, 0o644);
    let error = SigningKey::open_for_host(&Fs::new(), &path, true).unwrap_err();
    assert!(matches!(error, TrustError::NotPrivate { .. }), "{error}");
    let damaged = place.write("damaged", "host-key", 0o600);
    assert!(SigningKey::open_for_host(&Fs::new(), &damaged, true).is_err());
    assert_eq!(fs::read_to_string(damaged).unwrap(), "host-key");
}
