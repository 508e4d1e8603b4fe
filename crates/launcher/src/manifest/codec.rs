//! The bytes of a manifest.
//!
//! ```text
//! "opkeep manifest 1\n"
//! flags                                  1 byte: 1 = real paths
//! number of paths      each: root's name (1 byte of length), number of bytes shared with the last rest (2), the other bytes (2 of length)
//! number of listings   each: the directory in the same form, flags (1 byte: 1 = by Python), number of ignored names, each (2 bytes of length)
//! number of outputs    each: the path in the same form, what is learned of an old one (1 byte: 0 = whether it can be replaced, 1 = and its mode,
//!                      2 = all), the mode of a new one (2; 0 if it is not learned)
//! ```
//!
//! Numbers are little-endian, and have 4 bytes if no other size is given. Lists are sorted and have no repetition: a manifest has one encoding. Manifests
//! may come from another host: what is decoded is never larger than what the bytes pay for, up to the shared parts of paths, which have a limit together.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use opkeep_process::Learned;
use thiserror::Error;

use super::{Listed, Manifest, Old};
use crate::bytes::{Bytes, OutOfBytes, put_u16, put_u32};
use crate::roots::PathName;

const HEAD: &[u8] = b"opkeep manifest 1\n";
const REAL_PATHS: u8 = 1;
const BY_PYTHON: u8 = 1;
/// The largest encoding, and the largest number of bytes of all paths in a decoded one.
const MAX_BYTES: usize = 16 << 20;
const MAX_PATH_BYTES: usize = 64 << 20;
/// The largest numbers of paths and of listings: each costs a look-up system calls.
const MAX_PATHS: usize = 1 << 18;
const MAX_LISTED: usize = 1 << 14;

/// The reason why bytes are no manifest.
#[derive(Debug, Error)]
pub(crate) enum ManifestError {
    #[error("it is of another version")]
    Version,
    #[error("it is larger than a manifest can be")]
    TooLarge,
    #[error("it is not sorted, or has a value that no manifest has")]
    NotCanonical,
    #[error("it ends too early, or too late")]
    Length,
}

impl From<OutOfBytes> for ManifestError {
    fn from(_: OutOfBytes) -> Self {
        Self::Length
    }
}

