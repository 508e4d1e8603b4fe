//! Genuine kernels in directories as of frameworks have no findings.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use libtest_mimic::{Failed, Trial};
use opkeep_framework_cache::scan::{Effect, ItemState, Kind, ScanOptions, find, scan};
use opkeep_testkit::corpus;

pub(crate) fn trials() -> Vec<Trial> {
    type Test = fn(&Path) -> Result<(), Box<dyn Error>>;
    let tests: [(&str, Test); 3] = [
        ("akg's kernels for the host", akg),
        ("packages of operators", packages),
        ("the same kernels in canns cache", cann),
    ];
    let trial = |(name, test): (&'static str, Test)| match corpus::directory() {
        Some(dir) => Trial::test(name, move || test(&dir).map_err(|error| Failed::from(error.to_string()))),
        None => corpus::absent(name),
    };
    tests.into_iter().map(trial).collect()
}

/// Asserts that all items in the caches below `base` are intact. Returns the number of kernels.
fn intact(base: &Path, kind: Kind) -> Result<usize, Box<dyn Error>> {
    let options = ScanOptions::new(NonZeroUsize::MIN);
    let mut kernels = 0;
    for place in find(base)?.caches {
        assert_eq!(place.kind, kind);
        let scan = scan(&place, &options)?;
        assert_eq!((scan.foreign_count, scan.unreadable_dirs.len()), (0, 0), "{:?}", scan.foreign);
        for item in &scan.items {
            assert!(matches!(item.state, ItemState::Intact), "{item:#?}");
            let allowed = [Effect::Used, Effect::Ignored];
            assert!(allowed.contains(&item.behavior.effect), "{item:#?}");
            kernels += usize::from(item.kernel.is_some());
        }
    }
    Ok(kernels)
}

fn akg(corpus: &Path) -> Result<(), Box<dyn Error>> {
    let base = tempfile::tempdir()?;
    let dir = base.path().join("akg_kernel_meta");
    fs::create_dir(&dir)?;
    for file in corpus::files(&corpus.join("mindspore/akg-cpu"))? {
        fs::copy(&file, dir.join(file.file_name().ok_or("a file has a name")?))?;
    }
    assert_eq!(intact(base.path(), Kind::Akg)?, 4);
    Ok(())
}

/// Copies every kernel that has both files to `dir`, under the name in its `.json`.
fn copy_pairs(corpus: &Path, dir: impl Fn(&Path) -> std::path::PathBuf) -> Result<usize, Box<dyn Error>> {
    let mut stems = BTreeSet::new();
    for part in ["mindspore/wheel270-ascend", "cann"] {
        for object in corpus::files_ending(&corpus.join(part), &["o"])? {
            let json: serde_json::Value = serde_json::from_slice(&fs::read(object.with_extension("json"))?)?;
            let name = json["binFileName"].as_str().ok_or("a kernel says its file")?.to_owned();
            let dir = dir(&object);
            fs::create_dir_all(&dir)?;
            fs::copy(&object, dir.join(format!("{name}.o")))?;
            fs::copy(object.with_extension("json"), dir.join(format!("{name}.json")))?;
            stems.insert(dir.join(name));
        }
    }
    Ok(stems.len())
}

fn packages(corpus: &Path) -> Result<(), Box<dyn Error>> {
    let base = tempfile::tempdir()?;
    let soc = |object: &Path| {
        let parent = object.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        if parent == "cann" { "ascend910b".to_owned() } else { parent.into_owned() }
    };
    let kernels = base.path().join("op_impl/ai_core/tbe/kernel");
    let copied = copy_pairs(corpus, |object| kernels.join(soc(object)).join("some_op"))?;
    assert_eq!(intact(base.path(), Kind::Package)?, copied);
    assert!(copied >= 10, "{copied}");
    Ok(())
}

fn cann(corpus: &Path) -> Result<(), Box<dyn Error>> {
    let base = tempfile::tempdir()?;
    let soc = |object: &Path| {
        if object.to_string_lossy().contains("ascend310p") { "Ascend310P3" } else { "Ascend910B2" }
    };
    let copied = copy_pairs(corpus, |object| base.path().join("kernel_cache").join(soc(object)))?;
    assert_eq!(intact(base.path(), Kind::Cann)?, copied);
    Ok(())
}
