//! Making a folder hold the kernels it should.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use opbuild_artifact::KernelMeta;
use opbuild_digest::Digest;

use crate::compare::{describes, same_json};
use crate::disk::{self, Folder, Identity, Temp};
use crate::manifest::{self, Known, Manifest, Record};
use crate::{KernelFiles, Part, ViewError, Withdrawn, check_stem};

/// A file that changed so recently is read again: the clock of its times may not tell two changes apart.
const REST: Duration = Duration::from_secs(2);
/// A superseded kernel stays this long, for those who began before it was.
const GRACE: Duration = Duration::from_secs(30 * 60);
/// Kernels whose files are written, then synced together, then published. Bounds the open files.
const BATCH: usize = 32;

/// What [`View::materialise`](crate::View::materialise) did. Kernels are counted by stem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ViewReport {
    /// Kernels of which at least one file was written.
    pub written: usize,
    /// Kernels of which every file was as it should be.
    pub intact: usize,
    /// Superseded and withdrawn kernels that were removed.
    pub removed: usize,
    /// Files that were read to be compared. Those that the manifest vouches for are not.
    pub read: usize,
    /// Whether other writers were kept out. False on a file system without locks: names are still replaced whole.
    pub locked: bool,
    /// Whether the manifest could be kept. If not, the next call reads every file, and may not know what is ours.
    pub recorded: bool,
}

/// Kernels whose names are safe and do not contradict each other.
#[derive(Debug)]
pub(crate) struct Checked<'a> {
    given: &'a [KernelFiles<'a>],
    /// One of each stem, in the order given.
    distinct: Vec<&'a KernelFiles<'a>>,
}

impl<'a> Checked<'a> {
    pub(crate) fn new(given: &'a [KernelFiles<'a>]) -> Result<Self, ViewError> {
        let mut first_of = BTreeMap::new();
        let mut distinct = Vec::with_capacity(given.len());
        for kernel in given {
            check_stem(kernel.stem)?;
            let first: &KernelFiles<'_> = first_of.entry(kernel.stem).or_insert_with(|| {
                distinct.push(kernel);
                kernel
            });
            for part in Part::ALL {
                let (first, second) = (first.content(part).digest(), kernel.content(part).digest());
                if first != second {
                    return Err(ViewError::Conflict { stem: kernel.stem.to_owned(), part, first, second });
                }
            }
        }
        Ok(Self { given, distinct })
    }
}

/// See [`View::materialise`](crate::View::materialise). `now` is by the folder's clock.
pub(crate) fn materialise(
    folder: &Folder,
    kernels: &Checked<'_>,
    withdrawn: &[Withdrawn<'_>],
    now: SystemTime,
) -> Result<ViewReport, ViewError> {
    folder.remove_stale_temps(now, GRACE);
    let text = folder.read(manifest::NAME).map(|(bytes, _)| bytes).unwrap_or_default();
    let recorded = Manifest::parse(&text);
    let mut work = Work {
        folder,
        now,
        manifest: recorded.clone(),
        recorded,
        report: ViewReport { locked: folder.is_locked(), recorded: true, ..ViewReport::default() },
    };
    work.manifest.assign(kernels.given);
    let wanting = work.judge(&kernels.distinct)?;
    // Before any of it is written: a kernel must not be there without our knowing that it is ours.
    work.record();
    work.withdraw(withdrawn)?;
    work.write(&wanting)?;
    work.remove_superseded();
    work.record();
    if work.report.written + work.report.removed > 0 {
        folder.sync();
    }
    Ok(work.report)
}

/// What becomes of a file.
enum Verdict {
    /// It must be written.
    Wanted,
    /// It is as the manifest says.
    Vouched,
    /// It was read and is as it should be; it is recorded with its identity if that may be trusted.
    Intact { seen: Option<Identity> },
}

/// A kernel of which something must be written.
struct Wanting<'a> {
    kernel: &'a KernelFiles<'a>,
    /// By part, whether the file is as it should be.
    intact: [bool; 3],
}

/// Complete files that wait for their names.
struct Staged<'a> {
    stem: &'a str,
    object: Option<Temp<'a>>,
    info: Option<Temp<'a>>,
    /// Always there if `object` is.
    json: Option<Temp<'a>>,
}

struct Work<'a> {
    folder: &'a Folder,
    now: SystemTime,
    manifest: Manifest<'a>,
    /// The manifest on disk.
    recorded: Manifest<'a>,
    report: ViewReport,
}

