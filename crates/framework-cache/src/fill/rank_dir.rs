//! Writes kernels of other ranks to a rank's directory.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use opkeep_descriptor::write_info;
use opkeep_digest::Digest;
use serde_json::Value;

use crate::fill::ranks::Rank;
use crate::fill::source_kernel::{MAX_OBJECT, MAX_TEXT, SourceKernel};
use crate::quarantine::dir::Quarantine;
use crate::quarantine::files;
use crate::quarantine::journal::{Created, Entry, Role};
use crate::quarantine::locked_cache::LockedCache;
use opkeep_fs::{FileRead, Fs};
use opkeep_kernel_meta::displace::STAYS_DISPLACED;
use opkeep_kernel_meta::manifest::describes;
use opkeep_kernel_meta::manifest::{self, Manifest};
use opkeep_kernel_meta::publish::{Staged, publish_new};
use opkeep_kernel_meta::view_dir::{LOCK, ViewDir};
use opkeep_kernel_meta::{KernelFileKind, LeftReason, RunId, ViewError};

/// The mode of MindSpore's descriptors.
const INFO_MODE: u32 = 0o400;
/// The time since the last write after which the writer of a temporary file counts as dead.
const STALE: Duration = Duration::from_secs(30 * 60);

/// The files of a kernel for one rank, in memory.
#[derive(Debug)]
pub(crate) struct PreparedKernel {
    object: Vec<u8>,
    json: Vec<u8>,
    info: String,
    /// The digests of the files, indexed by `KernelFileKind`.
    digests: [Digest; 3],
}

/// Returns the files of the source kernel for the rank `target` under the name `stem`: the same object and `.json`, and
/// a descriptor with the rank's own device and directories.
pub(crate) fn prepare_files(
    source: &SourceKernel,
    from: &Rank<'_>,
    target: &Rank<'_>,
    stem: &str,
    device: u32,
) -> Result<PreparedKernel, String> {
    let read = |file: String, limit| {
        let mut bytes = Vec::new();
        match from.dir.as_ref().map(|dir| dir.read(&file, limit, &mut bytes)) {
            Some(FileRead::Complete(_)) => Ok(bytes),
            _ => Err(from.changed(&file)),
        }
    };
    let object = read(format!("{}.o", source.stem), MAX_OBJECT)?;
    let json = read(format!("{}.json", source.stem), MAX_TEXT)?;
    if Digest::of(&object) != source.sha256 || !describes(&json, &source.sha256) {
        return Err(from.changed(&format!("{}.o", source.stem)));
    }
    let mut descriptor = source.descriptor.clone();
    descriptor.envelope.rename(stem);
    descriptor.envelope.source_id = Some(i64::from(device));
    let own = target.own_soc_info();
    for (name, value) in &mut descriptor.envelope.soc_info {
        match name.as_str() {
            "deviceId" => *value = device.to_string().into(),
            "op_debug_dir" | "kernel_meta_temp_dir" => {
                let moved = || in_rank(value, &from.name, &target.name);
                *value = own.and_then(|own| own.get(name)).cloned().unwrap_or_else(moved);
            }
            _ => {}
        }
    }
    // Frameworks compute the name from the descriptor, so the changed descriptor must result in the new name.
    if descriptor.named_by(stem) != source.descriptor.named_by(&source.stem) {
        return Err(format!("`{stem}` does not follow from the descriptor of `{}`", source.stem));
    }
    let info = write_info(&descriptor);
    let digests = [source.sha256, Digest::of(&json), Digest::of(info.as_bytes())];
    Ok(PreparedKernel { object, json, info, digests })
}

/// Returns the path with the directory of the rank `from` replaced by that of the rank `to`.
fn in_rank(path: &Value, from: &str, to: &str) -> Value {
    let Some(text) = path.as_str() else { return path.clone() };
    let (from, to) = (format!("rank_{from}"), format!("rank_{to}"));
    let parts: Vec<&str> = text.split('/').map(|part| if part == from { &*to } else { part }).collect();
    parts.join("/").into()
}

impl PreparedKernel {
    /// Returns the total size of the files in bytes.
    pub(crate) fn byte_len(&self) -> usize {
        self.object.len() + self.json.len() + self.info.len()
    }
}

/// A rank's directory, which this process has locked.
#[derive(Debug)]
pub(crate) struct RankDir {
    dir: ViewDir,
    /// The cache, with the locks of the programs that use it.
    locked_cache: LockedCache,
    /// The directories and the lock file that this process created.
    created: Created,
}

/// The journal of a batch of kernels, which is written before the kernels.
#[derive(Debug)]
pub(crate) struct BatchJournal {
    quarantine: Quarantine,
    entries: Vec<Entry>,
    created: Created,
    /// Whether `entries` has become smaller than the written journal.
    is_reduced: bool,
}

