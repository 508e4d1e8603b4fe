//! What each command prints about the networks and descriptors of README.md: whole texts, so that no word changes unseen. An
//! intended change is written with OPKEEP_UPDATE_GOLDEN=1.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::fmt::Write;
use std::fs;
use std::path::Path;

use opkeep_testkit::caches::{age, cann_kernel};

use crate::book::compare::steady;
use crate::common::{Place, files};
use crate::golden::compare;
use crate::triton_dir;

/// The fixtures, copied below the directory of the test, so that paths are short and a network can be edited.
const FIXTURES: [&str; 2] = ["networks/lenet", "mindspore"];

/// The commands of README.md, in an order in which each has something to report. The words before a command are variables.
const COMMANDS: [&str; 63] = [
    "inspect lenet/model.onnx",
    "explain lenet/model.onnx",
    "explain lenet/model.onnx --all",
    "build lenet/model.onnx --jobs 1 --explain",
    "build lenet/model.onnx",
    "build lenet/model.onnx --quiet",
    "run lenet/model.onnx --input lenet/input_0.pb --compare lenet/output_0.pb --jobs 2",
    "RANK_ID=3 build mindspore",
    "run mindspore/square_12484080525657478220_2.info --input-values 1,4,9 --jobs 2",
    "run mindspore/square_12484080525657478220_2.info --input-values 1,4",
    "explain lenet/model.onnx mindspore",
    "explain mindspore/square_12484080525657478220_2.info --against mindspore/square_12484080525657478220_2.info",
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
    "explain mindspore --trust-imported",
    "gc",
    "gc --max-size 0",
    "stats",
    "stats --by framework",
    "stats --by kernel",
    "report",
    "report --html report.html",
    "bundle export --output all.bundle",
    "bundle inspect all.bundle",
    "bundle import all.bundle",
    "config",
    "config --template",
    "remote push file://shared --all",
    "explain lenet/model.onnx --remote file://shared",
    "remote ls file://shared",
    "remote stats file://shared",
    "remote gc file://shared --max-size 0",
    "damage ranks",
    "repair rank_3",
    "repair --undo rank_3",
    "repair --fill .",
    "repair triton",
    "gc kernel_cache",
    "gc kernel_cache --max-size 0",
    "man pages",
    "key show key.pub",
    "damage",
    "verify",
    "repair --dry-run",
    "repair",
    "clear --dry-run",
    "clear",
    "ls",
];

/// A public key, as `key show` prints it.
const PUBLIC_KEY: &str = "builds:rJ6rjUZ/LpA/lsty3rALkpmyM8CCydALU6w62xbbkRQ=\n";

/// The commands of README.md that have no snapshot, and why.
const EXCEPTIONS: [(&str, &str); 12] = [
    ("build --timings", "writes a page with times, which the suite `report` reads"),
    ("targets", "lists the compilers of the machine"),
    ("doctor", "says what the machine lacks"),
    ("remote check [URL]", "says what the machine's file system does, and how fast"),
    ("key generate NAME --out FILE", "makes another key each time"),
    ("opc -- NAME...", "runs a compiler of CANN, as the cases `packages` do"),
    ("bisheng -- NAME...", "runs a compiler of CANN, as the cases `packages` do"),
    ("shim install DIR", "prints the path of the links, which the cases `packages` use"),
    ("package verify DIR", "the suite `package` and the cases `packages` have its texts"),
    ("package diff A B", "the suite `package` and the cases `package_builds` have its texts"),
    ("package plan DIR", "the suite `package` and the cases `package_builds` have its texts"),
    ("completions SHELL", "prints scripts, which the suite `completions` runs"),
];

