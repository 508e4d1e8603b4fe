//! Checking kernels on disk.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use crate::common::{Place, Ran, SQUARE, files};
use serde_json::{Value, json};

/// A place with one kernel, and the path of its files without their ending.
fn kernel() -> (Place, String) {
    let place = Place::new();
    place.run(&["build", SQUARE]).ended_with(0);
    (place, "rank_0/kernel_meta/square_12484080525657478220_2".to_owned())
}

/// The codes of the findings of the first file.
fn codes(ran: &Ran) -> Vec<String> {
    let json = ran.json();
    let findings = json["files"][0]["findings"].as_array().unwrap();
    findings.iter().map(|finding| finding["code"].as_str().unwrap().to_owned()).collect()
}

#[track_caller]
fn verify(place: &Place, file: &str, code: i32) -> Ran {
    place.run(&["verify", file, "--format", "json"]).ended_with(code)
}

impl Kernel<'_> {
    fn json(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.place.path(&format!("{}.json", self.stem))).unwrap())
            .unwrap()
    }

    /// The same kernel as other files.
    fn put(&self, json_name: &str, object_name: &str, change: impl FnOnce(&mut Value)) {
        let mut json = self.json();
        change(&mut json);
        self.place.write(json_name, json.to_string());
        let object = std::fs::read(self.place.path(&format!("{}.o", self.stem))).unwrap();
        self.place.write(object_name, object);
    }
}

struct Kernel<'a> {
    place: &'a Place,
    stem: &'a str,
}

#[test]
fn a_pair_is_one_kernel_however_it_is_named() {
    let (place, stem) = kernel();
    let (json, object) = (format!("{stem}.json"), format!("{stem}.o"));
    let ran = place.run(&["verify", &json, &object, &json]).ended_with(0);
    let machine = std::env::consts::ARCH;
    let line = format!("valid    {json} and square_12484080525657478220_2.o for cpu-{machine}\n");
    assert!(ran.stdout.starts_with(&line), "{ran:?}");
    assert!(
        ran.stdout.ends_with("1 kernel checked: 1 valid, 0 refused; 0 files could not be checked\n"),
        "{ran:?}"
    );

    // Its file has another name than its `.json` states.
    assert!(ran.stdout.contains("\n1 note, which is no problem: -v shows it\n"), "{ran:?}");
    let ran = place.run(&["verify", &json, "-v"]).ended_with(0).prints("  note     OPV011: ");
    assert!(!ran.stdout.contains("-v shows"), "{ran:?}");
    let found = verify(&place, &object, 0).json();
    assert_eq!((&found["checked"], &found["valid"]), (&json!(1), &json!(1)));
    assert_eq!((&found["refused"], &found["unusable"]), (&json!(0), &json!(0)));
    let file = &found["files"][0];
    assert_eq!(
        (&file["file"], &file["object"], &file["valid"]),
        (&json!(json), &json!(object), &json!(true))
    );
    assert_eq!(file["target"], format!("cpu-{machine}"));
}

#[test]
fn a_changed_byte_is_reported_with_help() {
    let (place, stem) = kernel();
    let path = place.path(&format!("{stem}.o"));
    let mut object = std::fs::read(&path).unwrap();
    *object.last_mut().unwrap() ^= 1;
    std::fs::write(&path, object).unwrap();
    let ran = place.run(&["verify", &format!("{stem}.json")]).ended_with(1);
    assert!(ran.stdout.starts_with("refused  "), "{ran:?}");
    assert!(ran.stdout.contains("\n  error    OPV005: field `sha256`: the `.json` states "), "{ran:?}");
    assert!(ran.stdout.contains("build the kernel again\n"), "{ran:?}");

    let ran = verify(&place, &format!("{stem}.json"), 1);
    assert_eq!(codes(&ran)[0], "OPV005");
    let finding = &ran.json()["files"][0]["findings"][0];
    assert_eq!((&finding["severity"], &finding["more"]), (&json!("error"), &json!(0)));
    assert!(finding["hint"].as_str().unwrap().contains("build the kernel again"), "{finding}");
    assert!(finding["message"].as_str().unwrap().starts_with("field `sha256`"), "{finding}");
    // The rest of the same findings stands in `inspect`.
    let inspected = place.run(&["inspect", &format!("{stem}.json"), "--format", "json"]).ended_with(1).json();
    assert_eq!(inspected["files"][0]["findings"][0], *finding);
}

