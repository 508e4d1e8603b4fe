//! The files that a view writes, keeps, removes and refuses.

#![expect(clippy::disallowed_methods, reason = "tests look at what was written")]

use std::cell::Cell;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::common::{TestKernel, all, assert_consistent, names, open_view, states, temps};
use opkeep_digest::Digest;
use opkeep_kernel_meta::{FileContent, KernelFileKind, KernelFiles, LeftReason, View, ViewError};
use tempfile::TempDir;

fn view() -> (TempDir, View) {
    let base = tempfile::tempdir().unwrap();
    let view = open_view(base.path(), "0").unwrap();
    (base, view)
}

/// Dates a kernel `minutes` ago.
fn age(dir: &Path, kernel: &TestKernel, minutes: u64) {
    for part in KernelFileKind::ALL {
        let file = File::options().append(true).open(dir.join(kernel.name(part))).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(minutes * 60)).unwrap();
    }
}

#[test]
fn a_fresh_view_holds_all_three_files_of_each_kernel() {
    let (base, view) = view();
    let kernels: Vec<TestKernel> = (0..100).map(|i| TestKernel::new(&format!("op_{i}"), i)).collect();
    let report = view.materialise(&all(&kernels)).unwrap();
    assert_eq!((report.written, report.intact, report.removed, report.read), (100, 0, 0, 0));
    assert!(report.locked && report.recorded);

    assert_eq!(view.dir(), base.path().join("rank_0/kernel_meta"));
    kernels.iter().for_each(|kernel| kernel.assert_in(view.dir()));
    assert_eq!(names(view.dir()).len(), 300 + 2, "{:?}", names(view.dir()));
    assert!(temps(view.dir()).is_empty());
}

#[test]
fn files_have_the_modes_of_the_framework() {
    let (base, view) = view();
    let kernel = TestKernel::new("op", 1);
    view.materialise(&[kernel.files()]).unwrap();
    // The umask may remove permissions, but none may be added.
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    for part in KernelFileKind::ALL {
        let mode = mode(&view.dir().join(kernel.name(part)));
        assert_eq!(mode & !0o640, 0, "{part} {mode:o}");
        assert_eq!(mode & 0o600, 0o600, "{part} {mode:o}");
    }
    for dir in ["rank_0", "rank_0/kernel_meta"] {
        let mode = mode(&base.path().join(dir));
        assert_eq!(mode & !0o750, 0, "{dir} {mode:o}");
        assert_eq!(mode & 0o700, 0o700, "{dir} {mode:o}");
    }
}

#[test]
fn a_second_call_rewrites_nothing() {
    let (_base, view) = view();
    let kernels: Vec<TestKernel> = (0..40).map(|i| TestKernel::new(&format!("op_{i}"), i)).collect();
    view.materialise(&all(&kernels)).unwrap();
    let before = states(view.dir());
    let report = view.materialise(&all(&kernels)).unwrap();
    assert_eq!((report.written, report.intact), (0, 40));
    assert_eq!(states(view.dir()), before);
    // Nor does another process with its own view of the same directory.
    open_view(_base.path(), "0").unwrap().materialise(&all(&kernels)).unwrap();
    assert_eq!(states(view.dir()), before);
}

#[test]
fn bytes_are_requested_only_when_they_are_written() {
    let (_base, view) = view();
    let made = TestKernel::new("op", 1);
    let loads = Cell::new([0; 3]);
    let load = |part: KernelFileKind| {
        let mut counts = loads.get();
        counts[part as usize] += 1;
        loads.set(counts);
        Ok(made.bytes(part).to_vec())
    };
    let loaders = KernelFileKind::ALL.map(|part| move || load(part));
    let content = |part: KernelFileKind| {
        let bytes = made.bytes(part);
        FileContent::lazy(Digest::of(bytes), bytes.len() as u64, &loaders[part as usize])
    };
    let lazy = KernelFiles {
        slot: "slot",
        stem: "op",
        object: content(KernelFileKind::Object),
        json: content(KernelFileKind::Json),
        info: content(KernelFileKind::Info),
        for_chip: true,
        debug: false,
    };
    view.materialise(&[lazy]).unwrap();
    assert_eq!(loads.get(), [1, 1, 1]);
    made.assert_in(view.dir());
    view.materialise(&[lazy]).unwrap();
    assert_eq!(loads.get(), [1, 1, 1]);
    fs::remove_file(view.dir().join("op.info")).unwrap();
    view.materialise(&[lazy]).unwrap();
    assert_eq!(loads.get(), [1, 1, 2]);
}