impl<'a> Work<'a> {
    /// Looks at every file, notes what is known of it, and returns the kernels that are not whole.
    fn judge(&mut self, kernels: &[&'a KernelFiles<'a>]) -> Result<Vec<Wanting<'a>>, ViewError> {
        let mut wanting = Vec::new();
        for &kernel in kernels {
            let mut intact = [false; 3];
            for part in Part::ALL {
                let verdict = self.judge_file(kernel, part)?;
                intact[part as usize] = !matches!(verdict, Verdict::Wanted);
                let seen = match verdict {
                    Verdict::Vouched => continue,
                    Verdict::Intact { seen } => seen,
                    Verdict::Wanted => None,
                };
                self.manifest.note(kernel.stem, part, Known { digest: kernel.content(part).digest(), seen });
            }
            if intact == [true; 3] {
                self.report.intact += 1;
            } else {
                wanting.push(Wanting { kernel, intact });
            }
        }
        Ok(wanting)
    }

    fn judge_file(&mut self, kernel: &KernelFiles<'_>, part: Part) -> Result<Verdict, ViewError> {
        let name = part.of(kernel.stem);
        let expected = kernel.content(part);
        let Some(file) = self.folder.identity(&name) else {
            return Ok(Verdict::Wanted);
        };
        let vouched = Known { digest: expected.digest(), seen: Some(file) };
        if self.manifest.kernels.get(kernel.stem).is_some_and(|record| *record.file(part) == vouched) {
            return Ok(Verdict::Vouched);
        }
        if part != Part::Json && file.size != expected.byte_len() {
            return Ok(Verdict::Wanted);
        }
        self.report.read += 1;
        // A file that cannot be read is as good as damaged: it is replaced, not written to.
        let (intact, read) = if part == Part::Json {
            let Ok((bytes, read)) = self.folder.read(&name) else { return Ok(Verdict::Wanted) };
            (Digest::of(&bytes) == expected.digest() || same_json(&bytes, &kernel.load(part)?), read)
        } else {
            let Ok((digest, read)) = self.folder.digest(&name) else { return Ok(Verdict::Wanted) };
            (digest == expected.digest(), read)
        };
        if !intact {
            return Ok(Verdict::Wanted);
        }
        Ok(Verdict::Intact { seen: read.filter(|file| file.rested(self.now, REST)) })
    }

    fn write(&mut self, wanting: &[Wanting<'a>]) -> Result<(), ViewError> {
        // A kernel's three files are open until they have their names; a fourth of what the process may have is ours.
        let at_once = BATCH.min(disk::most_files() / 12).max(1);
        for batch in wanting.chunks(at_once) {
            let staged = batch.iter().map(|wanting| self.stage(wanting)).collect::<Result<Vec<_>, _>>()?;
            for temp in staged.iter().flat_map(|s| [&s.object, &s.info, &s.json]).flatten() {
                temp.sync()?;
            }
            for staged in staged {
                self.publish(staged)?;
                self.report.written += 1;
            }
        }
        Ok(())
    }

    /// Writes the files that a kernel lacks under temporary names.
    fn stage(&self, wanting: &Wanting<'a>) -> Result<Staged<'a>, ViewError> {
        let Wanting { kernel, intact } = wanting;
        let wants = |part: Part| !intact[part as usize];
        let stage = |part: Part| self.folder.stage(&kernel.load(part)?);

        let mut json = None;
        if wants(Part::Object) || wants(Part::Json) {
            let there = self.folder.read(&Part::Json.of(kernel.stem)).ok().map(|(bytes, _)| bytes);
            // Should we get no further, a reader must not find a description of something else.
            if !self.is_pair(kernel.stem, there.as_deref()) {
                self.folder.unlink(&Part::Json.of(kernel.stem))?;
            }
            let given = kernel.load(Part::Json)?;
            // What MindSpore added survives the loss of the object.
            let kept = there.filter(|there| same_json(there, &given));
            json = Some(self.folder.stage(kept.as_deref().unwrap_or(&given))?);
        }
        let object = wants(Part::Object).then(|| stage(Part::Object)).transpose()?;
        let info = wants(Part::Info).then(|| stage(Part::Info)).transpose()?;
        Ok(Staged { stem: kernel.stem, object, info, json })
    }

    /// Whether the `.json` that is there describes the `.o` that is there.
    fn is_pair(&self, stem: &str, json: Option<&[u8]>) -> bool {
        let object = self.folder.digest(&Part::Object.of(stem));
        json.zip(object.ok()).is_some_and(|(json, (digest, _))| describes(json, &digest))
    }

    /// Gives complete files their names, in the one order in which no reader meets a `.json` before its `.o`.
    fn publish(&self, staged: Staged<'_>) -> Result<(), ViewError> {
        let Staged { stem, object, info, json } = staged;
        if json.is_some() {
            self.folder.unlink(&Part::Json.of(stem))?;
        }
        for (part, temp) in [(Part::Object, object), (Part::Info, info), (Part::Json, json)] {
            if let Some(temp) = temp {
                temp.publish(&part.of(stem))?;
            }
        }
        Ok(())
    }

    /// Removes what we put under these names, its description first.
    fn withdraw(&mut self, withdrawn: &[Withdrawn<'_>]) -> Result<(), ViewError> {
        for Withdrawn { stem, unless } in withdrawn {
            let json = self.folder.read(&Part::Json.of(stem)).ok().map(|(bytes, _)| bytes);
            let there = json.and_then(|json| KernelMeta::parse(&json).ok()?.bin_file_name);
            if unless.is_some() && there.as_deref() == *unless {
                continue;
            }
            let Some(record) = self.manifest.kernels.remove(*stem) else { continue };
            if !self.is_ours(stem, &record) {
                continue;
            }
            let info = self.is_as_recorded(stem, &record, Part::Info);
            for part in
                [Some(Part::Json), Some(Part::Object), info.then_some(Part::Info)].into_iter().flatten()
            {
                self.folder.unlink(&part.of(stem))?;
            }
            self.report.removed += 1;
        }
        Ok(())
    }

    /// Removes superseded kernels of ours that are old enough. What cannot be removed waits for the next call.
    fn remove_superseded(&mut self) {
        let mut kernels = std::mem::take(&mut self.manifest.kernels);
        kernels.retain(|stem, record| !record.is_superseded() || self.keeps(stem, record));
        self.manifest.kernels = kernels;
    }

    /// Whether a superseded kernel stays in the manifest: it is too young, or in spite of us there.
    fn keeps(&mut self, stem: &str, record: &Record<'_>) -> bool {
        let [object, json] = [Part::Object, Part::Json].map(|part| self.folder.identity(&part.of(stem)));
        let Some(newest) = json.or(object) else {
            return false;
        };
        if !newest.written_before(self.now, GRACE) {
            return true;
        }
        // Somebody else may have taken the name. Then the kernel is theirs, as a whole.
        if !self.is_ours(stem, record) {
            return false;
        }
        let info = self.is_as_recorded(stem, record, Part::Info);
        let parts = [Some(Part::Json), Some(Part::Object), info.then_some(Part::Info)];
        let gone = parts.into_iter().flatten().try_for_each(|part| self.folder.unlink(&part.of(stem)));
        self.report.removed += usize::from(gone.is_ok());
        gone.is_err()
    }

    /// Whether the object is the one we wrote, and the description, if there is one, describes it.
    fn is_ours(&self, stem: &str, record: &Record<'_>) -> bool {
        let json = Part::Json.of(stem);
        let described = || {
            let json = self.folder.read(&json);
            json.is_ok_and(|(bytes, _)| describes(&bytes, &record.file(Part::Object).digest))
        };
        self.is_as_recorded(stem, record, Part::Object) && (!self.folder.exists(&json) || described())
    }

    fn is_as_recorded(&self, stem: &str, record: &Record<'_>, part: Part) -> bool {
        let digest = self.folder.digest(&part.of(stem));
        digest.is_ok_and(|(digest, _)| digest == record.file(part).digest)
    }

    /// Brings the manifest to the disk, if it changed. A view without one is a good view, so this is no error.
    fn record(&mut self) {
        if self.manifest == self.recorded {
            return;
        }
        let text = self.manifest.to_text();
        let written = self.folder.stage(text.as_bytes()).and_then(|temp| temp.publish(manifest::NAME));
        self.report.recorded = written.is_ok();
        if written.is_ok() {
            self.recorded = self.manifest.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests damage what was written")]

    use std::fs;
    use std::thread::sleep;

    use tempfile::TempDir;

    use super::*;
    use crate::Content;

    struct Fixture {
        base: TempDir,
        object: Vec<u8>,
        json: Vec<u8>,
    }

    impl Fixture {
        fn new() -> Self {
            let object = b"the kernel".to_vec();
            let json = format!(r#"{{"sha256": "{}"}}"#, Digest::of(&object)).into_bytes();
            Self { base: tempfile::tempdir().unwrap(), object, json }
        }

        /// Materialises as if `later` had passed.
        fn run(&self, later: u64) -> ViewReport {
            let (object, json) = (Content::of(&self.object), Content::of(&self.json));
            let kernels = [KernelFiles { slot: "", stem: "op", object, json, info: Content::of(b"{}") }];
            let folder = Folder::enter(self.base.path(), Duration::ZERO).unwrap();
            let now = folder.now() + Duration::from_secs(later);
            materialise(&folder, &Checked::new(&kernels).unwrap(), &[], now).unwrap()
        }

        fn path(&self, name: &str) -> std::path::PathBuf {
            self.base.path().join(name)
        }
    }

    #[test]
    fn a_file_is_read_until_it_has_rested_and_then_no_more() {
        let view = Fixture::new();
        assert_eq!(view.run(0).written, 1);
        for _ in 0..2 {
            assert_eq!((view.run(0).read, view.run(1).read), (3, 3));
        }
        assert_eq!(view.run(3).read, 3);
        assert_eq!((view.run(3).read, view.run(0).read, view.run(60).read), (0, 0, 0));
    }

    #[test]
    fn what_the_manifest_vouches_for_is_really_not_read() {
        let view = Fixture::new();
        view.run(0);
        view.run(3);
        // A file that only reading can tell from the right one: the manifest knows its identity, and lies.
        fs::write(view.path("op.o"), "another!!!").unwrap();
        let folder = Folder::enter(view.base.path(), Duration::ZERO).unwrap();
        let text = fs::read(view.path(manifest::NAME)).unwrap();
        let mut manifest = Manifest::parse(&text);
        let known = Known { digest: Digest::of(&view.object), seen: folder.identity("op.o") };
        manifest.note("op", Part::Object, known);
        fs::write(view.path(manifest::NAME), manifest.to_text()).unwrap();
        drop(folder);
        assert_eq!((view.run(3).intact, view.run(3).read), (1, 0));
        // Without the lie it is replaced.
        fs::remove_file(view.path(manifest::NAME)).unwrap();
        assert_eq!(view.run(3).written, 1);
        assert_eq!(fs::read(view.path("op.o")).unwrap(), view.object);
    }

    #[test]
    fn a_vouched_file_that_changed_is_read_even_if_its_times_look_old() {
        let view = Fixture::new();
        for name in ["op.o", "op.json", "op.info"] {
            view.run(0);
            view.run(3);
            assert_eq!(view.run(3).read, 0);
            let mtime = fs::metadata(view.path(name)).unwrap().modified().unwrap();
            // Longer than a tick of the clock that stamps files.
            sleep(Duration::from_millis(20));
            let mut bytes = fs::read(view.path(name)).unwrap();
            bytes[1] ^= 1;
            fs::write(view.path(name), &bytes).unwrap();
            fs::File::options().append(true).open(view.path(name)).unwrap().set_modified(mtime).unwrap();
            let report = view.run(3);
            assert_eq!((report.written, report.intact), (1, 0), "{name}");
            assert_ne!(fs::read(view.path(name)).unwrap(), bytes, "{name}");
        }
    }

    #[test]
    fn a_description_that_mindspore_extended_is_vouched_for_too() {
        let view = Fixture::new();
        view.run(0);
        let digest = Digest::of(&view.object);
        fs::write(view.path("op.json"), format!(r#"{{"build_result":"{{}}","sha256":"{digest}"}}"#)).unwrap();
        assert_eq!((view.run(3).intact, view.run(3).read), (1, 0));
    }

    #[test]
    fn another_content_is_not_vouched_for() {
        let mut view = Fixture::new();
        view.run(0);
        view.run(3);
        view.object[0] ^= 1;
        view.json = format!(r#"{{"sha256": "{}"}}"#, Digest::of(&view.object)).into_bytes();
        assert_eq!(view.run(3).written, 1);
        assert_eq!(fs::read(view.path("op.o")).unwrap(), view.object);
        assert_eq!(fs::read(view.path("op.json")).unwrap(), view.json);
    }
}
