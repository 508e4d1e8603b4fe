//! What `opkeep package diff` and `opkeep package plan` say of build trees, compared with what the builds do.
#![expect(clippy::disallowed_methods, reason = "tests look at files")]
#![expect(clippy::unwrap_used, reason = "these tests are functions without `#[test]`")]

use std::fs;
use std::path::{Path, PathBuf};

use libtest_mimic::{Failed, Trial};
use opkeep_testkit::toolkit::package::{Project, ProjectTree, tools};
use serde_json::{Value, json};

use crate::packages::{Bench, build};

type Test = fn() -> Result<(), Failed>;

pub(crate) fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 4] = [
        ("a_plan_lists_what_the_build_runs", a_plan_lists_what_the_build_runs),
        ("readers_of_a_source_are_compiled_again", readers_of_a_source_are_compiled_again),
        ("builds_that_differ_are_compared", builds_that_differ_are_compared),
        ("units_that_share_objects_are_named", units_that_share_objects_are_named),
    ];
    let trial = |(name, test): (&str, Test)| {
        Trial::test(format!("package_builds::{name}"), test).with_ignored_flag(tools().is_none())
    };
    tests.into_iter().map(trial).collect()
}

/// Units and kernels of tasks, sorted.
type Tasks = Vec<(String, String)>;

fn kinds() -> [Project; 3] {
    [Project::vllm(), Project::nn(), Project::msopgen()]
}

/// The tasks that ran since the last call, by the log of the toolkit.
fn ran(bench: &Bench) -> Tasks {
    let mut tasks = Tasks::new();
    for run in bench.installed.runs_of("asc_opc").unwrap() {
        let params = run.args.iter().find_map(|word| word.strip_prefix("--input_param=")).unwrap();
        let mut parts = Path::new(params).iter().skip_while(|part| *part != "binary").skip(1);
        let unit = parts.next().unwrap().to_str().unwrap().to_owned();
        let content: Value = serde_json::from_slice(&fs::read(params).unwrap()).unwrap();
        for op in content["op_list"].as_array().unwrap() {
            tasks.push((unit.clone(), op["bin_filename"].as_str().unwrap().to_owned()));
        }
    }
    bench.installed.forget().unwrap();
    tasks.sort();
    tasks
}

fn of_json(tasks: &Value) -> Tasks {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let tasks = tasks.as_array().unwrap().iter().map(|task| (text(&task["unit"]), text(&task["kernel"])));
    let mut tasks: Tasks = tasks.collect();
    tasks.sort();
    tasks
}

fn plan(bench: &Bench, project: &ProjectTree, sources: &[&Path]) -> Value {
    let dir = project.build_dir();
    let mut args = vec!["package", "plan", dir.to_str().unwrap(), "--format", "json"];
    sources.iter().for_each(|source| args.extend(["--source", source.to_str().unwrap()]));
    bench.place.run(&args).ended_with(0).json()
}

fn states(plan: &Value) -> [u64; 4] {
    ["tasks", "built", "partial", "not_built"].map(|field| plan[field].as_u64().unwrap())
}

fn a_plan_lists_what_the_build_runs() -> Result<(), Failed> {
    let bench = Bench::new();
    for (number, kind) in kinds().into_iter().enumerate() {
        let kind = kind.units(&["ascend910b", "ascend910_93"]);
        let kind = if number == 0 { kind.relocatable() } else { kind };
        // Without links: each task runs.
        let project = kind.write(&bench.at.join(number.to_string()), &bench.installed)?;
        let before = plan(&bench, &project, &[]);
        // One at a time: two units of ops-nn have tasks of one name in one directory, which fail at the same time.
        build(&project, 1);
        let ran = ran(&bench);
        let count = u64::try_from(ran.len()).unwrap();
        assert!(count >= 8, "{ran:?}");
        let after = plan(&bench, &project, &[]);
        for plan in [&before, &after] {
            assert_eq!(plan["builds"].as_array().unwrap().len(), 1, "{number} {plan}");
            assert_eq!(of_json(&plan["builds"][0]["tasks"]), ran, "{number}");
        }
        assert_eq!(
            (states(&before), states(&after)),
            ([count, 0, 0, count], [count, count, 0, 0]),
            "{number}"
        );
        // A task with one of its files, and one without any.
        let tasks = project.tasks()?;
        fs::remove_file(&tasks[0].files()[0])?;
        tasks[1].files().iter().try_for_each(fs::remove_file)?;
        assert_eq!(states(&plan(&bench, &project, &[])), [count, count - 2, 1, 1], "{number}");
        let dir = project.build_dir();
        let ran = bench.place.run(&["package", "plan", dir.to_str().unwrap()]).ended_with(0);
        let lines = |state: &str, name: &str| {
            ran.stdout.lines().filter(|line| line.starts_with(state) && line.ends_with(name)).count()
        };
        assert_eq!(
            (lines("partial ", &tasks[0].name), lines("not built ", &tasks[1].name)),
            (1, 1),
            "{ran:?}"
        );
        assert_eq!(lines("built ", ""), 0, "{ran:?}");
    }
    Ok(())
}

