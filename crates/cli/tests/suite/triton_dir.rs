//! Triton's directory (`TRITON_CACHE_DIR`): the commands recognise it, judge its kernels and compare them with the store.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use opkeep_digest::Digest;
use opkeep_testkit::device;
use serde_json::Value;

use crate::common::{Place, Ran, files};
use crate::groups::{Group, TRITON, metadata};

/// Triton's names of two keys, one in base 32 and one in base 64.
pub(crate) const KEY: &str = "N6J65VMEQY7IKJXFDLW7WMCJ4WV7QN5SCQC56253V3MFSEKPLCUA";
const OLD_KEY: &str = "0anITaIWmSfyhJfm_rJUUlabzZS8WnPgFawA6JiTedM";
/// The digest that the metadata of `KEY` state.
const HASH: &str = "6f93eed584863e8526e51aedfb3049e5abf837b21405df6bbbaed859114f58a8";

const ADD: Group = Group { kernel: "add", source: KEY, ..TRITON };

/// Writes the files of `ADD`, with their list, where Triton looks for them under `key`; under `KEY`, also with the record of the
/// entry. Returns the directory of the key.
pub(crate) fn write_key(place: &Place, key: &str) -> PathBuf {
    if key == KEY {
        let contents = [
            ("add.json", metadata("add").into_bytes()),
            ("add.cubin", device::cubin("add", 90)),
            ("add.ptx", b".version 8.0".to_vec()),
        ];
        let lines = contents.map(|(name, bytes)| format!("{} {name}\n", Digest::of(&bytes)));
        let record = format!("opkeep 1 {} 3\n{}", ADD.key(), lines.concat());
        place.write(&format!("triton/{key}/add.json.opkeep"), record);
    }
    let dir = format!("triton/{key}");
    let list = ["add.json", "add.cubin", "add.ptx"].map(|name| format!(r#""{name}": "/elsewhere/{name}""#));
    place.write(&format!("{dir}/__grp__add.json"), format!(r#"{{"child_paths": {{{}}}}}"#, list.join(", ")));
    place.write(&format!("{dir}/add.json"), metadata("add"));
    place.write(&format!("{dir}/add.cubin"), device::cubin("add", 90));
    place.write(&format!("{dir}/add.ptx"), ".version 8.0");
    place.path(&dir)
}

/// A store with the group of `KEY`, and Triton's directory with its files. Returns the key of the entry, too.
pub(crate) fn stocked() -> (Place, PathBuf, Digest) {
    let place = Place::new();
    let key = ADD.put(&place);
    let dir = write_key(&place, KEY);
    (place, dir, key)
}

/// The only directory in the JSON result of `verify`.
fn only_dir(ran: &Ran) -> Value {
    let json = ran.json();
    let [dir] = json["triton"].as_array().unwrap().as_slice() else { panic!("{json}") };
    dir.clone()
}

#[test]
fn an_intact_directory_is_recognised_in_each_form() {
    let (place, dir, _) = stocked();
    write_key(&place, OLD_KEY);
    place.write("triton/tmp.opkeep-moved-1/x", "moved");
    // Files of a compile that is not kept, in progress.
    cut(&write_key(&place, &format!("{KEY}.opkeep-unkept-0123456789abcdef")).join("add.cubin"));
    // The files of a toolchain.
    write_key(&place, &format!("{KEY}.opkeep-0123456789abcdef0123456789abcdef"));
    let named = place.run(&["verify", "triton"]).ended_with(0);
    assert!(!named.stdout.contains("which nothing describes"), "{named:?}");
    assert!(
        named.stdout.contains("Triton's directory triton: 3 kernels in 3 directories, 3 intact, 0 damaged"),
        "{named:?}"
    );
    assert!(named.stdout.contains("1 as in the store, 2 not stored"), "{named:?}");
    assert!(
        named.stdout.contains("3 kernels checked: 3 valid, 0 refused; 0 files could not be checked"),
        "{named:?}"
    );
    for (path, kernels) in [
        (".", 3),
        ("triton/", 3),
        (dir.to_str().unwrap(), 1),
        (&format!("triton/{KEY}/add.json"), 1),
        (&format!("triton/{KEY}/add.cubin"), 1),
    ] {
        let dir = only_dir(&place.run(&["verify", path, "--format", "json"]).ended_with(0));
        assert_eq!((&dir["kernels"], &dir["stored"]), (&kernels.into(), &1.into()), "{path}: {dir}");
    }
    // Each kernel once, also if several arguments name it.
    let twice = place.run(&["verify", "triton", "triton", dir.to_str().unwrap()]).ended_with(0);
    assert!(twice.stdout.contains("3 kernels checked"), "{twice:?}");
    let toolchain = format!("triton/{KEY}.opkeep-0123456789abcdef0123456789abcdef");
    let named = place.run(&["verify", &toolchain]).ended_with(0);
    assert!(named.stdout.contains("1 kernel in 1 directory, 1 intact"), "{named:?}");
    cut(&place.path(&toolchain).join("add.cubin"));
    for path in ["triton", &toolchain] {
        let ran = place.run(&["verify", path]).ended_with(1);
        assert!(ran.stdout.contains(&format!("damaged  {toolchain}/add.json")), "{ran:?}");
    }
    let within = place.command(&["verify", "."]).current_dir(&dir).output().unwrap();
    assert!(String::from_utf8_lossy(&within.stdout).contains("1 as in the store"), "{within:?}");
}

/// What is damaged, how, and what the report states.
type Damage = (&'static str, fn(&Path), &'static str);

#[test]
fn each_damage_is_found_and_nothing_is_changed() {
    let damages: [Damage; 12] = [
        ("torn list", |dir| fs::write(dir.join("__grp__add.json"), "{\"child").unwrap(), "cannot be read"),
        ("empty list", |dir| fs::write(dir.join("__grp__add.json"), "").unwrap(), "is empty"),
        ("no list", |dir| fs::write(dir.join("__grp__add.json"), "[]").unwrap(), "is no list of files"),
        (
            "names elsewhere",
            |dir| fs::write(dir.join("__grp__add.json"), r#"{"child_paths":{"../x":"x"}}"#).unwrap(),
            "no file beside it",
        ),
        ("missing file", |dir| fs::remove_file(dir.join("add.ptx")).unwrap(), "`add.ptx` is missing"),
        ("empty object", |dir| fs::write(dir.join("add.cubin"), "").unwrap(), "`add.cubin` is empty"),
        (
            "a link",
            |dir| {
                fs::rename(dir.join("add.ptx"), dir.join("other")).unwrap();
                symlink("other", dir.join("add.ptx")).unwrap();
            },
            "`add.ptx` is a link",
        ),
        ("torn metadata", |dir| fs::write(dir.join("add.json"), "{").unwrap(), "is no metadata of a kernel"),
        ("another kernel", |dir| fs::write(dir.join("add.cubin"), device::cubin("mul", 90)).unwrap(), "OPV"),
        ("another chip", |dir| fs::write(dir.join("add.cubin"), device::cubin("add", 80)).unwrap(), "OPV"),
        ("cut object", |dir| cut(&dir.join("add.cubin")), "OPV"),
        // Only the digests of the entry show it.
        (
            "other code",
            |dir| fs::write(dir.join("add.ptx"), ".version 8.1").unwrap(),
            "`add.ptx` differs from the entry",
        ),
    ];
    for (damage, make, expected) in damages {
        let (place, dir, _) = stocked();
        make(&dir);
        let before: Vec<_> =
            files(&place.path("triton")).into_iter().map(|path| (fs::read(&path).ok(), path)).collect();
        let ran = place.run(&["verify", "triton"]).ended_with(1);
        assert!(
            ran.stdout.contains("0 intact, 1 damaged") && ran.stdout.contains(expected),
            "{damage}: {ran:?}"
        );
        assert!(
            ran.stdout.contains("`opkeep repair triton` says which directories to delete"),
            "{damage}: {ran:?}"
        );
        let dir = only_dir(&place.run(&["verify", "triton", "--format", "json"]).ended_with(1));
        assert_eq!(dir["damaged"].as_array().unwrap().len(), 1, "{damage}: {dir}");
        for flags in [&["--dry-run"][..], &[]] {
            let ran = place.run(&[&["repair", "triton"], flags].concat()).ended_with(1);
            let texts = ["not as in the store: ", "nothing is changed: delete the directories"];
            assert!(texts.iter().all(|text| ran.stdout.contains(text)), "{damage}: {ran:?}");
            for (content, path) in &before {
                assert_eq!(&fs::read(path).ok(), content, "{damage}");
            }
        }
        // As the report says.
        fs::remove_dir_all(place.path("triton")).unwrap();
        place.run(&["verify", "triton"]);
    }
}

#[test]
fn a_damaged_kernel_without_an_entry_is_reported() {
    let place = Place::new();
    let dir = write_key(&place, OLD_KEY);
    place.write(&format!("triton/{KEY}/__grp__foreign.json"), "torn");
    cut(&dir.join("add.cubin"));
    let before = fs::read_dir(&dir).unwrap().count();
    let ran = place.run(&["repair", dir.to_str().unwrap()]).ended_with(1);
    assert!(ran.stdout.contains("damaged: ") && ran.stdout.contains("OPV"), "{ran:?}");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), before);
    // A list that is torn and new: Triton may be compiling.
    let json = place.run(&["repair", "triton", "--format", "json"]).ended_with(1).json();
    let directories = json["triton"][0]["directories"].as_array().unwrap();
    let left: Vec<_> = directories.iter().flat_map(|dir| dir["left"].as_array().unwrap()).collect();
    assert_eq!(left[0]["kind"], "in-progress", "{json}");
    place.run(&["verify", "triton"]).ended_with(1);
}

fn cut(path: &Path) {
    let content = fs::read(path).unwrap();
    fs::write(path, &content[..content.len() / 2]).unwrap();
}

#[test]
fn the_key_that_metadata_state_is_compared() {
    let (place, dir, _) = stocked();
    let stating = |hash: &str| metadata("add").replacen('{', &format!(r#"{{"hash":"{hash}","#), 1);
    fs::write(dir.join("add.json"), stating(HASH)).unwrap();
    let ran = place.run(&["verify", "triton"]).ended_with(1);
    assert!(ran.stdout.contains("`add.json` differs") && !ran.stdout.contains("another key"), "{ran:?}");
    fs::write(dir.join("add.json"), stating(&HASH.replace('6', "7"))).unwrap();
    let ran = place.run(&["verify", "triton"]).ended_with(1);
    assert!(ran.stdout.contains("is of another key than the directory"), "{ran:?}");
}

/// Without a store, and with one that cannot be used, kernels are judged by themselves.
#[test]
fn a_directory_without_entries_is_judged_by_itself() {
    let place = Place::new();
    let dir = write_key(&place, KEY);
    place.write(&format!("triton/{KEY}/launcher.so"), "a launcher");
    let ran = place.run(&["verify", "triton"]).ended_with(0);
    assert!(ran.stdout.contains("1 intact, 0 damaged; 0 as in the store, 1 not stored"), "{ran:?}");
    assert!(ran.stdout.contains("beside the kernels, 1 file"), "{ran:?}");
    place.write("cache", "no directory");
    let ran = place.run(&["verify", "triton"]).ended_with(0);
    assert!(ran.stderr.contains("judged without the store"), "{ran:?}");
    cut(&dir.join("add.cubin"));
    place.run(&["verify", "triton"]).ended_with(1);
}

#[test]
fn a_pair_without_a_list_is_checked() {
    let place = Place::new();
    place.write("add.json", metadata("add"));
    let cubin = place.write("add.cubin", device::cubin("add", 90));
    for path in ["add.json", "add.cubin"] {
        let ran = place.run(&["verify", path]).ended_with(0);
        assert!(ran.stdout.contains("add.json and add.cubin for cuda-sm_90"), "{ran:?}");
    }
    fs::write(cubin, device::cubin("mul", 90)).unwrap();
    place.run(&["verify", "add.json"]).ended_with(1);
    fs::remove_file(place.path("add.json")).unwrap();
    place.run(&["verify", "add.cubin"]).ended_with(2).says("no metadata of Triton beside it");
}

#[test]
fn inspect_describes_metadata_and_the_object_beside_it() {
    let (place, dir, _) = stocked();
    let json = dir.join("add.json");
    let ran = place.run(&["inspect", json.to_str().unwrap(), "--format", "json"]).ended_with(0).json();
    let fields = &ran["files"][0]["fields"];
    assert_eq!((&fields["kernel"], &fields["target"]), (&"add".into(), &"cuda-sm_90".into()), "{ran}");
    assert_eq!((&fields["metadata num_warps"], &fields["metadata shared"]), (&"4".into(), &"2048".into()));
    assert!(fields["kernel add"].as_str().unwrap().contains("registers"), "{ran}");
    assert!(fields["object"].as_str().unwrap().contains("add.cubin, "), "{ran}");
    fs::remove_file(dir.join("add.cubin")).unwrap();
    let ran = place.run(&["inspect", json.to_str().unwrap()]).ended_with(0);
    assert!(ran.stdout.contains("none beside it"), "{ran:?}");
    fs::write(dir.join("add.cubin"), device::cubin("mul", 90)).unwrap();
    place.run(&["inspect", json.to_str().unwrap()]).ended_with(1);
}

#[test]
fn explain_compares_a_directory_with_the_store() {
    let (place, dir, key) = stocked();
    let explain = |path: &str| place.run(&["explain", path, "--format", "json"]).ended_with(0).json();
    for path in ["triton", dir.to_str().unwrap()] {
        let json = explain(path);
        let [found] = json["directories"].as_array().unwrap().as_slice() else { panic!("{json}") };
        assert_eq!((&found["outcome"], &found["key"]), (&"hit".into(), &key.to_string().into()), "{json}");
        assert!(found["files"].as_array().unwrap().iter().all(|file| file["state"] == "same"), "{json}");
        assert_eq!(json["groups"][0]["toolchain"][0]["note"], "12.8", "{json}");
    }
    let ran = place.run(&["explain", "triton"]).ended_with(0);
    for part in [
        "hit   add for cuda-sm_90",
        "triton 3.9.0, ptxas 12.8",
        "stored 0 s ago",
        "have the bytes of that entry",
    ] {
        assert!(ran.stdout.replace(" 1 s", " 0 s").replace(" 2 s", " 0 s").contains(part), "{part}: {ran:?}");
    }

    // An entry of a newer compiler has the same key of Triton.
    Group { ptxas: "12.9", ..ADD }.put(&place);
    fs::write(dir.join("add.ptx"), "another").unwrap();
    fs::remove_file(dir.join("add.cubin")).unwrap();
    let ran = place.run(&["explain", "triton"]).ended_with(0);
    for part in [
        "ptxas 12.8",
        "ptxas 12.9",
        "`add.ptx` differs",
        "`add.cubin` is in the entry only",
        "compilers that run decide",
        // `repair` changes nothing.
        "these files are not as stored; delete the directory when no program uses it",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {ran:?}");
    }

    write_key(&place, OLD_KEY);
    let miss = explain(&format!("triton/{OLD_KEY}"));
    let found = &miss["directories"][0];
    assert_eq!((&found["outcome"], &found["key"]), (&"miss".into(), &Value::Null), "{miss}");
    assert!(found["differences"][0].as_str().unwrap().contains("own key changed"), "{miss}");
    let ran = place.run(&["explain", "triton"]).ended_with(0);
    assert!(ran.stdout.contains("1 stored in") && ran.stdout.contains("1 not stored"), "{ran:?}");
    assert!(ran.stderr.contains("TRITON_CACHE_MANAGER=opkeep.triton:CacheManager"), "{ran:?}");
    place.run(&["explain", "triton", crate::common::SQUARE]).ended_with(2).says("inputs of one kind");
}

#[test]
fn explain_takes_keys() {
    let (place, _, key) = stocked();
    place.run(&["build", crate::common::SQUARE, "--target", "cpu", "--no-kernel-meta"]).ended_with(0);
    let text = key.to_string();
    let own = Digest::of(KEY.as_bytes()).to_string();
    for named in [&text, &text.to_uppercase(), &text[..8], &own, &own[..8], KEY] {
        let json = place.run(&["explain", named, "--format", "json"]).ended_with(0).json();
        assert_eq!(
            (&json["groups"][0]["key"], &json["groups"][0]["kernel"]),
            (&text.clone().into(), &"add".into())
        );
    }
    let built = place.entries().into_iter().find(|path| !path.ends_with(format!("{text}.kern"))).unwrap();
    let built = built.file_stem().unwrap().to_str().unwrap().to_owned();
    let ran = place.run(&["explain", &built[..6]]).ended_with(0);
    assert!(ran.stdout.contains("(Square) for cpu-") && ran.stdout.contains("toolchain"), "{ran:?}");
    let json = place.run(&["explain", &built, &text, "--format", "json"]).ended_with(0).json();
    assert_eq!(
        (&json["kernels"][0]["key"], &json["kernels"][0]["outcome"]),
        (&built.clone().into(), &"hit".into())
    );
    assert_eq!(json["groups"].as_array().unwrap().len(), 1);

    fs::write(place.entry(&built.parse().unwrap()), "torn").unwrap();
    let json = place.run(&["explain", &built, "--format", "json"]).ended_with(0).json();
    assert_eq!(json["kernels"][0]["outcome"], "miss");
    assert!(json["kernels"][0]["reason"].as_str().unwrap().contains("damaged"), "{json}");

    let unknown = place.run(&["explain", &"0".repeat(64)]).ended_with(1);
    assert!(unknown.stdout.contains("nothing is stored under the key 000"), "{unknown:?}");
    assert!(unknown.stderr.contains("--op_compiler_cache_dir DIR or OPKEEP_CACHE_DIR"), "{unknown:?}");
    // Too short for a key, so it is a path.
    let short = place.run(&["explain", "abc"]).ended_with(2).says("cannot read `abc`");
    assert!(short.stderr.contains("four digits or more, and Triton's whole key"), "{short:?}");
    fs::create_dir(place.path("empty")).unwrap();
    let empty = place.run(&["explain", "empty"]).ended_with(2);
    assert!(empty.stderr.contains("Triton's directory"), "{empty:?}");
}

/// Of all keys with the same first two digits, the start that two share names none.
#[test]
fn an_ambiguous_key_is_refused() {
    let place = Place::new();
    let mut keys: Vec<String> = Vec::new();
    for number in 0..2000 {
        let source: &'static str = Box::leak(number.to_string().into_boxed_str());
        let key = Group { source, ..ADD }.key().to_string();
        if keys.iter().any(|known| known[..4] == key[..4]) {
            Group { source, ..ADD }.put(&place);
            let known = keys.iter().position(|known| known[..4] == key[..4]).unwrap();
            let source: &'static str = Box::leak(known.to_string().into_boxed_str());
            Group { source, ..ADD }.put(&place);
            let ran = place.run(&["explain", &key[..4]]).ended_with(2);
            assert!(ran.stderr.contains("several keys") && ran.stderr.contains(&key), "{ran:?}");
            return;
        }
        keys.push(key);
    }
    panic!("of 2000 keys, some have the same four digits");
}

#[test]
fn what_is_not_stored_has_a_next_step() {
    let place = Place::new();
    let none = place.run(&["explain", "--framework", "triton"]).ended_with(1);
    assert!(none.stdout.contains("nothing is stored of triton in the store"), "{none:?}");
    assert!(none.stdout.contains(place.path("cache").to_str().unwrap()), "{none:?}");
    assert!(none.stdout.contains("no framework has stored anything there"), "{none:?}");
    assert!(none.stderr.contains("help: --op_compiler_cache_dir DIR or OPKEEP_CACHE_DIR"), "{none:?}");
    assert!(none.stderr.contains("TRITON_CACHE_MANAGER=opkeep.triton:CacheManager"), "{none:?}");
    for kernel in ["add_kernel", "mul_kernel", "matmul"] {
        Group { kernel, ..TRITON }.put(&place);
    }
    let near = |args: &[&str]| {
        let args = [&["explain", "--format", "json", "--framework"], args].concat();
        let json = place.run(&args).ended_with(1).json();
        assert_eq!(json["groups"], Value::Array(vec![]));
        assert_eq!(json["root"], place.path("cache").to_str().unwrap());
        json["near"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(near(&["triton", "--kernel", "mull_kernel"]), ["mul_kernel", "add_kernel", "matmul"]);
    assert_eq!(near(&["tritn"]), ["triton"]);
    assert_eq!(near(&["triton", "--kernel", "matmul", "--target", "cuda-sm_80"])[0], "matmul for cuda-sm_90");
    let usage = place.run(&["explain"]).ended_with(2);
    assert!(usage.stderr.contains("--framework"), "{usage:?}");
}
