//! Names come from foreign models, directories and compilers: in output for people they start no line of their own,
//! and contain no control characters. Programs get them unchanged.

#[path = "../../../onnx/tests/suite/common/mod.rs"]
mod onnx;

use crate::common::{Place, Ran, square_of};
use onnx::{model, value, wire::Message};
use opkeep_testkit::terminal::shown_by;

/// Ends lines, moves the cursor, colours, turns the direction of what follows; each would-be line begins alike.
const HOSTILE: &str = "n\nFORGED  reused\r\nFORGED\x1b[2J\x1b]0;t\x07\u{85}FORGED\u{9b}31m\u{2028}FORGED\u{2029}\u{202a}\u{202b}\
                       \u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{200e}\u{200f}\u{61c}\u{200b}\u{feff}\u{7f}\t\x08end";

/// The part that may be in the name of a file: no slash, and not too long.
const FILE: &str = "f\nFORGED\x1b[31m\u{202e}\u{9b}2J";

fn is_obeyed(letter: char) -> bool {
    let turns = ['\u{61c}', '\u{200b}', '\u{200e}', '\u{200f}', '\u{feff}'].contains(&letter);
    let is_ours = letter == '\n';
    turns
        || (letter.is_control() && !is_ours)
        || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[track_caller]
fn is_harmless(text: &str) {
    assert!(!text.chars().any(is_obeyed), "{text:?}");
    assert!(!text.lines().any(|line| line.trim_start().starts_with("FORGED")), "{text}");
}

/// Runs a command with text and with JSON output.
#[track_caller]
fn both(place: &Place, args: &[&str], env: &[(&str, &str)]) -> (Ran, Ran) {
    let text = place.run_with(args, env);
    let json = place.run_with(&[args, &["--format", "json"]].concat(), env);
    for ran in [&text, &json] {
        assert!(matches!(ran.code, Some(0..=2)), "{args:?}: {ran:?}");
        is_harmless(&ran.stdout);
        is_harmless(&ran.stderr);
    }
    assert!(json.json().is_object(), "{args:?}: {json:?}");
    (text, json)
}

/// A network of one node with these names.
fn network(op: &str, node: &str, input: &str, output: &str) -> Message {
    let node = Message::default().bytes(1, input).bytes(2, output).bytes(3, node).bytes(4, op);
    model(
        Message::default()
            .message(1, node)
            .bytes(2, HOSTILE)
            .message(11, value(input, &[2]))
            .message(12, value(output, &[2])),
    )
}

#[test]
fn a_network_of_hostile_names_through_every_command() {
    let place = Place::new();
    place.write("net.onnx", network("Relu", HOSTILE, &format!("{HOSTILE}in"), &format!("{HOSTILE}out")).0);
    place.write("unknown.onnx", network(HOSTILE, HOSTILE, "x", "y").0);
    place.write("open.onnx", network("Relu", HOSTILE, HOSTILE, HOSTILE).0);
    let reference = opkeep_onnx::Tensor {
        name: format!("{HOSTILE}out"),
        dtype: "float32".into(),
        shape: vec![2],
        bytes: vec![0; 8],
    };
    opkeep_onnx::write_npy(&place.path("y.npy"), &reference).unwrap();

    let (text, json) = both(&place, &["build", "net.onnx"], &[]);
    assert!(text.stdout.contains("n\\nFORGED"), "{text:?}");
    let operators = &json.ended_with(0).json()["results"][0]["operators"];
    assert_eq!(operators[0], HOSTILE, "programs get the name itself");
    for args in [
        &["build", "unknown.onnx"][..],
        &["build", "open.onnx"],
        &["build", "net.onnx", "--dim", &format!("{HOSTILE}=1")],
        &["explain", "net.onnx"],
        &["explain", "unknown.onnx"],
        &["run", "net.onnx", "--input-values", "1,2", "--profile", "--compare", "y.npy"],
        &["run", "net.onnx", "--input-values", "1,2,3"],
        &["run", "net.onnx"],
        &["run", "net.onnx", "--input", "y.npy", "--input", "y.npy"],
        &["run", "unknown.onnx"],
        &["stats"],
        &["verify"],
        &["gc"],
    ] {
        both(&place, args, &[]);
    }
    let (text, json) = both(&place, &["run", "net.onnx", "--input-values", "1,2"], &[]);
    assert!(text.stdout.contains("FORGED"), "{text:?}");
    assert_eq!(json.json()["outputs"][0]["name"], format!("{HOSTILE}out"));
}

#[test]
fn descriptors_kernels_and_directories_of_hostile_names() {
    let place = Place::new();
    let written = |text: &str| serde_json::to_string(text).unwrap();
    let node = square_of(3).replace("\"Default/Square-op1\"", &written(HOSTILE));
    let op = square_of(4).replace("\"Square\"", &written(HOSTILE));
    let option =
        square_of(5).replace("\"op_impl_mode\"", &written(HOSTILE)).replace("\"NO_TUNE\"", &written(HOSTILE));
    place.write(&format!("{FILE}/{FILE}.info"), node);
    place.write("op.info", op);
    place.write("option.info", option);
    place.write(&format!("torn/{FILE}.info"), "{");
    let dir = format!("{FILE}/rank_0/kernel_meta");
    place.write(
        &format!("{dir}/{FILE}.json"),
        format!("{{\"kernelName\": {}, \"magic\": {0}}}", written(HOSTILE)),
    );
    place.write(&format!("{dir}/{FILE}.o"), "no object");
    place.write(&format!("{dir}/{FILE}.info"), square_of(3));
    place.write(&format!("cache/v1/{FILE}/entries/00/x.kern"), HOSTILE);
    place.write(&format!("cache/v1/cpu-x86_64/entries/00/{FILE}"), "stray");
    place.write(&format!("kernel_cache/Ascend910B1/{FILE}"), "stray");
    place.write("kernel_cache/op_cache.ini", format!("[op_compiler_cache]\nmax_op_cache_size={FILE}\n"));
    let json_file = format!("{dir}/{FILE}.json");
    let object = format!("{dir}/{FILE}.o");
    for args in [
        &["build", FILE, "op.info", "option.info", "torn"][..],
        &["explain", FILE, "op.info", "option.info"],
        &["explain", "op.info", "--against", "option.info"],
        &["run", "op.info", "--input-values", "1"],
        &["inspect", "op.info", "option.info", &json_file, &object, &format!("torn/{FILE}.info"), FILE],
        &["verify", FILE],
        &["verify", &json_file, &object],
        &["verify"],
        &["verify", "--target", FILE, FILE],
        &["repair", FILE, "--dry-run"],
        &["repair", "--dry-run"],
        &["import", FILE],
        &["import", &format!("{FILE}{FILE}")],
        &["gc", "kernel_cache", "--dry-run"],
        &["gc", FILE],
        &["gc", "--dry-run"],
        &["stats"],
        &["targets"],
        &["build", "op.info", "--target", FILE],
        &["build", "op.info", "--op_debug_config", FILE],
        &["build", "op.info", "--op_compiler_cache_dir", FILE, "--trusted-owner", "1"],
        &["repair", FILE],
        &["repair"],
        &["repair", "--undo", FILE],
        &["clear"],
    ] {
        both(&place, args, &[]);
    }
    for variable in
        ["ASCEND_MAX_OP_CACHE_SIZE", "CC", "ASCEND_HOME_PATH", "RANK_ID", "MS_COMPILER_CACHE_PATH"]
    {
        let info = format!("{FILE}/{FILE}.info");
        both(&place, &["build", &info], &[(variable, FILE)]);
        both(&place, &["targets"], &[(variable, FILE)]);
    }
    // clap prints arguments that it refuses.
    for args in [
        &["build", &format!("--nice={FILE}"), "x"][..],
        &[FILE],
        &["build", "--jobs", FILE, "x"],
        &["gc", &format!("--{FILE}")],
    ] {
        let ran = place.run(args).ended_with(2);
        is_harmless(&ran.stderr);
        assert!(ran.stderr.contains("\\nFORGED"), "{ran:?}");
    }
}

/// A log keeps its lines, behind a mark that no own line has.
#[test]
fn the_output_of_a_compiler_is_quoted() {
    let place = Place::new();
    let info = place.write("square.info", square_of(3));
    let info = info.to_str().unwrap();
    let log = "FORGED  compiled\\n\\033[2JFORGED\\342\\200\\256\\n\\302\\2331mFORGED\\n";
    let cc = place.compiler("odd-cc", &format!("printf '{log}' >&2; exit 1"));
    let env = [("CC", cc.to_str().unwrap())];
    let (text, json) = both(&place, &["build", info], &env);
    assert!(text.stdout.contains("\n    | FORGED  compiled\n"), "{}", text.stdout);
    assert!(json.json()["results"][0]["reason"].as_str().unwrap().contains("\n\u{1b}[2JFORGED\u{202e}\n"));
    let (text, _) = both(&place, &["run", info, "--input-values", "1,2,3"], &env);
    assert!(text.stderr.contains("\n    | FORGED  compiled\n"), "{}", text.stderr);
}

/// Only our own output moves the cursor of a terminal.
#[test]
fn a_progress_bar_shows_names_as_text() {
    let place = Place::new();
    place.write("net.onnx", network("Relu", HOSTILE, &format!("{HOSTILE}in"), &format!("{HOSTILE}out")).0);
    let (status, shown) = shown_by(place.command(&["run", "net.onnx", "--input-values", "1,2"])).unwrap();
    assert!(status.success() && shown.contains("FORGED"), "{shown:?}");
    for forged in ["\x1b[2J", "\x1b]0;", "\x07", "\u{9b}", "\u{202e}", "\u{2028}", "\nFORGED", "\rFORGED"] {
        assert!(!shown.contains(forged), "{forged:?} in {shown:?}");
    }
}
