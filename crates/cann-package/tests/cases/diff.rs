//! Packages that are compared by what they mean.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]
#![expect(clippy::unwrap_used, reason = "these tests are functions without `#[test]`")]

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use libtest_mimic::{Failed, Trial};
use opkeep_cann_package::{KernelChange, PackageDir, PackagesDiff, Presence, UnitDiff, diff};
use opkeep_fs::CancelToken;
use opkeep_testkit::toolkit::package::VendorPackage;
use serde_json::json;

use crate::common::Package;

type Test = fn() -> Result<(), Failed>;

pub(crate) fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 5] = [
        ("equal_packages_have_no_difference", equal_packages_have_no_difference),
        ("layout_and_order_do_not_count", layout_and_order_do_not_count),
        ("each_difference_is_named", each_difference_is_named),
        ("packages_are_compared_by_name", packages_are_compared_by_name),
        ("files_that_cannot_be_read_are_a_difference", files_that_cannot_be_read_are_a_difference),
    ];
    tests.into_iter().map(|(name, test)| Trial::test(format!("diff::{name}"), test)).collect()
}

fn compared(one: &Path, other: &Path) -> PackagesDiff {
    let cancel = CancelToken::new();
    let open = |path: &Path| PackageDir::open(path, &cancel).unwrap();
    diff(&open(one), &open(other), NonZeroUsize::MIN, &cancel).unwrap()
}

fn unit<'d>(found: &'d PackagesDiff, name: &str) -> &'d UnitDiff {
    found.pairs[0].units.iter().find(|unit| unit.name == name).unwrap()
}

fn equal_packages_have_no_difference() -> Result<(), Failed> {
    let (one, other) = (Package::new(), Package::new());
    let found = compared(&one.path(), &other.path());
    assert!(found.is_empty(), "{found:#?}");
    assert_eq!(unit(&found, "ascend910b").unchanged, 6);
    // The kernels of both units are for the same chips, compiled by one compiler.
    let shared: Vec<_> = found.pairs[0].shared[1].iter().map(|it| (it.units.clone(), it.kernels)).collect();
    assert_eq!(shared, [(["ascend910_93".to_owned(), "ascend910b".to_owned()], 4)]);
    assert_eq!(found.pairs[0].shared[0], found.pairs[0].shared[1]);
    Ok(())
}

fn layout_and_order_do_not_count() -> Result<(), Failed> {
    let (one, other) = (Package::new(), Package::new());
    other.edit("kernel/config/ascend910b/add_custom.json", |index| {
        index["binList"].as_array_mut().unwrap().reverse()
    });
    other.edit("kernel/config/ascend910b/binary_info_config.json", |index| {
        index["AddCustom"]["binaryList"].as_array_mut().unwrap().reverse();
    });
    let kernel = format!("{}.json", Package::add("ascend910b", "float16"));
    other.edit(&kernel, |meta| meta["filePath"] = json!("/tmp/build/x.json"));
    assert_ne!(one.read(&kernel), other.read(&kernel));
    let found = compared(&one.path(), &other.path());
    assert!(found.is_empty(), "{found:#?}");
    Ok(())
}

