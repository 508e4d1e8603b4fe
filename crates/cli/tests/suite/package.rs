//! `opkeep package`: what a user sees of a package that agrees, and of one that does not.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]
#![expect(clippy::unwrap_used, reason = "not all functions here are tests")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use opkeep_testkit::toolkit::package::VendorPackage;

use crate::common::Place;
use crate::common::packages::{build_tree, two_vendors};

fn package(place: &Place, vendor: &str) -> VendorPackage {
    VendorPackage::write(&place.path(&format!("vendors/{vendor}"))).unwrap()
}

#[test]
fn a_package_that_agrees_is_a_table() {
    let place = Place::untouched();
    package(&place, "custom");
    let ran = place.run(&["package", "verify", "vendors"]).ended_with(0);
    let expected = "\
package         unit          kernels  valid  relocatable  operators  indexes
vendors/custom  ascend310p          4      4            0          2        3
vendors/custom  ascend910_93        4      4            0          2        3
vendors/custom  ascend910b          6      6            2          2        4
14 kernels in 1 package: 14 valid, 0 refused; 0 errors, 0 warnings
";
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), (expected, ""));
    // By the vendor's own directory, from inside, and by a link.
    symlink("vendors/custom", place.path("link")).unwrap();
    for dir in ["vendors/custom", "vendors/custom/op_impl/ai_core/tbe", "link"] {
        place.run(&["package", "verify", dir]).ended_with(0).prints("14 valid, 0 refused; 0 errors");
    }
}

#[test]
fn disagreements_are_named_with_file_expected_and_found() {
    let place = Place::untouched();
    let (first, second) = (package(&place, "first"), package(&place, "second"));
    let add = VendorPackage::add("ascend910b", "float16");
    fs::remove_file(first.file(&format!("{add}.o"))).unwrap();
    let index = second.file("kernel/config/ascend910b/add_custom.json");
    fs::write(&index, fs::read_to_string(&index).unwrap().replacen("float16", "int8", 1)).unwrap();
    fs::remove_file(second.file("vendor_impl/dynamic/add_custom.py")).unwrap();
    let ran = place.run(&["package", "verify", "vendors"]).ended_with(1);
    let name = add.rsplit('/').next().unwrap();
    let tbe = "op_impl/ai_core/tbe";
    for line in [
        &format!(
            "error    vendors/first/{tbe}/{add}.json: expected its object `{name}.o`, found no file; build the kernel again,"
        ),
        &format!(
            "error    vendors/second/{tbe}/kernel/config/ascend910b/add_custom.json: `ascend910b/add_custom/{name}.json`: field \
                  `binList[0].inputs[0].dtype`: expected `float16` as in its .json, found `int8`; write the indexes again"
        ),
        "\n3 notes: -v shows them\n28 kernels in 2 packages: 27 valid, 1 refused; ",
    ] {
        assert!(ran.stdout.contains(line), "{line}\n{}", ran.stdout);
    }
    let loud = place.run(&["package", "verify", "vendors", "-v"]).ended_with(1);
    loud.prints("operator `AddCustom` has no generated Python `add_custom.py`; no harm, unless kernels");
    let report = place.run(&["package", "verify", "vendors", "--format", "json"]).ended_with(1).json();
    let finding = &report["packages"][1]["findings"][0];
    assert_eq!(
        (&finding["code"], &finding["expected"], &finding["found"]),
        (&"differs".into(), &"`float16`".into(), &"`int8`".into())
    );
    assert_eq!(report["packages"][0]["consistent"], false);
}

#[test]
fn what_is_no_package_or_cannot_be_read_ends_with_2() {
    let place = Place::untouched();
    place.write("empty/notes.txt", "");
    place
        .run(&["package", "verify", "empty"])
        .ended_with(2)
        .says("`empty` holds no operator package: expected");
    place.run(&["package", "verify", "missing"]).ended_with(2).says("cannot read `missing`");
    place.run(&["package", "verify", "empty/notes.txt"]).ended_with(2).says("cannot read `empty/notes.txt`");
    let vendor = package(&place, "custom");
    let closed = vendor.file("kernel/ascend910b/add_custom");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let ran = place.run(&["package", "verify", "vendors"]);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
    // Root may read everything.
    if ran.stderr.is_empty() {
        ran.ended_with(0);
    } else {
        ran.ended_with(2).says("kernel/ascend910b/add_custom`: ");
    }
}