/// The plan is made before the source changes; the build after it compiles its readers, and takes all else from the store.
fn readers_of_a_source_are_compiled_again() -> Result<(), Failed> {
    let bench = Bench::new();
    for (number, kind) in kinds().into_iter().enumerate() {
        let project = bench.project(&kind.tasks(6), &number.to_string());
        build(&project, 4);
        let all = ran(&bench);
        let source = |operator: &str, name: &str| project.source(operator, name).unwrap();
        for source in [
            source("AddCustom", "add_custom.cpp"),
            source("ScaleCustom", "scale_custom_tiling_key.h"),
            project.common_header("row_copy.h"),
            // All tasks include it by an option.
            project.common_header("cann_compat.h"),
        ] {
            let planned = plan(&bench, &project, &[&source]);
            let readers = of_json(&planned["sources"][0]["kernels"]);
            let is_of_all = source.ends_with("cann_compat.h");
            assert_eq!(readers.len() == all.len(), is_of_all, "{number} {planned}");
            assert!(!readers.is_empty(), "{number} {planned}");
            project.edit(&source, |text| text + "\n// changed\n")?;
            project.clean()?;
            build(&project, 4);
            assert_eq!(readers, ran(&bench), "{number} {}", source.display());
        }
        // A file that no task reads.
        let other = bench.at.join("other/op_kernel/add_custom.h");
        let planned = plan(&bench, &project, &[&other]);
        assert_eq!(planned["sources"][0]["kernels"], json!([]), "{number}");
    }
    Ok(())
}

/// The result of a comparison, which ends with 0 if nothing differs.
fn diff(bench: &Bench, one: &ProjectTree, other: &ProjectTree, code: i32) -> Value {
    let dirs = [one, other].map(|project| project.build_dir().to_str().unwrap().to_owned());
    let args = ["package", "diff", &dirs[0], &dirs[1], "--format", "json"];
    let found = bench.place.run(&args).ended_with(code).json();
    assert_eq!(found["same"], code == 0, "{found}");
    found
}

/// The changes of kernels: the operator's directory, what differs, and the field.
fn changes(found: &Value) -> Vec<(String, String, Option<String>)> {
    let mut changes = Vec::new();
    for unit in found["packages"][0]["units"].as_array().unwrap() {
        for kernel in unit["kernels"].as_array().unwrap() {
            let text = |value: &Value| value.as_str().map(str::to_owned);
            let place = PathBuf::from(kernel["kernel"].as_str().unwrap());
            let operator = place.parent().and_then(Path::file_name).unwrap().to_str().unwrap().to_owned();
            let change = text(&kernel["change"]).unwrap();
            changes.push((operator, change, text(&kernel["field"]["field"])));
        }
    }
    changes
}

fn builds_that_differ_are_compared() -> Result<(), Failed> {
    let bench = Bench::new();
    for (number, kind) in kinds().into_iter().enumerate() {
        let project = |folder: &str, operators: &[&str]| {
            let kind = kind.clone().operators(operators).unwrap();
            let project = bench.project(&kind, &format!("{number}/{folder}"));
            build(&project, 4);
            project
        };
        let one = project("one", &["AddCustom", "GatherRows"]);
        let other = project("other/place", &["AddCustom", "GatherRows"]);
        assert_eq!(changes(&diff(&bench, &one, &other, 0)), []);
        let more = project("more", &["AddCustom", "GatherRows", "FusedMatmul"]);
        let found = diff(&bench, &one, &more, 1);
        let unit = &found["packages"][0]["units"][0];
        assert_eq!(
            (&unit["added_operators"], &unit["removed_operators"]),
            (&json!(["FusedMatmul"]), &json!([])),
            "{number} {found}"
        );
        // It has a deterministic twin.
        let mut of_more = changes(&found);
        of_more.dedup();
        assert_eq!(of_more, [("fused_matmul".to_owned(), "added".to_owned(), None)], "{number}");
        let back = diff(&bench, &more, &one, 1);
        assert_eq!(back["packages"][0]["units"][0]["removed_operators"], json!(["FusedMatmul"]), "{back}");
        // Metadata alone, then code.
        let of_gather = other.tasks()?.into_iter().find(|task| task.op_type == "GatherRows").unwrap();
        let described = &of_gather.files()[1];
        let mut content: Value = serde_json::from_slice(&fs::read(described)?)?;
        content["opParaSize"] = json!(7_777);
        fs::write(described, content.to_string())?;
        let gather = || ("gather_rows".to_owned(), "metadata".to_owned(), Some("opParaSize".to_owned()));
        assert_eq!(changes(&diff(&bench, &one, &other, 1)), [gather()], "{number}");
        let source = one.source("AddCustom", "add_custom.cpp")?;
        one.edit(&source, |text| text.replace("data.blockLength + data.tailLength", "data.blockLength"))?;
        one.clean()?;
        build(&one, 4);
        let found = changes(&diff(&bench, &one, &other, 1));
        assert!(found.contains(&gather()) && found.len() == 2, "{number} {found:?}");
        assert!(
            found
                .iter()
                .any(|(operator, change, _)| (operator.as_str(), change.as_str()) == ("add_custom", "code")),
            "{number} {found:?}"
        );
    }
    Ok(())
}

fn units_that_share_objects_are_named() -> Result<(), Failed> {
    let bench = Bench::new();
    for (number, kind) in kinds().into_iter().enumerate() {
        let kind = kind.operators(&["AddCustom"])?.units(&["ascend910b", "ascend910_93"]);
        let project = bench.project(&kind, &number.to_string());
        build(&project, 4);
        let tasks = project.tasks()?;
        let object = |unit: &str| {
            let task = tasks.iter().find(|task| task.unit == unit).unwrap();
            (task.name.clone(), fs::read(&task.files()[0]).unwrap())
        };
        let is_shared = object("ascend910b") == object("ascend910_93");
        let found = diff(&bench, &project, &project, 0);
        let expected = json!([{"units": ["ascend910_93", "ascend910b"], "kernels": 1}]);
        let expected = if is_shared { expected } else { json!([]) };
        assert_eq!(
            (&found["packages"][0]["shared_a"], &found["packages"][0]["shared_b"]),
            (&expected, &expected),
            "{number}"
        );
        assert!(is_shared, "{number}");
    }
    Ok(())
}
