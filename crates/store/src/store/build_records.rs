//! Records of builds: small texts of the caller's, bounded in number and bytes. They are history, not cache: a build never needs
//! one, and the next one removes the oldest.
//!
//! ```text
//! <root>/v1/.builds/          created with the first record
//!   <time>-<process>-<number>-<bytes>.full
//!   <time>-<process>-<number>-<bytes>.brief
//! ```
//!
//! The time is in Unix milliseconds, 15 digits, and `<bytes>` is the size of the file, so that one listing of the directory shows what
//! exceeds the bounds. A file is a line with the checksum of the rest, and the caller's text. It is published by one rename, and not
//! synced: a power cut may cost the last records. The directory's name cannot be a target's.
//!
//! Ranks that start together begin thousands of builds in a second, of which the bounds leave few. So only the first of them add
//! records, and those that fail; the others list the directory once.
//!
//! A directory with the name of a record is another program's, and stays. A link or a pipe with such a name is a damaged record.

use std::cmp::Reverse;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use opkeep_fs::{Dir, FileKind, Names, TempFile, idle, unique_name, unix};

use crate::checksum::checksum;
use crate::layout::{BUILDS, NEW, creator};
use crate::marker::Level;
use crate::{Store, StoreError};

/// The first words of a file; the checksum in 16 hexadecimal digits and a line feed follow.
const HEAD: &str = "opkeep-build-record ";
/// The number of bytes before the text.
const HEAD_BYTES: usize = HEAD.len() + 16 + 1;
/// The age from which the file of a write that did not finish is removed.
const STALE_AFTER: Duration = Duration::from_secs(3600);

/// The size of a record. Each kind has its own maximum number, so that many brief ones do not displace the full ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildRecordKind {
    /// Totals only.
    Brief,
    /// With details.
    Full,
}

impl BuildRecordKind {
    const ALL: [Self; 2] = [Self::Brief, Self::Full];

    fn extension(self) -> &'static str {
        match self {
            Self::Brief => "brief",
            Self::Full => "full",
        }
    }
}

/// The records of a store.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct BuildRecords {
    /// The texts, the latest first.
    pub texts: Vec<Vec<u8>>,
    /// The number of damaged or unreadable files, and of what else has the name of a record.
    pub damaged: usize,
    /// The number of bytes of all files.
    pub bytes: u64,
    /// The first 20 directories with the name of a record.
    pub foreign: Vec<PathBuf>,
}

/// The properties of a record in the name of its file.
struct RecordName {
    name: String,
    millis: u64,
    bytes: u64,
    kind: BuildRecordKind,
}

/// The maximum number of bytes of a record's file.
const MAX_FILE_BYTES: u64 = (HEAD_BYTES + Store::MAX_BUILD_RECORD_BYTES) as u64;

/// The maximum number of foreign paths that are reported.
const MAX_FOREIGN: usize = 20;

impl RecordName {
    /// Returns the records among `listed`.
    fn among(listed: &Names) -> Vec<Self> {
        let others = listed.iter().filter(|(_, kind)| *kind != FileKind::Dir);
        others.filter_map(|(name, _)| Self::parse(name.to_str()?)).collect()
    }

    /// Returns the place of the record among others at `now_ms`, the oldest first. No build begins in the future, and no record is
    /// larger than the maximum: records that say so come before all others, so that they displace none.
    fn rank(&self, now_ms: u64) -> (bool, u64) {
        (self.millis <= now_ms && self.bytes <= MAX_FILE_BYTES, self.millis)
    }

    fn parse(name: &str) -> Option<Self> {
        let (stem, extension) = name.rsplit_once('.')?;
        let kind = BuildRecordKind::ALL.into_iter().find(|kind| kind.extension() == extension)?;
        let parts: Vec<&str> = stem.split('-').collect();
        let number = |text: &str| {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| text.parse::<u64>().ok()).flatten()
        };
        let [millis, process, count, bytes] = parts.as_slice() else { return None };
        number(process).and(number(count))?;
        let millis = number(millis).filter(|_| millis.len() == 15)?;
        Some(Self { name: name.to_owned(), millis, bytes: number(bytes)?, kind })
    }
}

impl Store {
    /// The maximum number of records of each kind.
    pub const MAX_BUILD_RECORDS: usize = 100;
    /// The maximum number of bytes of all records together.
    pub const MAX_BUILD_RECORDS_BYTES: u64 = 8 << 20;
    /// The maximum number of bytes of one record.
    pub const MAX_BUILD_RECORD_BYTES: usize = 1 << 20;
    /// So many records of each kind of builds that began in the same second of the clock are enough: a process that finds them adds none.
    pub const MAX_BUILD_RECORDS_PER_SECOND: usize = 10;