#[test]
fn the_differences_of_two_packages_are_named() {
    let place = Place::untouched();
    two_vendors(&place);
    let same = place.run(&["package", "diff", "old/vendors/custom", "old/vendors/gone"]).ended_with(0);
    let expected = "\
ascend910_93 and ascend910b of old/vendors/custom share the objects of 4 kernels
ascend910_93 and ascend910b of old/vendors/gone share the objects of 4 kernels
they are the same
";
    assert_eq!((same.stdout.as_str(), same.stderr.as_str()), (expected, ""));
    let ran = place.run(&["package", "diff", "old", "new"]).ended_with(1);
    let outside = format!("`{}`", place.path("outside.json").display());
    let stdout = ran.stdout.replace(&outside, "`outside.json`");
    let expected = "\
only in A: package old/vendors/gone
only in B: package new/vendors/more
old/vendors/custom and new/vendors/custom
ascend310p: kernels: 2 added, 4 removed, 0 equal
  removed    1 operator: AddCustom
  removed    ascend310p/add_custom/AddCustom_000000000000000000000042a9793b9a
  removed    ascend310p/add_custom/AddCustom_000000000000000000000042a9793bd4
  removed    ascend310p/fused_matmul/FusedMatmul_000000000000000000000042a9793b9a
  removed    ascend310p/fused_matmul/FusedMatmul_000000000000000000000042a9793bd4
  added      ascend310p/other_matmul/FusedMatmul_000000000000000000000042a9793b9a
  added      ascend310p/other_matmul/FusedMatmul_000000000000000000000042a9793bd4
ascend910_93: kernels: 1 unreadable, 3 equal
  unreadable ascend910_93/add_custom/AddCustom_000000000000000000000042a9793b9a: expected a file of the package, \
found a link out of the package, to `outside.json`
ascend910b: kernels: 1 other code, 1 other metadata, 4 equal
  metadata   ascend910b/add_custom/AddCustom_000000000000000000000042a9793b9a: field `coreType`: `VectorCore` in A, \
`Other` in B
  code       ascend910b/add_custom/AddCustom_000000000000000000000042a9793bd4
  changed    add_custom.json: field `binList[0].inputs[0].dtype`: `float16` in A, `int8` in B
  removed    fused_matmul.json
generated Python: changed add_custom.py
ascend910_93 and ascend910b of old/vendors/custom share the objects of 4 kernels
ascend910_93 and ascend910b of new/vendors/custom share the objects of 3 kernels
";
    assert_eq!((stdout.as_str(), ran.stderr.as_str()), (expected, ""));
}

#[test]
fn what_could_not_be_listed_is_not_the_same() {
    let place = Place::untouched();
    let package = package(&place, "custom");
    fs::create_dir_all(package.file(&"d/".repeat(45))).unwrap();
    let ran = place.run(&["package", "diff", "vendors", "vendors"]).ended_with(2);
    assert!(!ran.stdout.contains("they are the same"), "{ran:?}");
    ran.says("cannot read `vendors/custom/op_impl/ai_core/tbe/d/d/");
    place.run(&["package", "plan", "vendors"]).ended_with(2).says("has no build tree");
}

#[test]
fn the_tasks_of_a_build_are_listed() {
    let place = Place::untouched();
    build_tree(&place);
    let plan = |args: &[&str]| place.run(&[&["package", "plan", "build"], args].concat());
    let units = "\
ascend910_93: 2 tasks: 0 built, 1 partial, 1 not built
ascend910b: 2 tasks: 1 built, 0 partial, 1 not built
";
    let ran = plan(&[]).ended_with(0);
    let expected = format!(
        "not built  ascend910_93  Add  Add_1\npartial    ascend910_93  Mul  Mul_1\nnot built  ascend910b    Add  Add_1\n{units}"
    );
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), (expected.as_str(), ""));
    plan(&["-v"]).ended_with(0).prints("\nbuilt      ascend910b    Add  Add_0\n");
    let ran = plan(&["--source", "add/op_kernel/add_tiling.h"]).ended_with(0);
    let expected = format!(
        "built      ascend910b  Add  Add_0\nnot built  ascend910b  Add  Add_1\nadd/op_kernel/add_tiling.h is read by 2 of 4 tasks\n{units}"
    );
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), (expected.as_str(), ""));
    fs::remove_file(place.path("build/binary/ascend910b/gen/Add_0_param.json")).unwrap();
    plan(&[]).ended_with(2).says("Add-add-0.sh`: its parameter file `Add_0_param.json` is not in the tree");
}
