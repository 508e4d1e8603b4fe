//! One process of a crowd: it reports when it is ready, builds on request, and reports the result.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::Arc;
use std::time::Duration;

use opkeep::{Config, Engine, Event, Outcome, Request};
use opkeep_backend::Backend;
use opkeep_backend_cpu::{CpuBackend, CpuConfig};
use opkeep_benches::{own_cpu, search_path};
use opkeep_cache::RemoteConfig;
use opkeep_descriptor::Job;
use opkeep_remote::OpenOptions;
use opkeep_store::StoreConfig;
use opkeep_testkit::{CompileLog, NullBackend, descriptor};

use crate::common::child;
use crate::networks;

/// The kernels that are built.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// A number of kernels, each of which takes this time in milliseconds.
    Equal(usize, u64),
    /// A number of kernels of [`MIXED`].
    Mixed(usize),
    /// A number of kernels, of which the first one takes this time in milliseconds, and the nth a part of 1/n of that.
    Falling(usize, u64),
    /// A network's kernels, compiled by this compiler, which logs its compiles.
    Network(String, PathBuf),
}

/// Operators whose kernels take from 5 to 100 ms, with equal times for one type.
const MIXED: [&str; 8] = ["Abs", "Exp", "Neg", "Relu", "Sigmoid", "Sqrt", "Square", "Tanh"];

fn mixed_cost(job: &Job) -> Duration {
    let at = MIXED.iter().position(|op_type| job.ops[0].op_type == **op_type).unwrap();
    Duration::from_millis(5 + at as u64 * 95 / (MIXED.len() as u64 - 1))
}

/// The length of the only input, which numbers the kernels that are alike.
fn length(job: &Job) -> u32 {
    let tensor = job.ops[0].inputs[0].iter().next().unwrap();
    u32::try_from(tensor.tensor.shape[0]).unwrap()
}

impl Work {
    fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split(' ').collect();
        Some(match words[..] {
            ["equal", kernels, millis] => Self::Equal(kernels.parse().ok()?, millis.parse().ok()?),
            ["mixed", kernels] => Self::Mixed(kernels.parse().ok()?),
            ["falling", kernels, millis] => Self::Falling(kernels.parse().ok()?, millis.parse().ok()?),
            ["network", name, compiler] => Self::Network(name.to_owned(), compiler.into()),
            _ => return None,
        })
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        match self {
            Self::Equal(kernels, _) | Self::Falling(kernels, _) => networks::alike(*kernels),
            Self::Mixed(kernels) => {
                let types = MIXED.iter().cycle().take(*kernels).enumerate();
                let shapes = types.map(|(at, op_type)| (at as i64 + 1, op_type));
                shapes.map(|(length, op)| Request::new(descriptor("node", op, &[&[length]]))).collect()
            }
            Self::Network(name, _) => networks::of(&networks::ours(name)),
        }
    }

    fn backend(&self, log: &Path) -> Arc<dyn Backend> {
        let log = |backend: NullBackend| backend.logging(CompileLog::open(log).unwrap());
        match self {
            Self::Equal(_, millis) => {
                let time = Duration::from_millis(*millis);
                Arc::new(log(NullBackend::sleeping(move |_| time)))
            }
            Self::Mixed(_) => Arc::new(log(NullBackend::sleeping(mixed_cost))),
            Self::Falling(_, millis) => {
                let longest = Duration::from_millis(*millis);
                Arc::new(log(NullBackend::sleeping(move |job| longest / length(job))))
            }
            Self::Network(_, compiler) => {
                let compiler = Some(compiler.to_str().unwrap().to_owned());
                Arc::new(CpuBackend::new(CpuConfig::new(search_path()).with_compiler(compiler)))
            }
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Equal(kernels, millis) => write!(f, "equal {kernels} {millis}"),
            Self::Mixed(kernels) => write!(f, "mixed {kernels}"),
            Self::Falling(kernels, millis) => write!(f, "falling {kernels} {millis}"),
            Self::Network(name, compiler) => write!(f, "network {name} {}", compiler.display()),
        }
    }
}

