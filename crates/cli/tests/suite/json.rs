//! `docs/json.md` and the results of every command agree: each field that a result has is documented with its type
//! and with when it is absent, and each documented field is in some result.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use opkeep_testkit::caches::{Rank, age, cann_kernel};
use opkeep_testkit::toolkit::package::VendorPackage;
use opkeep_testkit::toolkit::{Part, Toolkit, Vendor, python};
use serde_json::Value;

use crate::common::packages::{build_tree, two_vendors};
use crate::common::{Place, Ran, SQUARE, files, square_of};

const PAGE: &str = include_str!("../../../../docs/json.md");
const NETWORK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/networks/lenet");

/// A row of a table.
struct Row {
    types: BTreeSet<&'static str>,
    elements: BTreeSet<&'static str>,
    may_be_absent: bool,
}

/// The rows of each section, by path.
struct Documented(BTreeMap<String, BTreeMap<String, Row>>);

/// `a.{b,c}` is `a.b` and `a.c`.
fn alternatives(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let (inside, after) = rest.split_once('}').unwrap();
    inside.split(',').flat_map(|one| alternatives(&format!("{before}{one}{after}"))).collect()
}

fn kinds(text: &str) -> BTreeSet<&'static str> {
    const KINDS: [&str; 6] = ["text", "number", "bool", "list", "object", "null"];
    KINDS
        .into_iter()
        .filter(|kind| text.split([' ', ',']).any(|word| word.trim_end_matches('s') == *kind))
        .collect()
}

impl Documented {
    fn read() -> Self {
        let (mut sections, mut section) = (BTreeMap::new(), String::new());
        for line in PAGE.lines() {
            if let Some(title) = line.strip_prefix("## ") {
                title.clone_into(&mut section);
            }
            let cells: Vec<&str> = line.split(" | ").map(|cell| cell.trim_matches(['|', ' '])).collect();
            let [field, kind, absent, ..] = cells.as_slice() else { continue };
            let Some(field) = field.strip_prefix('`').and_then(|field| field.strip_suffix('`')) else {
                continue;
            };
            let (outer, elements) = kind.split_once(" of ").unwrap_or((kind, ""));
            for path in alternatives(field) {
                let row =
                    Row { types: kinds(outer), elements: kinds(elements), may_be_absent: !absent.is_empty() };
                assert!(!row.types.is_empty(), "{section}: `{path}` has no type");
                let rows: &mut BTreeMap<String, Row> = sections.entry(section.clone()).or_default();
                assert!(rows.insert(path.clone(), row).is_none(), "{section}: `{path}` has two rows");
            }
        }
        Self(sections)
    }
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "text",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    }
}

/// Compares results with the page, and notes which rows they have.
struct Checker {
    documented: Documented,
    seen: BTreeSet<(String, String)>,
    problems: BTreeSet<String>,
}

impl Checker {
    fn check(&mut self, section: &str, what: &str, result: &Value) {
        let mut found = result.clone();
        let fields = found.as_object_mut().unwrap();
        for common in ["schema", "warnings"] {
            match fields.remove(common) {
                Some(value) => self.value("Every result", common, &value, what),
                None => drop(self.problems.insert(format!("{what} has no `{common}`"))),
            }
        }
        self.object(section, "", &found, what);
    }

    fn object(&mut self, section: &str, path: &str, object: &Value, what: &str) {
        let fields = object.as_object().unwrap();
        let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
        for (name, value) in fields {
            let own = format!("{prefix}{name}");
            let path = if self.documented.0[section].contains_key(&own) { own } else { format!("{prefix}*") };
            self.value(section, &path, value, &format!("{what} (`{name}`)"));
        }
        for (path, row) in &self.documented.0[section] {
            let name = path.strip_prefix(&prefix).filter(|name| !name.contains('.') && *name != "*");
            if let Some(name) = name
                && !row.may_be_absent
                && !fields.contains_key(name)
            {
                self.problems.insert(format!("{section}: `{path}` is not in {what}"));
            }
        }
    }

