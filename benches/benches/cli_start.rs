//! Question: what does the command cost as a process: to say its version, and to build a light network of which nothing
//! is new?
//!
//! Each iteration is a whole process, from its start until it was waited for, with no more environment than a search path
//! and folders of its own in memory. The floor starts `true`, which does nothing. Memory is the most that was resident at
//! a time. Networks are in `fixtures/networks`; `light_resnet50` is the one of the ONNX project, and needs
//! `OPBUILD_CORPUS`. With a view, the files that a framework reads are there and intact.
//!
//! Budget: 30 ms and 40 MB for a build.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot be set up has no figures")]
#![expect(clippy::print_stdout, reason = "the table is what this is for")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use opbuild_benches::{
    Budgets, Ended, Figure, Turns, command_of, folder, is_measured, search_path, thousands, wait,
};
use opbuild_testkit::corpus;
use tempfile::TempDir;

const WALL: Duration = Duration::from_millis(30);
const MEMORY: u64 = 40_000_000;
const OURS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/networks");

fn main() {
    let (mut budgets, opbuild) = (Budgets::default(), command_of("opbuild-cli", "opbuild").unwrap());
    println!("one process; ratios are to the floor: lower quartile, median, upper quartile of the turns");
    println!(
        "{:<30} {:>9} {:>9} {:>20} {:>9} {:>12} {:>6}  budget",
        "", "floor", "wall", "ratio", "cpu", "memory", "turns"
    );
    for flag in ["--version", "--help"] {
        row(flag, &Setting::new(&opbuild, &[flag]), &mut budgets);
    }
    let networks = if is_measured() { &["lenet", "squeezenet", "resnet18"][..] } else { &["lenet"] };
    let mut networks: Vec<(&str, PathBuf)> =
        networks.iter().map(|name| (*name, Path::new(OURS).join(name).join("model.onnx"))).collect();
    networks.extend(corpus::folder().map(|root| ("light_resnet50", root.join("onnx/light_resnet50.onnx"))));
    for (name, path) in networks {
        let path = path.to_str().unwrap();
        row(
            &format!("build {name}"),
            &Setting::new(&opbuild, &["build", path, "--no-kernel-meta"]),
            &mut budgets,
        );
        row(&format!("build {name}, view"), &Setting::new(&opbuild, &["build", path]), &mut budgets);
    }
    budgets.settle();
}

/// A command and its folders.
struct Setting {
    folder: TempDir,
    opbuild: PathBuf,
    arguments: Vec<String>,
}

impl Setting {
    /// The first process finds nothing, and two more find what changed a moment ago.
    fn new(opbuild: &Path, arguments: &[&str]) -> Self {
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let setting = Self { folder: folder().unwrap(), opbuild: opbuild.to_owned(), arguments };
        if is_measured() && setting.is_build() {
            setting.run();
            std::thread::sleep(Duration::from_millis(2200));
        }
        setting.run();
        setting
    }

    fn is_build(&self) -> bool {
        self.arguments[0] == "build"
    }

    fn run(&self) -> Process {
        let mut command = Command::new(&self.opbuild);
        command.args(&self.arguments);
        run(self.inside(command))
    }

    fn floor(&self) -> Process {
        run(self.inside(Command::new("true")))
    }

    fn inside(&self, mut command: Command) -> Command {
        command.current_dir(self.folder.path()).env_clear().env("PATH", search_path());
        for name in ["HOME", "TMPDIR"] {
            command.env(name, self.folder.path());
        }
        command
    }
}

struct Process {
    wall: Duration,
    ended: Ended,
}

fn run(mut command: Command) -> Process {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    let ended = wait(command.spawn().unwrap()).unwrap();
    assert!(ended.status.success(), "{command:?} ended with {}", ended.status);
    Process { wall: start.elapsed(), ended }
}

fn row(title: &str, setting: &Setting, budgets: &mut Budgets) {
    let (mut most, mut cpu) = (0, Vec::new());
    let turns = Turns::take(
        Duration::from_millis(1500),
        [&mut || setting.floor().wall, &mut || {
            let Process { wall, ended } = setting.run();
            most = most.max(ended.most_resident);
            cpu.push(ended.cpu);
            wall
        }],
    );
    cpu.sort_unstable();
    let (ratios @ [low, ratio, high], wall) = (turns.ratio(1, 0), turns.median(1));
    let judged = setting.is_build();
    let time = judged.then(|| budgets.judge(turns.quartiles(1), WALL.as_secs_f64()));
    let memory = judged.then(|| budgets.judge_count(most, MEMORY));
    let figure = Figure::new("cli_start", title).times(wall, turns.median(0)).ratio(ratios);
    figure.budget(format!("{WALL:?}"), [wall, WALL].map(|time| time.as_secs_f64()), time).note();
    let figure = Figure::new("cli_start", format!("{title}: memory")).value("B", most as f64);
    figure
        .budget(format!("{} MB", MEMORY / 1_000_000), [most, MEMORY].map(|bytes| bytes as f64), memory)
        .note();
    println!(
        "{title:<30} {:>9.1?} {wall:>9.1?} {low:>6.2} {ratio:>6.2} {high:>6.2} {:>9.1?} {:>12} {:>6}  {}",
        turns.median(0),
        cpu[cpu.len() / 2],
        thousands(most),
        turns.count(),
        match (time, memory) {
            (Some(time), Some(memory)) => format!("{WALL:?} {time}, {} MB {memory}", MEMORY / 1_000_000),
            _ => "-".to_owned(),
        },
    );
}
