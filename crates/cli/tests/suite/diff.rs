//! `opkeep diff` of files, directories and stores.
#![expect(clippy::disallowed_methods, reason = "tests make files")]

use std::fs;

use opkeep_testkit::caches::Rank;
use serde_json::{Value, json};

use crate::common::{Place, SQUARE, square_of};

#[test]
fn files_are_compared_field_by_field() {
    let place = Place::new();
    let five = place.write("five.info", square_of(5));
    let five = five.to_str().unwrap();
    place.write("six.info", square_of(6));
    place.run(&["diff", five, five]).ended_with(0).prints("the same: ");
    let ran = place.run(&["diff", "five.info", "six.info"]).ended_with(1);
    ran.prints("- five.info, ")
        .prints("+ six.info, ")
        .prints("input 0\n  - float32")
        .prints("[6]")
        .prints("\ndifferent: ");

    // The object and the description of two kernels.
    for (dir, info) in [("a", "five.info"), ("b", "six.info")] {
        let args = ["build", info, "--target", "cpu", "--kernel-meta", dir];
        place.run(&args).ended_with(0);
    }
    let file = |dir: &str, suffix: &str| {
        let found = crate::common::files(&place.path(dir)).into_iter();
        found
            .filter(|path| path.extension().is_some_and(|e| e == suffix))
            .map(|path| path.to_str().unwrap().to_owned())
            .next()
            .unwrap()
    };
    for suffix in ["o", "json"] {
        let json = place
            .run(&["diff", &file("a", suffix), &file("b", suffix), "--format", "json"])
            .ended_with(1)
            .json();
        let fields: Vec<&str> = json["changes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|change| change["field"].as_str().unwrap())
            .collect();
        assert!(fields.iter().any(|field| field.starts_with("kernel")), "{suffix}: {fields:?}");
        assert_eq!((&json["kind"], &json["same"]), (&json!("files"), &json!(false)));
    }
    // Which sections and symbols of the objects differ.
    let objects = [file("a", "o"), file("b", "o")];
    let json = place.run(&["diff", &objects[0], &objects[1], "--format", "json"]).ended_with(1).json();
    let changes = json["changes"].as_array().unwrap();
    let of = |field: &str| changes.iter().find(|change| change["field"] == field);
    let text = of("section .text").unwrap();
    assert!(text["a"].as_str().unwrap().contains(" bytes, sha256 ") && text["a"] != text["b"], "{text}");
    let is_symbol = |change: &&Value| change["field"].as_str().unwrap().starts_with("symbol square_");
    let symbols: Vec<&Value> = changes.iter().filter(is_symbol).collect();
    assert_eq!(symbols.len(), 2, "each object has its kernel: {json}");
    assert!(symbols.iter().all(|symbol| symbol["a"].is_null() != symbol["b"].is_null()), "{json}");
    let kernel = symbols[0]["a"].as_str().or(symbols[0]["b"].as_str()).unwrap();
    assert!(kernel.starts_with("global function in .text, ") && kernel.contains(", sha256 "), "{kernel}");
    let text = place.run(&["diff", &objects[0], &objects[1]]).ended_with(1).prints("section .text\n  - ");
    // The last line says what differs, and its numbers are those of the changes.
    let count = |kind: &str| {
        changes.iter().filter(|change| change["field"].as_str().unwrap().starts_with(kind)).count()
    };
    let (sections, symbols) = (count("section "), count("symbol "));
    let others = changes.len() - sections - symbols;
    let conclusion = format!("different: {sections} sections, {symbols} symbols and {others} other fields");
    assert_eq!(text.stdout.lines().last(), Some(conclusion.as_str()));
    assert!(sections > 1 && symbols > 1 && others > 1, "{conclusion}");

    let blank = fs::read_to_string(place.path("five.info")).unwrap() + " \n";
    place.write("blank.info", blank);
    place
        .run(&["diff", "five.info", "blank.info"])
        .ended_with(1)
        .prints("different: all fields are the same; the bytes differ from byte ");
    place.run(&["diff", "five.info", &file("a", "o")]).ended_with(2).says("files of different kinds");
    place.run(&["diff", "five.info", "missing.info"]).ended_with(2).says("missing.info");
    place.run(&["diff", "five.info", "a"]).ended_with(2).says("a file and a directory");
}

/// Operators, attributes, weights, inputs and outputs of networks are compared.
#[test]
fn networks_are_compared() {
    let place = Place::new();
    let lenet = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/networks/lenet/model.onnx");
    let bytes = fs::read(lenet).unwrap();
    let patched = |name: &str, from: &[u8], to: &[u8]| {
        let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
        let patched = [&bytes[..at], to, &bytes[at + from.len()..]].concat();
        fs::write(place.path(name), patched).unwrap();
    };
    patched("strides.onnx", b"strides@\x02@\x02", b"strides@\x01@\x01");
    let json = place.run(&["diff", lenet, "strides.onnx", "--format", "json"]).ended_with(1).json();
    let changes = json["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 1, "{json}");
    let field = changes[0]["field"].as_str().unwrap();
    assert!(field.starts_with("attribute ") && field.ends_with(": strides"), "{field}");
    assert_eq!((&changes[0]["a"], &changes[0]["b"]), (&json!("[2, 2]"), &json!("[1, 1]")));
    let text = place.run(&["diff", lenet, "strides.onnx"]).ended_with(1);
    let text = text.prints("strides.onnx, ").prints("\n  - [2, 2]\n  + [1, 1]\n");
    assert_eq!(text.stdout.lines().last(), Some("different: 1 attribute"));

    // The last bytes of the file that are not text are those of a weight.
    let mut other = bytes.clone();
    let at = bytes.len() / 2;
    other[at] ^= 1;
    fs::write(place.path("weight.onnx"), other).unwrap();
    let weight = place.run(&["diff", lenet, "weight.onnx"]).ended_with(1);
    let weight = weight.prints("\nweight ").prints(", sha256 ");
    assert_eq!(weight.stdout.lines().last(), Some("different: 1 weight"));

    // Another operator, and another name of a dimension.
    let open = super::options::open_network();
    place.write("relu.onnx", &open);
    let text = |from: &[u8], to: &[u8]| {
        let at = open.windows(from.len()).position(|window| window == from).unwrap();
        [&open[..at], to, &open[at + from.len()..]].concat()
    };
    place.write("tanh.onnx", text(b"Relu", b"Tanh"));
    place.write("named.onnx", text(b"batch", b"frame"));
    let tanh = place.run(&["diff", "relu.onnx", "tanh.onnx"]).ended_with(1);
    let tanh = tanh.prints("node Relu_0\n  - Relu(x) -> y\n").prints("operator Tanh\n  + 1 node\n");
    assert_eq!(tanh.stdout.lines().last(), Some("different: 2 operators and 2 nodes"));
    let named = place.run(&["diff", "relu.onnx", "named.onnx"]).ended_with(1);
    named.prints("input x\n  - float32 [batch, 3]\n  + float32 [frame, 3]\n");
    place.run(&["diff", "relu.onnx", "relu.onnx"]).ended_with(0).prints("the same: ");
    place.write("torn.onnx", "torn");
    place.run(&["diff", "relu.onnx", "torn.onnx"]).ended_with(2).says("torn.onnx");
}

/// Thousands of symbols in a section with a name of thousands of bytes: the result is no larger than a few times the files.
#[test]
fn the_fields_of_symbols_are_short() {
    let place = Place::new();
    let names: Vec<String> = (0..2000).map(|at| format!("s{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let object = |letter: &str| {
        let bytes = opkeep_testkit::elf::host_object_in(&letter.repeat(50_000), &names);
        fs::write(place.path(&format!("{letter}.o")), &bytes).unwrap();
        bytes.len()
    };
    let bytes = object("x") + object("y");
    let diff = place.run(&["diff", "x.o", "y.o", "--format", "json"]).ended_with(1);
    let changes = &diff.json()["changes"];
    let symbol = changes.as_array().unwrap().iter().find(|change| change["field"] == "symbol s7").unwrap();
    let value = symbol["a"].as_str().unwrap();
    assert!(value.contains(&format!(" in {}... (name of sha256 ", "x".repeat(80))), "{value}");
    assert!(diff.stdout.len() < 8 * bytes, "{} of {bytes}", diff.stdout.len());
}

#[test]
fn directories_and_stores_are_compared_by_name_and_content() {
    let place = Place::new();
    for (number, elements) in [(0, [1, 2]), (1, [2, 3])] {
        let rank = Rank::new(0);
        let dir = place.path(&format!("run{number}"));
        elements.iter().for_each(|elements| rank.square(*elements).write(&rank.dir(&dir)).unwrap());
    }
    let json = place.run(&["diff", "run0", "run1", "--format", "json"]).ended_with(1).json();
    let count = |name: &str| json[name].as_array().unwrap().len();
    assert_eq!((count("only_a"), count("only_b"), count("differing"), &json["equal"]), (3, 3, 0, &json!(3)));
    for path in crate::common::files(&place.path("run0")) {
        let copy = place.path("run2").join(path.strip_prefix(place.path("run0")).unwrap());
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(&path, &copy).unwrap();
        if copy.extension().is_some_and(|e| e == "json") {
            fs::write(&copy, "{}").unwrap();
        }
    }
    let changed = place.run(&["diff", "run0", "run2"]).ended_with(1);
    changed
        .prints("in both, with different content:")
        .prints("`opkeep diff run0/rank_0/kernel_meta/")
        .prints("\ndifferent: 4 files the same, 0 only in the first, 0 only in the second, 2 with different content");
    place.run(&["diff", "run0", "run0"]).ended_with(0).prints("the same: 6 files\n");

    for (store, infos) in [("one", &[3, 4][..]), ("two", &[4, 5])] {
        for elements in infos {
            place.write("x.info", square_of(*elements));
            let args =
                ["build", "x.info", "--target", "cpu", "--no-kernel-meta", "--op_compiler_cache_dir", store];
            place.run(&args).ended_with(0);
        }
    }
    let ran = place.run(&["diff", "one", "two"]).ended_with(1);
    let ran = ran.prints(
        "different: 1 entry the same, 1 only in the first, 1 only in the second, 0 with different content",
    );
    // Each as `ls` lists it, with the same head.
    let ran = ran
        .prints("only in one:\n  name ")
        .prints("\n  square_")
        .prints("Square")
        .prints("only in two:\n  name ");
    let head = place.run(&["ls", "--op_compiler_cache_dir", "one"]).stdout;
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let listed = ran.stdout.lines().nth(1).unwrap();
    assert_eq!(words(listed), words(head.lines().next().unwrap()));
    let json = place.run(&["diff", "one", "two", "--format", "json"]).ended_with(1).json();
    assert!(json["only_a"][0].as_str().unwrap().len() > 64, "JSON has whole keys: {json}");
    place.run(&["diff", "one", "one"]).ended_with(0).prints("the same: 2 entries\n");
    place.run(&["diff", "one", "run0"]).ended_with(2).says("`one` is a store, and `run0` is none");
    place.run(&["diff", SQUARE, SQUARE]).ended_with(0);
}

/// What has no bytes to compare is listed, and all else is compared.
#[test]
fn pipes_sockets_and_devices_are_not_compared() {
    let place = Place::new();
    for dir in ["a", "b"] {
        fs::create_dir_all(place.path(dir)).unwrap();
        fs::write(place.path(&format!("{dir}/same.o")), "same").unwrap();
        fs::write(place.path(&format!("{dir}/z.o")), dir).unwrap();
    }
    // In one of them only, in both, and beside a file of the other.
    let mkfifo = |name: &str| {
        let made = std::process::Command::new("mkfifo").arg(place.path(name)).status().unwrap();
        assert!(made.success());
    };
    ["a/pipe.o", "b/both.json", "a/both.json", "b/file.o"].iter().for_each(|name| mkfifo(name));
    fs::write(place.path("a/file.o"), "file").unwrap();
    let socket = std::os::unix::net::UnixListener::bind(place.path("b/socket.info")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", place.path("a/device.o")).unwrap();
    std::os::unix::fs::symlink("nothing", place.path("a/link.o")).unwrap();
    let ran = place.run(&["diff", "a", "b"]).ended_with(1);
    ran.prints(
        "not compared:\n  both.json (a pipe)\n  device.o (a device)\n  file.o (a pipe)\n  link.o (a link to nothing)\n  \
         pipe.o (a pipe)\n  socket.info (a socket)\ndifferent: 1 file the same, 0 only in the first, 0 only in the second, 1 with different \
         content, 6 not compared\n",
    );
    let json = place.run(&["diff", "a", "b", "--format", "json"]).ended_with(1).json();
    assert_eq!(json["not_compared"][0], json!({ "name": "both.json", "reason": "a pipe" }));
    assert_eq!(
        (&json["equal"], &json["differing"], &json["only_a"]),
        (&json!(1), &json!(["z.o"]), &json!([]))
    );
    drop(socket);
    fs::write(place.path("b/z.o"), "a").unwrap();
    let not_same = place.run(&["diff", "a", "b", "--format", "json"]).ended_with(1).json();
    assert_eq!(not_same["same"], false, "what was not compared may differ");
    place
        .run(&["diff", "a", "b"])
        .ended_with(1)
        .prints("\nnot all was compared: 2 files the same, 0 only in the first,");
}
