//! Every kind of damage to the bytes of one entry.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use opkeep_digest::Digest;
use opkeep_store::TargetStore;

use super::{Created, key};

/// A change of an entry, its name, and a part of the expected message.
pub(crate) type Harm = (&'static str, fn(&TargetStore, &Path), &'static str);

/// Each of these damages an entry.
pub(crate) const HARMS: [Harm; 13] = [
    ("an eager member", |_, path| flip(path, 500), "member `json` is damaged"),
    ("a lazy member", |_, path| flip_last(path), "its checksum is wrong"),
    ("a lazy member's digest", |_, path| forge_digest(path, "info"), "member `info` is damaged"),
    ("the last lazy member's digest", |_, path| forge_digest(path, "x/log"), "member `x/log` is damaged"),
    ("the magic", |_, path| flip(path, 0), "not a store entry"),
    ("the format", |_, path| flip(path, 8), "entry format"),
    ("the key", |_, path| flip(path, 20), "the prefix is damaged"),
    ("the table", |_, path| flip(path, 100), "the prefix is damaged"),
    ("cut short", |_, path| set_length(path, 700), "bytes, found 700"),
    ("empty", |_, path| set_length(path, 0), "the file is empty"),
    ("longer", |_, path| set_length(path, fs::metadata(path).unwrap().len() + 1), "file: expected"),
    ("huge", |_, path| set_length(path, 1 << 40), "more than the"),
    ("another's", another, "the entry belongs to key"),
];

/// Changes a byte.
pub(crate) fn flip(path: &Path, at: u64) {
    let file = fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x40], at).unwrap();
}

fn flip_last(path: &Path) {
    flip(path, fs::metadata(path).unwrap().len() - 1);
}

fn set_length(path: &Path, bytes: u64) {
    fs::File::options().write(true).open(path).unwrap().set_len(bytes).unwrap();
}

/// A valid entry of another key.
fn another(store: &TargetStore, path: &Path) {
    let other = key("another, which is nowhere else");
    store.put(&other, &Created::new("another", 0).entry()).unwrap();
    fs::rename(store.path(&other), path).unwrap();
}

/// Another digest for a member, in a prefix that is right: only the digest of the member shows it.
fn forge_digest(path: &Path, member: &str) {
    let mut bytes = fs::read(path).unwrap();
    let prefix = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let mut at = 88;
    loop {
        let name = usize::from(bytes[at + 1]);
        if &bytes[at + 42..at + 42 + name] == member.as_bytes() {
            break;
        }
        at += 42 + name;
    }
    bytes[at + 10] ^= 1;
    let digest = Digest::of(&bytes[..prefix - Digest::LEN]);
    bytes[prefix - Digest::LEN..prefix].copy_from_slice(digest.as_bytes());
    fs::write(path, bytes).unwrap();
}