/// The settings of a rank.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) store: PathBuf,
    /// The directory in which processes share the number of running compilers and the times of compiles.
    pub(crate) base: PathBuf,
    pub(crate) log: PathBuf,
    pub(crate) work: Work,
    pub(crate) jobs: usize,
    pub(crate) machine_jobs: usize,
    /// The engine that hosts share, and the time to live of leases there, in milliseconds.
    pub(crate) remote: Option<(String, u64)>,
}

/// The result of a build.
pub(crate) struct Done {
    /// The number of kernels with each outcome of [`Outcome::ALL`].
    pub(crate) counts: Vec<usize>,
    /// Its processor time, without compilers that are processes.
    pub(crate) cpu: Duration,
}

/// A running rank.
pub(crate) struct Rank {
    child: Child,
    stdin: ChildStdin,
    lines: BufReader<ChildStdout>,
}

impl Rank {
    /// Starts a rank and makes it read its requests.
    pub(crate) fn start(order: &Order) -> Self {
        let Order { store, base, log, work, jobs, machine_jobs, remote } = order;
        let paths = [store, base, log].map(|path| path.to_str().unwrap().to_owned());
        let numbers = [work.to_string(), jobs.to_string(), machine_jobs.to_string()];
        let remote = remote.iter().flat_map(|(url, ttl)| [url.clone(), ttl.to_string()]);
        let arguments: Vec<String> = paths.into_iter().chain(numbers).chain(remote).collect();
        let mut child = child(&arguments).stdin(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, stdin, lines: BufReader::new(stdout) }
    }

    /// Waits until it prints that line.
    pub(crate) fn await_line(&mut self, expected: &str) {
        assert_eq!(self.line(), expected);
    }

    /// Starts its build.
    pub(crate) fn go(&mut self) {
        self.stdin.write_all(b"\n").unwrap();
    }

    /// Waits until it has built.
    pub(crate) fn done(&mut self) -> Done {
        loop {
            let line = self.line();
            if let Some(numbers) = line.strip_prefix("done") {
                let mut counts: Vec<u64> =
                    numbers.split_whitespace().map(|number| number.parse().unwrap()).collect();
                let cpu = Duration::from_micros(counts.pop().unwrap());
                return Done { counts: counts.into_iter().map(|count| count as usize).collect(), cpu };
            }
        }
    }

    pub(crate) fn end(mut self) {
        assert!(self.child.wait().unwrap().success());
    }

    /// Ends it by a signal that it cannot handle.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "a process ended early");
        line.trim_end().to_owned()
    }
}

fn tier(remote: &[String]) -> Option<RemoteConfig> {
    let [url, ttl] = remote else { return None };
    let engine = opkeep_remote::open(url, &OpenOptions::default()).unwrap();
    let mut config = RemoteConfig::new(engine);
    config.lease_ttl = Duration::from_millis(ttl.parse().unwrap());
    Some(config)
}

/// The work of a rank.
pub(crate) fn run(arguments: &[String]) {
    let [store, base, log, work, jobs, machine_jobs, remote @ ..] = arguments else {
        panic!("{arguments:?}")
    };
    let number = |text: &String| text.parse::<NonZeroUsize>().unwrap();
    let work = Work::parse(work).unwrap();
    let requests = work.requests();
    let engine = Engine::new(work.backend(Path::new(log)), Config::with_store(StoreConfig::new(store)))
        .with_config(|config| {
            config.work_dir = Some(base.into());
            config.jobs = Some(number(jobs));
            config.machine_jobs = Some(number(machine_jobs));
            config.remote = tier(remote);
        })
        .with_observer(|event| {
            if let Event::Waiting { .. } = event {
                println!("waiting");
            }
        });
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let before = own_cpu();
    let report = engine.build(&requests).unwrap();
    let cpu = own_cpu() - before;
    let counts = Outcome::ALL.map(|outcome| report.count(outcome).to_string());
    println!("done {} {}", counts.join(" "), cpu.as_micros());
}
