//! The tasks of build trees, and what they read.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]
#![expect(clippy::unwrap_used, reason = "these tests are functions without `#[test]`")]

use std::fs;
use std::path::PathBuf;

use libtest_mimic::{Failed, Trial};
use opkeep_cann_package::{BuildPlan, PackageDir, PackageError, TaskState};
use opkeep_fs::CancelToken;
use tempfile::TempDir;

use crate::common::Package;

type Test = fn() -> Result<(), Failed>;

pub(crate) fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 4] = [
        ("scripts_and_lists_of_commands_are_tasks", scripts_and_lists_of_commands_are_tasks),
        ("the_readers_of_a_source_are_found", the_readers_of_a_source_are_found),
        ("damaged_commands_are_reported", damaged_commands_are_reported),
        ("a_package_without_a_build_has_no_plan", a_package_without_a_build_has_no_plan),
    ];
    tests.into_iter().map(|(name, test)| Trial::test(format!("plan::{name}"), test)).collect()
}

/// A project with a build tree: scripts for the 910B, a list of commands for the 910_93.
struct Build(TempDir);

impl Build {
    fn new() -> Self {
        let build = Self(tempfile::tempdir().unwrap());
        for number in 0..2 {
            let name = format!("Add_{number}");
            let script = format!(
                "#!/bin/bash\necho \"Generating {name} ...\"\nres=$(opc $1 --main_func=add --input_param=/gone/{name}_param.json \
                 --output=$2)\n"
            );
            build.write(&format!("build/binary/ascend910b/gen/Add-add-{number}.sh"), &script);
            build.params(&format!("build/binary/ascend910b/gen/{name}_param.json"), "Add", &name);
        }
        let source = "#include \"add_tiling.h\"\n#include <kernel_operator.h>\n#include \"common_math.h\"\n";
        build.write("build/binary/ascend910b/src/add/add.cpp", source);
        build.write("build/binary/ascend910b/src/add/add_tiling.h", "#include \"../shared/types.h\"\n");
        build.write("build/binary/ascend910b/src/shared/types.h", "#include \"../add/add.cpp\"\n");
        build.write("build/binary/ascend910b/src/add/unused.h", "");
        let common = build.path("common");
        let options = format!("options = [\"-I{0}\", '-include{0}/compat.h']\n", common.display());
        build.write("build/binary/ascend910b/src/Add.py", &options);
        let line = |name: &str| {
            format!(
                "asc_opc /gone/build/tbe/dynamic/{name}.py --main_func={name} --input_param=/gone/{name}_binary.json_0 \
                 --output=/gone/build/binary/ascend910_93/bin/ascend910_93/{name}/\n"
            )
        };
        let list = format!("{}{}", line("add"), line("mul"));
        build.write("build/binary/ascend910_93/bin/opc_cmd/opc_cmd.sh", &list);
        for name in ["add", "mul"] {
            build.params(
                &format!("build/binary/ascend910_93/bin/opc_cmd/{name}_binary.json_0"),
                name,
                &format!("{name}_1"),
            );
            build.write(&format!("build/tbe/dynamic/{name}.py"), "");
            build.write(&format!("build/tbe/ascendc/{name}/{name}.cpp"), "#include \"math.h\"\n");
        }
        build.write("build/tbe/ascendc/common/math.h", "");
        for end in ["o", "json"] {
            build.write(&format!("build/binary/ascend910_93/bin/ascend910_93/add/add_1.{end}"), "");
        }
        build.write("build/binary/ascend910_93/bin/ascend910_93/mul/mul_1.json", "");
        build
    }

