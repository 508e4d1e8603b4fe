//! Damaged and incomplete files: each is an error that names the problem.

use std::collections::BTreeMap;
use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};

use opkeep_bundle::{BundleError, BundleReader, BundleWriter};
use opkeep_digest::Digest;
use opkeep_trust::SigningKey;

use crate::{bundle, read, sample};

fn signed() -> Vec<u8> {
    let key: SigningKey = SigningKey::generate("builds-1".parse().unwrap()).unwrap();
    bundle(&sample(), Some(Digest::of(b"plan")), Some(opkeep_bundle::Signer::new(key, "default")))
}

#[test]
fn each_changed_byte_is_an_error() {
    for file in [signed(), bundle(&sample(), None, None)] {
        let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
        for at in 0..file.len() {
            for change in [1, 0x80, 0xff] {
                let mut bad = file.clone();
                bad[at] ^= change;
                let error = read(&bad).expect_err(&format!("byte {at} ^ {change:#x}"));
                let kind = format!("{error:?}");
                *kinds.entry(kind.split([' ', '(', '{']).next().unwrap().to_owned()).or_default() += 1;
            }
        }
        for kind in ["NotABundle", "Format", "Incomplete", "Digest", "Begin"] {
            assert!(kinds.contains_key(kind), "{kinds:?}");
        }
    }
}

#[test]
fn each_cut_is_an_error() {
    let file = signed();
    for end in 0..file.len() {
        let error = read(&file[..end]).expect_err(&format!("{end} bytes"));
        let expected = match end {
            0 => "NotABundle",
            _ => "Incomplete",
        };
        assert!(format!("{error:?}").starts_with(expected), "{end} bytes: {error:?}");
    }
}

#[test]
fn additional_bytes_are_an_error() {
    let file = signed();
    for (before, after) in
        [(&b"x"[..], &b""[..]), (b"", b"x"), (b"", &file), (&file[..20], b""), (&file, b"")]
    {
        assert!(read(&[before, &file, after].concat()).is_err(), "{} {}", before.len(), after.len());
    }
}

#[test]
fn messages_say_what_to_do() {
    let file = signed();
    let text = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
    assert!(text(&file[..file.len() - 1]).contains("copy it again"));
    assert!(text(b"PK\x03\x04 a zip file").contains("it is not a bundle"));
    let mut newer = file.clone();
    newer[16] = 2;
    assert!(text(&newer).contains("the bundle has format 2, expected 1"), "{}", text(&newer));
}

/// An input that fails at a read.
struct Failing<'a>(Cursor<&'a [u8]>, usize);

impl Failing<'_> {
    fn step(&mut self) -> io::Result<()> {
        self.1 = self.1.checked_sub(1).ok_or_else(|| io::Error::other("the disk failed"))?;
        Ok(())
    }
}

impl Read for Failing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.step()?;
        self.0.read(buffer)
    }
}

impl Seek for Failing<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.step()?;
        self.0.seek(to)
    }
}

#[test]
fn each_failed_read_is_an_error_of_the_disk() {
    let file = signed();
    for steps in 0..100 {
        let mut reader = match BundleReader::open(Failing(Cursor::new(&file), steps)) {
            Ok(reader) => reader,
            Err(error) => {
                assert!(error.is_io(), "{error:?}");
                continue;
            }
        };
        match reader.read_block(0) {
            Err(error) => assert!(error.is_io(), "{error:?}"),
            Ok(_) => {
                assert!(steps > 5);
                return;
            }
        }
    }
    unreachable!("the file is read in less than 100 steps");
}

/// An output that is full after some bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let fits = bytes.len().min(self.0);
        self.0 -= fits;
        if fits == 0 && !bytes.is_empty() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(fits) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error_wherever_it_is_full() {
    let (entries, whole) = (sample(), bundle(&sample(), None, None).len());
    for space in 0..=whole {
        let written = BundleWriter::new(Full(space), None, None).and_then(|mut writer| {
            entries.iter().try_for_each(|(target, entry)| writer.add(target, entry))?;
            writer.finish()
        });
        match written {
            Ok(_) => assert_eq!(space, whole),
            Err(BundleError::Io { action, .. }) => assert!(space < whole && action == "write", "{space}"),
            Err(error) => unreachable!("{space}: {error}"),
        }
    }
}
