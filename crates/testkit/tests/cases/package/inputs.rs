//! What a compile reads changes the bytes that come of it, and nothing else does.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use opkeep_testkit::toolkit::package::{OPERATORS, Project, ProjectTask};

use super::Case;
use super::bench::{Bench, run};

pub(super) const CASES: &[Case] = &[
    ("sources_and_headers_change_the_code", sources_and_headers_change_the_code),
    ("a_header_that_shadows_another_changes_the_code", a_header_that_shadows_another_changes_the_code),
    ("options_change_the_code", options_change_the_code),
    ("variables_change_the_code", variables_change_the_code),
    ("parameters_change_the_code", parameters_change_the_code),
    ("the_toolkit_changes_the_code", the_toolkit_changes_the_code),
    ("the_host_library_changes_the_code", the_host_library_changes_the_code),
    ("an_added_tiling_key_is_one_more_compile", an_added_tiling_key_is_one_more_compile),
    ("nothing_else_changes_the_code", nothing_else_changes_the_code),
    ("where_the_toolkit_is_found", where_the_toolkit_is_found),
];

/// The object of a task, with further options and variables.
fn object(bench: &Bench, task: &ProjectTask, options: &[&str], variables: &[(&str, &str)]) -> Vec<u8> {
    bench.compiled(task, options, variables).0
}

/// The file in the build tree that a task reads.
fn copied(task: &ProjectTask, name: &str) -> PathBuf {
    let file = OPERATORS.into_iter().find(|operator| operator.op_type == task.op_type).unwrap().file;
    task.python.parent().unwrap().join(file).join(name)
}

fn sources_and_headers_change_the_code() {
    let bench = Bench::new();
    let task = bench.task("GatherRows");
    let first = object(&bench, &task, &[], &[]);
    let source = copied(&task, "gather_rows.cpp");
    for (path, from, to) in [
        (source, "chosen[row] & 0xffff", "chosen[row] & 0xfff"),
        (bench.project.common_header("row_copy.h"), "uint64_t(toRow) * width", "uint64_t(toRow) * width + 1"),
        (
            bench.installed.host_path("tikcpp/tikcfw/kernel_operator.h"),
            "return get_block_idx()",
            "return get_block_idx() + 1",
        ),
    ] {
        let text = fs::read_to_string(&path).unwrap();
        bench.installed.edit(&path, |text| text.replace(from, to)).unwrap();
        assert!(object(&bench, &task, &[], &[]) != first, "{}", path.display());
        fs::write(&path, text).unwrap();
        assert!(object(&bench, &task, &[], &[]) == first);
    }
}

/// `row_copy.h` is looked for beside the source, and in the folder of the generated Python, before it is found.
fn a_header_that_shadows_another_changes_the_code() {
    let bench = Bench::new();
    let task = bench.task("GatherRows");
    let first = object(&bench, &task, &[], &[]);
    let header = bench.project.common_header("row_copy.h");
    let other = fs::read_to_string(&header).unwrap().replace("* width", "* width * 2");
    let folder = task.python.parent().unwrap();
    for place in [copied(&task, "row_copy.h"), folder.parent().unwrap().join("ascendc/common/row_copy.h")] {
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        // The path to the second one goes through a folder that need not be there.
        fs::write(&place, &other).unwrap();
        assert!(object(&bench, &task, &[], &[]) != first, "{}", place.display());
        fs::remove_file(&place).unwrap();
    }
    assert!(object(&bench, &task, &[], &[]) == first);
}

fn options_change_the_code() {
    let bench = Bench::new();
    let task = bench.task("ScaleCustom");
    let first = object(&bench, &task, &[], &[]);
    for options in [
        &["--op_debug_config=ccec_O0"][..],
        &["--op_debug_config=ccec_g"],
        &["--op_debug_config=sanitizer"],
        &["--op_debug_level=2"],
        &["--impl_mode=high_precision"],
        &["--impl_mode=high_performance,high_precision"],
        &["--tiling_key=264"],
    ] {
        assert!(object(&bench, &task, options, &[]) != first, "{options:?}");
    }
    // Two modes are one argument: two macros where a shell is between, one where none is.
    let ran = bench.installed.log().unwrap();
    let both = "-DHIGH_PERFORMANCE=1 -DHIGH_PRECISION=1";
    assert!(ran.iter().any(|run| run.has("-E") && run.has(both)));
    assert!(
        ran.iter()
            .any(|run| run.has("-c") && run.has("-DHIGH_PRECISION=1") && run.has("-DHIGH_PERFORMANCE=1"))
    );
    assert!(!ran.iter().any(|run| run.has("-c") && run.has(both)));
    // Of a task's options in the generated Python, too.
    let bench = Bench::of(&Project::vllm().option("-DPROJECT_MORE=1"));
    bench
        .installed
        .edit(&bench.project.common_header("cann_compat.h"), |text| {
            text + "inline __attribute__((used)) int more() { return PROJECT_MORE; }\n"
        })
        .unwrap();
    let task = bench.task("ScaleCustom");
    let with = object(&bench, &task, &[], &[]);
    bench.installed.edit(&task.python, |text| text.replace("-DPROJECT_MORE=1", "-DPROJECT_MORE=2")).unwrap();
    assert!(object(&bench, &task, &[], &[]) != with);
}

