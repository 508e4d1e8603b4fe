//! The inputs of one operator's kernels only.
#![expect(clippy::unwrap_used, reason = "helpers fail the test that calls them")]
#![expect(clippy::disallowed_methods, reason = "tests change what is on the disk")]

use std::fs;

use crate::common::{Place, changed, job, names, sources, spec};
use opkeep_cann_toolkit::{OpsInfo, Sources, ToolkitError};
use opkeep_digest::Fingerprint;
use opkeep_testkit::PlainDigests;
use opkeep_testkit::toolkit::{Layout, Toolkit, Vendor};

/// The sources of a static operator with its helpers.
const SQUARE: [&str; 7] = [
    "impl/__init__.py",
    "impl/dynamic/__init__.py",
    "impl/dynamic/square.py",
    "impl/square.py",
    "impl/util/__init__.py",
    "impl/util/platform_adapter.py",
    "impl/util/util_common.py",
];

/// Of these operators, those whose fingerprints differ from `before`.
fn affected(place: &Place, before: &[(&'static str, Fingerprint)]) -> Vec<&'static str> {
    let differs = |(op_type, old): &&(&'static str, Fingerprint)| place.sources(op_type).unwrap() != *old;
    before.iter().filter(differs).map(|(op_type, _)| *op_type).collect()
}

fn all(place: &Place) -> Vec<(&'static str, Fingerprint)> {
    let ops =
        ["Square", "Add", "Mul", "RealDiv", "MatMulV2", "BatchMatMulV2", "Conv2D", "AddRmsNorm", "SoftmaxV2"];
    ops.into_iter().map(|op_type| (op_type, place.sources(op_type).unwrap())).collect()
}

#[test]
fn an_operator_depends_on_its_module_its_twin_and_their_imports() {
    for layout in [Layout::AscendToolkit, Layout::Cann] {
        let place = Place::of(&Toolkit::new().layout(layout));
        assert_eq!(place.names("Square"), SQUARE);
        // Helpers of helpers, and another operator.
        assert!(place.names("Add").contains(&"impl/util/util_broadcast.py".to_owned()));
        let div = place.names("RealDiv");
        assert!(div.contains(&"impl/dynamic/mul.py".to_owned()), "{div:?}");
        assert!(!div.contains(&"impl/dynamic/add.py".to_owned()), "{div:?}");
        // Sources in C++.
        let norm = place.names("AddRmsNorm");
        for name in ["add_rms_norm.cpp", "add_rms_norm.h"] {
            assert!(norm.contains(&format!("impl/ascendc/add_rms_norm/{name}")), "{norm:?}");
        }
    }
}

#[test]
fn editing_an_operator_changes_it_and_its_importers() {
    let place = Place::new();
    for (path, found) in [
        ("square.py", vec!["Square", "BatchMatMulV2"]),
        ("dynamic/square.py", vec!["Square", "BatchMatMulV2"]),
        // Its name is put together when it runs.
        ("util/util_cube_910b.py", vec!["BatchMatMulV2"]),
        ("dynamic/mul.py", vec!["Mul", "RealDiv", "BatchMatMulV2"]),
        ("util/util_broadcast.py", vec!["Add", "Mul", "RealDiv", "BatchMatMulV2"]),
        ("ascendc/add_rms_norm/add_rms_norm.h", vec!["BatchMatMulV2", "AddRmsNorm"]),
    ] {
        let before = all(&place);
        place.installed.append(&place.installed.impl_file(path), "# new\n").unwrap();
        assert_eq!(affected(&place, &before), found, "{path}");
    }
    let before = all(&place);
    place.installed.append(&place.installed.impl_file("util/util_common.py"), "# new\n").unwrap();
    assert_eq!(affected(&place, &before).len(), before.len());
    // The changed part is named.
    let before = place.sources("Square").unwrap();
    place.installed.append(&place.installed.impl_file("square.py"), "# new\n").unwrap();
    assert_eq!(changed(&before, &place.sources("Square").unwrap()), ["impl/square.py"]);
}

/// A module that may be there one day counts by its name until then.
#[test]
fn a_tried_module_that_is_missing_counts_as_missing() {
    let place = Place::new();
    let before = place.sources("MatMulV2").unwrap();
    let name = "impl/util/util_not_shipped.py";
    let part = before.parts().iter().find(|part| part.name == name).unwrap();
    assert_eq!(part.note, "not there");
    let others = all(&place);
    fs::write(place.installed.impl_file("util/util_not_shipped.py"), "from .util_broadcast import total\n")
        .unwrap();
    let after = place.sources("MatMulV2").unwrap();
    assert_eq!(changed(&before, &after), [name, "impl/util/util_broadcast.py"]);
    assert_eq!(affected(&place, &others), ["MatMulV2", "BatchMatMulV2"]);
    // In a form that is not Python it cannot be followed.
    fs::rename(
        place.installed.impl_file("util/util_not_shipped.py"),
        place.installed.impl_file("util/util_not_shipped.cpython-311.so"),
    )
    .unwrap();
    assert!(place.names("MatMulV2").contains(&"all of impl".to_owned()));
}

#[test]
fn unknown_imports_widen_to_the_whole_package() {
    let place = Place::new();
    let square = place.installed.impl_file("square.py");
    let original = fs::read_to_string(&square).unwrap();
    for line in [
        "import importlib",
        "m = __import__(name)",
        "from impl.util.util_common import *",
        "from .util_nowhere import x",
        "import impl.util.nowhere",
        "from .... import x",
        "def f():\n    exec(code)",
        "import sys; sys.path.append('x')",
        // Python reads `impl` and `util` here.
        "import \u{ff49}mpl.relu",
        "try:\n    import impl.\u{ff55}til.util_nowhere\nexcept ImportError:\n    pass",
        "x = '''",
    ] {
        fs::write(&square, format!("{original}\n{line}\n")).unwrap();
        let names = place.names("Square");
        assert_eq!(names, ["impl/dynamic/square.py", "impl/square.py", "all of impl"], "{line}");
        let before = place.sources("Square").unwrap();
        place.installed.append(&place.installed.impl_file("relu.py"), "\n").unwrap();
        assert_eq!(changed(&before, &place.sources("Square").unwrap()), ["all of impl"], "{line}");
    }
    for line in [
        "# import importlib",
        "x = 'from .util_nowhere import x'",
        "\"\"\"\nimport impl.util.nowhere\n\"\"\"",
        "import os, numpy as np",
        "from tbe import *",
        "from tbe.common.nowhere import x",
        "import_x = 1",
    ] {
        fs::write(&square, format!("{original}\n{line}\n")).unwrap();
        assert_eq!(place.names("Square"), SQUARE, "{line}");
    }
}

#[test]
fn imports_are_found_in_every_form_and_place() {
    let place = Place::new();
    let square = place.installed.impl_file("dynamic/square.py");
    let original = fs::read_to_string(&square).unwrap();
    for line in [
        "from impl.dynamic.relu import relu",
        "import impl.dynamic.relu as r",
        "import os, impl.dynamic.relu",
        "from impl.dynamic import relu",
        "from . import relu",
        "from .relu import relu as other",
        "x = 1; from ..dynamic.relu import (\n  relu, # comment\n)",
        "from impl \\\n  .dynamic.relu import relu",
        "def f():\n    if x:\n        from .relu import relu",
        "try:\n    from .relu import relu\nexcept ImportError:\n    pass",
        "class A:\n    import impl.dynamic.relu",
    ] {
        fs::write(&square, format!("{original}\n{line}\n")).unwrap();
        let names = place.names("Square");
        assert!(names.contains(&"impl/dynamic/relu.py".to_owned()), "{line}: {names:?}");
    }
}

/// `impl/dynamic/__init__.py` imports every operator, and is run before any of them.
#[test]
fn a_package_does_not_make_its_modules_depend_on_each_other() {
    let place = Place::new();
    let init = place.installed.impl_file("dynamic/__init__.py");
    assert!(fs::read_to_string(&init).unwrap().contains("from .relu import relu"));
    assert_eq!(place.names("Square"), SQUARE);
    // Its imports from elsewhere count.
    place
        .installed
        .append(&init, "from impl.util.util_broadcast import total\nfrom .gone import gone\n")
        .unwrap();
    let names = place.names("Square");
    assert!(names.contains(&"impl/util/util_broadcast.py".to_owned()), "{names:?}");
    // A name that a module takes from a package is followed to where that has it from.
    place
        .installed
        .append(
            &place.installed.impl_file("util/__init__.py"),
            "from .util_select_op_base import gen_param\nfrom .util_cube_910b import BLOCK\n",
        )
        .unwrap();
    assert!(!place.names("Square").contains(&"impl/util/util_select_op_base.py".to_owned()));
    place
        .installed
        .append(&place.installed.impl_file("square.py"), "from impl.util import gen_param\n")
        .unwrap();
    let names = place.names("Square");
    assert!(names.contains(&"impl/util/util_select_op_base.py".to_owned()), "{names:?}");
    // Other imports of the package do not count for it.
    assert!(!names.contains(&"impl/util/util_cube_910b.py".to_owned()), "{names:?}");
    // Of a package as a whole, anything may be used.
    place.installed.append(&place.installed.impl_file("relu.py"), "import impl.util\n").unwrap();
    assert!(place.names("Relu").contains(&"impl/util/util_select_op_base.py".to_owned()));
    // Python reads `impl` here.
    assert!(!place.names("Square").contains(&"all of impl".to_owned()));
    place.installed.append(&init, "from \u{ff49}mpl.util.util_broadcast import total\n").unwrap();
    assert!(place.names("Square").contains(&"all of impl".to_owned()));
}

#[test]
fn c_sources_count_with_their_includes() {
    let place = Place::new();
    let write = |path: &str, text: &str| {
        let path = place.installed.impl_file(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("ascendc/other/deep/base.h", "#include \"beside.h\"\n");
    write("ascendc/other/deep/beside.h", "#include <kernel_operator.h>\n");
    write("ascendc/common/shared.h", "");
    write("ascendc/lib/found.h", "");
    write("ascendc/unused/unused.h", "");
    write(
        "ascendc/add_rms_norm/add_rms_norm.h",
        "#include \"../other/deep/base.h\"\n#include \"shared.h\"\n  #  include <found.h>\n",
    );
    let names = place.names("AddRmsNorm");
    for name in ["other/deep/base.h", "other/deep/beside.h", "common/shared.h", "lib/found.h"] {
        assert!(names.contains(&format!("impl/ascendc/{name}")), "{name}: {names:?}");
    }
    assert!(!names.iter().any(|name| name.contains("unused")), "{names:?}");
    write("ascendc/add_rms_norm/late.h", "#include NAME\n");
    assert!(place.names("AddRmsNorm").contains(&"all of impl".to_owned()));
}

#[test]
fn an_operator_without_implementation_is_an_error() {
    let place = Place::new();
    for (op_type, says) in [("NoSuchOp", "no_such_op.py"), ("Reshape", "`opFile` is `Null`")] {
        let error = place.sources(op_type).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, ToolkitError::NoImplementation { .. }), "{text}");
        assert!(text.starts_with(&format!("`{op_type}` is an operator without implementation")), "{text}");
        assert!(text.contains(says), "{text}");
        assert!(error.help().contains("ASCEND_CUSTOM_OPP_PATH"));
    }
    for path in ["square.py", "dynamic/square.py"] {
        assert!(place.sources("Square").is_ok());
        place.installed.remove(&place.installed.impl_file(path)).unwrap();
    }
    assert!(place.sources("Square").unwrap_err().to_string().contains("impl/square.py"));
}

#[test]
fn a_vendors_operator_hides_the_built_in_one() {
    let plan = Toolkit::new().vendor(Vendor::new("one").op("Square", "Mul").op("Own", "Add"));
    let place = Place::of(&plan);
    let names = place.names("Square");
    assert!(names.contains(&"one_impl/square.py".to_owned()), "{names:?}");
    assert!(names.contains(&"one_impl/dynamic/square.py".to_owned()), "{names:?}");
    assert!(names.contains(&"impl/util/util_broadcast.py".to_owned()), "{names:?}");
    assert!(!names.contains(&"impl/square.py".to_owned()), "{names:?}");
    let (own, square) = (place.sources("Own").unwrap(), place.sources("Square").unwrap());
    let file = place.installed.path("opp/vendors/one/op_impl/ai_core/tbe/one_impl/own.py");
    place.installed.append(&file, "# new\n").unwrap();
    assert_eq!(changed(&own, &place.sources("Own").unwrap()), ["one_impl/own.py"]);
    assert_eq!(square, place.sources("Square").unwrap());
}

#[test]
fn a_job_may_name_a_file_or_a_dir() {
    let place = Place::new();
    let found = place.found();
    let with_path = |op_type: &str, path: &str| {
        let mut job = job(op_type);
        job.ops[0].module_path = Some(path.to_owned());
        job
    };
    let names_of = |job| names(&sources(&found, &job, &spec()).unwrap());
    // Of the toolkit itself, by whichever path.
    for path in [place.installed.impl_file("square.py"), place.installed.impl_file("dynamic/square.py")] {
        assert_eq!(names_of(with_path("Square", path.to_str().unwrap())), SQUARE);
    }
    // Of another machine.
    assert_eq!(names_of(with_path("Square", "/usr/local/Ascend/none/square.py")), SQUARE);
    let own = place.below("own");
    fs::create_dir_all(own.join("mine/dynamic")).unwrap();
    fs::write(own.join("fancy.py"), "import helper\nfrom impl.util import util_broadcast\n").unwrap();
    fs::write(own.join("helper.py"), "import os\n").unwrap();
    let names = names_of(with_path("Fancy", own.join("fancy.py").to_str().unwrap()));
    for name in ["fancy.py", "helper.py", "impl/util/util_broadcast.py"] {
        assert!(names.contains(&name.to_owned()), "{names:?}");
    }
    // A directory that the module's package is in.
    fs::write(own.join("mine/fancy.py"), "from .other import x\n").unwrap();
    fs::write(own.join("mine/other.py"), "").unwrap();
    let mut job = with_path("Fancy", own.to_str().unwrap());
    job.ops[0].module_name = "mine.fancy".to_owned();
    assert_eq!(names_of(job), ["mine/fancy.py", "mine/other.py"]);
}

#[test]
fn fused_operators_count_together() {
    let place = Place::new();
    let mut fused = job("Square");
    fused.ops.push(job("Add").ops.remove(0));
    let names = names(&sources(&place.found(), &fused, &spec()).unwrap());
    let mut sorted = names.clone();
    sorted.dedup();
    assert_eq!(names, sorted);
    for name in ["impl/add.py", "impl/square.py", "impl/util/util_broadcast.py"] {
        assert!(names.contains(&name.to_owned()), "{names:?}");
    }
}

/// Scans are kept by the content of a file, so an edit is seen after an earlier look.
#[test]
fn an_edit_is_noticed_after_an_earlier_look() {
    let place = Place::new();
    let found = place.found();
    let ops = OpsInfo::read(&found, &found.platforms.soc(crate::common::SOC).unwrap()).unwrap();
    let sources = Sources::new(&found);
    let look =
        || names(&sources.fingerprint(&job("Square"), &spec(), &ops, &PlainDigests::default()).unwrap());
    assert_eq!(look(), SQUARE);
    place.installed.append(&place.installed.impl_file("square.py"), "from .relu import relu\n").unwrap();
    assert!(look().contains(&"impl/relu.py".to_owned()));
}
