//! The main job on networks: built, run, compared, changed, interrupted.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::common::{Place, Ran, square_of};
use serde_json::Value;

/// A directory of `fixtures/networks`.
fn fixture(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/networks")).join(name)
}

/// `input_0.pb`, `input_1.pb`, ... of a directory.
fn numbered(dir: &Path, stem: &str) -> Vec<String> {
    let file = |at: usize| dir.join(format!("{stem}_{at}.pb"));
    (0..).map(file).take_while(|file| file.exists()).map(|file| file.to_string_lossy().into_owned()).collect()
}

/// `opkeep run` on a network of the fixtures, every reference compared.
fn run_fixture(place: &Place, name: &str, more: &[&str]) -> Ran {
    let dir = fixture(name);
    let mut args = vec!["run".to_owned(), dir.join("model.onnx").to_string_lossy().into_owned()];
    for file in numbered(&dir, "input") {
        args.extend(["--input".to_owned(), file]);
    }
    for file in numbered(&dir, "output") {
        args.extend(["--compare".to_owned(), file]);
    }
    args.extend(more.iter().map(|arg| (*arg).to_owned()));
    place.run(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A place with a store that the tests which only run networks share: each kernel is compiled once.
fn compiled() -> Arc<Place> {
    static COMPILED: Mutex<Weak<Place>> = Mutex::new(Weak::new());
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    compiled.upgrade().unwrap_or_else(|| {
        let place = Arc::new(Place::new());
        *compiled = Arc::downgrade(&place);
        place
    })
}

#[test]
fn every_network_of_the_fixtures_equals_onnx_runtime_at_every_tap() {
    let place = compiled();
    for name in ["lenet", "squeezenet", "resnet18", "bert"] {
        let ran = run_fixture(&place, name, &["--format", "json"]).ended_with(0);
        let json = ran.json();
        let references = numbered(&fixture(name), "output").len();
        let comparisons = json["comparisons"].as_array().unwrap();
        assert_eq!(comparisons.len(), references);
        assert!(references >= 4, "{name} has taps");
        for comparison in comparisons {
            let worst = comparison["worst_over_scale"].as_f64().unwrap();
            assert!(worst <= 1e-3, "{name}: {comparison}");
            // There is something to compare.
            assert!(comparison["scale"].as_f64().unwrap() > 0.0, "{name}: {comparison}");
        }
        // Other tests may compile the same kernels.
        let built = ["compiled", "reused", "shared"].map(|outcome| ran.count(outcome));
        assert_eq!(built.iter().sum::<u64>(), ran.count("kernels"));

        let again = run_fixture(&place, name, &["--format", "json"]).ended_with(0);
        assert_eq!((again.count("compiled"), again.count("reused")), (0, again.count("kernels")), "{name}");
    }
}

#[test]
fn a_wrong_element_is_found_and_shown() {
    let place = compiled();
    let dir = fixture("lenet");
    let reference = std::fs::read(dir.join("output_0.pb")).unwrap();
    // The raw values come first or last in the file; somewhere among them stands the first probability.
    let ran = run_fixture(&place, "lenet", &["--format", "json"]).ended_with(0);
    let first = ran.json()["comparisons"][0]["worst"]["expected"].as_f64().unwrap() as f32;
    let at = reference.windows(4).position(|word| word == first.to_le_bytes()).unwrap();
    let mut changed = reference;
    changed[at..at + 4].copy_from_slice(&(first * 1.01).to_le_bytes());
    let changed = place.write("changed.pb", changed);

    let (model, input) = (dir.join("model.onnx"), dir.join("input_0.pb"));
    let (model, input, changed) =
        (model.to_str().unwrap(), input.to_str().unwrap(), changed.to_str().unwrap());
    let compared =
        |more: &[&str]| place.run(&[&["run", model, "--input", input, "--compare", changed], more].concat());
    let text = compared(&[]).ended_with(1);
    assert!(text.stdout.contains("DIFFERS") && text.stdout.contains("1 of 10 elements"), "{text:?}");
    let json = compared(&["--format", "json"]).ended_with(1).json();
    assert_eq!(json["comparisons"][0]["passed"], false);
    let expected = json["comparisons"][0]["worst"]["expected"].as_f64().unwrap();
    assert_eq!(expected as f32, first * 1.01);
    // The caller chooses the tolerance.
    compared(&["--rtol", "0.02"]).ended_with(0);
    compared(&["--rtol", "0", "--atol", "1"]).ended_with(0);
    compared(&["--rtol", "0", "--atol", "0"]).ended_with(1);
}

#[test]
fn a_huge_reference_does_not_raise_the_tolerance_of_others() {
    let place = Place::new();
    let model = place.write("square.info", square_of(3));
    let (huge, reference) = (1.8e19_f32, place.path("y.npy"));
    let values = [huge * huge, 300.0, 16.0];
    let bytes = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    let tensor = opkeep_onnx::Tensor { name: String::new(), dtype: "float32".into(), shape: vec![3], bytes };
    opkeep_onnx::write_npy(&reference, &tensor).unwrap();
    let compared = |second: &str, more: &[&str]| {
        let (model, values) = (model.to_str().unwrap(), format!("1.8e19,{second},4"));
        let args = ["run", model, "--input-values", &values, "--compare", reference.to_str().unwrap()];
        place.run(&[&args[..], more].concat())
    };
    let wrong = compared("1.7320508", &[]).ended_with(1);
    assert!(wrong.stdout.contains("expected 300, found 3") && wrong.stdout.contains("DIFFERS"), "{wrong:?}");
    assert!(wrong.stdout.contains("worst relative error 9.9e-1"), "{wrong:?}");
    compared("17.320508", &[]).ended_with(0);
    for tolerance in ["--rtol=inf", "--atol=inf", "--rtol=NaN", "--atol=-1", "--rtol=1e999"] {
        compared("17.320508", &[tolerance]).ended_with(2).says("expected a number of 0 or more");
    }
    // NaN differs from every number, whatever the tolerance.
    compared("NaN", &["--rtol=1e300", "--atol=1e300"]).ended_with(1);
}

#[test]
fn outputs_are_written_in_order_and_read_back() {
    let place = compiled();
    let ran = run_fixture(&place, "bert", &["--output", "out/deep", "--format", "json"]).ended_with(0);
    let json = ran.json();
    let outputs = json["outputs"].as_array().unwrap();
    let model = fixture("bert").join("model.onnx");
    let mut args: Vec<String> = vec!["run".into(), model.to_str().unwrap().into()];
    for input in numbered(&fixture("bert"), "input") {
        args.extend(["--input".into(), input]);
    }
    for (at, output) in outputs.iter().enumerate() {
        let file = place.path(&format!("out/deep/output_{at}.npy"));
        assert_eq!(place.path(output["file"].as_str().unwrap()), file);
        assert!(std::fs::read(&file).unwrap().starts_with(b"\x93NUMPY\x01\x00"));
        args.extend(["--compare".into(), file.to_str().unwrap().into()]);
    }
    // The written outputs are equal to those of another run: references without names are used in order.
    args.extend(["--rtol=0", "--atol=0"].map(String::from));
    place.run(&args.iter().map(String::as_str).collect::<Vec<_>>()).ended_with(0);
}

#[test]
fn inputs_are_given_by_name_or_by_order_or_generated() {
    let place = compiled();
    let (model, inputs) = (fixture("bert").join("model.onnx"), numbered(&fixture("bert"), "input"));
    let model = model.to_str().unwrap();
    let reference = fixture("bert").join("output_0.pb");
    let reference = reference.to_str().unwrap();
    // The tensors bear the inputs' names, so their order does not matter.
    place
        .run(&["run", model, "--input", &inputs[1], "--input", &inputs[0], "--compare", reference])
        .ended_with(0);
    // A tensor without a name is for the input that no named tensor has, whatever its position.
    let mut nameless = opkeep_onnx::read_tensor(Path::new(&inputs[0])).unwrap();
    nameless.name.clear();
    let file = place.path("ids.npy");
    opkeep_onnx::write_npy(&file, &nameless).unwrap();
    let file = file.to_str().unwrap();
    for order in [[file, &inputs[1]], [&inputs[1], file]] {
        place
            .run(&["run", model, "--input", order[0], "--input", order[1], "--compare", reference])
            .ended_with(0);
    }
    place.run(&["run", model, "--input", &inputs[0]]).ended_with(2).says("--input-fill");
    place.run(&["run", model, "--input", &inputs[0], "--input", &inputs[0]]).ended_with(2).says("both for");
    let filled = |fill: &str| {
        let ran = place.run(&["run", model, "--input-fill", fill, "--format", "json"]).ended_with(0);
        ran.json()["outputs"][0]["values"].clone()
    };
    assert_eq!(filled("ramp"), filled("ramp"));
    assert_ne!(filled("random:1"), filled("random:2"));
    place.run(&["run", model, "--input-fill", "random:x"]).ended_with(2).says("whole number");

    let lenet = fixture("lenet");
    let (model, input) = (lenet.join("model.onnx"), lenet.join("output_0.pb"));
    place
        .run(&["run", model.to_str().unwrap(), "--input", input.to_str().unwrap()])
        .ended_with(2)
        .says("expected [1, 1, 28, 28]");
}

#[test]
fn threads_do_not_change_a_bit() {
    let place = compiled();
    for name in ["lenet", "squeezenet", "resnet18", "bert"] {
        let written = |jobs: &str| {
            let dir = format!("{name}_{jobs}");
            run_fixture(&place, name, &["--output", &dir, "--jobs", jobs]).ended_with(0);
            let files = crate::common::files(&place.path(&dir));
            files.iter().map(|file| std::fs::read(file).unwrap()).collect::<Vec<_>>()
        };
        let one = written("1");
        assert!(!one.is_empty());
        assert!(one == written("2") && one == written("5"), "{name}");
    }
}

#[test]
fn a_profile_names_every_node() {
    let place = compiled();
    let text = run_fixture(&place, "resnet18", &["--profile"]).ended_with(0).stdout;
    assert!(text.contains("Conv2D") && text.contains("GFLOP/s") && text.contains("conv_1"), "{text}");
    let json = run_fixture(&place, "resnet18", &["--profile", "--format", "json"]).ended_with(0).json();
    let nodes = json["profile"].as_array().unwrap();
    assert_eq!(nodes.len() as u64, json["operators"].as_u64().unwrap());
    let flops: u64 = nodes.iter().map(|node| node["flops"].as_u64().unwrap()).sum();
    assert!(flops > 1_000_000, "{flops}");
}

/// A protobuf field with a length: a text, or a message.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, u8::try_from(content.len()).unwrap()], content].concat()
}

/// A model of opset 17 with one node, from `x` [first, 3] to `y`.
fn tiny(op_type: &str, first: &[u8]) -> Vec<u8> {
    let node = [field(1, b"x"), field(2, b"y"), field(4, op_type.as_bytes())].concat();
    let shape = [field(1, first), field(1, &[0x08, 3])].concat();
    let tensor = [vec![0x08, 1], field(2, &shape)].concat();
    let input = [field(1, b"x"), field(2, &field(1, &tensor))].concat();
    let graph = [field(1, &node), field(11, &input), field(12, &field(1, b"y"))].concat();
    [vec![0x08, 8], field(7, &graph), field(8, &[0x10, 17])].concat()
}

#[test]
fn a_network_without_a_kernel_is_a_network() {
    let place = compiled();
    place.write("flat.onnx", tiny("Flatten", &[0x08, 2]));
    let built = place.run(&["build", "flat.onnx", "--format", "json"]).ended_with(0);
    assert_eq!((built.count("operators"), built.count("kernels")), (0, 0));
    let ran = place.run(&["run", "flat.onnx", "--input-values", "1,2,3,4,5,6"]).ended_with(0);
    assert!(ran.stdout.contains("[1, 2, 3, 4, 5, 6]"), "{ran:?}");
}

#[test]
fn open_dimensions_are_given_by_name() {
    let place = compiled();
    place.write("nets/open.onnx", tiny("Relu", &field(2, b"batch")));
    place.write("nets/fixed.onnx", tiny("Relu", &[0x08, 2]));
    place.run(&["build", "nets/open.onnx"]).ended_with(2).says("batch").says("--dim");
    let built = place.run(&["build", "nets/open.onnx", "--dim", "batch=4", "--format", "json"]);
    assert_eq!(built.ended_with(0).count("kernels"), 1);
    place.run(&["build", "nets/fixed.onnx", "--dim", "batch=4"]).ended_with(2).says("batch");
    // One of several networks may lack the dimension.
    let both = place.run(&["build", "nets", "--dim", "batch=4", "--format", "json"]).ended_with(0);
    assert_eq!((both.count("operators"), both.count("kernels")), (2, 2));
}

/// All operators that cannot be built are reported at once, with help.
#[test]
fn missing_operators_are_reported() {
    let place = compiled();
    place.write("odd.onnx", tiny("NoSuchOperator", &[0x08, 2]));
    for command in ["build", "run"] {
        let ran = place.run(&[command, "odd.onnx"]).ended_with(2);
        ran.says("NoSuchOperator").says("operator set 17");
    }
}

/// The keys of a build's kernels.
fn keys(json: &Value) -> BTreeSet<String> {
    let results = json["results"].as_array().unwrap();
    results.iter().map(|kernel| kernel["key"].as_str().unwrap().to_owned()).collect()
}

/// Where `pattern` is in `bytes`, for the `nth` time.
fn find(bytes: &[u8], pattern: &[u8], nth: usize) -> usize {
    let places = bytes.windows(pattern.len()).enumerate().filter(|(_, window)| *window == pattern);
    places.map(|(at, _)| at).nth(nth).unwrap()
}

/// After an edit exactly the changed kernels are compiled, by the compiler's own log.
#[test]
fn an_edit_of_the_network_recompiles_only_changed_kernels() {
    let place = Place::new();
    let compiler = place.logging_compiler("cc-logged", "log");
    let cc = ("CC", compiler.to_str().unwrap());
    let original = std::fs::read(fixture("resnet18").join("model.onnx")).unwrap();
    let build = |bytes: &[u8]| {
        place.write("net/model.onnx", bytes);
        let before = place.compiles("log");
        let built =
            place.run_with(&["build", "net/model.onnx", "--format", "json"], &[cc]).ended_with(0).json();
        (place.compiles("log") - before, keys(&built))
    };
    let (compiled, first) = build(&original);
    assert_eq!(compiled, first.len());
    assert_eq!(build(&original).0, 0);

    // One node's pads, such that the output keeps its shape: its kernel alone.
    let mut pads = original.clone();
    let at = find(&pads, b"pads@\x01@\x01@\x01@\x01", 3) + 4;
    pads[at..at + 8].copy_from_slice(b"@\x02@\x01@\x00@\x01");
    let (compiled, changed) = build(&pads);
    assert_eq!((compiled, changed.difference(&first).count()), (1, 1));

    // A weight is data, not code.
    let mut weight = original.clone();
    // Weights are nearly all of the file.
    let middle = weight.len() / 2;
    weight[middle] ^= 1;
    let (compiled, same) = build(&weight);
    assert_eq!((compiled, &same), (0, &first));

    // A node's name does not count.
    let mut name = original.clone();
    let at = find(&name, b"relu_3_node", 0);
    name[at..at + 4].copy_from_slice(b"RELU");
    assert_eq!(build(&name), (0, first.clone()));

    // Another image size: every kernel whose tensors have it, and no other.
    let mut size = original;
    // The outputs' declared shapes would contradict it: they are turned into an unknown field, which is skipped.
    for name in ["gemm_1", "maxpool_1", "add_2", "add_3", "add_4", "globalaveragepool_1"] {
        let described = [&[0x0a, name.len() as u8], name.as_bytes(), &[0x12]].concat();
        // Nodes come before outputs in the file.
        let count = size.windows(described.len()).filter(|window| *window == described).count();
        let at = find(&size, &described, count - 1) + described.len() - 1;
        size[at] = 0x7a;
    }
    let at = find(&size, b"\x0a\x02\x08\x40\x0a\x02\x08\x40", 0);
    size[at + 3] = 96;
    size[at + 7] = 96;
    let (compiled, resized) = build(&size);
    let fresh = resized.difference(&first).count();
    assert_eq!(compiled, fresh);
    // The last layer depends on channels only.
    assert!(fresh > 10 && resized.intersection(&first).count() >= 1, "{fresh} of {}", resized.len());
}

/// Cold builds, each killed at a random moment; the next one reuses the finished kernels and compiles the rest.
#[test]
fn killed_builds_of_a_network_lose_no_finished_kernel() {
    let place = Place::new();
    let model = fixture("squeezenet").join("model.onnx");
    let args = ["build", model.to_str().unwrap(), "--format", "json"];
    let compiler = place.logging_compiler("cc-logged", "log");
    let cc = compiler.to_str().unwrap();
    let mut state = u64::from(std::process::id()) | 1;
    let seed = state;
    let mut interrupted = 0;
    for round in 0..6 {
        // From an empty store, or after half of the store was deleted.
        let every = if round % 2 == 0 { 1 } else { 2 };
        place.entries().iter().step_by(every).for_each(|entry| std::fs::remove_file(entry).unwrap());
        let begin = place.entries().len();
        let mut build = place.command(&args);
        let build = build.env("CC", cc).stdout(Stdio::null()).stderr(Stdio::null());
        let mut build = build.spawn().unwrap();
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let progress = (state >> 33) as usize % 16;
        while place.entries().len() < begin + progress && build.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis((state >> 40) % 50));
        interrupted += usize::from(build.try_wait().unwrap().is_none());
        let _ = build.kill();
        build.wait().unwrap();

        let finished = place.entries().len() as u64;
        let before = place.compiles("log");
        let next = place.run_with(&args, &[("CC", cc)]).ended_with(0);
        let compiled = (place.compiles("log") - before) as u64;
        let what = format!("seed {seed}, round {round}: {next:?}");
        assert_eq!(next.count("reused"), finished, "{what}");
        assert_eq!(
            (next.count("compiled"), compiled),
            (next.count("kernels") - finished, next.count("kernels") - finished),
            "{what}"
        );
    }
    assert!(interrupted >= 2, "only {interrupted} of 6 builds were still running when they were killed");
}