impl BatchJournal {
    /// Removes the kernel with this number, which was not written, from the entries. Files of the kernel that could not
    /// be removed stay listed.
    pub(crate) fn remove_kernel(&mut self, number: u64, rank_dir: &RankDir) {
        let exists =
            |entry: &Entry| rank_dir.dir.file_state(&entry.file).is_some_and(|found| entry.is(&found));
        self.entries.retain(|entry| entry.set != number || exists(entry));
        self.is_reduced = true;
    }

    /// Removes the kernel with this number, and all after it, from the entries.
    pub(crate) fn remove_from(&mut self, number: u64) {
        self.entries.retain(|entry| entry.set < number);
        self.is_reduced = true;
    }

    /// Rewrites the journal for the kernels that were written, or removes it if none were. Best effort: an undo ignores
    /// listed files that do not exist.
    pub(crate) fn close(self, rank_dir: &RankDir) {
        if self.entries.is_empty() {
            self.quarantine.clear(&rank_dir.locked_cache);
            let _ = rank_dir.locked_cache.parent.remove_dir(&rank_dir.locked_cache.quarantine);
        } else if self.is_reduced {
            let _ = self.quarantine.rewrite_journal(&self.entries, self.created);
        }
    }
}

impl RankDir {
    /// Opens and locks the directory of the rank `rank`, which is created if missing.
    ///
    /// # Errors
    /// The directory is locked, or cannot be opened.
    pub(crate) fn enter(fs: &Fs, base: &Path, rank: &str) -> Result<Self, String> {
        let name = format!("rank_{rank}");
        let path = base.join(&name).join("kernel_meta");
        let open = || {
            let base = fs.open_dir(base)?.quiet();
            let above = !base.may_exist(&name);
            // Neither of the two directories may be a link.
            let rank = files::make_dir(&base, OsStr::new(&name))?;
            let directory = !rank.may_exist("kernel_meta");
            let dir = files::make_dir(&rank, OsStr::new("kernel_meta"))?;
            Ok(Created { above, directory, lock: !dir.may_exist(LOCK) })
        };
        let created = open().map_err(|error: std::io::Error| {
            format!(
                "cannot open the directory `{}`: {error}; make it a directory that this user may write",
                path.display()
            )
        })?;
        let locked_cache =
            LockedCache::enter_without_build_lock(fs, &path).map_err(|error| error.to_string())?;
        let dir = ViewDir::enter(fs, &path, Duration::ZERO).map_err(|error| error.to_string())?;
        dir.give_lock();
        let (names, now) = (dir.own_names(), dir.now());
        dir.remove_stale_temps(&names, now, STALE);
        let text = dir.read(manifest::NAME).map(|(bytes, _)| bytes).unwrap_or_default();
        let listed = Manifest::parse(&text);
        dir.settle_displaced(&names, now, STALE, |name, digest| listed.is_ours(name, digest));
        Ok(Self { dir, locked_cache, created })
    }

    /// Writes the files of a kernel under temporary names.
    ///
    /// # Errors
    /// The reason, such as another program that writes the kernel.
    pub(crate) fn stage(&self, stem: &str, prepared: &PreparedKernel) -> Result<Staged<'_>, String> {
        let mut names = KernelFileKind::ALL.iter().map(|part| part.of(stem));
        if let Some(name) = names.find(|name| self.dir.exists(name)) {
            return Err(occupied(&name));
        }
        let stage = |bytes: &[u8], mode: Option<u32>| {
            let mut temp = self.dir.stage(bytes)?;
            temp.give();
            mode.map_or(Ok(()), |mode| temp.restrict(mode))?;
            temp.sync().map(|()| temp)
        };
        let files = || {
            let PreparedKernel { object, json, info, .. } = prepared;
            Ok([stage(object, None)?, stage(json, None)?, stage(info.as_bytes(), Some(INFO_MODE))?])
        };
        files().map(Staged::of).map_err(|error: ViewError| error.to_string())
    }

    /// Writes the journal of the files that are about to be written.
    ///
    /// # Errors
    /// The reason. In this case no kernel may be written, since it could not be undone.
    pub(crate) fn record<'r>(
        &self,
        run: &RunId,
        kernels: impl Iterator<Item = (&'r str, &'r PreparedKernel, &'r Staged<'r>)>,
    ) -> Result<BatchJournal, String> {
        let mut entries = Vec::new();
        for (number, (stem, PreparedKernel { digests, .. }, staged)) in (0..).zip(kernels) {
            for (part, seen) in staged.identities().map_err(|error| error.to_string())? {
                let role = Role::Added { sha256: digests[part as usize].to_string() };
                let entry = Entry::new(number, &part.of(stem), None, &seen, "filled from another rank");
                entries.push(Entry { role, ..entry });
            }
        }
        let quarantine = Quarantine::open(&self.locked_cache, run, &entries, self.created);
        let quarantine = quarantine.map_err(|error| error.to_string())?;
        Ok(BatchJournal { quarantine, entries, created: self.created, is_reduced: false })
    }

    /// Gives the files of a kernel their names, its description last.
    ///
    /// # Errors
    /// The reason, such as another program that writes the kernel. The files of this kernel are removed again.
    pub(crate) fn publish(
        &self,
        stem: &str,
        prepared: &PreparedKernel,
        staged: Staged<'_>,
    ) -> Result<(), String> {
        match publish_new(&self.dir, stem, &prepared.digests, staged) {
            Ok(None) => Ok(()),
            Ok(Some(LeftReason::Changed { file })) => Err(self.with_displaced(occupied(&file))),
            Ok(Some(other)) => Err(self.with_displaced(other.to_string())),
            Err(error) => Err(self.with_displaced(error.to_string())),
        }
    }

    /// Returns the problem, with the displaced files that could not be restored.
    fn with_displaced(&self, problem: String) -> String {
        let displaced = self.dir.stay_displaced(self.dir.now(), STALE, |_, _| false);
        displaced.into_iter().fold(problem, |problem, file| format!("{problem}; `{file}`: {STAYS_DISPLACED}"))
    }

    /// Makes the names durable.
    pub(crate) fn sync(&self) {
        self.dir.sync();
    }
}

