//! The output that scripts read: the fields of each JSON object with their words, and the texts of errors. A change that
//! is not intended fails here; an intended one is written with OPKEEP_UPDATE_GOLDEN=1, and listed in CHANGELOG.md.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use opkeep_testkit::caches::{Rank, age, cann_kernel};
use opkeep_testkit::toolkit::package::VendorPackage;
use serde_json::Value;

use crate::common::packages::{build_tree, two_vendors};
use crate::common::{Place, Ran, SQUARE, files, square_of};

const NETWORK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/networks/lenet");

/// Compares a text with the golden one of that name.
#[track_caller]
pub(crate) fn compare(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("OPKEEP_UPDATE_GOLDEN").is_some() {
        fs::write(&path, found).unwrap();
    }
    let golden = fs::read_to_string(&path).unwrap_or_default();
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let (is, was) = (lines(found), lines(&golden));
    let gone: Vec<_> = was.difference(&is).collect();
    let new: Vec<_> = is.difference(&was).collect();
    assert!(found == golden, "tests/golden/{name} changed\nno longer: {gone:#?}\nnew: {new:#?}");
}

/// The fields in the output of one command, over all its runs.
#[derive(Default)]
struct Fields(BTreeSet<String>);

impl Fields {
    fn add(&mut self, path: &str, value: &Value) {
        let kind = match value {
            // These names come from the content of a file.
            Value::Object(_) if path.ends_with("].fields") => "names and strings".to_owned(),
            Value::Object(fields) => {
                fields.iter().for_each(|(name, value)| self.add(&format!("{path}.{name}"), value));
                return;
            }
            Value::Array(values) => {
                values.iter().for_each(|value| self.add(&format!("{path}[]"), value));
                if !values.is_empty() {
                    return;
                }
                "list".to_owned()
            }
            Value::String(text) if is_word(text) => format!("\"{text}\""),
            Value::String(_) => "string".to_owned(),
            Value::Number(_) => "number".to_owned(),
            Value::Bool(_) => "bool".to_owned(),
            Value::Null => "null".to_owned(),
        };
        self.0.insert(format!("{path}: {kind}"));
    }
}

/// Whether a text is one of a small set, as outcomes and reasons are.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.len() < 32 && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'_' | b'-'))
}

/// Runs a command with `--format json`.
fn json(place: &Place, fields: &mut Fields, args: &[&str]) -> Ran {
    // The output must not depend on the toolkits of the machine.
    let none = place.path("tmp").display().to_string();
    let ran = place.run_with(&[args, &["--format", "json"]].concat(), &[("ASCEND_HOME_PATH", &none)]);
    fields.add(args[0], &ran.json());
    ran
}