    /// Adds the record `text` of a build that began at `began`, and removes the oldest ones beyond the bounds. Processes that add at
    /// the same time may exceed the bounds by one record each, until the next one is added. Adds none if there are enough of that second.
    ///
    /// # Errors
    /// The store is read-only or missing, the text is too large, or the file cannot be written.
    pub fn add_build_record(
        &self,
        began: SystemTime,
        kind: BuildRecordKind,
        text: &[u8],
    ) -> Result<(), StoreError> {
        self.add_record(began, kind, text, Self::MAX_BUILD_RECORDS_PER_SECOND)
    }

    /// Adds the record of a build that failed, in the same way: the one rank of a thousand that fails has a record, too. Adds none only if
    /// [`MAX_BUILD_RECORDS`](Self::MAX_BUILD_RECORDS) of the kind are of that second.
    ///
    /// # Errors
    /// As for [`add_build_record`](Self::add_build_record).
    pub fn add_failed_build_record(
        &self,
        began: SystemTime,
        kind: BuildRecordKind,
        text: &[u8],
    ) -> Result<(), StoreError> {
        self.add_record(began, kind, text, Self::MAX_BUILD_RECORDS)
    }

    /// Adds a record, unless there are `enough` of its second.
    fn add_record(
        &self,
        began: SystemTime,
        kind: BuildRecordKind,
        text: &[u8],
        enough: usize,
    ) -> Result<(), StoreError> {
        let path = self.version_dir().join(BUILDS);
        let trouble = |source| StoreError::Io { action: "write a record in", path: path.clone(), source };
        if !self.is_writable() {
            return Err(StoreError::ReadOnly { path });
        }
        if text.len() > Self::MAX_BUILD_RECORD_BYTES {
            return Err(trouble(std::io::ErrorKind::FileTooLarge.into()));
        }
        // A directory of another program gets no records.
        if self.owned(&self.version_dir(), Level::Version, false)?.is_none() {
            return Err(StoreError::NoStore { path: self.root().to_owned() });
        }
        let Some(directory) = self.directory(&path, true)? else {
            return Err(trouble(std::io::ErrorKind::NotFound.into()));
        };
        let millis = unix_millis(began);
        let listed = directory.list().map_err(trouble)?;
        let is_of_second = |record: &RecordName| record.kind == kind && record.millis / 1000 == millis / 1000;
        if RecordName::among(&listed).into_iter().filter(is_of_second).count() >= enough {
            return Ok(());
        }
        let bytes = HEAD_BYTES + text.len();
        let (unique, extension) = (unique_name(""), kind.extension());
        let name = format!("{millis:015}-{unique}-{bytes}.{extension}");
        let temp = TempFile::create(&directory, NEW, 0o600).map_err(trouble)?;
        let head = format!("{HEAD}{:016x}\n", checksum(text));
        temp.write(&[head.as_bytes(), text].concat()).map_err(trouble)?;
        temp.set_mode(if self.trust().is_shared() { 0o664 } else { 0o644 }).map_err(trouble)?;
        temp.publish(&directory, &name).map_err(trouble)?;
        remove_excess(&directory, &name);
        Ok(())
    }

    /// Returns the latest `limit` records, but not more than both kinds of them may have: any number of files may be there. Records
    /// that say that they are of the future are the last ones.
    ///
    /// # Errors
    /// The directory exists, and cannot be read or is not trusted.
    pub fn build_records(&self, limit: usize) -> Result<BuildRecords, StoreError> {
        let mut records = BuildRecords::default();
        let Some(directory) = self.build_records_dir()? else { return Ok(records) };
        let listed = list(&directory)?;
        let mut names = RecordName::among(&listed);
        let is_foreign = |(name, kind): &(&OsStr, FileKind)| {
            *kind == FileKind::Dir && name.to_str().and_then(RecordName::parse).is_some()
        };
        for (name, _) in listed.iter().filter(is_foreign) {
            records.damaged += 1;
            if records.foreign.len() < MAX_FOREIGN {
                records.foreign.push(directory.path().join(name));
            }
        }
        records.bytes = names.iter().map(|record| record.bytes).fold(0, u64::saturating_add);
        let now_ms = unix_millis(SystemTime::now());
        opkeep_order::by(&mut names, |one, other| {
            (Reverse(one.rank(now_ms)), &one.name).cmp(&(Reverse(other.rank(now_ms)), &other.name))
        });
        let mut buffer = Vec::new();
        for record in names.iter().take(limit.min(BuildRecordKind::ALL.len() * Self::MAX_BUILD_RECORDS)) {
            match directory.read(&record.name, MAX_FILE_BYTES, &mut buffer).complete() {
                Ok(Some(_)) => match text_of(&buffer) {
                    Some(text) => records.texts.push(text.to_vec()),
                    None => records.damaged += 1,
                },
                // Another process removed it.
                Ok(None) => {}
                Err(_) => records.damaged += 1,
            }
        }
        Ok(records)
    }