    fn value(&mut self, section: &str, path: &str, value: &Value, what: &str) {
        let Some(row) = self.documented.0[section].get(path) else {
            self.problems.insert(format!("{section}: `{path}` of {what} is not documented"));
            return;
        };
        let elements = row.elements.clone();
        if !row.types.contains(kind(value)) {
            self.problems.insert(format!("{section}: `{path}` is {} in {what}", kind(value)));
        }
        self.seen.insert((section.to_owned(), path.to_owned()));
        match value {
            Value::Object(_) if (section, path) == ("repair DIR", "store") => {
                self.object("repair", "", value, what);
            }
            Value::Object(_) => self.object(section, path, value, what),
            Value::Array(values) => {
                for value in values {
                    if !elements.contains(kind(value)) {
                        self.problems.insert(format!("{section}: `{path}[]` is {} in {what}", kind(value)));
                    }
                    if value.is_object() {
                        // The page describes both lists at once.
                        let path = if path == "caches[].renewed" { "caches[].imported" } else { path };
                        self.object(section, &format!("{path}[]"), value, what);
                    }
                }
            }
            _ => {}
        }
    }
}

#[test]
fn the_page_and_the_results_agree() {
    let mut checker =
        Checker { documented: Documented::read(), seen: BTreeSet::new(), problems: BTreeSet::new() };
    stores(&mut checker);
    views(&mut checker);
    caches(&mut checker);
    toolkits(&mut checker);
    settings(&mut checker);
    removed(&mut checker);
    let has_toolkit = python().is_some();
    let missing: Vec<String> = checker
        .documented
        .0
        .iter()
        .flat_map(|(section, rows)| rows.keys().map(move |path| (section.clone(), path.clone())))
        .filter(|row| !checker.seen.contains(row) && (has_toolkit || !row.1.contains("imported")))
        .map(|(section, path)| format!("{section}: {path}"))
        .collect();
    let problems = &checker.problems;
    assert!(
        missing.is_empty() && problems.is_empty(),
        "{problems:#?}, and documented, but in no result: {missing:#?}"
    );
}

/// Runs a command, and compares its result with a section.
fn run(checker: &mut Checker, place: &Place, section: &str, args: &[&str]) -> Ran {
    run_with(checker, place, section, args, &[])
}

fn run_with(checker: &mut Checker, place: &Place, section: &str, args: &[&str], env: &[(&str, &str)]) -> Ran {
    let none = place.path("tmp").display().to_string();
    let env = [&[("ASCEND_HOME_PATH", none.as_str())], env].concat();
    let ran = place.run_with(&[args, &["--format", "json"]].concat(), &env);
    checker.check(section, &format!("opkeep {}", args.join(" ")), &ran.json());
    ran
}

const EARLY: &str = "A command that stops early";