#[test]
fn a_deleted_directory_is_created_again() {
    let (base, view) = view();
    let kernel = TestKernel::new("op", 1);
    view.materialise(&[kernel.files()]).unwrap();
    fs::remove_dir_all(base.path().join("rank_0")).unwrap();
    assert_eq!(view.materialise(&[kernel.files()]).unwrap().written, 1);
    kernel.assert_in(view.dir());
}

#[test]
fn a_new_version_under_the_same_name_replaces_the_old_one() {
    let (_base, view) = view();
    let (old, new) = (TestKernel::new("op", 1), TestKernel::new("op", 2));
    view.materialise(&[old.files()]).unwrap();
    assert_eq!(view.materialise(&[new.files()]).unwrap().written, 1);
    new.assert_in(view.dir());
    assert_consistent(view.dir());
}

#[test]
fn ranks_have_separate_directories() {
    let base = tempfile::tempdir().unwrap();
    let kernel = TestKernel::new("op", 1);
    for rank in ["0", "1", "a.b-c_D"] {
        let view = open_view(base.path(), rank).unwrap();
        assert_eq!(view.materialise(&[kernel.files()]).unwrap().written, 1);
        kernel.assert_in(&base.path().join(format!("rank_{rank}/kernel_meta")));
    }
}

#[test]
fn ranks_that_are_not_file_names_are_refused() {
    let base = tempfile::tempdir().unwrap();
    for rank in ["../x", "a/b", "", ".", "..", "0 1", "0\n", "é", &"9".repeat(201)] {
        let error = open_view(base.path(), rank).unwrap_err();
        assert!(matches!(error, ViewError::Rank { .. }), "{rank}: {error:?}");
        let text = error.to_string();
        assert!(text.contains("RANK_ID") && text.contains("A-Z a-z 0-9 _ . -"), "{text}");
    }
    assert!(names(base.path()).is_empty());
}

#[test]
fn stems_that_are_not_file_names_are_refused_before_any_write() {
    let (_base, view) = view();
    let good = TestKernel::new("good", 1);
    for stem in ["../x", "a/b", "", "..", ".opkeep.lock", ".opkeep-manifest", "a b"] {
        let bad = KernelFiles { stem, ..good.files() };
        let error = view.materialise(&[good.files(), bad]).unwrap_err();
        assert!(matches!(error, ViewError::Stem { .. }), "{stem}: {error:?}");
    }
    assert!(states(view.dir()).is_empty());
}

#[test]
fn a_base_that_is_no_directory_is_refused_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "precious").unwrap();
    symlink(dir.path().join("nowhere"), dir.path().join("dangling")).unwrap();
    fs::create_dir(dir.path().join("base")).unwrap();
    fs::write(dir.path().join("base/rank_0"), "").unwrap();
    fs::create_dir_all(dir.path().join("deep/rank_0")).unwrap();
    fs::write(dir.path().join("deep/rank_0/kernel_meta"), "").unwrap();

    for (base, culprit, expected) in [
        ("file", "file", "a file"),
        ("file/below", "file", "a file"),
        ("dangling", "dangling", "a symbolic link"),
        ("base", "base/rank_0", "a file"),
        ("deep", "deep/rank_0/kernel_meta", "a file"),
    ] {
        let error = open_view(&dir.path().join(base), "0").unwrap_err();
        let text = error.to_string();
        assert!(
            matches!(&error, ViewError::NotADirectory { path, found }
            if *path == dir.path().join(culprit) && found.contains(expected)),
            "{base}: {error:?}"
        );
        assert!(text.contains("move it away"), "{text}");
    }
    assert_eq!(fs::read(&file).unwrap(), b"precious");
}

#[test]
fn a_directory_in_the_place_of_a_file_stays_and_is_reported() {
    let kernel = TestKernel::new("op", 1);
    for part in KernelFileKind::ALL {
        let (_base, view) = view();
        let path = view.dir().join(kernel.name(part));
        fs::create_dir(&path).unwrap();
        fs::write(path.join("precious"), "").unwrap();
        let report = view.materialise(&[kernel.files()]).unwrap();
        assert!(path.join("precious").exists());
        if part == KernelFileKind::Info {
            // No framework reads the descriptor.
            assert_eq!((report.left.len(), report.written, states(view.dir()).len()), (0, 1, 3));
            continue;
        }
        let why = LeftReason::NotAFile { file: kernel.name(part) };
        assert_eq!((report.left.len(), &*report.left[0].stem, &report.left[0].reason), (1, "op", &why));
        assert_eq!(states(view.dir()).len(), 1);
        assert!(temps(view.dir()).is_empty());
    }
}