/// Each variable that reaches generated code. `CPATH` and its kind are in no command.
fn variables_change_the_code() {
    let bench = Bench::new();
    let task = bench.task("GatherRows");
    bench
        .installed
        .edit(&copied(&task, "gather_rows.cpp"), |text| {
            "#if __has_include(\"of_cpath.h\")\n#include \"of_cpath.h\"\n#endif\n".to_owned() + &text
        })
        .unwrap();
    let first = object(&bench, &task, &[], &[]);
    let folder = bench.at("cpath");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("of_cpath.h"), "inline __attribute__((used)) int of_cpath() { return 1; }\n")
        .unwrap();
    let folder = folder.to_str().unwrap();
    bench.installed.forget().unwrap();
    for (name, value) in
        [("CPATH", folder), ("CPLUS_INCLUDE_PATH", folder), ("ASCENDC_COV", "1"), ("SKT_ENABLE", "1")]
    {
        assert!(object(&bench, &task, &[], &[(name, value)]) != first, "{name}");
    }
    assert!(
        !bench.installed.log().unwrap().iter().any(|run| run.args.iter().any(|word| word.contains("cpath")))
    );
    for (name, value) in [("C_INCLUDE_PATH", folder), ("ASCENDC_COV", "0"), ("LANG", "C")] {
        assert!(object(&bench, &task, &[], &[(name, value)]) == first, "{name}");
    }
    // Debug information has the directory in it.
    let debugged = object(&bench, &task, &[], &[("ASCENDC_COV", "1")]);
    let text = String::from_utf8_lossy(&debugged);
    assert!(text.contains(".debug_line") && text.contains(task.dir.to_str().unwrap()));
    assert_eq!(Bench::findings(&task), [""; 0]);
    // The fifth place that is looked at for the source.
    let source = copied(&task, "gather_rows.cpp");
    let elsewhere = bench.at("elsewhere.cpp");
    fs::rename(&source, &elsewhere).unwrap();
    assert_eq!(bench.compile(&task, &[], &[]).code, Some(1));
    assert!(object(&bench, &task, &[], &[("BUILD_KERNEL_SRC", elsewhere.to_str().unwrap())]) == first);
}

fn parameters_change_the_code() {
    let bench = Bench::new();
    let task = bench.task("AddCustom");
    let first = object(&bench, &task, &[], &[]);
    let text = fs::read_to_string(&task.params).unwrap();
    fs::write(&task.params, text.replace("float16", "float32")).unwrap();
    assert!(object(&bench, &task, &[], &[]) != first);
    // The name is the kernel's symbol, whatever else it says.
    fs::write(&task.params, text.replace(&task.name, "AddCustom_other")).unwrap();
    let mut other = task.clone();
    assert_eq!(bench.compile(&task, &[], &[]).code, Some(0));
    other.name = "AddCustom_other".to_owned();
    let named = fs::read(&other.files()[0]).unwrap();
    assert!(named != first && String::from_utf8_lossy(&named).contains("AddCustom_other_1"));
}

fn the_toolkit_changes_the_code() {
    let mut bench = Bench::new();
    let task = bench.task("AddCustom");
    let first = object(&bench, &task, &[], &[]);
    let version = |bench: &Bench| run(Command::new(bench.installed.tool("bisheng")).arg("--version")).stdout;
    let before = version(&bench);
    bench.installed.upgrade("9.1.0.1.101", "20260801_000000000").unwrap();
    assert!(version(&bench) != before && before.contains("clang version 15.0.5 (2026-07-30T"));
    assert!(object(&bench, &task, &[], &[]) != first);
    // A header that each compile includes if it is there.
    let bench = Bench::new();
    let task = bench.task("AddCustom");
    let header = bench.installed.path("include/version/asc_devkit_version.h");
    bench
        .installed
        .edit(&header, |text| text + "inline __attribute__((used)) int versioned() { return 1; }\n")
        .unwrap();
    let with = object(&bench, &task, &[], &[]);
    assert!(with != first);
    fs::remove_file(&header).unwrap();
    assert!(object(&bench, &task, &[], &[]) == first);
    assert!(!bench.installed.kernel_compiles().unwrap().last().unwrap().has("version"));
}