#[test]
fn one_file_of_a_kernel() {
    let (place, stem) = kernel();
    std::fs::rename(place.path(&format!("{stem}.o")), place.path("alone.o")).unwrap();
    let ran = place.run(&["verify", &format!("{stem}.json"), "alone.o", "--format", "json"]).ended_with(1);
    assert_eq!(codes(&ran), ["OPV012"]);
    // `inspect` accepts one file.
    let seen = place.run(&["inspect", &format!("{stem}.json"), "--format", "json"]).ended_with(0).json();
    assert!(seen["files"][0]["fields"]["object"].as_str().unwrap().contains("none beside it"), "{seen}");
    let alone = &ran.json()["files"][1];
    assert_eq!((&alone["valid"], &alone["findings"][0]["code"]), (&json!(true), &json!("OPV013")));
    std::fs::write(place.path("alone.o"), "placeholder\n").unwrap();
    assert_eq!(codes(&verify(&place, "alone.o", 1)), ["OPV020", "OPV013"]);
}

#[test]
fn other_files_cannot_be_checked() {
    let (place, stem) = kernel();
    place.run(&["verify", "tmp"]).ended_with(2).says("no kernel file in `tmp`");
    place.run(&["verify", "nothing.json"]).ended_with(2).says("nothing.json");
    place.run(&["verify", SQUARE]).ended_with(2).says("neither the .json nor the .o");
    place.write("config.json", r#"{"binList": []}"#);
    place.run(&["verify", "config.json"]).ended_with(2).says("does not describe a kernel");
    place.write("list.json", "[1, 2]");
    place.run(&["verify", "list.json"]).ended_with(2).says("no JSON object");
    place.write("list.o", "");
    place.run(&["verify", "list.json"]).ended_with(1);
    // Beside kernels, other files are skipped.
    let ran = place.run(&["verify", "config.json", &format!("{stem}.json")]).ended_with(0);
    assert!(ran.stdout.ends_with("0 files could not be checked, 1 file of other kinds skipped\n"), "{ran:?}");
    // Unreadable files are reported, and the others are checked.
    let ran =
        place.run(&["verify", "nothing.json", &format!("{stem}.json"), "--format", "json"]).ended_with(2);
    let found = ran.json();
    assert_eq!((&found["valid"], &found["unusable"]), (&json!(1), &json!(1)));
    let unusable = found["files"].as_array().unwrap().iter().find(|file| file["error"].is_string()).unwrap();
    assert!(unusable["error"].as_str().unwrap().contains("nothing.json"), "{found}");
    // Truncated JSON is damage, not another kind of file.
    place.write("torn.json", r#"{"kernelName": "a"#);
    assert_eq!(codes(&verify(&place, "torn.json", 1)), ["OPV001", "OPV012"]);
}

#[test]
fn directories_are_searched() {
    let (place, stem) = kernel();
    let kernel = Kernel { place: &place, stem: &stem };
    kernel.put("rank_0/deep/b.json", "rank_0/deep/b.o", |_| {});
    place.write("rank_0/deep/alone.o", "torn");
    place.write("rank_0/deep/config.json", r#"{"binList": []}"#);
    let found = place.run(&["verify", "rank_0", "--format", "json"]).ended_with(1).json();
    assert_eq!((&found["checked"], &found["valid"], &found["refused"]), (&json!(3), &json!(2), &json!(1)));
    // A directory without a cache is taken for a directory of kernels, and each file that looks like one is reported.
    let found = place.run(&["verify", "rank_0/deep", "--format", "json"]).ended_with(1).json();
    assert_eq!((&found["checked"], &found["valid"], &found["refused"]), (&json!(2), &json!(1), &json!(1)));
    assert_eq!(found["passed_over"].as_array().unwrap().len(), 1);
}

/// MindSpore loads the object with the name of the `.json`, CANN the one that the `.json` names.
#[test]
fn where_readers_take_different_objects_both_are_checked() {
    let (place, stem) = kernel();
    let kernel = Kernel { place: &place, stem: &stem };
    kernel.put("two/a.json", "two/a.o", |json| json["binFileName"] = "b".into());
    place.write("two/b.o", "torn");
    let found = verify(&place, "two/a.json", 1).json();
    assert_eq!((&found["valid"], &found["refused"]), (&json!(1), &json!(1)));
    place.run(&["inspect", "two/a.json"]).ended_with(1);
}

/// The facts from the validator are printed field by field.
#[test]
fn inspect_reports_the_facts() {
    let (place, stem) = kernel();
    let seen = place.run(&["inspect", &format!("{stem}.json"), "--format", "json"]).ended_with(0).json();
    let fields = &seen["files"][0]["fields"];
    for (field, part) in [
        ("elf type", "shared object"),
        ("second parser", "kernels: 1"),
        ("valid", "yes"),
        ("judged as for", "cpu-"),
        ("object bytes", ""),
    ] {
        assert!(fields[field].as_str().is_some_and(|text| text.contains(part)), "{field}: {fields}");
    }
    let kernel = fields[format!("kernel {}", fields["kernels"].as_str().unwrap())].as_str().unwrap();
    assert!(kernel.contains(" bytes at 0x"), "{kernel}");
}

#[test]
fn the_target_can_be_named() {
    let (place, stem) = kernel();
    let json = format!("{stem}.json");
    place.run(&["verify", "--target", "cpu", &json]).ended_with(0);
    let ran = place.run(&["verify", "--target", "Ascend910B1", &json]).ended_with(1);
    assert!(ran.stdout.contains(" for Ascend910B1\n") && ran.stdout.contains("OPV023"), "{ran:?}");
    place.run(&["verify", "--target", "Ascend910B1", &format!("{stem}.o")]).ended_with(1);
    place.run(&["verify", "--target", "gpu", &json]).ended_with(2).says("Ascend910B1");
}

#[test]
fn objects_are_found_under_the_names_that_frameworks_use() {
    let (place, stem) = kernel();
    let kernel = Kernel { place: &place, stem: &stem };
    let name = "square_12484080525657478220_2";
    // MindSpore and CANN put `lib` before shared objects.
    let shared = |json: &mut Value| {
        json["binFileSuffix"] = ".so".into();
        // The kernel has its own name, and the file that of the framework.
        json["binFileName"] = name.into();
    };
    kernel.put(&format!("lib/{name}.json"), &format!("lib/lib{name}.so"), shared);
    assert_eq!(codes(&verify(&place, &format!("lib/{name}.json"), 0)), ["OPV010"]);
    assert_eq!(codes(&verify(&place, &format!("lib/lib{name}.so"), 0)), ["OPV010"]);
    // Renamed as a pair, and the `.json` alone, which still names the object.
    kernel.put("twin/a.json", "twin/a.o", |_| {});
    assert_eq!(codes(&verify(&place, "twin/a.json", 0)), ["OPV011"]);
    let own = kernel.json()["binFileName"].as_str().unwrap().to_owned();
    kernel.put("bin/a.json", &format!("bin/{own}.o"), |_| {});
    assert!(codes(&verify(&place, "bin/a.json", 0)).is_empty());
    // A name that leads to another directory is not followed.
    kernel.put("evil/a.json", "elsewhere.o", |json| json["binFileName"] = "../elsewhere".into());
    assert_eq!(codes(&verify(&place, "evil/a.json", 1)), ["OPV004", "OPV012", "OPV010"]);
}

#[test]
fn a_master_is_checked_with_its_parts() {
    let (place, stem) = kernel();
    let kernel = Kernel { place: &place, stem: &stem };
    kernel.put("mix/a_mix_aic.json", "mix/a_mix_aic.o", |_| {});
    let master = |parts: &[&str]| {
        let part = |name: &&str| json!({ "coreType": "AiCore", "jsonFileName": name });
        let list: Vec<Value> = parts.iter().map(part).collect();
        place.write("mix/a.json", json!({ "kernelName": "a", "jsonList": list }).to_string());
    };
    master(&["a_mix_aic.json"]);
    let ran = verify(&place, "mix/a.json", 0).json();
    assert_eq!((&ran["checked"], &ran["files"][1]["file"]), (&json!(2), &json!("mix/a_mix_aic.json")));
    // A missing part, one in another directory, and one that is the master itself.
    for part in ["a_mix_aiv.json", "../elsewhere.json", "a.json", ""] {
        master(&["a_mix_aic.json", part]);
        let ran = verify(&place, "mix/a.json", 1);
        assert_eq!(codes(&ran), ["OPV014"], "{part}");
        assert_eq!(ran.json()["refused"], 1);
    }
    std::fs::write(place.path("mix/a_mix_aic.o"), "torn").unwrap();
    master(&["a_mix_aic.json"]);
    assert_eq!(verify(&place, "mix/a.json", 1).json()["refused"], 1);
    // `inspect` of a master includes its parts.
    let seen = place.run(&["inspect", "mix/a.json", "--format", "json"]).ended_with(1).json();
    assert_eq!(seen["files"][0]["fields"]["parts"], "a_mix_aic.json");
    assert_eq!((&seen["files"][0]["valid"], &seen["files"][1]["valid"]), (&json!(true), &json!(false)));
}

/// Content of files reaches a terminal as text only.
#[test]
fn names_from_files_are_harmless() {
    let (place, stem) = kernel();
    let kernel = Kernel { place: &place, stem: &stem };
    kernel.put("a.json", "a.o", |json| {
        json["kernelName"] = "\u{1b}[31m\nvalid    fake".into();
        json["coreType"] = "\u{1b}]0;\u{7}".into();
    });
    for format in ["text", "json"] {
        let ran = place.run(&["verify", "a.json", "--format", format]).ended_with(1);
        assert!(!ran.stdout.contains('\x1b') && !ran.stdout.contains("\nvalid"), "{ran:?}");
    }
}

/// A project's directory may hold a store and the caches of a framework.
#[test]
fn a_store_hides_no_cache_beside_it() {
    let place = Place::new();
    let here = ("OPKEEP_CACHE_DIR", place.dir.path().to_str().unwrap());
    place.run_with(&["build", SQUARE], &[here]).ended_with(0);
    place.run(&["verify", "."]).ended_with(0);
    let objects: Vec<_> = crate::common::files(&place.path("rank_0/kernel_meta"))
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "o"))
        .collect();
    std::fs::File::options().write(true).open(&objects[0]).unwrap().set_len(600).unwrap();
    let ran = place.run(&["verify", "."]).ended_with(1);
    assert!(ran.stdout.contains("rank_0/kernel_meta"), "{ran:?}");
}

/// A directory with a store and kernels of a framework, also in directories of their own: a store is one wherever the
/// search finds it.
#[test]
fn a_store_below_a_directory_is_checked_as_a_store() {
    let place = Place::new();
    let build = ["build", SQUARE, "--op_compiler_cache_dir"];
    place.run(&[&build[..], &["all/s", "--kernel-meta", "all/kernel_meta"]].concat()).ended_with(0);
    place.run(&[&build[..], &["alone/s", "--no-kernel-meta"]].concat()).ended_with(0);
    let checked = |path: &str, code| {
        let json = place.run(&["verify", path, "--format", "json"]).ended_with(code).json();
        let stores = json["stores"].as_array().unwrap().clone();
        let roots: Vec<String> =
            stores.iter().map(|store| store["root"].as_str().unwrap().to_owned()).collect();
        assert_eq!(json["passed_over_count"], 0, "{json}");
        assert!(json["files"].as_array().unwrap().is_empty(), "{json}");
        (roots, json["checked"].as_u64().unwrap(), json["refused"].as_u64().unwrap())
    };
    assert_eq!(checked("all", 0), (vec!["all/s".to_owned()], 2, 0));
    assert_eq!(checked("alone", 0), (vec!["alone/s".to_owned()], 1, 0));
    assert_eq!(checked(".", 0), (vec!["./all/s".to_owned(), "./alone/s".to_owned()], 3, 0));
    // A store that contains another directory with a store.
    std::fs::rename(place.path("alone"), place.path("all/s/more")).unwrap();
    assert_eq!(checked("all/s", 0), (vec!["all/s".to_owned(), "all/s/more/s".to_owned()], 2, 0));
    let again = place.run(&["verify", "all", "all/s", "--format", "json"]).ended_with(0).json();
    assert_eq!(again["stores"].as_array().unwrap().len(), 2, "each store once: {again}");

    let entries = |root: &str| {
        let is_entry = |path: &std::path::PathBuf| path.extension().is_some_and(|it| it == "kern");
        files(&place.path(root)).into_iter().filter(is_entry).collect::<Vec<_>>()
    };
    for entry in entries("all/s/more") {
        std::fs::OpenOptions::new().write(true).open(entry).unwrap().set_len(50).unwrap();
    }
    let ran = place.run(&["verify", "all"]).ended_with(1);
    assert!(
        ran.stdout.contains("prefix: expected") && ran.stdout.contains("opkeep repair all/s/more/s"),
        "{ran:?}"
    );
    // What a repair quarantined is checked no more.
    place.run(&["repair", "all/s/more/s"]).ended_with(0);
    assert_eq!(entries("all/s/more").len(), 1, "it is kept");
    assert_eq!(checked("all", 0).1, 2);
}

#[test]
fn kernels_that_opkeep_wrote_have_no_notes_until_they_are_changed() {
    let (place, stem) = kernel();
    let notes = || {
        let ran = place.run(&["verify", "."]).ended_with(0);
        ran.stdout.lines().filter(|line| line.starts_with("note")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(notes(), [""; 0]);
    let json = place.run(&["verify", ".", "--format", "json"]).ended_with(0).json();
    assert!(json["caches"][0]["items"].as_array().unwrap().is_empty(), "{json}");
    let info = place.path(&format!("{stem}.info"));
    let text = std::fs::read_to_string(&info).unwrap();
    std::fs::remove_file(&info).unwrap();
    std::fs::write(&info, format!("{text} ")).unwrap();
    assert!(!notes().is_empty());
}