#[test]
fn a_kernel_may_have_several_slots_and_a_slot_one_kernel() {
    let (_base, view) = view();
    let (one, two) = (TestKernel::new("op", 1), TestKernel::new("op", 2));
    let other_slot = KernelFiles { slot: "other", ..one.files() };
    let report = view.materialise(&[one.files(), other_slot]).unwrap();
    assert_eq!((report.written, report.intact), (1, 0));

    let error = view.materialise(&[one.files(), two.files()]).unwrap_err();
    assert!(matches!(error, ViewError::Conflict { kind: KernelFileKind::Object, .. }), "{error:?}");
    one.assert_in(view.dir());
}

#[test]
fn bytes_with_another_digest_are_not_written() {
    let (_base, view) = view();
    let kernel = TestKernel::new("op", 1);
    let lie =
        KernelFiles { object: FileContent::known(Digest::of(b"announced"), b"delivered"), ..kernel.files() };
    let error = view.materialise(&[lie]).unwrap_err();
    assert!(
        matches!(error, ViewError::Content { kind: KernelFileKind::Object, found_len: 9, .. }),
        "{error:?}"
    );

    let fails = || Err(std::io::Error::other("the store is gone"));
    let fails = KernelFiles { object: FileContent::lazy(Digest::of(b"x"), 1, &fails), ..kernel.files() };
    let error = view.materialise(&[fails]).unwrap_err();
    assert!(error.to_string().contains("the store is gone"), "{error}");
    assert!(states(view.dir()).is_empty() && temps(view.dir()).is_empty());
}

#[test]
fn foreign_files_are_not_changed() {
    let (base, view) = view();
    let dir = view.dir().to_owned();
    for name in ["Initialize.info", "file.lock", "other_1.o", "other_1.json", ".hidden", "x.opkeep-tmp-1-1"] {
        fs::write(dir.join(name), name).unwrap();
    }
    fs::create_dir(dir.join("tbe_prebuild_res")).unwrap();
    fs::write(base.path().join("rank_0/graph_cache"), "").unwrap();
    let before = names(&dir);
    let kernels = [TestKernel::new("op_1", 1), TestKernel::new("op_2", 2)];
    view.materialise(&all(&kernels)).unwrap();
    view.materialise(&[KernelFiles { slot: "Default/op_1", ..TestKernel::new("op_3", 3).files() }]).unwrap();
    for name in before.iter().filter(|name| !name.starts_with(".opkeep") && *name != "tbe_prebuild_res") {
        assert_eq!(fs::read(dir.join(name)).unwrap(), name.as_bytes(), "{name}");
    }
    assert!(dir.join("tbe_prebuild_res").is_dir() && base.path().join("rank_0/graph_cache").exists());
}

#[test]
fn temporary_files_of_dead_writers_are_removed() {
    let (_base, view) = view();
    fs::write(view.dir().join(".opkeep-tmp-4711-0"), "half").unwrap();
    let kernel = TestKernel::new("op", 1);
    view.materialise(&[kernel.files()]).unwrap();
    assert!(temps(view.dir()).is_empty());
    // Also when there is nothing to write.
    fs::write(view.dir().join(".opkeep-tmp-4711-1"), "half").unwrap();
    view.materialise(&[kernel.files()]).unwrap();
    assert!(temps(view.dir()).is_empty());
}

#[test]
fn superseded_kernels_are_removed_after_thirty_minutes() {
    let (_base, view) = view();
    let dir = view.dir();
    let old = TestKernel::new("op_1", 1);
    let new = TestKernel { slot: old.slot.clone(), ..TestKernel::new("op_2", 2) };
    let elsewhere = TestKernel::new("elsewhere", 3);
    view.materialise(&[old.files(), elsewhere.files()]).unwrap();
    [&old, &elsewhere].iter().for_each(|kernel| age(dir, kernel, 29));
    assert_eq!(view.materialise(&[new.files()]).unwrap().removed, 0);
    old.assert_in(dir);

    age(dir, &old, 31);
    age(dir, &elsewhere, 31);
    assert_eq!(view.materialise(&[new.files()]).unwrap().removed, 1);
    assert!(old.is_absent_from(dir));
    new.assert_in(dir);
    // No other kernel took its slot.
    elsewhere.assert_in(dir);
    assert_eq!(view.materialise(&[new.files()]).unwrap().removed, 0);
}

