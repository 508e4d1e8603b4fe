//! The inputs that all kernels of a toolkit share, and files that do not count.
#![expect(clippy::unwrap_used, reason = "helpers fail the test that calls them")]
#![expect(clippy::disallowed_methods, reason = "tests change what is on the disk")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::common::{Place, SOC, changed, environment, names, sources, spec};
use opkeep_cann_toolkit::{Search, ToolkitError, toolchain};
use opkeep_digest::Fingerprint;
use opkeep_testkit::PlainDigests;
use opkeep_testkit::toolkit::{Layout, Toolkit, Vendor};
use serde_json::json;

fn fingerprint(search: &Search) -> Fingerprint {
    toolchain(&search.find().unwrap(), &PlainDigests::default()).unwrap()
}

#[test]
fn the_same_toolkit_elsewhere_is_the_same() {
    for layout in [Layout::AscendToolkit, Layout::Cann] {
        let plan = Toolkit::new().layout(layout).vendor(Vendor::new("one").op("Own", "Square"));
        let (one, other) = (Place::of(&plan), Place::of(&plan));
        assert_eq!(one.toolchain(), other.toolchain());
        assert_eq!(one.sources("Square").unwrap(), other.sources("Square").unwrap());
        let dir = one.dir.path().display().to_string();
        let both = [one.toolchain(), one.sources("Own").unwrap()];
        for part in both.iter().flat_map(|fingerprint| fingerprint.parts()) {
            assert!(!part.name.contains(&dir) && !part.note.contains(&dir), "{part:?}");
        }
        // Moved as a whole.
        fs::rename(one.below("Ascend"), one.below("moved")).unwrap();
        let moved = Search { system: one.below("moved"), ..one.search() };
        assert_eq!(fingerprint(&moved), other.toolchain());
    }
}

#[test]
fn every_part_is_named() {
    let place = Place::of(&Toolkit::new().vendor(Vendor::new("one").op("Own", "Square")));
    let parts = names(&place.toolchain());
    assert_eq!(
        parts,
        [
            "compiler",
            "opp",
            "opc",
            "ccec_compiler/bin",
            "lib64",
            "python opc_tool",
            "python tbe",
            "python te",
            "python te_fusion",
            "platform_config",
            "ops-info",
            "impl_mode",
            "vendors/config.ini",
            "vendor one",
            "vendor one content",
        ]
    );
    assert_eq!(place.toolchain().parts()[0].note, "7.7.0.1.238 of 20250428_203017761");
}

#[test]
fn an_upgrade_changes_the_toolchain_and_says_so() {
    let mut place = Place::new();
    let before = place.toolchain();
    place.installed.upgrade("7.8.0.0.1", "20260101_000000000").unwrap();
    let after = place.toolchain();
    assert_eq!(changed(&before, &after), ["compiler", "opp", "ccec_compiler/bin"]);
    let text = before.diff(&after)[0].to_string();
    assert_eq!(
        text,
        "`compiler` changed: 7.7.0.1.238 of 20250428_203017761 -> 7.8.0.0.1 of 20260101_000000000"
    );
    // The same version, built at another time.
    place.installed.upgrade("7.8.0.0.1", "20260102_000000000").unwrap();
    assert!(changed(&after, &place.toolchain()).contains(&"opp".to_owned()));
    // A toolkit that was found before notices as well.
    let found = place.found();
    place.installed.upgrade("7.9", "20260102_000000000").unwrap();
    assert_ne!(toolchain(&found, &PlainDigests::default()).unwrap(), after);
}