#[test]
fn json_fields_are_unchanged() {
    let place = Place::new();
    let mut fields = Fields::default();
    let mut run = |args: &[&str]| json(&place, &mut fields, args);

    // Builds: cold, warm, without store, with failures, with foreign kernels in the directory.
    for args in [
        &["targets"][..],
        &["build", NETWORK, "--target", "cpu"],
        &["build", SQUARE, "--target", "cpu"],
        &["build", SQUARE, "--target", "cpu"],
        &["build", SQUARE, "--target", "cpu", "--op_debug_level", "1"],
        &["build", SQUARE, "--target", "cpu", "--op_compiler_cache_mode", "force"],
        &["explain", NETWORK, "--target", "cpu"],
        &["stats"],
        &["ls"],
        &["diff", SQUARE, SQUARE],
        &["verify"],
        &["gc", "--dry-run"],
    ] {
        run(args);
    }
    let other = place.write("five.info", square_of(5));
    let other = other.to_str().unwrap();
    let model = format!("{NETWORK}/model.onnx");
    let (input, output) = (format!("{NETWORK}/input_0.pb"), format!("{NETWORK}/output_0.pb"));
    run(&["explain", other, "--target", "cpu"]);
    run(&["explain", SQUARE, "--target", "cpu", "--against", other]);
    run(&["build", other, "--target", "cpu", "--op_compiler_cache_mode", "require"]);
    run(&["run", &model, "--input", &input, "--compare", &output, "--profile"]);
    run(&["run", SQUARE, "--input-values", "1,4,9"]);
    let view = place.path("rank_0/kernel_meta");
    for suffix in ["o", "json", "info"] {
        let file =
            files(&view).into_iter().find(|path| path.extension().is_some_and(|e| e == suffix)).unwrap();
        run(&["inspect", file.to_str().unwrap()]);
        run(&["verify", file.to_str().unwrap()]);
    }
    let entries = place.entries();
    run(&["inspect", entries[0].to_str().unwrap()]);
    run(&["inspect", SQUARE]);
    run(&["config"]);
    run(&["inspect", &model, "cache"]);

    run(&["key", "generate", "builds-1", "--out", "secret"]);
    run(&["key", "show", "secret"]);
    run(&["bundle", "export", "--output", "all.bundle", "--sign-key", "secret"]);
    run(&["bundle", "inspect", "all.bundle"]);
    run(&["bundle", "import", "all.bundle", "notes.txt"]);
    fs::create_dir(place.path("shared")).unwrap();
    let url = format!("file://{}", place.path("shared").display());
    run(&["remote", "check", &url, "--rounds", "2"]);
    run(&["remote", "push", &url, "--all"]);
    run(&["remote", "ls", &url, "--long"]);
    run(&["remote", "stats", &url]);
    let elsewhere = ["--op_compiler_cache_dir", "elsewhere", "--target", "cpu"];
    run(&[&["build", SQUARE, "--remote", &url], &elsewhere[..]].concat());
    fs::remove_dir_all(place.path("elsewhere")).unwrap();
    run(&[&["explain", SQUARE, other, "--remote", &url], &elsewhere[..]].concat());
    run(&["remote", "gc", &url, "--max-size", "0"]);

    // A store with damage, and with stale files of killed processes.
    fs::write(&entries[0], "torn").unwrap();
    let target = entries[0].parent().unwrap().parent().unwrap().parent().unwrap();
    fs::write(target.join("stats"), "torn").unwrap();
    fs::write(target.join("tmp/stranger"), "").unwrap();
    fs::write(target.join("entries/notes.txt"), "").unwrap();
    run(&["verify"]);
    run(&["repair", "--dry-run"]);
    run(&["repair"]);
    run(&["verify"]);
    run(&["gc", "--max-size", "1K", "--older-than", "0s"]);
    run(&["stats", "--zero"]);
    run(&["clear", "--dry-run"]);
    run(&["clear"]);

    // Caches of frameworks, some of them damaged.
    for rank in (0..2).map(Rank::new) {
        (1..=2).for_each(|elements| rank.square(elements).write(&rank.dir(&place.path("run"))).unwrap());
    }
    let rank = Rank::new(1);
    let damaged = rank.dir(&place.path("run")).join(format!("{}.json", rank.square(1).stem));
    fs::write(&damaged, "").unwrap();
    age(&damaged).unwrap();
    let cache = place.path("run/kernel_cache/Ascend910B2");
    (0..3).for_each(|number| cann_kernel("Ascend910B2", number).write(&cache).unwrap());
    fs::remove_file(cache.join(format!("{}.json", cann_kernel("Ascend910B2", 1).stem))).unwrap();
    for args in [
        &["verify", "run"][..],
        &["repair", "run", "--dry-run"],
        &["repair", "run", "--fill"],
        &["repair", "run", "--undo", "--dry-run"],
        &["repair", "run", "--undo"],
        &["import", "run"],
        &["import", "run"],
        &["verify"],
        &["gc", "run", "--max-size", "0", "--dry-run"],
        &["gc", "run", "--max-size", "0", "--older-than", "31m"],
    ] {
        run(args);
    }
    let package = VendorPackage::write(&place.path("vendors/vendor")).unwrap();
    fs::remove_file(package.file(&format!("{}.o", VendorPackage::add("ascend910b", "float16")))).unwrap();
    run(&["package", "verify", "vendors"]);
    two_vendors(&place);
    run(&["package", "diff", "old", "new"]);
    build_tree(&place);
    run(&["package", "plan", "build", "--source", "add/op_kernel/add.cpp"]);
    let text: String = fields.0.iter().map(|line| format!("{line}\n")).collect();
    compare("json.txt", &text);
}