#[test]
fn a_superseded_kernel_that_is_requested_stays() {
    let (_base, view) = view();
    let old = TestKernel::new("op_1", 1);
    let new = TestKernel { slot: old.slot.clone(), ..TestKernel::new("op_2", 2) };
    view.materialise(&[old.files()]).unwrap();
    view.materialise(&[new.files()]).unwrap();
    age(view.dir(), &old, 60);
    let report = view.materialise(&[new.files(), old.files()]).unwrap();
    assert_eq!((report.removed, report.intact), (0, 2));
    old.assert_in(view.dir());
}

#[test]
fn a_foreign_file_with_a_superseded_name_stays() {
    let old = TestKernel::new("op_1", 1);
    let new = TestKernel { slot: old.slot.clone(), ..TestKernel::new("op_2", 2) };
    let foreign = TestKernel::new("op_1", 7);
    for taken in [&[KernelFileKind::Object][..], &[KernelFileKind::Json], &KernelFileKind::ALL] {
        let (_base, view) = view();
        view.materialise(&[old.files()]).unwrap();
        for &part in taken {
            fs::write(view.dir().join(old.name(part)), foreign.bytes(part)).unwrap();
        }
        age(view.dir(), &old, 60);
        let before = states(view.dir());
        assert_eq!(view.materialise(&[new.files()]).unwrap().removed, 0);
        let after = states(view.dir());
        assert!(before.iter().all(|(name, state)| after.get(name) == Some(state)), "{taken:?}");
    }

    // The foreign `.info` stays, the own kernel is removed.
    let (_base, view) = view();
    view.materialise(&[old.files()]).unwrap();
    fs::write(view.dir().join("op_1.info"), "theirs").unwrap();
    age(view.dir(), &old, 60);
    assert_eq!(view.materialise(&[new.files()]).unwrap().removed, 1);
    assert_eq!(fs::read(view.dir().join("op_1.info")).unwrap(), b"theirs");
    assert!(!view.dir().join("op_1.o").exists());
}

#[test]
fn removing_does_not_follow_links() {
    let (base, view) = view();
    let old = TestKernel::new("op_1", 1);
    let new = TestKernel { slot: old.slot.clone(), ..TestKernel::new("op_2", 2) };
    view.materialise(&[old.files()]).unwrap();
    age(view.dir(), &old, 60);
    let victim = base.path().join("victim");
    fs::rename(view.dir().join("op_1.o"), &victim).unwrap();
    symlink(&victim, view.dir().join("op_1.o")).unwrap();
    view.materialise(&[new.files()]).unwrap();
    assert_eq!(fs::read(&victim).unwrap(), old.object);
    assert_eq!(fs::metadata(&victim).unwrap().nlink(), 1);
}

#[test]
fn a_truncated_manifest_costs_only_a_read() {
    let (_base, view) = view();
    let manifest = view.dir().join(".opkeep-manifest");
    let old = TestKernel::new("op_1", 1);
    let new = TestKernel { slot: old.slot.clone(), ..TestKernel::new("op_2", 2) };
    view.materialise(&[old.files()]).unwrap();
    let intact = fs::read(&manifest).unwrap();
    let mut flipped = intact.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let cases = [&b""[..], b"opkeep-manifest 2 \n", b"\xff\xfe", &intact[..intact.len() / 2], &flipped];
    for damaged in cases {
        fs::write(&manifest, damaged).unwrap();
        age(view.dir(), &old, 60);
        let before = states(view.dir());
        let report = view.materialise(&[old.files()]).unwrap();
        assert_eq!((report.written, report.intact, report.read), (0, 1, 3));
        assert_eq!(states(view.dir()), before);
    }
    // Files that are not known as own ones are not removed, at any age.
    fs::write(&manifest, "torn").unwrap();
    assert_eq!(view.materialise(&[new.files()]).unwrap().removed, 0);
    old.assert_in(view.dir());
    fs::remove_file(&manifest).unwrap();
    fs::create_dir(&manifest).unwrap();
    let report = view.materialise(&[new.files()]).unwrap();
    assert!(report.intact == 1 && !report.recorded);
    assert!(temps(view.dir()).is_empty());
}
