//! A Slurm cluster whose nodes are daemons on this machine.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;

use super::process::Process;
use super::{disk, installed, namespaces_missing};
use crate::port::Port;

/// The time in which all nodes answer.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);
const PROGRAMS: [&str; 8] =
    ["munged", "slurmctld", "slurmd", "sbatch", "srun", "sinfo", "squeue", "scontrol"];

/// A Slurm cluster on loopback ports of its own, with its files in a temporary directory. A job runs as the user of the test.
///
/// A node is one `slurmd`, with two processors, of which one job at a time has both. All of them are this machine: what differs is the
/// environment of their tasks. Jobs end with the cluster, and the cluster ends with the test program: a node is a namespace of processes.
pub struct SlurmCluster {
    nodes: usize,
    directory: TempDir,
    /// The nodes first: they and their jobs end before the controller and the authentication.
    processes: Vec<Process>,
    _ports: Vec<Port>,
}

impl SlurmCluster {
    /// Why no cluster can be started here; `None` if it can.
    pub fn missing() -> Option<String> {
        PROGRAMS.iter().find_map(|program| installed::of_system(program).err()).or_else(namespaces_missing)
    }

    /// Starts a cluster of `nodes` nodes, `n1` and so on, and returns as soon as all of them are ready for jobs.
    ///
    /// `task_prolog` is shell code that runs before each task, with the node's name in `SLURMD_NODENAME`. It sets a variable
    /// of the task by a line `export NAME=value` that it prints.
    ///
    /// # Errors
    /// Slurm is not installed, a daemon ends at once, or the nodes are not ready within a minute. The message has the ends of the
    /// logs.
    pub fn start(nodes: usize, task_prolog: &str) -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("opkeep-slurm-").tempdir()?;
        let ports = (0..=nodes).map(|_| Port::reserve()).collect::<io::Result<Vec<_>>>()?;
        let mut cluster = Self { nodes, directory, processes: Vec::new(), _ports: ports };
        cluster.write_configuration(task_prolog)?;
        let started = cluster.start_daemons().and_then(|()| cluster.wait_until_idle());
        started
            .map_err(|error| io::Error::new(error.kind(), format!("Slurm: {error}\n{}", cluster.logs())))?;
        Ok(cluster)
    }

    /// The names of the nodes.
    pub fn nodes(&self) -> Vec<String> {
        (1..=self.nodes).map(|number| format!("n{number}")).collect()
    }

    /// The variable that leads Slurm's commands to this cluster.
    pub fn environment(&self) -> (&'static str, PathBuf) {
        ("SLURM_CONF", self.path("slurm.conf"))
    }

    /// A command of Slurm's for this cluster.
    ///
    /// # Errors
    /// It is not installed.
    pub fn command(&self, program: &str) -> io::Result<Command> {
        let mut command = Command::new(program_of_system(program)?);
        let (name, value) = self.environment();
        command.env(name, value).current_dir(self.directory.path()).stdin(Stdio::null());
        Ok(command)
    }

    /// Waits until no job runs or waits, and returns each task with its state, such as `5_1 COMPLETED`.
    ///
    /// # Errors
    /// The queue cannot be read, or jobs are not done by the timeout.
    pub fn wait_for_jobs(&self, timeout: Duration) -> io::Result<Vec<String>> {
        let began = Instant::now();
        loop {
            let queue = text(self.command("squeue")?.args([
                "--noheader",
                "--array",
                "--states=all",
                "--format=%i %T",
            ]))?;
            let jobs: Vec<_> = queue.lines().map(|line| line.trim().to_owned()).collect();
            let is_active = |job: &String| {
                ["PENDING", "RUNNING", "CONFIGURING", "COMPLETING"].iter().any(|state| job.ends_with(state))
            };
            if !jobs.iter().any(is_active) {
                return Ok(jobs);
            }
            if began.elapsed() > timeout {
                let message = format!("jobs are not done after {timeout:?}: {jobs:?}\n{}", self.logs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            thread::sleep(POLL);
        }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.directory.path().join(file)
    }

    fn write_configuration(&self, task_prolog: &str) -> io::Result<()> {
        let user = text(Command::new("id").arg("-un"))?;
        let configuration = configuration(self.directory.path(), user.trim(), &self.nodes(), &self._ports);
        disk::write(&self.path("slurm.conf"), &configuration)?;
        disk::write(&self.path("cgroup.conf"), &format!("CgroupPlugin={}\n", cgroup_plugin()?))?;
        disk::create_dir(&self.path("state"))?;
        disk::create(&self.path("task-prolog"), &format!("#!/bin/sh\n{task_prolog}\n"), 0o755)?;
        // Any text of 32 bytes or more is a key; only this cluster has this one.
        let key = format!("{:p} {:?} {}", self, Instant::now(), "of a cluster that tests use");
        disk::create(&self.path("munge.key"), &key, 0o400)
    }

    fn start_daemons(&mut self) -> io::Result<()> {
        let mut munged = Command::new(program_of_system("munged")?);
        munged.args(["--foreground", "--force", "--num-threads=2"]);
        for (option, file) in [
            ("key-file", "munge.key"),
            ("socket", "munge.socket"),
            ("pid-file", "munge.pid"),
            ("seed-file", "munge.seed"),
            ("log-file", "munge-own.log"),
        ] {
            munged.arg(format!("--{option}={}", self.path(file).display()));
        }
        let munged = self.spawn(munged, "munged")?;
        let mut controller = Command::new(program_of_system("slurmctld")?);
        controller.args(["-D", "-i", "-f"]).arg(self.path("slurm.conf"));
        let controller = self.spawn(controller, "slurmctld")?;
        for node in self.nodes() {
            // The processes of a node see each other only, and end with its first one. That is a shell, which collects those
            // that no process waits for: Slurm counts them as running.
            let mut command = Command::new("unshare");
            command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
            command.args(["sh", "-c", "\"$0\" \"$@\" & wait"]).arg(program_of_system("slurmd")?);
            command.args(["-D", "-N", &node, "-f"]).arg(self.path("slurm.conf"));
            let process = self.spawn(command, &node)?;
            self.processes.push(process);
        }
        self.processes.extend([controller, munged]);
        Ok(())
    }

    fn spawn(&self, mut command: Command, log: &str) -> io::Result<Process> {
        command.current_dir(self.directory.path());
        Process::spawn(&mut command, &self.path(&format!("{log}.log")))
    }

    fn wait_until_idle(&mut self) -> io::Result<()> {
        let began = Instant::now();
        loop {
            let states = text(self.command("sinfo")?.args(["--noheader", "--Node", "--format=%T"]));
            let is_idle =
                |states: &String| states.lines().filter(|state| *state == "idle").count() == self.nodes;
            if states.as_ref().is_ok_and(is_idle) {
                return Ok(());
            }
            for process in &mut self.processes {
                if let Some(status) = process.status()? {
                    return Err(io::Error::other(format!("a daemon ended with {status}")));
                }
            }
            if began.elapsed() > START_TIMEOUT {
                let message = format!("the nodes are not ready: {states:?}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            thread::sleep(POLL);
        }
    }

    /// The ends of the logs of all daemons.
    pub fn logs(&self) -> String {
        let names = ["munged".to_owned(), "slurmctld".to_owned()].into_iter().chain(self.nodes());
        let log = |name: String| {
            let text = disk::text(&self.path(&format!("{name}.log"))).unwrap_or_default();
            let end = text.char_indices().rev().nth(1500).map_or(0, |(place, _)| place);
            format!("{name}: {}\n", &text[end..])
        };
        names.map(log).collect()
    }
}

impl Drop for SlurmCluster {
    /// A daemon that is asked to end collects its children first.
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.end(Signal::TERM);
        }
    }
}

impl fmt::Debug for SlurmCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nodes, directory, processes: _, _ports } = self;
        f.debug_struct("SlurmCluster")
            .field("nodes", nodes)
            .field("directory", directory)
            .finish_non_exhaustive()
    }
}