/// The flags in README.md that no snapshot has, and why.
const FLAG_EXCEPTIONS: [(&str, &str); 5] = [
    ("--profile", "lists the nodes by their times"),
    ("--framework triton", "reads the kernels of an installed Triton"),
    ("--sign-key", "the suite `signing` signs"),
    ("--trusted-keys", "the suite `signing` checks signatures"),
    ("--source FILE", "the suite `package` lists the readers of sources"),
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
    fs::write(place.path("key.pub"), PUBLIC_KEY).unwrap();
    let dir = place.dir.path().to_str().unwrap();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let host = host.trim();
    let mut text = String::new();
    for line in COMMANDS {
        match line {
            "damage" => damage(&place),
            "damage ranks" => damage_ranks(&place),
            _ => {}
        }
        if line.starts_with("damage") {
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
    match line.ends_with(" TIME TIME") && line.split_whitespace().count() == 5 {
        true => "  OPERATOR COUNT COUNT TIME TIME".to_owned(),
        false => line.to_owned(),
    }
}

/// One entry is torn, and a file of another program lies among the entries.
fn damage(place: &Place) {
    let entries = place.entries();
    fs::write(&entries[0], "torn").unwrap();
    fs::write(entries[0].parent().unwrap().join("notes.txt"), "a note").unwrap();
}

/// A kernel of one rank is torn, another rank has all, and there are caches of Triton and CANN.
fn damage_ranks(place: &Place) {
    let ranks = [3, 4].map(|rank| place.path(&format!("rank_{rank}/kernel_meta")));
    fs::create_dir_all(&ranks[1]).unwrap();
    for file in files(&ranks[0]) {
        let copy = ranks[1].join(file.file_name().unwrap());
        fs::copy(&file, &copy).unwrap();
        age(&copy).unwrap();
    }
    let torn = ranks[0].join("square_12484080525657478220_2.json");
    fs::remove_file(&torn).unwrap();
    fs::write(&torn, "").unwrap();
    age(&torn).unwrap();
    let dir = triton_dir::write_key(place, triton_dir::KEY);
    fs::write(dir.join("add.cubin"), "torn").unwrap();
    cann_kernel("Ascend910B2", 1).write(&place.path("kernel_cache/Ascend910B2")).unwrap();
}

/// A command of README.md's table: the words that name it, its operands, and its flags.
#[derive(Debug)]
struct Listed {
    text: String,
    name: Vec<String>,
    operands: Vec<String>,
    flags: Vec<String>,
}

/// The groups of commands.
const GROUPS: [&str; 5] = ["bundle", "remote", "key", "shim", "package"];

impl Listed {
    fn of(text: &str) -> Self {
        let words: Vec<&str> = text.split(' ').collect();
        let (name, rest) = words.split_at(if GROUPS.contains(&words[0]) { 2 } else { 1 });
        let own = |word: &&str| (*word).to_owned();
        let flags: Vec<String> = rest.iter().filter(|word| word.starts_with("--")).map(own).collect();
        // The word behind a flag is its value.
        let operands = rest
            .iter()
            .enumerate()
            .filter(|(at, word)| !(word.starts_with("--") || *at > 0 && rest[at - 1].starts_with("--")));
        let operands = operands.map(|(_, word)| own(word)).collect();
        Self { text: text.to_owned(), name: name.iter().map(own).collect(), operands, flags }
    }

    /// Whether a snapshot has it: the same name and flags, and an operand of each kind.
    fn is_in(&self, line: &str) -> bool {
        let words: Vec<&str> = line.split(' ').filter(|word| !word.starts_with("RANK_ID=")).collect();
        let Some(rest) =
            words.strip_prefix(self.name.iter().map(String::as_str).collect::<Vec<_>>().as_slice())
        else {
            return false;
        };
        let has_operand = |kind: &String| rest.iter().any(|word| is_of_kind(word, kind));
        self.flags.iter().all(|flag| rest.contains(&flag.as_str())) && self.operands.iter().all(has_operand)
    }
}

/// Whether a word of a snapshot is an operand of the kind that README.md names.
fn is_of_kind(word: &str, kind: &str) -> bool {
    let is_file = word.rsplit('/').next().is_some_and(|name| name.contains('.') && name != ".");
    match kind.trim_end_matches("...").trim_matches(['[', ']']) {
        "PATH" | "A" | "B" => !word.starts_with("--"),
        "MODEL.onnx" => word.ends_with(".onnx"),
        "FILE.info" => word.ends_with(".info"),
        "FILE" => is_file,
        "TRITON_CACHE_DIR" => word == "triton",
        "DIR" => !word.starts_with("--") && !is_file,
        "URL" => word.starts_with("file://"),
        "NAME" | "SHELL" => true,
        other => panic!("README.md names an operand of an unknown kind: `{other}`"),
    }
}

/// The commands of README.md's table and the flags that its effects name.
fn listed() -> (Vec<Listed>, Vec<String>) {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md")).unwrap();
    let (_, table) = readme.split_once("| command | effect |\n").unwrap();
    let (mut commands, mut flags) = (Vec::new(), Vec::new());
    for row in table.lines().skip(1).take_while(|line| line.starts_with('|')) {
        let row = row.replace("\\|", "/");
        let [_, command, effect, _] = row.split('|').collect::<Vec<_>>()[..] else { panic!("{row}") };
        let spans =
            |text: &str| -> Vec<String> { text.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
        let mut group = None;
        for span in spans(command) {
            let span = span.strip_prefix("opkeep ").unwrap_or(&span).to_owned();
            let (first, rest) = span.split_once(' ').unwrap_or((&span, ""));
            if GROUPS.contains(&first) {
                group = Some(first.to_owned());
                let (names, operands) = rest.split_once(' ').unwrap_or((rest, ""));
                let texts =
                    names.split('/').map(|name| format!("{first} {name} {operands}").trim_end().to_owned());
                commands.extend(texts.map(|text| Listed::of(&text)));
            } else {
                let text = match &group {
                    Some(group) => format!("{group} {span}"),
                    None => span,
                };
                commands.push(Listed::of(&text));
            }
        }
        for span in spans(effect) {
            if span.starts_with("--") {
                flags.push(span);
            }
        }
        // Other forms of the commands stand among the effects.
        for span in spans(effect) {
            let is_form = span.split(' ').nth(1).is_some_and(|word| {
                word.starts_with("--") || word.chars().all(|letter| letter.is_ascii_uppercase())
            });
            if is_form && !span.starts_with("--") {
                commands.push(Listed::of(&span));
            }
        }
    }
    (commands, flags)
}

/// A command or a flag that README.md gets has a snapshot, or a reason why not.
#[test]
fn each_command_of_the_readme_has_a_snapshot() {
    let (commands, flags) = listed();
    assert!(commands.len() > 30 && flags.len() > 10, "the table has another form: {commands:?}, {flags:?}");
    let has_snapshot = |command: &&Listed| COMMANDS.iter().any(|line| command.is_in(line));
    let without: Vec<&str> = commands
        .iter()
        .filter(|command| !has_snapshot(command))
        .map(|command| command.text.as_str())
        .collect();
    let excepted: Vec<&str> = EXCEPTIONS.iter().map(|(text, _)| *text).collect();
    assert_eq!(without, excepted, "commands of README.md without a snapshot, and the exceptions");
    let is_shown = |flag: &&String| {
        let words: Vec<&str> =
            flag.split(' ').filter(|word| !word.chars().all(|it| it.is_ascii_uppercase())).collect();
        COMMANDS.iter().any(|line| {
            let line: Vec<&str> = line.split(' ').collect();
            line.windows(words.len()).any(|part| part == words)
        })
    };
    let without: Vec<&str> = flags.iter().filter(|flag| !is_shown(flag)).map(String::as_str).collect();
    let excepted: Vec<&str> = FLAG_EXCEPTIONS.iter().map(|(text, _)| *text).collect();
    assert_eq!(without, excepted, "flags of README.md without a snapshot, and the exceptions");
}
