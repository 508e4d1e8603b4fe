//! Every kind of damage to a file, and its repair by a build.

#![expect(clippy::disallowed_methods, reason = "tests damage what was written")]

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::common::{TestKernel, all, assert_consistent, open_view, state, states};
use opkeep_kernel_meta::{KernelFileKind, LeftReason, View};
use tempfile::TempDir;

/// An intact view of three kernels.
fn intact() -> (TempDir, View, [TestKernel; 3]) {
    let base = tempfile::tempdir().unwrap();
    let view = open_view(base.path(), "0").unwrap();
    let kernels = [TestKernel::new("op_1", 1), TestKernel::new("op_2", 2), TestKernel::new("op_3", 3)];
    view.materialise(&all(&kernels)).unwrap();
    (base, view, kernels)
}

/// Materialises once more: the damaged kernel is written, the others are unchanged, and then all are intact.
#[track_caller]
fn assert_repairs(view: &View, kernels: &[TestKernel; 3], what: &str) {
    let dir = view.dir();
    let others = |dir: &Path| {
        states(dir).into_iter().filter(|(name, _)| !name.starts_with("op_2")).collect::<Vec<_>>()
    };
    let before = others(dir);
    let report = view.materialise(&all(kernels)).unwrap();
    assert_eq!((report.written, report.intact), (1, 2), "{what}");
    kernels.iter().for_each(|kernel| kernel.assert_in(dir));
    assert_eq!(others(dir), before, "{what}");
    assert_eq!(assert_consistent(dir), 3, "{what}");
    assert_eq!(view.materialise(&all(kernels)).unwrap().intact, 3, "{what}");
}

/// Changes a file's bytes in place, and restores its time of modification.
fn alter(path: &Path, change: impl Fn(&mut Vec<u8>), restore_time: bool) {
    let mtime = fs::metadata(path).unwrap().modified().unwrap();
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
    if restore_time {
        File::options().append(true).open(path).unwrap().set_modified(mtime).unwrap();
        assert_eq!(fs::metadata(path).unwrap().modified().unwrap(), mtime);
    }
}

#[test]
fn missing_files_are_restored() {
    let (_base, view, kernels) = intact();
    for part in KernelFileKind::ALL {
        fs::remove_file(view.dir().join(kernels[1].name(part))).unwrap();
        assert_repairs(&view, &kernels, &format!("no {part}"));
    }
    KernelFileKind::ALL
        .iter()
        .for_each(|&part| fs::remove_file(view.dir().join(kernels[1].name(part))).unwrap());
    assert_repairs(&view, &kernels, "nothing");
}

#[test]
fn truncated_files_are_restored() {
    let (_base, view, kernels) = intact();
    for part in KernelFileKind::ALL {
        let len = kernels[1].bytes(part).len();
        for keep in [0, 1, len / 2, len - 1] {
            for restore_time in [false, true] {
                alter(&view.dir().join(kernels[1].name(part)), |bytes| bytes.truncate(keep), restore_time);
                assert_repairs(&view, &kernels, &format!("{part} cut to {keep}"));
            }
        }
    }
}

#[test]
fn files_that_grew_are_restored() {
    let (_base, view, kernels) = intact();
    for part in KernelFileKind::ALL {
        alter(&view.dir().join(kernels[1].name(part)), |bytes| bytes.extend(b"more"), false);
        assert_repairs(&view, &kernels, &format!("{part} grew"));
    }
}

#[test]
fn flipped_bytes_are_restored() {
    let (_base, view, kernels) = intact();
    for part in KernelFileKind::ALL {
        let len = kernels[1].bytes(part).len();
        // In a `.json`, white space may differ, so its flips are those of quotes, letters and digits.
        let places: Vec<usize> =
            (0..len).filter(|&at| !kernels[1].bytes(part)[at].is_ascii_whitespace()).collect();
        for at in [places[0], places[places.len() / 3], places[places.len() / 2], places[places.len() - 1]] {
            for restore_time in [false, true] {
                alter(&view.dir().join(kernels[1].name(part)), |bytes| bytes[at] ^= 1, restore_time);
                assert_repairs(&view, &kernels, &format!("{part} flipped at {at}"));
            }
        }
    }
}

#[test]
fn additions_of_mindspore_to_a_json_are_kept() {
    let (_base, view, kernels) = intact();
    let path = view.dir().join("op_2.json");
    // Parsed, extended, printed by another library, written in place.
    let mut value: serde_json::Value = serde_json::from_slice(&kernels[1].json).unwrap();
    value["build_result"] = "{\"tiling\": [1, 2]}".into();
    let added = serde_json::to_vec(&value).unwrap();
    fs::write(&path, &added).unwrap();
    let before = states(view.dir());
    assert_eq!(view.materialise(&all(&kernels)).unwrap().intact, 3);
    assert_eq!(states(view.dir()), before);

    // It survives the loss of the object, too.
    fs::remove_file(view.dir().join("op_2.o")).unwrap();
    assert_eq!(view.materialise(&all(&kernels)).unwrap().written, 1);
    assert_eq!(fs::read(&path).unwrap(), added);
    assert_eq!(fs::read(view.dir().join("op_2.o")).unwrap(), kernels[1].object);

    // Other differences are still repaired.
    value["blockDim"] = 77.into();
    fs::write(&path, serde_json::to_vec(&value).unwrap()).unwrap();
    assert_repairs(&view, &kernels, "build_result and another blockDim");
}