#[test]
fn each_part_is_seen_to_change() {
    let place = Place::of(&Toolkit::new().vendor(Vendor::new("one").op("Own", "Square")));
    let vendor = "opp/vendors/one/op_impl/ai_core/tbe";
    let tbe = "opp/built-in/op_impl/ai_core/tbe";
    for (path, part) in [
        ("bin/opc".to_owned(), "opc"),
        ("compiler/ccec_compiler/bin/ld.lld".to_owned(), "ccec_compiler/bin"),
        ("python/site-packages/opc_tool/opc.py".to_owned(), "python opc_tool"),
        ("python/site-packages/tbe/tvm/contrib/ccec.py".to_owned(), "python tbe"),
        ("python/site-packages/te/platform/cce_conf.py".to_owned(), "python te"),
        ("compiler/data/platform_config/Ascend310P3.ini".to_owned(), "platform_config"),
        (format!("{tbe}/config/ascend910b/aic-ascend910b-ops-info.json"), "ops-info"),
        (format!("{tbe}/impl_mode/high_precision.ini"), "impl_mode"),
        ("opp/vendors/one/version.info".to_owned(), "vendor one content"),
        (format!("{vendor}/config/ascend910b/aic-ascend910b-ops-info.json"), "vendor one content"),
    ] {
        let before = place.toolchain();
        place.installed.append(&place.installed.path(&path), "\n").unwrap();
        assert_eq!(changed(&before, &place.toolchain()), [part], "{path}");
    }
    // A file that comes, and one that goes.
    let before = place.toolchain();
    let new = place.installed.path("python/site-packages/tbe/new.py");
    fs::write(&new, "").unwrap();
    assert_eq!(changed(&before, &place.toolchain()), ["python tbe"]);
    fs::remove_file(&new).unwrap();
    assert_eq!(place.toolchain(), before);
    // Operators are their own affair.
    place.installed.append(&place.installed.impl_file("square.py"), "\n").unwrap();
    place.installed.append(&place.installed.path(&format!("{vendor}/one_impl/own.py")), "\n").unwrap();
    assert_eq!(place.toolchain(), before);
}

#[test]
fn files_left_by_use_do_not_count() {
    let place = Place::of(&Toolkit::new().vendor(Vendor::new("one").op("Own", "Square")));
    let before =
        (place.toolchain(), place.sources("Square").unwrap(), place.sources("BatchMatMulV2").unwrap());
    let tbe = "opp/built-in/op_impl/ai_core/tbe";
    for dir in [
        "python/site-packages/tbe".to_owned(),
        "python/site-packages/opc_tool".to_owned(),
        format!("{tbe}/impl"),
        format!("{tbe}/config"),
        "opp/vendors/one/op_impl/ai_core/tbe".to_owned(),
    ] {
        let dir = place.installed.path(&dir);
        fs::create_dir(dir.join("__pycache__")).unwrap();
        for name in ["__pycache__/x.cpython-311.pyc", "x.pyo", "kernel_meta.lock"] {
            fs::write(dir.join(name), "x").unwrap();
        }
    }
    let after =
        (place.toolchain(), place.sources("Square").unwrap(), place.sources("BatchMatMulV2").unwrap());
    assert_eq!(before, after);
}

#[test]
fn vendors_count_with_their_order_and_version() {
    let vendors = [Vendor::new("one").op("Own", "Square"), Vendor::new("two").op("Other", "Square")];
    let [one, two] = vendors.clone();
    let plan = |first: &Vendor, second: &Vendor| Toolkit::new().vendor(first.clone()).vendor(second.clone());
    let base = Place::of(&plan(&one, &two)).toolchain();
    assert_ne!(base.digest(), Place::of(&plan(&two, &one)).toolchain().digest());
    let newer = Place::of(&plan(&one.version("9.2.0"), &two)).toolchain();
    assert_eq!(changed(&base, &newer), ["vendor one", "vendor one content"]);
    assert!(base.diff(&newer)[0].to_string().ends_with("9.1.0 -> 9.2.0"));
}

/// A build that is on sees a package that comes: what it compiles then is not what it would have been.
#[test]
fn a_new_package_is_noticed_after_an_earlier_look() {
    let place = Place::of(&Toolkit::new().vendor(Vendor::new("one").op("Own", "Square")));
    let found = place.found();
    let look = || toolchain(&found, &PlainDigests::default()).unwrap();
    let before = look();
    let two = place.installed.path("opp/vendors/two");
    place.installed.write_vendor(&Vendor::new("two").op("Square", "Mul"), &two).unwrap();
    assert_eq!(look(), before);
    let ini = place.installed.path("opp/vendors/config.ini");
    place.installed.edit(&ini, |_| "load_priority=two,one\n".to_owned()).unwrap();
    assert_eq!(before.diff(&look())[0].to_string(), "`vendors/config.ini` changed: one -> two,one");
}

