//! Genuine packages have no finding.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]
#![expect(clippy::unwrap_used, reason = "these tests are functions without `#[test]`")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::{Failed, Trial};
use opkeep_digest::Digest;
use opkeep_testkit::corpus;

use crate::common::verify;

/// The wheel of vllm-ascend 0.23.0 for Python 3.11 and x86-64.
const WHEEL: (&str, &str) = (
    "vllm_ascend-0.23.0-cp311-cp311-manylinux_2_34_x86_64.whl",
    "4f0d25d3b6d8ae85753b53d4bd8d910418865baf413fa779b87012ad1a4a3f87",
);

pub(crate) fn trials() -> Vec<Trial> {
    let corpus = match corpus::directory() {
        None => corpus::absent("genuine::a_package_of_mindspore"),
        Some(dir) => Trial::test("genuine::a_package_of_mindspore", move || a_package_of_mindspore(&dir)),
    };
    // `pip download --no-deps vllm-ascend==0.23.0` into this directory; nothing of it is in the repository.
    let wheel = std::env::var_os("OPKEEP_WHEELS")
        .map(|dir| PathBuf::from(dir).join(WHEEL.0))
        .filter(|it| it.is_file());
    let name = "genuine::all_kernels_of_vllm_ascend";
    let wheel = match wheel {
        None => Trial::test(name, || Err("OPKEEP_WHEELS names no directory with the wheel".into()))
            .with_ignored_flag(true),
        Some(path) => Trial::test(name, move || all_kernels_of_vllm_ascend(&path)),
    };
    vec![corpus, wheel]
}

/// The corpus has a whole unit, each file under a name of its own.
fn a_package_of_mindspore(corpus: &Path) -> Result<(), Failed> {
    let (from, to) = (corpus.join("mindspore/wheel270-ascend"), tempfile::tempdir().unwrap());
    let tbe = to.path().join("custom/op_impl/ai_core/tbe");
    let copy = |from: PathBuf, to: PathBuf| {
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, to).unwrap();
    };
    let unit = from.join("ascend910b");
    let config = tbe.join("kernel/config/ascend910b");
    copy(unit.join("binary_info_config.json"), config.join("binary_info_config.json"));
    copy(unit.join("kernel-config-all_finite.json"), config.join("all_finite.json"));
    let info = "aic-ascend910b-ops-info.json";
    copy(from.join(info), tbe.join("config/ascend910b").join(info));
    for path in corpus::files(&unit).unwrap() {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name.starts_with("AllFinite") {
            copy(path, tbe.join("kernel/ascend910b/all_finite").join(name));
        }
    }
    let verified = verify(to.path()).unwrap().remove(0);
    assert_eq!((verified.findings.as_slice(), verified.units[0].valid), (&[][..], 3));
    // A kernel of the corpus that no index names is found.
    let name = "AddRmsNormDynamicQuant_cde61da2bd6fededcb1ba310a6ad16ee";
    for end in ["o", "json"] {
        let file = format!("{name}.{end}");
        copy(unit.join(&file), tbe.join("kernel/ascend910b/all_finite").join(file));
    }
    let verified = verify(to.path()).unwrap().remove(0);
    let kinds: Vec<String> = verified.findings.iter().map(|finding| finding.problem.kind()).collect();
    assert_eq!(kinds, ["not-listed", "not-listed", "unknown-operator"]);
    Ok(())
}

fn all_kernels_of_vllm_ascend(wheel: &Path) -> Result<(), Failed> {
    assert_eq!(Digest::of(&fs::read(wheel).unwrap()).to_string(), WHEEL.1);
    let dir = tempfile::tempdir().unwrap();
    let unpacked = Command::new("python3").args(["-m", "zipfile", "-e"]).arg(wheel).arg(dir.path()).status();
    assert!(unpacked.unwrap().success());
    let verified = verify(dir.path()).unwrap();
    assert_eq!(verified.len(), 1);
    let unit = &verified[0].units[0];
    assert_eq!((verified[0].findings.as_slice(), verified[0].more), (&[][..], 0));
    assert_eq!((unit.kernels, unit.valid, unit.relocatable, unit.operators), (175, 175, 40, 36));
    Ok(())
}