/// The configuration of a cluster without accounting, control groups and limits, that schedules at once. The first port is the
/// controller's.
fn configuration(directory: &Path, user: &str, nodes: &[String], ports: &[Port]) -> String {
    let mut text = format!(
        "\
ClusterName=opkeep
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket
CredType=cred/munge
StateSaveLocation={directory}/state
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/%n.pid
SlurmdSpoolDir={directory}/spool-%n
TaskProlog={directory}/task-prolog
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/linear
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=5
",
        port = ports[0].number(),
        directory = directory.display(),
    );
    for (node, port) in nodes.iter().zip(&ports[1..]) {
        let port = port.number();
        text += &format!("NodeName={node} NodeHostName=localhost NodeAddr=127.0.0.1 Port={port} CPUs=2\n");
    }
    text + "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"
}

/// The plugin that needs no control groups. Before Slurm 23 none can be turned off; there the first one looks for them only when it is
/// used.
fn cgroup_plugin() -> io::Result<&'static str> {
    let version = text(Command::new(program_of_system("slurmd")?).arg("-V"))?;
    let major = version.split([' ', '.']).find_map(|word| word.parse::<u32>().ok());
    Ok(if major.is_some_and(|major| major < 23) { "cgroup/v1" } else { "disabled" })
}

fn program_of_system(program: &str) -> io::Result<PathBuf> {
    installed::of_system(program).map_err(|reason| io::Error::new(io::ErrorKind::NotFound, reason))
}

/// What a command prints.
fn text(command: &mut Command) -> io::Result<String> {
    let output = command.output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