#[test]
fn a_consistent_pair_of_another_kernel_is_replaced() {
    let (_base, view, kernels) = intact();
    let other = TestKernel::new("op_2", 9);
    for parts in [
        &KernelFileKind::ALL[..],
        &[KernelFileKind::Object, KernelFileKind::Json],
        &[KernelFileKind::Json],
        &[KernelFileKind::Object],
    ] {
        for &part in parts {
            fs::write(view.dir().join(other.name(part)), other.bytes(part)).unwrap();
        }
        assert_repairs(&view, &kernels, &format!("{parts:?} of another kernel"));
    }
    // The files of a neighbour, moved: intact files in the wrong place.
    for part in KernelFileKind::ALL {
        fs::copy(view.dir().join(kernels[0].name(part)), view.dir().join(kernels[1].name(part))).unwrap();
    }
    assert_repairs(&view, &kernels, "the neighbour's files");
}

#[test]
fn only_damaged_files_are_written() {
    let (_base, view, kernels) = intact();
    let [object, json, info] = KernelFileKind::ALL.map(|part| view.dir().join(kernels[1].name(part)));
    let before = [&object, &json, &info].map(|path| state(path));
    fs::remove_file(&info).unwrap();
    assert_repairs(&view, &kernels, "no .info");
    assert_eq!([state(&object), state(&json)], before[..2]);
    fs::remove_file(&json).unwrap();
    assert_repairs(&view, &kernels, "no .json");
    assert_eq!(state(&object), before[0]);
}

/// Materialises once more: an entry that is not a file stays, with all files of its kernel, and is reported.
#[track_caller]
fn assert_unchanged(view: &View, kernels: &[TestKernel; 3], file: &str) {
    let before = states(view.dir());
    let report = view.materialise(&all(kernels)).unwrap();
    assert_eq!(states(view.dir()), before, "{file}");
    // No framework reads the descriptor.
    if KernelFileKind::Info.stem_of(file).is_some() {
        return assert_eq!((report.written, report.intact, report.left.len()), (0, 3, 0), "{file}");
    }
    assert_eq!((report.written, report.intact), (0, 2), "{file}");
    let why = LeftReason::NotAFile { file: file.to_owned() };
    assert_eq!((report.left.len(), &*report.left[0].stem, &report.left[0].reason), (1, "op_2", &why));
}

#[test]
fn links_and_their_targets_are_not_changed() {
    let (base, view, kernels) = intact();
    let victim = base.path().join("victim");
    for part in KernelFileKind::ALL {
        // Once with other bytes behind the link, once with the right ones, once with nothing.
        for content in [Some(&b"precious"[..]), Some(kernels[1].bytes(part)), None] {
            match content {
                Some(content) => fs::write(&victim, content).unwrap(),
                None => fs::remove_file(&victim).unwrap(),
            }
            let path = view.dir().join(kernels[1].name(part));
            fs::remove_file(&path).unwrap();
            symlink(&victim, &path).unwrap();
            assert_unchanged(&view, &kernels, &kernels[1].name(part));
            assert_eq!(fs::read(&victim).ok().as_deref(), content);
            fs::remove_file(&path).unwrap();
            assert_repairs(&view, &kernels, &format!("{part} was a link"));
        }
    }
}

#[test]
fn a_second_name_of_a_file_is_not_changed() {
    let (base, view, kernels) = intact();
    let victim = base.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    fs::remove_file(view.dir().join("op_2.o")).unwrap();
    fs::hard_link(&victim, view.dir().join("op_2.o")).unwrap();
    assert_repairs(&view, &kernels, "a hard link");
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
}

#[test]
fn a_pipe_in_the_place_of_a_file_does_not_hang() {
    let (_base, view, kernels) = intact();
    for part in KernelFileKind::ALL {
        let path = view.dir().join(kernels[1].name(part));
        fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o640.into(), 0).unwrap();
        assert_unchanged(&view, &kernels, &kernels[1].name(part));
        fs::remove_file(&path).unwrap();
        assert_repairs(&view, &kernels, &format!("{part} was a pipe"));
    }
}

#[test]
fn a_damaged_kernel_that_cannot_be_written_loses_its_json() {
    let (_base, view, kernels) = intact();
    fs::write(view.dir().join("op_2.o"), "torn").unwrap();
    let fails = || Err(std::io::Error::other("gone"));
    let mut files = all(&kernels);
    files[1].object = opkeep_kernel_meta::FileContent::lazy(files[1].object.digest(), 1, &fails);
    view.materialise(&files).unwrap_err();
    assert!(!view.dir().join("op_2.json").exists());
    assert_eq!(assert_consistent(view.dir()), 2);
    assert_repairs(&view, &kernels, "after a failure");
}
