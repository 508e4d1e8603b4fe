//! Question: what does the command cost as a process: to print its version, and to build a light network in which
//! nothing is new?
//!
//! Each iteration is a whole process, from its start until its end was awaited, with an environment of only a search
//! path and private directories in memory. The floor starts `true`, which does nothing. Memory is the peak of resident
//! memory. Networks are in `fixtures/networks`; `light_resnet50` is the ONNX project's and needs `OPKEEP_CORPUS`. With
//! a view, the files for a framework exist and are intact.
//!
//! Budget: 12 ms and 40 MB for a build.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot be set up has no figures")]
#![expect(clippy::print_stdout, reason = "the table is what this is for")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use opkeep_benches::{
    Budgets, Ended, Figure, Turns, command_of, directory, is_measured, search_path, thousands, wait,
};
use opkeep_testkit::corpus;
use tempfile::TempDir;

const WALL: Duration = Duration::from_millis(12);
const MEMORY: u64 = 40_000_000;
const OURS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/networks");

fn main() {
    let (mut budgets, opkeep) = (Budgets::default(), command_of("opkeep-cli", "opkeep").unwrap());
    println!("one process; ratios are to the floor: lower quartile, median, upper quartile of the turns");
    println!(
        "{:<30} {:>9} {:>9} {:>20} {:>9} {:>12} {:>6}  budget",
        "", "floor", "wall", "ratio", "cpu", "memory", "turns"
    );
    let bare = Setting::new(&opkeep);
    for flag in ["--version", "--help"] {
        row(flag, &bare, &[flag], &mut budgets);
    }
    let networks = if is_measured() { &["lenet", "squeezenet", "resnet18"][..] } else { &["lenet"] };
    let mut networks: Vec<(&str, PathBuf)> =
        networks.iter().map(|name| (*name, Path::new(OURS).join(name).join("model.onnx"))).collect();
    networks
        .extend(corpus::directory().map(|root| ("light_resnet50", root.join("onnx/light_resnet50.onnx"))));
    for (name, path) in networks {
        let (setting, path) = (Setting::new(&opkeep), path.to_str().unwrap());
        let (plain, view) = (["build", path, "--no-kernel-meta"], ["build", path]);
        setting.prepare(&view);
        row(&format!("build {name}"), &setting, &plain, &mut budgets);
        row(&format!("build {name}, view"), &setting, &view, &mut budgets);
    }
    budgets.settle();
}

/// The command with its private directories.
struct Setting {
    directory: TempDir,
    opkeep: PathBuf,
}

impl Setting {
    fn new(opkeep: &Path) -> Self {
        Self { directory: directory().unwrap(), opkeep: opkeep.to_owned() }
    }

    /// The first process finds nothing, and the next one finds files that were changed a moment ago.
    fn prepare(&self, arguments: &[&str]) {
        self.run(arguments);
        if is_measured() {
            std::thread::sleep(Duration::from_millis(2200));
            self.run(arguments);
        }
    }

    fn run(&self, arguments: &[&str]) -> Process {
        let mut command = Command::new(&self.opkeep);
        command.args(arguments);
        run(self.inside(command))
    }

    fn floor(&self) -> Process {
        run(self.inside(Command::new("true")))
    }

    fn inside(&self, mut command: Command) -> Command {
        command.current_dir(self.directory.path()).env_clear().env("PATH", search_path());
        for name in ["HOME", "TMPDIR"] {
            command.env(name, self.directory.path());
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

fn row(title: &str, setting: &Setting, arguments: &[&str], budgets: &mut Budgets) {
    let (mut most, mut cpu) = (0, Vec::new());
    let turns = Turns::take(
        Duration::from_millis(1500),
        [&mut || setting.floor().wall, &mut || {
            let Process { wall, ended } = setting.run(arguments);
            most = most.max(ended.most_resident);
            cpu.push(ended.cpu);
            wall
        }],
    );
    cpu.sort_unstable();
    let (ratios @ [low, ratio, high], wall) = (turns.ratio(1, 0), turns.median(1));
    let judged = arguments[0] == "build";
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