#[test]
fn knowledge_banks_count_in_their_order() {
    let place = Place::new();
    let (tuned, cache) = (place.below("tuned"), place.below("cache"));
    let variables = environment(&[("TUNE_BANK_PATH", &tuned), ("ASCEND_CACHE_PATH", &cache)]);
    let search = Search { environment: variables, ..place.search() };
    let base = fingerprint(&search);
    // An empty bank knows as little as none.
    fs::create_dir(&tuned).unwrap();
    assert_eq!(fingerprint(&search), base);
    let home = place.below("home/Ascend/latest/data/aoe/custom/op");
    let mut last = base;
    for (dir, part) in [
        (None, "knowledge bank (built-in)"),
        (Some(home.join(SOC)), "knowledge bank (the home folder)"),
        (Some(cache.join("aoe_data").join(SOC)), "knowledge bank (ASCEND_CACHE_PATH)"),
        (Some(tuned.clone()), "knowledge bank (TUNE_BANK_PATH)"),
    ] {
        let write =
            |knowledge| place.installed.write_bank(dir.as_deref(), SOC, "mat_mul", &knowledge).unwrap();
        write(json!({"tile": 1}));
        let new = fingerprint(&search);
        assert_eq!(changed(&last, &new), [part]);
        write(json!({"tile": 2}));
        assert_eq!(changed(&new, &fingerprint(&search)), [part]);
        last = fingerprint(&search);
    }
    let banks: Vec<String> = names(&last).into_iter().filter(|name| name.starts_with("knowledge")).collect();
    let sources = ["TUNE_BANK_PATH", "ASCEND_CACHE_PATH", "the home folder", "built-in"];
    assert_eq!(banks, sources.map(|source| format!("knowledge bank ({source})")));
}

#[test]
fn a_bank_that_options_name_counts_for_the_job() {
    let place = Place::new();
    let job = crate::common::job("MatMulV2");
    let mut spec = spec();
    let dir = place.below("bank");
    spec.options.insert("op_bank_path".to_owned(), dir.display().to_string());
    let found = place.found();
    let before = sources(&found, &job, &spec).unwrap();
    assert_eq!(before, place.sources("MatMulV2").unwrap());
    place.installed.write_bank(Some(&dir), SOC, "mat_mul", &json!({"tile": 1})).unwrap();
    let after = sources(&found, &job, &spec).unwrap();
    assert_eq!(changed(&before, &after), ["knowledge bank (op_bank_path)"]);
}

/// The compiler cannot read such a bank either; once it can, kernels differ.
#[test]
fn a_bank_that_cannot_be_read_is_an_error_with_a_way_out() {
    let place = Place::new();
    let tuned = place.below("tuned");
    let file = place.installed.write_bank(Some(&tuned), SOC, "mat_mul", &json!({})).unwrap();
    let search = Search { environment: environment(&[("TUNE_BANK_PATH", &tuned)]), ..place.search() };
    let read = || toolchain(&search.find().unwrap(), &PlainDigests::default());
    let refused = |error: ToolkitError, path: &Path| {
        let text = error.to_string();
        assert!(matches!(error, ToolkitError::Bank { .. }), "{text}");
        assert!(text.contains(&path.display().to_string()) && text.contains("TUNE_BANK_PATH"), "{text}");
        assert!(error.help().contains("take it out"), "{}", error.help());
    };
    // A directory by the name of a file cannot be read by anybody; a file without permission can be by root.
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    set(&file, 0o000);
    if fs::read(&file).is_err() {
        refused(read().unwrap_err(), &file);
    }
    set(&file, 0o644);
    set(&tuned, 0o000);
    if fs::read_dir(&tuned).is_err() {
        refused(read().unwrap_err(), &tuned);
    }
    set(&tuned, 0o755);
    assert!(read().is_ok());
    // Nor can a name be listed that is too long, by whoever asks.
    let long = place.below(&"x".repeat(300));
    let search = Search { environment: environment(&[("TUNE_BANK_PATH", &long)]), ..place.search() };
    refused(toolchain(&search.find().unwrap(), &PlainDigests::default()).unwrap_err(), &long);
}

/// Links that lead back or nowhere do not count.
#[test]
fn loops_of_links_end() {
    let place = Place::new();
    let before = place.toolchain();
    let tbe = place.installed.path("python/site-packages/tbe");
    std::os::unix::fs::symlink(".", tbe.join("again")).unwrap();
    std::os::unix::fs::symlink("nowhere", tbe.join("lost")).unwrap();
    assert_eq!(place.toolchain(), before);
}
