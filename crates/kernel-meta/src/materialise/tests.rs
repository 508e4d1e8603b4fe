#![expect(clippy::disallowed_methods, reason = "tests damage files")]

use std::fs;
use std::path::Path;
use std::thread::sleep;

use opkeep_fs::{Dir, Fs};
use tempfile::TempDir;

use super::*;
use crate::foreign_files::LeaveForeign;
use crate::stored::{NoStore, StoredKernel};
use crate::{FileContent, InUse};

/// Judges all foreign files as damaged, and removes them.
#[derive(Debug)]
struct Healing;

impl ForeignFiles for Healing {
    fn judge(&self, _: &Dir, _: &KernelFiles<'_>, _: bool) -> Result<String, LeftReason> {
        Ok("it is damaged".to_owned())
    }

    fn descriptor_problem(&self, _: &[u8]) -> Option<String> {
        Some("it is damaged".to_owned())
    }

    fn quarantine(
        &self,
        _: &Fs,
        path: &Path,
        _: &RunId,
        sets: &[Replaced],
        _: bool,
    ) -> Result<QuarantineOutcome, String> {
        for (file, _) in sets.iter().flat_map(|set| &set.files) {
            fs::remove_file(path.join(file)).unwrap();
        }
        Ok(QuarantineOutcome { outcomes: sets.iter().map(|_| Ok(())).collect(), dir: None })
    }
}

/// Judges as [`LeaveForeign`] does; its quarantine fails, for one kernel or as a whole.
#[derive(Debug)]
struct Refusing(Option<LeftReason>);

impl ForeignFiles for Refusing {
    fn judge(&self, dir: &Dir, kernel: &KernelFiles<'_>, is_ours: bool) -> Result<String, LeftReason> {
        LeaveForeign.judge(dir, kernel, is_ours)
    }

    fn descriptor_problem(&self, descriptor: &[u8]) -> Option<String> {
        (descriptor != b"{}").then(|| "it is damaged".to_owned())
    }

    fn quarantine(
        &self,
        _: &Fs,
        _: &Path,
        _: &RunId,
        sets: &[Replaced],
        _: bool,
    ) -> Result<QuarantineOutcome, String> {
        let why = self.0.as_ref().ok_or_else(|| "no space left on device".to_owned())?;
        Ok(QuarantineOutcome { outcomes: sets.iter().map(|_| Err(why.clone())).collect(), dir: None })
    }
}

/// No quarantine takes anything.
fn refusals() -> [Box<dyn ForeignFiles>; 4] {
    let open = LeftReason::InProgress(InUse::Open { process: 1 });
    let not_kept = LeftReason::NotQuarantined { problem: "permission denied".to_owned() };
    [
        Box::new(LeaveForeign),
        Box::new(Refusing(None)),
        Box::new(Refusing(Some(not_kept))),
        Box::new(Refusing(Some(open))),
    ]
}

/// The object of a new [`Fixture`].
const OLD: &[u8] = b"the kernel";

/// A store of one kernel.
struct Store(StoredKernel);

impl StoredKernels for Store {
    fn named(&self, _: &str) -> Vec<StoredKernel> {
        vec![self.0.clone()]
    }
}