    /// Removes all records, and no directory. Returns their number.
    ///
    /// # Errors
    /// The store is read-only, or a record cannot be removed.
    pub fn remove_build_records(&self) -> Result<usize, StoreError> {
        let path = self.version_dir().join(BUILDS);
        if !self.is_writable() {
            return Err(StoreError::ReadOnly { path });
        }
        let Some(directory) = self.build_records_dir()? else { return Ok(0) };
        let names = RecordName::among(&list(&directory)?);
        for record in &names {
            match directory.remove(&record.name) {
                Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                    return Err(StoreError::Io { action: "remove", path: path.join(&record.name), source });
                }
                _ => {}
            }
        }
        Ok(names.len())
    }

    fn build_records_dir(&self) -> Result<Option<Dir>, StoreError> {
        self.directory(&self.version_dir().join(BUILDS), false)
    }
}

fn list(directory: &Dir) -> Result<Names, StoreError> {
    let trouble = |source| StoreError::Io { action: "list", path: directory.path().to_owned(), source };
    directory.list().map_err(trouble)
}

/// Returns the text of a record's file; `None` if the file is damaged.
fn text_of(bytes: &[u8]) -> Option<&[u8]> {
    let (head, text) = bytes.split_at_checked(HEAD_BYTES)?;
    let sum = str::from_utf8(head).ok()?.strip_prefix(HEAD)?.strip_suffix('\n')?;
    (sum == format!("{:016x}", checksum(text))).then_some(text)
}

/// Returns the Unix time in milliseconds, in no more than 15 digits: 16 are for times after the year 33,000.
fn unix_millis(time: SystemTime) -> u64 {
    u64::try_from(unix(time).as_millis()).unwrap_or(u64::MAX).min(999_999_999_999_999)
}

/// Removes the oldest records beyond the bounds, after `added` was added, and what writes that did not finish left. Best effort: the
/// next record repeats it.
fn remove_excess(directory: &Dir, added: &str) {
    let Ok(listed) = directory.list() else { return };
    let now_ms = unix_millis(SystemTime::now());
    let mut names = RecordName::among(&listed);
    // A new one that is of the future counts as one of now: the clock was set back, and the record is real.
    let place = |record: &RecordName| match record.name == added {
        true => (true, record.millis.min(now_ms)),
        false => record.rank(now_ms),
    };
    opkeep_order::by(&mut names, |one, other| (place(one), &one.name).cmp(&(place(other), &other.name)));
    for kind in BuildRecordKind::ALL {
        let mut excess = names
            .iter()
            .filter(|record| record.kind == kind)
            .count()
            .saturating_sub(Store::MAX_BUILD_RECORDS);
        names.retain(|record| {
            let is_kept = record.kind != kind || excess == 0;
            if !is_kept {
                excess -= 1;
                let _ = directory.remove(&record.name);
            }
            is_kept
        });
    }
    let mut bytes: u64 = names.iter().map(|record| record.bytes).fold(0, u64::saturating_add);
    for record in &names {
        if bytes <= Store::MAX_BUILD_RECORDS_BYTES {
            break;
        }
        bytes = bytes.saturating_sub(record.bytes);
        let _ = directory.remove(&record.name);
    }
    for name in listed.utf8().filter(|name| creator(name, &[NEW]).is_some()) {
        let is_stale = |seen: opkeep_fs::FileStat| {
            seen.is_file() && idle(seen.modified(), SystemTime::now()) >= STALE_AFTER
        };
        if directory.look(name).is_ok_and(is_stale) {
            let _ = directory.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_records_are_records() {
        let parse =
            |name: &str| RecordName::parse(name).map(|record| (record.millis, record.bytes, record.kind));
        let name = "001764331200123-77-0-5678";
        assert_eq!(parse(&format!("{name}.full")), Some((1_764_331_200_123, 5678, BuildRecordKind::Full)));
        assert_eq!(parse(&format!("{name}.brief")), Some((1_764_331_200_123, 5678, BuildRecordKind::Brief)));
        for other in [
            "full",
            "notes.full",
            "1-77-0-5678.full",
            "001764331200123-77-0.full",
            "001764331200123-77-0-+1.full",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
        assert_eq!(parse(name), None);
    }
}