#[test]
fn error_texts_are_unchanged() {
    let place = Place::new();
    place.write("broken.info", "{");
    place.write("broken.onnx", "no protobuf");
    place.write("broken.json", "{}");
    place.write("notes.txt", "a note");
    place.write("store/notes.txt", "a note");
    place.write("empty/.keep", "");
    place.write("open.onnx", super::options::open_network());
    place.write("other/v1/notes.txt", "");
    // A store that all may write.
    fs::create_dir_all(place.path("shut/v1")).unwrap();
    fs::set_permissions(place.path("shut"), fs::Permissions::from_mode(0o777)).unwrap();
    let cases: &[&[&str]] = &[
        &["bild"],
        &["build"],
        &["build", "missing.onnx"],
        &["build", "broken.info", "--target", "cpu"],
        &["build", "broken.onnx"],
        &["build", "notes.txt"],
        &["build", "empty"],
        &["build", SQUARE],
        &["build", SQUARE, "--target", "abacus"],
        &["build", SQUARE, "--target", "cpu", "--jobs", "0"],
        &["build", SQUARE, "--target", "cpu", "--op_compiler_cache_mode", "maybe"],
        &["build", SQUARE, "--target", "cpu", "--op_compiler_cache_mode", "require"],
        &["build", SQUARE, "--target", "cpu", "--op_compiler_cache_dir", "store"],
        &["build", SQUARE, "--target", "cpu", "--op_compiler_cache_dir", "notes.txt"],
        &["build", SQUARE, "--target", "cpu", "--option", "fast"],
        &["build", SQUARE, "--target", "cpu", "--option", "fast=1"],
        &["build", SQUARE, "--target", "cpu", "--dim", "batch=1"],
        &["build", SQUARE, "--target", "cpu", "--kernel-meta", "notes.txt"],
        &["build", SQUARE, "--target", "cpu", "--op_debug_level", "9"],
        &["build", SQUARE, "--target", "cpu", "--op_debug_config", "missing.cfg"],
        &["build", SQUARE, "--target", "cpu", "--toolchain-input", "missing"],
        &["build", SQUARE, "--target", "Ascend910B1", "--cann", "empty"],
        &["CC=missing-cc", "build", SQUARE, "--target", "cpu"],
        &["RANK_ID=a/b", "build", SQUARE, "--target", "cpu"],
        &["build", "open.onnx", "--target", "cpu", "--dim", "bach=1"],
        &["build", SQUARE, "--target", "cpu", "--dim", "batch"],
        &["OPKEEP_CACHE_DIR=shut", "stats"],
        &["OPKEEP_CACHE_DIR=other", "verify"],
        &["run", SQUARE, "--input-values", "1,4"],
        &["run", SQUARE, "--input-values", "one,two,three"],
        &["run", SQUARE, "--input", "notes.txt"],
        &["run", SQUARE, "--input-values", "1,4,9", "--compare", "missing.pb"],
        &["explain", "broken.info", "--target", "cpu"],
        &["explain", SQUARE, "--target", "cpu", "--against", "broken.info"],
        &["inspect", "missing.o"],
        &["inspect", "notes.txt"],
        &["inspect", "broken.json"],
        &["verify", "missing"],
        &["verify", "notes.txt"],
        &["verify", "empty"],
        &["verify", "broken.json"],
        &["repair", "missing"],
        &["repair", "empty"],
        &["repair", "empty", "--undo"],
        &["repair", "--undo"],
        &["repair", "empty", "--fill", "--device-map", "0:1"],
        &["import", "missing"],
        &["import", "empty"],
        &["gc", "missing"],
        &["gc", "empty"],
        &["gc", "--max-size", "much"],
        &["gc", "--older-than", "soon"],
        &["build", SQUARE, "--target", "cpu", "--remote", "host:6379"],
        &["build", SQUARE, "--target", "cpu", "--remote", "ftp://user:password@host"],
        &["build", SQUARE, "--target", "cpu", "--remote", "redis://user:password@host:port"],
        &["build", SQUARE, "--target", "cpu", "--remote-mode", "all"],
        &["build", SQUARE, "--target", "cpu", "--remote-namespace", "a/b"],
        &["stats"],
        &["package"],
        &["package", "verify"],
        &["package", "verify", "missing"],
        &["package", "verify", "notes.txt"],
        &["package", "verify", "empty"],
        &["package", "diff", "empty"],
        &["package", "diff", "missing", "missing"],
        &["package", "plan", "missing"],
        &["bundle"],
        &["bundle", "export"],
        &["bundle", "export", "--output", "tmp"],
        &["bundle", "export", "--output", "missing/all.bundle"],
        &["bundle", "export", "--output", "all.bundle", "--sign-key", "missing"],
        &["bundle", "export", "--output", "all.bundle", "--keys", "notes.txt"],
        &["bundle", "export", "--output", "all.bundle", "--keys", "empty"],
        &["bundle", "export", "--output", "all.bundle", "--plan", "broken.onnx"],
        &["bundle", "import"],
        &["bundle", "import", "missing"],
        &["bundle", "import", "notes.txt"],
        &["bundle", "import", "empty"],
        &["bundle", "inspect", "notes.txt", "--remote-namespace", "a/b"],
        &["key"],
        &["key", "generate", "builds 1", "--out", "secret"],
        &["key", "generate", "builds-1"],
        &["key", "generate", "builds-1", "--out", "notes.txt"],
        &["key", "generate", "builds-1", "--out", "missing/secret"],
        &["remote"],
        &["remote", "check"],
        &["remote", "check", "ftp://host"],
        &["remote", "check", "redis://"],
        &["remote", "check", "redis://127.0.0.1:1"],
        &["remote", "check", "file:///missing"],
        &["remote", "check", "file:///missing", "--clients", "1"],
        &["remote", "ls"],
        &["remote", "stats", "file:///missing"],
        &["remote", "gc", "file:///missing", "--max-size", "much"],
        &["remote", "gc", "file:///missing", "--remote-namespace", "a/b"],
        &["remote", "push"],
        &["key", "show", "missing"],
        &["key", "show", "notes.txt"],
        &["key", "show", "broken.onnx"],
        &["key", "show", "empty"],
        &["clear"],
        &["clear", "--op_compiler_cache_dir", "store"],
    ];
    let mut text = String::new();
    for args in cases {
        // The words before the command are variables.
        let (env, args) = args.split_at(args.iter().take_while(|arg| arg.contains('=')).count());
        let env: Vec<(&str, &str)> = env.iter().filter_map(|text| text.split_once('=')).collect();
        let ran = place.run_with(args, &env);
        let args: Vec<String> = env
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .chain(["opkeep"].iter().chain(args).map(|arg| (*arg).to_owned()))
            .collect();
        let shown = args.join(" ").replace(SQUARE, "square.info");
        let stderr = ran.stderr.replace(SQUARE, "square.info");
        let stderr = stderr.replace(place.dir.path().to_str().unwrap(), "<dir>");
        writeln!(text, "$ {shown}\n{stderr}exit code {}\n", ran.code.unwrap()).unwrap();
    }
    compare("errors.txt", &text);
}