/// Where the source registers no struct, the library of the package has it: loaded, or by a process of its own.
fn the_host_library_changes_the_code() {
    for project in [Project::vllm(), Project::nn()] {
        let bench = Bench::of(&project);
        let task = bench.task("GatherRows");
        let (first, json) = bench.compiled(&task, &[], &[]);
        assert_eq!(json["opParaSize"], 16);
        let library = if task.python.ends_with("GatherRows.py") {
            task.python.parent().unwrap().join("../customize/op_impl/ai_core/tbe/op_tiling/liboptiling.so")
        } else {
            bench.project.build_dir().join("op_tiling/liboptiling.so")
        };
        let source = library.with_extension("c");
        bench
            .installed
            .edit(&source, |text| text.replace("uint32_t width", "uint32_t width;uint64_t more"))
            .unwrap();
        let clang = &opkeep_testkit::toolkit::package::tools().unwrap().clang;
        let rebuilt =
            run(Command::new(clang).args(["-shared", "-nostdlib", "-fPIC", "-o"]).args([&library, &source]));
        assert_eq!(rebuilt.code, Some(0), "{rebuilt:?}");
        let (second, json) = bench.compiled(&task, &[], &[]);
        assert_eq!(json["opParaSize"], 24);
        assert!(first != second);
    }
}

/// The stub that all compiles share has one block more; the text that the others see of it is the same.
fn an_added_tiling_key_is_one_more_compile() {
    let bench = Bench::new();
    let task = bench.task("ScaleCustom");
    let preprocessed = |key: &str| {
        bench.compiled(&task, &["--op_debug_config=dump_cce"], &[]);
        let folder = task.dir.join(format!("kernel_meta_{0}/kernel_meta/{0}_{key}.i", task.name));
        let text = fs::read_to_string(folder).unwrap();
        text.lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(|line| format!("{line}\n"))
            .collect()
    };
    let [first, last]: [String; 2] = ["264", "1"].map(preprocessed);
    bench
        .installed
        .edit(&copied(&task, "scale_custom_tiling_key.h"), |text| text.replace("8, 16)", "8, 16, 32)"))
        .unwrap();
    bench.installed.forget().unwrap();
    let (_, json) = bench.compiled(&task, &[], &[]);
    let keys: Vec<u64> = json["kernelList"]
        .as_array()
        .unwrap()
        .iter()
        .map(|kernel| kernel["tilingKey"].as_u64().unwrap())
        .collect();
    assert_eq!(keys, [264, 272, 288, 1]);
    assert_eq!(bench.installed.kernel_compiles().unwrap().len(), 4);
    assert_eq!(["264", "1"].map(preprocessed), [first, last]);
}

fn nothing_else_changes_the_code() {
    let bench = Bench::new();
    let task = bench.task("AddCustom");
    let (object, _) = bench.compiled(&task, &[], &[]);
    let json = fs::read(&task.files()[1]).unwrap();
    let touched = run(Command::new("find").arg(bench.at(".")).args([
        "-exec",
        "touch",
        "-h",
        "-d",
        "2001-01-01",
        "{}",
        "+",
    ]));
    assert_eq!(touched.code, Some(0));
    for variables in [
        &[("TILINGKEY_PAR_COMPILE", "0")][..],
        &[("BIN_FILENAME_HASHED", "0")],
        &[("ASCEND_GLOBAL_LOG_LEVEL", "0"), ("ASCEND_SLOG_PRINT_TO_STDOUT", "1")],
        &[("PYTHONHASHSEED", "7")],
        &[("HOME", "/nowhere")],
        &[],
    ] {
        let (again, _) = bench.compiled(&task, &["--debug_dir=elsewhere"], variables);
        assert!(again == object && fs::read(&task.files()[1]).unwrap() == json, "{variables:?}");
    }
}

/// Without the variables the place of the programs says it: a program of the same name before them hides it.
fn where_the_toolkit_is_found() {
    let bench = Bench::new();
    let task = bench.task("AddCustom");
    let first = object(&bench, &task, &[], &[]);
    for missing in ["ASCEND_HOME_PATH", "BISHENG_REAL_PATH"] {
        let ran = run(bench.project.asc_opc(&task).unwrap().env_remove(missing));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(fs::read(&task.files()[0]).unwrap() == first);
    }
    let shims = bench.at("shims");
    fs::create_dir(&shims).unwrap();
    for name in ["asc_opc", "bisheng"] {
        let script = format!("#!/bin/sh\nexec {} \"$@\"\n", bench.installed.tool(name).display());
        fs::write(shims.join(name), script).unwrap();
        run(Command::new("chmod").arg("755").arg(shims.join(name)));
    }
    let hidden = |removed: &[&str]| {
        let mut command = bench.project.asc_opc(&task).unwrap();
        let path = command.get_envs().find(|(name, _)| *name == "PATH").unwrap().1.unwrap();
        let path = format!("{}:{}", shims.display(), path.to_str().unwrap());
        for name in removed {
            command.env_remove(name);
        }
        bench.installed.forget().unwrap();
        run(command.env("PATH", path)).code
    };
    assert_eq!(hidden(&[]), Some(0));
    assert_eq!(hidden(&["ASCEND_HOME_PATH", "BISHENG_REAL_PATH"]), Some(1), "neither place has the headers");
}