impl Manifest {
    /// The one encoding of a manifest.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Self { has_real_paths, paths, listed, old } = self;
        let mut bytes = HEAD.to_vec();
        bytes.push(if *has_real_paths { REAL_PATHS } else { 0 });
        put_u32(&mut bytes, paths.len());
        let mut last = Vec::new();
        paths.iter().for_each(|path| put_path(&mut bytes, path, &mut last));
        put_u32(&mut bytes, listed.len());
        let mut last = Vec::new();
        for Listed { dir, by_python, ignored } in listed {
            put_path(&mut bytes, dir, &mut last);
            bytes.push(if *by_python { BY_PYTHON } else { 0 });
            put_u32(&mut bytes, ignored.len());
            for name in ignored {
                put_u16(&mut bytes, name.len());
                bytes.extend_from_slice(name);
            }
        }
        put_u32(&mut bytes, old.len());
        let mut last = Vec::new();
        for Old { path, learned } in old {
            put_path(&mut bytes, path, &mut last);
            let (kind, mode) = match learned {
                Learned::IsReplaceable => (0, 0),
                Learned::Mode(mode) => (1, *mode),
                Learned::State => (2, 0),
            };
            bytes.push(kind);
            put_u16(&mut bytes, mode as usize);
        }
        bytes
    }

    /// Whether a manifest can be encoded: no path is too long, and it is not too large.
    pub(crate) fn is_encodable(&self) -> bool {
        let is_short = |path: &PathName| {
            path.root.len() <= usize::from(u8::MAX) && path.rest.as_os_str().len() <= usize::from(u16::MAX)
        };
        let dirs = self.listed.iter().map(|listed| &listed.dir);
        let old = self.old.iter().map(|old| &old.path);
        let are_few =
            self.paths.len() <= MAX_PATHS && self.listed.len() <= MAX_LISTED && self.old.len() <= MAX_PATHS;
        are_few && self.paths.iter().chain(dirs).chain(old).all(is_short) && self.encode().len() <= MAX_BYTES
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, ManifestError> {
        if bytes.len() > MAX_BYTES {
            return Err(ManifestError::TooLarge);
        }
        let mut bytes = Bytes::new(bytes.strip_prefix(HEAD).ok_or(ManifestError::Version)?);
        let flag = |byte: u8, flag: u8| match byte {
            0 => Ok(false),
            byte if byte == flag => Ok(true),
            _ => Err(ManifestError::NotCanonical),
        };
        let mut budget = MAX_PATH_BYTES;
        let has_real_paths = flag(bytes.u8()?, REAL_PATHS)?;
        let (count, mut paths, mut last) = (bytes.u32()?, Vec::new(), Vec::new());
        if count > MAX_PATHS {
            return Err(ManifestError::TooLarge);
        }
        for _ in 0..count {
            paths.push(path(&mut bytes, &mut last, &mut budget)?);
        }
        let (count, mut listed, mut last) = (bytes.u32()?, Vec::new(), Vec::new());
        if count > MAX_LISTED {
            return Err(ManifestError::TooLarge);
        }
        for _ in 0..count {
            let dir = path(&mut bytes, &mut last, &mut budget)?;
            let by_python = flag(bytes.u8()?, BY_PYTHON)?;
            let (count, mut ignored) = (bytes.u32()?, Vec::new());
            for _ in 0..count {
                let length = bytes.u16()?;
                ignored.push(bytes.take(length)?.to_vec());
            }
            if !ignored.is_sorted_by(|one, other| one < other) {
                return Err(ManifestError::NotCanonical);
            }
            listed.push(Listed { dir, by_python, ignored });
        }
        let (count, mut old, mut last) = (bytes.u32()?, Vec::new(), Vec::new());
        if count > MAX_PATHS {
            return Err(ManifestError::TooLarge);
        }
        for _ in 0..count {
            let path = path(&mut bytes, &mut last, &mut budget)?;
            let learned = match (bytes.u8()?, bytes.u16()? as u32) {
                (0, 0) => Learned::IsReplaceable,
                (1, mode @ 0..=0o7777) => Learned::Mode(mode),
                (2, 0) => Learned::State,
                _ => return Err(ManifestError::NotCanonical),
            };
            old.push(Old { path, learned });
        }
        let is_sorted = paths.is_sorted_by(|one, other| one < other)
            && listed.is_sorted_by(|one, other| one.dir < other.dir)
            && old.is_sorted_by(|one, other| one.path < other.path);
        match (bytes.is_empty(), is_sorted) {
            (true, true) => Ok(Self { has_real_paths, paths, listed, old }),
            (false, _) => Err(ManifestError::Length),
            (_, false) => Err(ManifestError::NotCanonical),
        }
    }
}

/// Adds a path: the bytes that its rest shares with `last` are counted only.
fn put_path(bytes: &mut Vec<u8>, path: &PathName, last: &mut Vec<u8>) {
    let rest = path.rest.as_os_str().as_bytes();
    let shared = rest.iter().zip(&*last).take_while(|(one, other)| one == other).count();
    bytes.push(path.root.len() as u8);
    bytes.extend_from_slice(path.root.as_bytes());
    put_u16(bytes, shared);
    put_u16(bytes, rest.len() - shared);
    bytes.extend_from_slice(&rest[shared..]);
    *last = rest.to_vec();
}

