//! Packages and build trees, each state of which a result of `opkeep package` has.

use std::fs;
use std::os::unix::fs::symlink;

use opkeep_testkit::toolkit::package::VendorPackage;

use super::Place;

/// Writes vendors `old` and `new` with one package that both have, in which all kinds of differences are.
pub(crate) fn two_vendors(place: &Place) {
    for vendor in ["old/vendors/gone", "new/vendors/more"] {
        VendorPackage::write(&place.path(vendor)).unwrap();
    }
    VendorPackage::write(&place.path("old/vendors/custom")).unwrap();
    let new = VendorPackage::write(&place.path("new/vendors/custom")).unwrap();
    let half = VendorPackage::add("ascend910b", "float16");
    let edit = |path: &str, one: &str, other: &str| {
        let text = fs::read_to_string(new.file(path)).unwrap();
        assert!(text.contains(one), "{path} {one}");
        fs::write(new.file(path), text.replacen(one, other, 1)).unwrap();
    };
    let meta: serde_json::Value =
        serde_json::from_slice(&fs::read(new.file(&format!("{half}.json"))).unwrap()).unwrap();
    let core = meta["coreType"].as_str().unwrap();
    edit(&format!("{half}.json"), &format!("\"{core}\""), "\"Other\"");
    let float = new.file(&format!("{}.o", VendorPackage::add("ascend910b", "float32")));
    let mut object = fs::read(&float).unwrap();
    object[200] ^= 1;
    fs::write(float, object).unwrap();
    let outside = new.file(&format!("{}.json", VendorPackage::add("ascend910_93", "float16")));
    fs::rename(&outside, place.path("outside.json")).unwrap();
    symlink(place.path("outside.json"), outside).unwrap();
    let operators = new.file("kernel/ascend310p");
    fs::remove_dir_all(operators.join("add_custom")).unwrap();
    fs::rename(operators.join("fused_matmul"), operators.join("other_matmul")).unwrap();
    edit("kernel/config/ascend910b/add_custom.json", "float16", "int8");
    fs::remove_file(new.file("kernel/config/ascend910b/fused_matmul.json")).unwrap();
    fs::write(new.file("vendor_impl/dynamic/add_custom.py"), "def add_custom(): pass\n").unwrap();
}

/// Writes a build tree: two scripts, of whose tasks one is built, and a list with two lines.
pub(crate) fn build_tree(place: &Place) {
    let params = |operator: &str, kernel: &str| {
        format!(r#"{{"op_type": "{operator}", "op_list": [{{"bin_filename": "{kernel}"}}]}}"#)
    };
    for number in 0..2 {
        let name = format!("Add_{number}");
        let script =
            format!("res=$(opc $1 --main_func=add --input_param=/gone/{name}_param.json --output=$2)\n");
        place.write(&format!("build/binary/ascend910b/gen/Add-add-{number}.sh"), script);
        place.write(&format!("build/binary/ascend910b/gen/{name}_param.json"), params("Add", &name));
    }
    place.write("build/binary/ascend910b/src/add/add.cpp", "#include \"add_tiling.h\"\n");
    place.write("build/binary/ascend910b/src/add/add_tiling.h", "");
    place.write("build/binary/ascend910b/src/Add.py", "");
    for end in ["o", "json"] {
        place.write(&format!("build/binary/ascend910b/bin/ascend910b/add/Add_0.{end}"), "");
    }
    let mut list = String::new();
    for (name, operator) in [("add", "Add"), ("mul", "Mul")] {
        list += &format!(
            "asc_opc /gone/{name}.py --main_func={name} --input_param=/gone/{name}.json_0 --output=/gone/{name}/\n"
        );
        let path = format!("build/binary/ascend910_93/bin/opc_cmd/{name}.json_0");
        place.write(&path, params(operator, &format!("{operator}_1")));
        place.write(&format!("build/tbe/dynamic/{name}.py"), "");
        place.write(&format!("build/tbe/ascendc/{name}/{name}.cpp"), "");
    }
    place.write("build/binary/ascend910_93/bin/opc_cmd/opc_cmd.sh", list);
    place.write("build/binary/ascend910_93/bin/ascend910_93/mul/Mul_1.json", "");
}