fn each_difference_is_named() -> Result<(), Failed> {
    let (one, other) = (Package::new(), Package::new());
    let half = Package::add("ascend910b", "float16");
    let float = Package::add("ascend910b", "float32");
    other.edit(&format!("{half}.json"), |meta| meta["opParaSize"] = json!(7_777));
    let mut object = other.read(&format!("{float}.o"));
    object[200] ^= 1;
    other.write(&format!("{float}.o"), object);
    for end in ["o", "json"] {
        fs::rename(
            other.file(&format!("{}.{end}", Package::add("ascend310p", "float16"))),
            other.file(&format!("kernel/ascend310p/add_custom/SubCustom_1.{end}")),
        )
        .unwrap();
    }
    other.edit("kernel/config/ascend910b/add_custom.json", |index| {
        index["binList"][0]["staticKey"] = json!("11")
    });
    other.edit("config/ascend910b/aic-ascend910b-ops-info.json", |info| {
        info["AddCustom"]["output0"]["name"] = json!("out")
    });
    other.write("vendor_impl/dynamic/add_custom.py", "def add_custom(): pass");
    other.write("vendor_impl/dynamic/sub_custom.py", "");
    other.remove("kernel/ascend910_93");
    other.remove("kernel/config/ascend910_93");
    other.remove("config/ascend910_93");
    let found = compared(&one.path(), &other.path());
    let kernels = |name: &str| {
        unit(&found, name).kernels.iter().map(|it| (it.kernel.clone(), it.change.clone())).collect::<Vec<_>>()
    };
    let place = |path: &str| path.trim_start_matches("kernel/").to_owned();
    let of_910b = kernels("ascend910b");
    let change = |path: &str| &of_910b.iter().find(|(kernel, _)| *kernel == place(path)).unwrap().1;
    let of_field = match change(&half) {
        KernelChange::Metadata(field) => Some((field.field.as_str(), field.other.as_str())),
        _ => None,
    };
    assert_eq!(of_field, Some(("opParaSize", "7777")), "{of_910b:?}");
    assert_eq!(*change(&float), KernelChange::Code(None));
    assert_eq!((of_910b.len(), unit(&found, "ascend910b").unchanged), (2, 4));
    let of_310p: Vec<KernelChange> = kernels("ascend310p").into_iter().map(|(_, change)| change).collect();
    assert!(
        of_310p.contains(&KernelChange::Added) && of_310p.contains(&KernelChange::Removed),
        "{of_310p:?}"
    );
    assert_eq!(unit(&found, "ascend910_93").presence, Presence::Removed);
    assert_eq!(unit(&found, "ascend910_93").removed_operators, ["AddCustom", "FusedMatmul"]);
    let files: Vec<_> = unit(&found, "ascend910b")
        .files
        .iter()
        .map(|file| (file.file.as_str(), file.field.as_ref().map(|field| field.field.as_str())))
        .collect();
    let expected = [
        ("add_custom.json", Some("binList[0].staticKey")),
        ("aic-ascend910b-ops-info.json", Some("AddCustom.output0.name")),
    ];
    assert!(files.len() == 2 && files[1] == expected[1], "{files:?}");
    assert!(files[0].0 == expected[0].0 && files[0].1.unwrap().ends_with("staticKey"), "{files:?}");
    let python: Vec<_> =
        found.pairs[0].python.iter().map(|file| (file.file.as_str(), file.presence)).collect();
    assert_eq!(python, [("add_custom.py", Presence::Both), ("sub_custom.py", Presence::Added)]);
    Ok(())
}

fn packages_are_compared_by_name() -> Result<(), Failed> {
    let dir = tempfile::tempdir().unwrap();
    for vendor in ["a/vendors/x", "a/vendors/y", "b/vendors/y", "b/vendors/z"] {
        VendorPackage::write(&dir.path().join(vendor)).unwrap();
    }
    let found = compared(&dir.path().join("a"), &dir.path().join("b"));
    assert_eq!((found.removed, found.added), (vec!["vendors/x".into()], vec!["vendors/z".into()]));
    assert!(
        found.pairs.len() == 1 && found.pairs[0].is_empty() && found.pairs[0].one == Path::new("vendors/y")
    );
    Ok(())
}

fn files_that_cannot_be_read_are_a_difference() -> Result<(), Failed> {
    let (one, other) = (Package::new(), Package::new());
    let half = Package::add("ascend910b", "float16");
    for package in [&one, &other] {
        let object = package.file(&format!("{half}.o"));
        fs::rename(&object, package.path().join("../kernel.o")).unwrap();
        std::os::unix::fs::symlink("../../../../../../../../kernel.o", object).unwrap();
    }
    let found = compared(&one.path(), &other.path());
    let kernels = &unit(&found, "ascend910b").kernels;
    assert!(matches!(&kernels[..], [it] if matches!(it.change, KernelChange::Unreadable(_))), "{kernels:?}");
    Ok(())
}