fn path(bytes: &mut Bytes<'_>, last: &mut Vec<u8>, budget: &mut usize) -> Result<PathName, ManifestError> {
    let length = usize::from(bytes.u8()?);
    let root = std::str::from_utf8(bytes.take(length)?).map_err(|_| ManifestError::NotCanonical)?.to_owned();
    let shared = bytes.u16()?;
    let length = bytes.u16()?;
    let more = bytes.take(length)?;
    if shared > last.len() || last.get(shared).is_some_and(|next| more.first() == Some(next)) {
        return Err(ManifestError::NotCanonical);
    }
    last.truncate(shared);
    last.extend_from_slice(more);
    *budget = budget.checked_sub(last.len()).ok_or(ManifestError::TooLarge)?;
    // A path that is not the sum of its parts would have two encodings.
    let rest = PathBuf::from(OsString::from_vec(last.clone()));
    let is_plain =
        rest.components().collect::<PathBuf>().as_os_str() == rest.as_os_str() && !last.contains(&0);
    match is_plain && (root.is_empty() == rest.has_root()) {
        true => Ok(PathName { root, rest }),
        false => Err(ManifestError::NotCanonical),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(root: &str, rest: &[u8]) -> PathName {
        PathName { root: root.to_owned(), rest: PathBuf::from(OsString::from_vec(rest.to_vec())) }
    }

    fn manifest() -> Manifest {
        let mut paths = vec![
            name("", b"/usr/bin/cc"),
            name("", b"/usr/bin/cc1"),
            name("build", b""),
            name("build", b"a/../b"),
            name("build", b"not UTF-8 \xff\xfe"),
        ];
        paths.sort();
        let listed = vec![
            Listed { dir: name("", b"/usr/lib/python3"), by_python: true, ignored: Vec::new() },
            Listed {
                dir: name("build", b"out"),
                by_python: false,
                ignored: vec![b"a.o".to_vec(), b"b\xff".to_vec()],
            },
        ];
        let old = [
            ("build", "out/a.o", Learned::IsReplaceable),
            ("build", "out/b.o", Learned::Mode(0o644)),
            ("build", "out/c", Learned::State),
        ];
        let old = old.map(|(root, rest, learned)| Old { path: name(root, rest.as_bytes()), learned }).into();
        Manifest { has_real_paths: true, paths, listed, old }
    }

    #[test]
    fn manifests_survive() {
        for manifest in [manifest(), Manifest::default()] {
            let bytes = manifest.encode();
            assert!(manifest.is_encodable());
            assert_eq!(Manifest::decode(&bytes).unwrap(), manifest);
        }
    }

    /// The encoding is a part of keys.
    #[test]
    fn the_encoding_stays_what_it_is() {
        assert_eq!(manifest().digest().to_string(), GOLDEN);
    }

    const GOLDEN: &str = "a7281609a4c67bb78c5f4e01712af2b3ed459b53934a4881a070f564736a3160";

    #[test]
    fn damaged_manifests_are_refused_or_have_their_own_encoding() {
        let bytes = manifest().encode();
        for length in 0..bytes.len() {
            assert!(Manifest::decode(&bytes[..length]).is_err(), "{length}");
        }
        assert!(Manifest::decode(&[&bytes[..], &[0]].concat()).is_err());
        for at in 0..bytes.len() {
            for value in [0, 1, 2, 0x2f, 0x7f, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                if let Ok(decoded) = Manifest::decode(&damaged) {
                    assert_eq!(decoded.encode(), damaged, "byte {at} is {value}");
                }
            }
        }
    }

    /// A few bytes that each stand for a long path.
    #[test]
    fn shared_parts_are_limited() {
        let mut bytes = HEAD.to_vec();
        bytes.push(0);
        put_u32(&mut bytes, 100_000);
        bytes.push(0);
        put_u16(&mut bytes, 0);
        put_u16(&mut bytes, 60_000);
        bytes.push(b'/');
        bytes.extend(std::iter::repeat_n(b'a', 59_999));
        for _ in 1..100_000 {
            bytes.push(0);
            put_u16(&mut bytes, 60_000);
            put_u16(&mut bytes, 1);
            bytes.push(b'b');
        }
        assert!(Manifest::decode(&bytes).is_err());
    }
}