/// A description of `object`, as opkeep writes it, or as MindSpore extends it.
fn description(object: &[u8], is_extended: bool) -> Vec<u8> {
    let added = if is_extended { r#""build_result": "{}", "# } else { "" };
    format!(r#"{{{added}"binFileName": "op", "sha256": "{}"}}"#, Digest::of(object)).into_bytes()
}

struct Fixture {
    base: TempDir,
    object: Vec<u8>,
    json: Vec<u8>,
    policy: Policy,
}

impl Fixture {
    fn new() -> Self {
        let object = OLD.to_vec();
        let json = description(&object, false);
        Self { base: tempfile::tempdir().unwrap(), object, json, policy: Policy::default() }
    }

    /// Materialises as if `later` had passed.
    fn run(&self, later: u64) -> ViewReport {
        self.run_with(later, &Healing, &NoStore)
    }

    fn run_with(&self, later: u64, foreign: &dyn ForeignFiles, stored: &dyn StoredKernels) -> ViewReport {
        let (object, json) = (FileContent::of(&self.object), FileContent::of(&self.json));
        let info = FileContent::of(b"{}");
        let kernel = KernelFiles { slot: "", stem: "op", object, json, info, for_chip: true, debug: false };
        self.write(&[kernel], &[], later, foreign, stored)
    }

    /// Withdraws the kernel.
    fn withdraw(&self, foreign: &dyn ForeignFiles) -> ViewReport {
        let withdrawn = RetiredKernel { stem: "op", keep: None };
        self.write(&[], &[withdrawn], 0, foreign, &NoStore)
    }

    fn write(
        &self,
        kernels: &[KernelFiles<'_>],
        withdrawn: &[RetiredKernel<'_>],
        later: u64,
        foreign: &dyn ForeignFiles,
        stored: &dyn StoredKernels,
    ) -> ViewReport {
        let dir = ViewDir::enter(&Fs::new(), self.base.path(), Duration::ZERO).unwrap();
        let now = dir.now() + Duration::from_secs(later);
        let (policy, run) = (self.policy, RunId::now());
        let order = Order { withdrawn, policy, stored, foreign, run: &run, now };
        materialise(&dir, &Checked::new(kernels).unwrap(), &order).unwrap()
    }

    /// Changes the kernel, as the next toolchain does.
    fn change(&mut self) {
        self.object[0] ^= 1;
        self.json = description(&self.object, false);
    }

    /// Extends the kernel's description, as MindSpore does.
    fn extend(&self) -> Vec<u8> {
        let extended = description(&self.object, true);
        fs::write(self.path("op.json"), &extended).unwrap();
        extended
    }

    /// Whether the directory has the current kernel under its name.
    fn is_current(&self) -> bool {
        ["op.o", "op.json"].map(|name| fs::read(self.path(name)).ok())
            == [Some(self.object.clone()), Some(self.json.clone())]
    }

    /// The number of files in the directory with these bytes.
    fn count(&self, bytes: &[u8]) -> usize {
        let files = fs::read_dir(self.base.path()).unwrap();
        files.filter(|file| fs::read(file.as_ref().unwrap().path()).unwrap() == bytes).count()
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
fn a_vouched_file_is_not_read() {
    let view = Fixture::new();
    view.run(0);
    view.run(3);
    // The manifest has the state of another file beside the digest of the right one. Only a read would find the difference.
    fs::write(view.path("op.o"), "another!!!").unwrap();
    let dir = ViewDir::enter(&opkeep_fs::Fs::new(), view.base.path(), Duration::ZERO).unwrap();
    let text = fs::read(view.path(manifest::NAME)).unwrap();
    let mut manifest = Manifest::parse(&text);
    let known = Known { digest: Digest::of(&view.object), seen: dir.file_state("op.o") };
    manifest.record_file("op", KernelFileKind::Object, known, None);
    fs::write(view.path(manifest::NAME), manifest.to_text()).unwrap();
    drop(dir);
    assert_eq!((view.run(3).intact, view.run(3).read), (1, 0));
    // Without that manifest, the file is replaced.
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
    view.extend();
    assert_eq!((view.run(3).intact, view.run(3).read), (1, 0));
}

#[test]
fn another_content_is_not_vouched_for() {
    let mut view = Fixture::new();
    view.run(0);
    view.run(3);
    view.change();
    assert_eq!(view.run(3).written, 1);
    assert_eq!(fs::read(view.path("op.o")).unwrap(), view.object);
    assert_eq!(fs::read(view.path("op.json")).unwrap(), view.json);
}

/// MindSpore's additions are kept, and no later call restores them.
#[test]
fn no_refused_quarantine_keeps_an_outdated_kernel_that_mindspore_extended() {
    for refusal in refusals() {
        let mut view = Fixture::new();
        view.run(0);
        let (extended, old) = (view.extend(), view.object.clone());
        view.change();
        let report = view.run_with(3, &*refusal, &NoStore);
        assert!(view.is_current(), "{refusal:?}: {report:?}");
        assert_eq!((report.written, report.left.len(), report.displaced.len()), (1, 0, 1), "{report:?}");
        assert_eq!((view.count(&extended), view.count(&old)), (1, 0), "{refusal:?}");
        let again = view.run_with(3, &*refusal, &NoStore);
        assert_eq!((again.intact, again.displaced.len()), (1, 0), "{again:?}");
        for name in ["op.o", "op.json", manifest::NAME] {
            fs::remove_file(view.path(name)).unwrap();
        }
        view.write(&[], &[], 3600, &*refusal, &NoStore);
        assert!(!view.path("op.json").exists() && view.count(&extended) == 1, "{refusal:?}");
    }
}

#[test]
fn no_refused_quarantine_keeps_an_outdated_description_beside_its_object() {
    for refusal in refusals() {
        let mut view = Fixture::new();
        view.run(0);
        let extended = view.extend();
        view.json = [&view.json[..view.json.len() - 1], br#", "blockDim": 2}"#].concat();
        assert_eq!(view.run_with(3, &*refusal, &NoStore).written, 1);
        assert!(view.is_current() && view.count(&extended) == 1, "{refusal:?}");
    }
}

/// A framework wrote the files that a build would write. Both of them are kept.
#[test]
fn no_refused_quarantine_keeps_an_outdated_kernel_that_a_framework_wrote_as_we_would() {
    for refusal in refusals() {
        let mut view = Fixture::new();
        fs::write(view.path("op.o"), &view.object).unwrap();
        fs::write(view.path("op.json"), &view.json).unwrap();
        view.run(0);
        let (object, json) = (view.object.clone(), view.json.clone());
        view.change();
        let report = view.run_with(3, &*refusal, &NoStore);
        assert!(view.is_current() && report.displaced.len() == 2, "{refusal:?}: {report:?}");
        assert_eq!((view.count(&object), view.count(&json)), (1, 1), "{refusal:?}");
    }
}

/// The store knows a kernel of ours after the loss of the manifest.
#[test]
fn no_refused_quarantine_keeps_an_outdated_kernel_that_only_the_store_knows() {
    for refusal in refusals() {
        let mut view = Fixture::new();
        view.run(0);
        let stored = Store(StoredKernel { object: Digest::of(&view.object), json: view.json.clone() });
        let json = view.extend();
        let object = view.object.clone();
        fs::remove_file(view.path(manifest::NAME)).unwrap();
        view.change();
        let report = view.run_with(3, &*refusal, &stored);
        assert!(view.is_current() && report.displaced.len() == 2, "{refusal:?}: {report:?}");
        assert_eq!((view.count(&object), view.count(&json)), (1, 1), "{refusal:?}");
        // Without the store, they are another program's.
        for (name, bytes) in [("op.o", &object), ("op.json", &json)] {
            fs::write(view.path(name), bytes).unwrap();
        }
        fs::remove_file(view.path(manifest::NAME)).unwrap();
        assert_eq!(view.run_with(3, &*refusal, &NoStore).left.len(), 1, "{refusal:?}");
        assert_eq!(fs::read(view.path("op.json")).unwrap(), json, "{refusal:?}");
    }
}

/// A damaged descriptor that cannot be quarantined stays, but no outdated kernel beside it does.
#[test]
fn no_refused_quarantine_of_a_descriptor_keeps_an_outdated_kernel() {
    for refusal in refusals() {
        let mut view = Fixture::new();
        view.run(0);
        fs::write(view.path("op.info"), "theirs").unwrap();
        view.change();
        let report = view.run_with(3, &*refusal, &NoStore);
        assert!(view.is_current() && report.left.is_empty(), "{refusal:?}: {report:?}");
        assert_eq!(fs::read(view.path("op.info")).unwrap(), b"theirs", "{refusal:?}");
    }
}

#[test]
fn no_refused_quarantine_keeps_a_kernel_that_is_withdrawn() {
    for refusal in refusals() {
        let view = Fixture::new();
        view.run(0);
        let (extended, object) = (view.extend(), view.object.clone());
        let report = view.withdraw(&*refusal);
        assert_eq!((report.removed, report.left.len(), report.displaced.len()), (1, 0, 1), "{report:?}");
        for _ in 0..2 {
            assert!(!view.path("op.json").exists() && !view.path("op.o").exists(), "{refusal:?}");
            assert_eq!((view.count(&extended), view.count(&object)), (1, 0), "{refusal:?}");
            view.write(&[], &[], 3600, &*refusal, &NoStore);
        }
    }
}

/// If another program replaced one of our files, the whole kernel is left, unless the user permits to replace it: then our
/// outdated description loses its name, and MindSpore's additions are kept.
#[test]
fn a_refused_quarantine_leaves_foreign_files() {
    let both = [false, true].map(|replace| refusals().map(|refusal| (replace, refusal)));
    for (replace, refusal) in both.into_iter().flatten() {
        let mut view = Fixture::new();
        view.policy.replace = replace;
        view.run(0);
        let extended = view.extend();
        fs::write(view.path("op.o"), "theirs").unwrap();
        view.change();
        let report = view.run_with(3, &*refusal, &NoStore);
        let displaced = usize::from(replace);
        assert_eq!((report.left.len(), report.displaced.len()), (1, displaced), "{refusal:?}: {report:?}");
        assert_eq!(fs::read(view.path("op.o")).unwrap(), b"theirs", "{refusal:?}");
        assert_eq!((view.path("op.json").exists(), view.count(&extended)), (!replace, 1), "{refusal:?}");
    }
}

/// Extends the description once more, or writes `theirs` to a file, and then refuses.
#[derive(Debug)]
struct Racing {
    theirs: Option<&'static str>,
}

impl ForeignFiles for Racing {
    fn judge(&self, dir: &Dir, kernel: &KernelFiles<'_>, is_ours: bool) -> Result<String, LeftReason> {
        LeaveForeign.judge(dir, kernel, is_ours)
    }

    fn descriptor_problem(&self, _: &[u8]) -> Option<String> {
        None
    }

    fn quarantine(
        &self,
        _: &Fs,
        path: &Path,
        _: &RunId,
        _: &[Replaced],
        _: bool,
    ) -> Result<QuarantineOutcome, String> {
        match self.theirs {
            Some(name) => fs::write(path.join(name), "theirs").unwrap(),
            None => fs::write(path.join("op.json"), raced(&description(OLD, true))).unwrap(),
        }
        Err("no space left on device".to_owned())
    }
}

fn raced(json: &[u8]) -> Vec<u8> {
    [json, b"\n"].concat()
}

/// While the quarantine refuses it, MindSpore extends the description, or another program takes a name.
#[test]
fn another_program_writes_while_a_quarantine_refuses() {
    for theirs in [None, Some("op.json"), Some("op.o")] {
        let mut view = Fixture::new();
        view.run(0);
        let extended = view.extend();
        view.change();
        let report = view.run_with(3, &Racing { theirs }, &NoStore);
        match theirs {
            None => {
                assert!(view.is_current(), "{report:?}");
                assert_eq!(view.count(&raced(&extended)), 1);
            }
            Some(name) => {
                assert!(matches!(report.left[0].reason, LeftReason::Changed { .. }), "{name}: {report:?}");
                assert_eq!(fs::read(view.path(name)).unwrap(), b"theirs");
                let kept: &[u8] = if name == "op.o" { &extended } else { OLD };
                assert_eq!(view.count(kept), 1, "{name}: {report:?}");
            }
        }
    }
}