    fn path(&self, path: &str) -> PathBuf {
        fs::canonicalize(self.0.path()).unwrap().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn params(&self, path: &str, operator: &str, kernel: &str) {
        self.write(
            path,
            &format!(r#"{{"op_type": "{operator}", "op_list": [{{"bin_filename": "{kernel}"}}]}}"#),
        );
    }

    fn plan(&self) -> (PackageDir, BuildPlan) {
        let cancel = CancelToken::new();
        let dir = PackageDir::open(&self.path("build"), &cancel).unwrap();
        let plan = dir.plan(&cancel).unwrap().remove(0);
        (dir, plan)
    }

    /// The kernels of the tasks that read a file.
    fn readers(&self, path: &str) -> Vec<String> {
        let (dir, plan) = self.plan();
        dir.readers(&plan, &self.path(path)).iter().map(|task| task.kernel.clone()).collect()
    }
}

fn scripts_and_lists_of_commands_are_tasks() -> Result<(), Failed> {
    let build = Build::new();
    let (_, plan) = build.plan();
    let tasks: Vec<_> = plan
        .tasks
        .iter()
        .map(|task| (task.unit.as_str(), task.kernel.as_str(), task.compiler.as_str(), task.line, task.state))
        .collect();
    let expected = [
        ("ascend910_93", "add_1", "asc_opc", Some(1), TaskState::Built),
        ("ascend910_93", "mul_1", "asc_opc", Some(2), TaskState::Partial),
        ("ascend910b", "Add_0", "opc", None, TaskState::NotBuilt),
        ("ascend910b", "Add_1", "opc", None, TaskState::NotBuilt),
    ];
    assert_eq!(tasks, expected);
    assert_eq!(plan.unreadable, []);
    assert_eq!(plan.tasks[0].files.len(), 2);
    Ok(())
}

fn the_readers_of_a_source_are_found() -> Result<(), Failed> {
    let build = Build::new();
    let of_910b: &[&str] = &["Add_0", "Add_1"];
    for (source, expected) in [
        // Files of the tree.
        ("build/binary/ascend910b/src/add/add.cpp", of_910b),
        ("build/binary/ascend910b/src/shared/types.h", of_910b),
        ("build/binary/ascend910b/src/Add.py", of_910b),
        ("build/binary/ascend910b/gen/Add_1_param.json", &["Add_1"]),
        ("build/binary/ascend910b/gen/Add-add-0.sh", &["Add_0"]),
        ("build/binary/ascend910b/src/add/unused.h", &[]),
        ("build/tbe/ascendc/mul/mul.cpp", &["mul_1"]),
        ("build/tbe/ascendc/common/math.h", &["add_1", "mul_1"]),
        // Sources that were copied.
        ("add/op_kernel/add.cpp", &["add_1", "Add_0", "Add_1"]),
        ("op_kernel/add/add_tiling.h", of_910b),
        ("sub/op_kernel/add.cpp", &[]),
        ("common/op_kernel/math.h", &["add_1", "mul_1"]),
        // By the options of the generated Python.
        ("common/compat.h", of_910b),
        ("common/common_math.h", of_910b),
        ("elsewhere/common_math.h", &[]),
    ] {
        assert_eq!(build.readers(source), expected, "{source}");
    }
    Ok(())
}

fn damaged_commands_are_reported() -> Result<(), Failed> {
    let build = Build::new();
    build.write("build/binary/ascend910b/gen/Add_0_param.json", "{");
    fs::remove_file(build.path("build/binary/ascend910b/gen/Add_1_param.json")).unwrap();
    build.write(
        "build/binary/ascend910_93/bin/opc_cmd/add_binary.json_0",
        r#"{"op_list": [{"bin_filename": 7}]}"#,
    );
    build.write(
        "build/binary/ascend910b/gen/other.sh",
        "res=$(opc --main_func= --input_param=)\nopc\n\0\u{202e}",
    );
    let (_, plan) = build.plan();
    let why: Vec<&str> = plan.unreadable.iter().map(|(_, why)| why.as_str()).collect();
    assert_eq!(plan.tasks.iter().map(|task| task.kernel.as_str()).collect::<Vec<_>>(), ["mul_1"]);
    for text in ["names no kernel", "EOF", "`Add_1_param.json` is not in the tree"] {
        assert!(why.iter().any(|why| why.contains(text)), "{text} {why:?}");
    }
    Ok(())
}

fn a_package_without_a_build_has_no_plan() -> Result<(), Failed> {
    let package = Package::new();
    let cancel = CancelToken::new();
    let refused = PackageDir::open(&package.path(), &cancel).unwrap().plan(&cancel).unwrap_err();
    assert!(matches!(&refused, PackageError::NoBuildTree { .. }), "{refused:?}");
    assert!(refused.to_string().contains("has no build tree: expected `binary/UNIT`"), "{refused}");
    Ok(())
}
