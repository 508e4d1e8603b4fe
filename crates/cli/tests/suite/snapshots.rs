//! What each command prints about the networks and descriptors of README.md: whole texts, so that no word changes unseen. An
//! intended change is written with OPKEEP_UPDATE_GOLDEN=1.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::book::compare::steady;
use crate::common::{Place, files};
use crate::golden::compare;

/// The fixtures, copied below the directory of the test, so that paths are short and a network can be edited.
const FIXTURES: [&str; 2] = ["networks/lenet", "mindspore"];

/// The commands of README.md, in an order in which each has something to report. The words before a command are variables.
const COMMANDS: [&str; 49] = [
    "inspect lenet/model.onnx",
    "explain lenet/model.onnx",
    "build lenet/model.onnx --jobs 1 --explain",
    "build lenet/model.onnx",
    "build lenet/model.onnx --quiet",
    "run lenet/model.onnx --input lenet/input_0.pb --compare lenet/output_0.pb --jobs 2",
    "RANK_ID=3 build mindspore",
    "run mindspore/square_12484080525657478220_2.info --input-values 1,4,9 --jobs 2",
    "run mindspore/square_12484080525657478220_2.info --input-values 1,4",
    "explain lenet/model.onnx mindspore",
    "build lenet/model.onnx --jobs 1 --toolchain-input lenet/input_0.pb --explain",
    "explain lenet/model.onnx --toolchain-input lenet/output_0.pb",
    "inspect mindspore/square_12484080525657478220_2.info",
    "inspect rank_3/kernel_meta/square_12484080525657478220_2.o",
    "inspect rank_3/kernel_meta/square_12484080525657478220_2.json",
    "inspect .",
    "diff mindspore/square_12484080525657478220_2.info rank_3/kernel_meta/square_12484080525657478220_2.info",
    "diff rank_0 rank_3",
    "ls --operator MatMulV2",
    "ls --limit 3",
    "verify",
    "verify rank_3",
    "verify rank_3/kernel_meta/square_12484080525657478220_2.o",
    "repair --dry-run",
    "repair",
    "repair rank_3",
    "import rank_3",
    "gc",
    "gc --max-size 0",
    "stats",
    "stats --by kernel",
    "report",
    "bundle export --output all.bundle",
    "bundle inspect all.bundle",
    "bundle import all.bundle",
    "config",
    "config --template",
    "remote push file://shared --all",
    "remote ls file://shared",
    "remote stats file://shared",
    "remote gc file://shared --max-size 0",
    "man pages",
    "damage",
    "verify",
    "repair --dry-run",
    "repair",
    "clear --dry-run",
    "clear",
    "ls",
];

#[test]
fn the_texts_of_commands_are_unchanged() {
    let place = Place::new();
    for from in FIXTURES {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(from);
        for file in files(&from) {
            let below = Path::new(from.file_name().unwrap()).join(file.strip_prefix(&from).unwrap());
            place.write(below.to_str().unwrap(), fs::read(&file).unwrap());
        }
    }
    fs::create_dir(place.path("shared")).unwrap();
    let dir = place.dir.path().to_str().unwrap();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let host = host.trim();
    let mut text = String::new();
    for line in COMMANDS {
        if line == "damage" {
            damage(&place);
            continue;
        }
        let (env, args): (Vec<_>, Vec<_>) = line.split(' ').partition(|word| word.starts_with("RANK_ID="));
        let env: Vec<(&str, &str)> = env.iter().filter_map(|word| word.split_once('=')).collect();
        let args: Vec<String> =
            args.iter().map(|word| word.replace("file://", &format!("file://{dir}/"))).collect();
        let ran = place.run_with(&args.iter().map(String::as_str).collect::<Vec<_>>(), &env);
        let variables: String = env.iter().map(|(name, value)| format!("{name}={value} ")).collect();
        writeln!(text, "$ {variables}opkeep {}", args.join(" ").replace(dir, "")).unwrap();
        for output in [&ran.stdout, &ran.stderr] {
            lines(&output.replace(dir, "<dir>").replace(&format!("  {host}\n"), "  HOST\n"))
                .for_each(|line| writeln!(text, "{line}").unwrap());
        }
        writeln!(text, "exit code {}\n", ran.code.unwrap()).unwrap();
    }
    compare("commands.txt", &text);
}

/// The lines of an output, in an order that depends on no time and no key.
fn lines(output: &str) -> impl Iterator<Item = String> {
    let mut lines: Vec<String> = output.lines().map(|line| without_order(&steady(line))).collect();
    let is_ordered = |line: &String| !is_ranked(line);
    for ranked in lines.split_mut(is_ordered) {
        ranked.sort();
    }
    lines.into_iter()
}

/// Whether a line stands at its place because of a time or a key: of a compile, of an operator by its cost, of a kernel by its
/// key.
fn is_ranked(line: &str) -> bool {
    line.starts_with("[N/") || line.ends_with(" DIGEST SIZE")
}

/// The line without names that stand in the order of times or sizes, and without a size that has no unit.
fn without_order(line: &str) -> String {
    if let Some((_, rest)) = line.strip_prefix('[').and_then(|line| line.split_once('/')) {
        return format!("[N/{rest}");
    }
    let names = |text: &str, what: &str| {
        let name = |part: &str| format!("{what} {}", part.split_once(' ').map_or("", |(_, rest)| rest));
        text.split(", ").map(name).collect::<Vec<_>>().join(", ")
    };
    if let Some(kernels) = line.strip_prefix("slowest: ") {
        return format!("slowest: {}", names(kernels, "KERNEL"));
    }
    if line.starts_with("  object bytes ") {
        return "  object bytes COUNT".to_owned();
    }
    if let Some(operators) = line.strip_prefix("  by operator: ") {
        return format!("  by operator: {}", operators.split(", ").count());
    }
    match line.split_once(" compiled TIME saved ") {
        Some(_) => "  OPERATOR COUNT compiled TIME saved TIME".to_owned(),
        None => line.to_owned(),
    }
}

/// One entry is torn, and a file of another program lies among the entries.
fn damage(place: &Place) {
    let entries = place.entries();
    fs::write(&entries[0], "torn").unwrap();
    fs::write(entries[0].parent().unwrap().join("notes.txt"), "a note").unwrap();
}