fn occupied(name: &str) -> String {
    format!("`{name}` exists already: another program writes that kernel")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests write as other programs do")]

    use std::fs;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use tempfile::TempDir;

    use opkeep_fs::FsCall;
    use opkeep_testkit::at_each_change;

    use super::*;

    const ALL: [&str; 3] = ["a_1_0.info", "a_1_0.json", "a_1_0.o"];

    /// Fills in a kernel while another program writes `file` before the change number `at`. Returns the outcome,
    /// whether `file` was written, whether it replaced ours, and the directory.
    fn fill_while(file: &str, at: usize) -> (Result<(), String>, bool, bool, TempDir) {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("rank_0/kernel_meta").join(file);
        // This creates the files that exist before the kernel is written.
        drop(RankDir::enter(&Fs::new(), base.path(), "0").unwrap());
        let changes = Arc::new(AtomicUsize::new(0));
        let is_replaced = Arc::new(AtomicBool::new(false));
        let (seen, replaced) = (Arc::clone(&changes), Arc::clone(&is_replaced));
        let write = move |_: &FsCall<'_>| {
            if seen.fetch_add(1, Ordering::Relaxed) == at {
                replaced.store(path.exists(), Ordering::Relaxed);
                let new = path.with_extension("new");
                fs::write(&new, "another program's").unwrap();
                fs::rename(new, &path).unwrap();
            }
        };
        let rank_dir = RankDir::enter(&at_each_change(write), base.path(), "0").unwrap();
        let object = b"object".to_vec();
        let json = format!(r#"{{"sha256": "{}"}}"#, Digest::of(&object)).into_bytes();
        let digests = [Digest::of(&object), Digest::of(&json), Digest::of(b"{}")];
        let prepared = PreparedKernel { object, json, info: "{}".to_owned(), digests };
        let staged = rank_dir.stage("a_1_0", &prepared);
        let outcome = staged.and_then(|staged| rank_dir.publish("a_1_0", &prepared, staged));
        (outcome, changes.load(Ordering::Relaxed) > at, is_replaced.load(Ordering::Relaxed), base)
    }

    #[test]
    fn no_file_is_placed_beside_a_foreign_one() {
        for file in ALL {
            let mut at = 0;
            loop {
                let (outcome, is_written, is_replaced, base) = fill_while(file, at);
                let dir = base.path().join("rank_0/kernel_meta");
                let mut names = ViewDir::look(&dir).unwrap().unwrap().list().unwrap();
                names.retain(|name| name != LOCK);
                names.sort();
                if !is_written {
                    outcome.unwrap();
                    assert_eq!((names.as_slice(), at > 5), (&ALL.map(str::to_owned)[..], true), "{file}");
                    break;
                }
                match outcome {
                    // The descriptor may be another program's, since no reader uses it. A file that replaces ours comes
                    // too late to be noticed.
                    Ok(()) => {
                        assert!(file == ALL[0] || is_replaced, "{file} {at}");
                        assert_eq!(names.as_slice(), &ALL.map(str::to_owned)[..]);
                    }
                    Err(why) => {
                        assert!(why.contains(file) && why.contains("another program"), "{file} {at}: {why}");
                        assert_eq!(names, [file], "{file} {at}");
                    }
                }
                assert_eq!(fs::read(dir.join(file)).unwrap(), b"another program's", "{file} {at}");
                at += 1;
            }
        }
    }

    #[test]
    fn only_the_directory_of_the_rank_differs() {
        for (path, expected) in [
            ("./rank_1/", "./rank_12/"),
            ("/x/rank_1/kernel_meta_temp_dir/", "/x/rank_12/kernel_meta_temp_dir/"),
            ("/x/rank_10/rank_1x", "/x/rank_10/rank_1x"),
        ] {
            assert_eq!(in_rank(&path.into(), "1", "12"), expected);
        }
    }
}