/// Entries that a store had, and what is not compared.
fn removed(checker: &mut Checker) {
    let place = Place::new();
    let build = ["build", SQUARE, "--target", "cpu", "--no-kernel-meta", "--explain"];
    run(checker, &place, "build", &build);
    place.entries().iter().for_each(|entry| fs::remove_file(entry).unwrap());
    run(checker, &place, "explain", &["explain", SQUARE, "--target", "cpu"]);
    run(checker, &place, "build", &build);
    for entry in place.entries() {
        fs::write(entry, "damaged").unwrap();
    }
    run(checker, &place, "explain", &["explain", SQUARE, "--target", "cpu"]);
    run(checker, &place, "repair", &["repair"]);
    run(checker, &place, "explain", &["explain", SQUARE, "--target", "cpu"]);
    fs::create_dir(place.path("pipes")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(place.path("pipes/pipe.o")).status().unwrap();
    assert!(made.success());
    run(checker, &place, "diff", &["diff", "pipes", "pipes"]);
    run(checker, &place, "shim install", &["shim", "install", "shims"]);
    packages(checker, &place);
    run(checker, &place, "man", &["man", "pages"]);
}

/// Packages whose files agree, and do not.
fn packages(checker: &mut Checker, place: &Place) {
    let package = VendorPackage::write(&place.path("vendors/vendor")).unwrap();
    run(checker, place, "package verify", &["package", "verify", "vendors"]);
    fs::remove_file(package.file(&format!("{}.o", VendorPackage::add("ascend910b", "float16")))).unwrap();
    run(checker, place, "package verify", &["package", "verify", "vendors"]);
    run(checker, place, EARLY, &["package", "verify", "pipes"]);
    // Directories that are nested too deep.
    fs::create_dir_all(package.file(&"d/".repeat(45))).unwrap();
    run(checker, place, "package verify", &["package", "verify", "vendors"]);
    run(checker, place, "package diff", &["package", "diff", "vendors", "vendors"]);
    two_vendors(place);
    run(checker, place, "package diff", &["package", "diff", "old", "new"]);
    run(checker, place, EARLY, &["package", "diff", "old", "pipes"]);
    build_tree(place);
    let source = ["--source", "add/op_kernel/add.cpp", "--source", "other.cpp"];
    run(checker, place, "package plan", &[&["package", "plan", "build"], &source[..]].concat());
    fs::remove_file(place.path("build/binary/ascend910b/gen/Add_0_param.json")).unwrap();
    run(checker, place, "package plan", &["package", "plan", "build"]);
    run(checker, place, EARLY, &["package", "plan", "old"]);
}

/// Builds, runs, and stores of every state.
fn stores(checker: &mut Checker) {
    let place = Place::new();
    let mut run = |section: &str, args: &[&str]| run(checker, &place, section, args);
    for args in [&["stats"][..], &["gc"], &["report"], &["completions", "bash"]] {
        run(args[0], args);
    }
    run("key generate", &["key", "generate", "builds-1", "--out", "secret"]);
    run("key show", &["key", "show", "secret"]);
    run(EARLY, &["key", "generate", "builds-1", "--out", "secret"]);
    fs::create_dir(place.path("shared")).unwrap();
    let url = format!("file://{}", place.path("shared").display());
    run("remote check", &["remote", "check", &url, "--rounds", "2"]);
    run(EARLY, &["remote", "check", "file:///missing"]);
    run("remote push", &["remote", "push", &url]);
    run("build", &["build", NETWORK, "--target", "cpu", "--timings"]);
    let other = place.write("five.info", square_of(5));
    let other = other.to_str().unwrap();
    place.write("broken.info", "{");
    run("remote push", &["remote", "push", &url, "--all"]);
    let six = place.write("six.info", square_of(6));
    let signed =
        ["build", six.to_str().unwrap(), "--target", "cpu", "--remote", &url, "--sign-key", "secret"];
    run("build", &signed);
    run("remote ls", &["remote", "ls", &url]);
    run("remote ls", &["remote", "ls", &url, "--long"]);
    run("remote stats", &["remote", "stats", &url]);
    run("remote gc", &["remote", "gc", &url, "--dry-run"]);
    run("explain", &["explain", other, "broken.info", "--target", "cpu"]);
    // A kernel that only the remote cache has, one that no cache has, and a remote cache that is gone.
    run("build", &["build", SQUARE, "--target", "cpu", "--remote", &url, "--remote-namespace", "json"]);
    let elsewhere = ["--op_compiler_cache_dir", "elsewhere", "--remote-namespace", "json", "--target", "cpu"];
    run("explain", &[&["explain", SQUARE, other, "--remote", &url], &elsewhere[..]].concat());
    run("explain", &[&["explain", SQUARE, "--remote", "file:///missing"], &elsewhere[..]].concat());
    run("build", &["build", SQUARE, "broken.info", "--target", "cpu"]);
    run("explain", &["explain", other, "--target", "cpu"]);
    run("explain", &["explain", SQUARE, "--target", "cpu-native"]);
    let chip = fs::read_to_string(SQUARE).unwrap().replace("Ascend910A", "Ascend910B1");
    place.write("chip.info", chip);
    run("explain --against", &["explain", other, "--against", "chip.info"]);
    run(EARLY, &["build", "broken.info"]);
    run(EARLY, &["build", SQUARE, "--target", "abacus"]);
    run(EARLY, &["build", SQUARE, "--option", "fast=1"]);
    place.write("file", "a note");
    run(EARLY, &["stats", "--op_compiler_cache_dir", "file"]);
    let model = format!("{NETWORK}/model.onnx");
    let (input, output) = (format!("{NETWORK}/input_0.pb"), format!("{NETWORK}/output_0.pb"));
    run("run", &["run", &model, "--input", &input, "--compare", &output, "--profile", "--output", "out"]);
    run("run", &["run", SQUARE, "--input-values", "1,4,9", "--compare", "out/output_0.npy"]);
    let entry = place.entries().remove(0);
    let entry = entry.to_str().unwrap();
    let key = std::path::Path::new(entry).file_stem().unwrap().to_str().unwrap().to_owned();
    run("explain KEY", &["explain", &key]);
    let view = place.path("rank_0/kernel_meta");
    let object = files(&view).into_iter().find(|path| path.extension().is_some_and(|it| it == "o")).unwrap();
    for file in [entry, object.to_str().unwrap(), SQUARE, "missing.o"] {
        run("inspect", &["inspect", file]);
        run("verify", &["verify", file]);
    }
    place.write("bad/x.o", "not an object");
    run("inspect", &["inspect", "bad/x.o"]);
    let open = super::options::open_network();
    let refused = String::from_utf8_lossy(&open).replace("Relu", "Rely");
    place.write("open.onnx", &open);
    place.write("refused.onnx", refused);
    let dims = ["--dim", "batch=2"];
    run("inspect", &["inspect", &model, "open.onnx", "cache"]);
    run("inspect", &[&["inspect", "refused.onnx"][..], &dims].concat());
    run("ls", &["ls"]);
    place.write("square.info", square_of(2));
    place.write("other.info", square_of(3));
    for pair in [["square.info", "other.info"], ["out", "bad"], ["cache", "cache"]] {
        run("diff", &["diff", pair[0], pair[1]]);
    }
    run("verify", &["verify", "bad/x.o"]);

    fs::write(entry, "torn").unwrap();
    run("explain KEY", &["explain", &key]);
    let target = place.path("cache/v1");
    let target = fs::read_dir(&target).unwrap().flatten().map(|it| it.path());
    let target = target.into_iter().find(|it| it.join("STORE.TAG").exists()).unwrap();
    let open = place.path("cache/v1/open");
    fs::create_dir(&open).unwrap();
    fs::copy(target.join("STORE.TAG"), open.join("STORE.TAG")).unwrap();
    fs::create_dir(open.join("entries")).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(target.join("stats"), "torn").unwrap();
    fs::write(target.join("tmp/stranger"), "").unwrap();
    fs::write(target.join("entries/notes.txt"), "").unwrap();
    fs::create_dir_all(target.join("entries/00").join(format!("{}.kern", "0".repeat(64)))).unwrap();
    for args in [&["verify"][..], &["repair", "--dry-run"], &["repair"]] {
        run(args[0], args);
    }
    fs::set_permissions(&open, fs::Permissions::from_mode(0o700)).unwrap();
    for entry in &place.entries()[..2] {
        let day = Duration::from_secs(86_400);
        fs::File::open(entry).unwrap().set_modified(std::time::SystemTime::now() - day).unwrap();
    }
    run("report", &["report", "--html", "page.html"]);
    run("report", &["report"]);
    for args in [&["stats"][..], &["gc"], &["clear"]] {
        let section = if args[0] == "clear" { "gc" } else { args[0] };
        run(section, args);
    }
    Rank::new(0).square(1).write(&place.path("cache/rank_0/kernel_meta")).unwrap();
    run("repair DIR", &["repair", "cache"]);
    interrupted(checker);
    unverifiable(checker);
    bundles(checker);
    groups(checker);
    misses(checker);
}

/// Misses with each kind of difference: another toolchain, with another mathematical library as a consequence, and another job.
fn misses(checker: &mut Checker) {
    let place = Place::new();
    run(checker, &place, "build", &["build", NETWORK, SQUARE, "--target", "cpu"]);
    let five = place.write("five.info", square_of(5));
    let five = five.to_str().unwrap();
    for (command, more) in
        [("explain", &[][..]), ("build", &["--explain", "--op_compiler_cache_mode", "read-only"])]
    {
        let args = [&[command, NETWORK, five, "--target", "cpu"], more].concat();
        run_with(checker, &place, command, &args, &[("CC", "cc -O1")]);
    }
}

/// A store of a framework's groups, one of them without rules for its kernel.
fn groups(checker: &mut Checker) {
    use crate::groups::{Group, TRITON};
    let place = Place::new();
    run(checker, &place, "explain --framework", &["explain", "--framework", "triton"]);
    TRITON.put(&place);
    let unjudged = Group { ptxas: "12.9", has_rules: false, ..TRITON }.put(&place);
    run(checker, &place, "explain --framework", &["explain", "--framework", "triton"]);
    run(checker, &place, "explain KEY", &["explain", &unjudged.to_string()]);
    run(checker, &place, "explain --framework", &["explain", &"0".repeat(64)]);
    let (triton, dir, _) = crate::triton_dir::stocked();
    run(checker, &triton, "explain DIR", &["explain", "triton"]);
    run(checker, &triton, "verify", &["verify", "triton"]);
    fs::write(dir.join("add.cubin"), "torn").unwrap();
    run(checker, &triton, "verify", &["verify", "triton"]);
    run(checker, &triton, "repair DIR", &["repair", "--dry-run", "triton"]);
    run(checker, &triton, "repair DIR", &["repair", "triton"]);
    fs::remove_dir_all(triton.path("cache")).unwrap();
    run(checker, &triton, "explain DIR", &["explain", "triton"]);
    run(checker, &triton, "verify", &["verify", "triton"]);
    fs::write(dir.join("add.cubin"), "torn").unwrap();
    run(checker, &triton, "repair DIR", &["repair", "triton"]);
    fs::write(dir.join("__grp__add.json"), "torn").unwrap();
    run(checker, &triton, "repair DIR", &["repair", "triton"]);
    for by in ["framework", "kernel"] {
        run(checker, &place, "stats", &["stats", "--by", by]);
    }
    run(checker, &place, "verify", &["verify"]);
    let unjudged = place.entry(&unjudged);
    for command in ["inspect", "verify"] {
        run(checker, &place, command, &[command, unjudged.to_str().unwrap()]);
    }
}

/// A build that is interrupted before it compiles anything.
fn interrupted(checker: &mut Checker) {
    let place = Place::new();
    let asked = place.path("tmp/asked");
    let cc = place.script("cc-mute", &format!("touch '{}'; exec sleep 60", asked.display()));
    let mut build = place.command(&["build", SQUARE, "--target", "cpu", "--format", "json"]);
    let build = build.env("CC", &cc).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    while !asked.exists() {
        assert!(began.elapsed() < Duration::from_secs(120), "the compiler was never called");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = rustix::process::Pid::from_raw(build.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = build.wait_with_output().unwrap();
    checker.check(EARLY, "an interrupted build", &serde_json::from_slice(&output.stdout).unwrap());
}

/// A kernel that only a check of its backend can judge.
fn unverifiable(checker: &mut Checker) {
    let (place, file) = crate::unverifiable::stocked(Some("ptx-text"), crate::unverifiable::PTX);
    run(checker, &place, "verify", &["verify"]);
    run(checker, &place, "verify", &["verify", &file]);
}

/// Bundles with all that can be in them, and a damaged one.
fn bundles(checker: &mut Checker) {
    let (place, _) = crate::unverifiable::stocked(Some("ptx-text"), crate::unverifiable::PTX);
    let mut run = |section: &str, args: &[&str]| run(checker, &place, section, args);
    run("key generate", &["key", "generate", "builds-1", "--out", "secret"]);
    run("bundle export", &["bundle", "export", "--output", "none.bundle"]);
    run("build", &["build", SQUARE, "--target", "cpu", "--no-kernel-meta"]);
    let key = place.entries()[0].file_stem().unwrap().to_str().unwrap().to_owned();
    place.write("keys", format!("{key}\n{}\n", "0".repeat(64)));
    run("bundle export", &["bundle", "export", "--output", "some.bundle", "--keys", "keys"]);
    run("bundle export", &["bundle", "export", "--output", "all.bundle", "--sign-key", "secret"]);
    let public = place.run(&["key", "show", "secret"]).stdout;
    place.write("trusted", public);
    let others = place.run(&["key", "generate", "builds-2", "--out", "other-secret"]).stdout;
    place.write("others", others);
    let mut bundle = fs::read(place.path("all.bundle")).unwrap();
    bundle[40] ^= 1;
    place.write("damaged.bundle", bundle);
    place.write("unverifiable.bundle", crate::bundle::of_stores(&place));
    for name in ["all", "damaged", "unverifiable"] {
        let file = format!("{name}.bundle");
        run("bundle inspect", &["bundle", "inspect", &file]);
        for keys in ["@trusted", "@others"] {
            run("bundle inspect", &["bundle", "inspect", &file, "--trusted-keys", keys]);
        }
        run("bundle import", &["bundle", "import", &file, "missing"]);
        run("bundle import", &["bundle", "import", &file, "--trusted-keys", "@trusted"]);
    }
}

/// The states of a framework's directory before a build.
fn views(checker: &mut Checker) {
    let place = Place::new();
    let dir = place.path("rank_0/kernel_meta");
    Rank::new(0).square(3).write(&dir).unwrap();
    place.write("notes.txt", "a note");
    let mut run = |section: &str, args: &[&str]| run(checker, &place, section, args);
    run("build", &["build", "rank_0/kernel_meta"]);
    run("build", &["build", "rank_0/kernel_meta", "--replace"]);
    run("build", &["build", SQUARE, "--target", "cpu", "--kernel-meta", "notes.txt"]);
    run("repair --undo", &["repair", "--undo", "rank_0/kernel_meta"]);
}

/// Caches of frameworks.
fn caches(checker: &mut Checker) {
    let place = Place::new();
    for rank in (0..3).map(Rank::new) {
        (1..=2).for_each(|elements| rank.square(elements).write(&rank.dir(&place.path("run"))).unwrap());
    }
    let ranks: Vec<Rank> = (0..3).map(Rank::new).collect();
    let file = |rank: &Rank, length: u32, ending: &str| {
        rank.dir(&place.path("run")).join(format!("{}.{ending}", rank.square(length).stem))
    };
    fs::write(file(&ranks[1], 1, "json"), "").unwrap();
    age(&file(&ranks[1], 1, "json")).unwrap();
    fs::write(file(&ranks[2], 1, "json"), "").unwrap();
    let cache = place.path("run/kernel_cache/Ascend910B2");
    (0..3).for_each(|number| cann_kernel("Ascend910B2", number).write(&cache).unwrap());
    fs::remove_file(cache.join(format!("{}.json", cann_kernel("Ascend910B2", 1).stem))).unwrap();
    fs::write(cache.join("notes.txt"), "a note").unwrap();
    std::os::unix::fs::symlink(place.path("run/rank_0"), place.path("run/rank_7")).unwrap();
    let mut run = |section: &str, args: &[&str]| run(checker, &place, section, args);
    for (section, args) in [
        ("inspect", &["inspect", "run"][..]),
        ("verify", &["verify", "run"]),
        ("verify", &["verify", "run", "missing"]),
        ("repair DIR", &["repair", "run", "--dry-run"]),
        ("repair DIR", &["repair", "run"]),
        ("repair DIR", &["repair", "run", "--fill"]),
        ("repair --undo", &["repair", "run", "--undo", "--dry-run"]),
    ] {
        run(section, args);
    }
    // A file that a program wrote since, and one of a cache that is no longer a directory.
    fs::write(file(&ranks[1], 1, "json"), "again").unwrap();
    run("repair --undo", &["repair", "run", "--undo"]);
    let cache = ranks[1].dir(&place.path("run"));
    fs::rename(&cache, place.path("moved")).unwrap();
    fs::write(&cache, "no directory").unwrap();
    run("repair --undo", &["repair", "run", "--undo"]);
    let deep = format!("deep{}", "/d".repeat(140));
    fs::create_dir_all(place.path(&deep)).unwrap();
    for (section, args) in [
        ("verify", &["verify", "deep"][..]),
        ("import", &["import", "run"]),
        ("import", &["import", "run", "missing"]),
        ("import", &["import", "deep"]),
        ("gc DIR", &["gc", "run", "missing", "--max-size", "0", "--dry-run"]),
    ] {
        run(section, args);
    }
}

/// Settings of each layer, valid and not.
fn settings(checker: &mut Checker) {
    let place = Place::new();
    let own = place.write("own.toml", "jobs = 2\ndeadline = 5\nodd = 1\ntarrget = 1\n");
    fs::create_dir_all(place.path("cache")).unwrap();
    place.write(
        "cache/op_cache.ini",
        "[op_compiler_cache]\nmax_op_cache_size=7\nremain_cache_size_ratio=70\n",
    );
    let jobs = [("OPKEEP_JOBS", "3"), ("ASCEND_CACHE_PATH", "/other")];
    run_with(checker, &place, "config", &["config", "--config", own.to_str().unwrap()], &jobs);
    let project = place.write("opkeep.toml", "jobs = 2\n");
    fs::set_permissions(project, fs::Permissions::from_mode(0o666)).unwrap();
    run_with(checker, &place, "config", &["config"], &[("OPKEEP_CONFIG", "")]);
    run(checker, &place, "config", &["config", "--template"]);
    run(checker, &place, "doctor", &["doctor"]);
}

/// CANN, and its parts that a build uses.
fn toolkits(checker: &mut Checker) {
    let place = Place::new();
    run(checker, &place, "targets", &["targets"]);
    let plan = Toolkit::new().vendor(Vendor::new("one").op("Own", "Square"));
    let installed = plan.write(&place.path("Ascend")).unwrap();
    let home = [("ASCEND_HOME_PATH", installed.root().to_str().unwrap())];
    run_with(checker, &place, "targets", &["targets"], &home);
    let half = Toolkit::new().without(Part::Opc).write(&place.path("half")).unwrap();
    let home = [("ASCEND_HOME_PATH", half.root().to_str().unwrap())];
    run_with(checker, &place, "targets", &["targets"], &home);
    if let Some(python) = python() {
        let root = installed.root().to_str().unwrap();
        imported(checker, &place, &[("ASCEND_HOME_PATH", root), ("HI_PYTHON", python.to_str().unwrap())]);
    }
}

/// A kernel that MindSpore compiled, reused for another rank.
fn imported(checker: &mut Checker, place: &Place, env: &[(&str, &str)]) {
    let (rank, directory) = (Rank::new(0), Rank::new(0).dir(&place.path("run")));
    rank.square(1).write(&directory).unwrap();
    run(checker, place, "import", &["import", "run"]);
    let asked = place.write("asked.info", Rank::new(5).square(1).info.unwrap());
    let asked = asked.to_str().unwrap();
    let flags = ["--target", "Ascend910A", "--trust-imported"];
    run_with(checker, place, "explain", &[&["explain", asked], &flags[..]].concat(), env);
    run_with(checker, place, "build", &[&["build", asked], &flags[..]].concat(), env);
    run_with(checker, place, "build", &["build", asked, "--target", "Ascend910A"], env);
    let option = ["--target", "Ascend910A", "--option", "impl_mode=high_precision"];
    run_with(checker, place, "explain", &[&["explain", asked], &option[..]].concat(), env);
    run_with(checker, place, "build", &[&["build", asked, "--explain"], &option[..]].concat(), env);
}
