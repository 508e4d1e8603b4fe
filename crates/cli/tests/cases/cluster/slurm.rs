//! Slurm: real daemons, whose nodes have directories for disks.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use libtest_mimic::Failed;
use opkeep_testkit::servers::{Server, SlurmCluster};

use super::page;
use super::scene::Scene;
use crate::common::crowd::{can_make, until};
use crate::common::{Ran, ran};
use crate::remote_hosts::ask;

const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];
/// The disk of the node on which a shell runs.
const DISK: &str = "$NODE_DISK";
const TIMEOUT: Duration = Duration::from_secs(120);
/// The question for the leases in a Redis, and the answer if there are none.
const LEASES: &str = "KEYS *l/*";
/// The directory for which a compiler waits.
const GO: &str = "go";
const NONE: Vec<String> = Vec::new();

pub(super) fn missing() -> Option<String> {
    SlurmCluster::missing()
}

/// A cluster whose nodes have the disks of the scene's hosts.
fn cluster(scene: &Scene) -> Result<SlurmCluster, Failed> {
    let disks = scene.place.path("hosts");
    let disks = disks.display();
    let prolog = format!(
        "echo \"export NODE_DISK={disks}/$SLURMD_NODENAME\"\necho \"export TMPDIR={disks}/$SLURMD_NODENAME/tmp\""
    );
    Ok(SlurmCluster::start(NODES.len(), &prolog)?)
}

/// A scene with a compiler that can wait for the directory [`GO`].
fn hanging(server: &Server) -> (Scene, String) {
    Scene::with_behavior(server, |place| format!("until {}; do sleep 0.02; done", can_make(&place.path(GO))))
}

/// Runs commands of the page where its scripts are, as a user who submits jobs.
fn submit(scene: &Scene, cluster: &SlurmCluster, text: &str) -> Ran {
    let mut command = scene.on_host("login").command("/bin/sh");
    let (name, configuration) = cluster.environment();
    command.args(["-euc", text]).env(name, configuration).current_dir(scene.place.dir.path());
    ran(&mut command).ended_with(0)
}

/// Waits for all jobs, asserts that each task succeeded, and returns their number.
fn finished(scene: &Scene, cluster: &SlurmCluster) -> Result<usize, Failed> {
    let jobs = cluster.wait_for_jobs(TIMEOUT)?;
    let failed: Vec<_> = jobs.iter().filter(|job| !job.ends_with(" COMPLETED")).collect();
    assert!(failed.is_empty(), "{failed:?}\n{}", outputs(scene.place.dir.path()));
    Ok(jobs.len())
}

/// What the tasks printed.
fn outputs(directory: &Path) -> String {
    outputs_of(directory, |_| true)
}

/// The same of the files with these names. The name of an array's task has the numbers of the array and of the task.
fn outputs_of(directory: &Path, is_of: impl Fn(&str) -> bool) -> String {
    let paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let is_output = |path: &PathBuf| {
        path.extension().is_some_and(|it| it == "out") && is_of(&path.file_name().unwrap().to_string_lossy())
    };
    let mut paths: Vec<_> = paths.filter(is_output).collect();
    paths.sort();
    paths.iter().map(|path| fs::read_to_string(path).unwrap()).collect()
}

pub(super) fn array_and_job(server: &Server) -> Result<(), Failed> {
    let (scene, hang) = hanging(server);
    scene.add_hosts(&NODES);
    let cluster = cluster(&scene)?;
    scene.write("prewarm.sbatch", DISK);
    scene.write("train.sbatch", DISK);
    let [text] = page::commands("Slurm")[..] else { return Err("one block".into()) };
    scene.cc.does(&hang);
    submit(&scene, &cluster, text);
    // Each task has a node to itself, and no compile ends before the nodes of two tasks take part.
    until("two nodes that compile", || scene.compiling_hosts().len() > 1);
    fs::create_dir(scene.place.path(GO))?;
    // Four tasks of the array, and the job.
    assert_eq!(finished(&scene, &cluster)?, 5);
    scene.assert_each_compiled_once();
    let (_, kernels) = scene.compiles();
    // The job's two nodes had every kernel, or took it from the engine; then each of its four tasks found it in the store of its node.
    let reused = format!(" {kernels} reused, 0 compiled");
    let printed = outputs_of(scene.place.dir.path(), |name| !name.contains('_'));
    assert_eq!(printed.lines().filter(|line| line.contains(&reused)).count(), 2 + 4, "{printed}");

    // An array on nodes with empty stores: all kernels come from the engine.
    let mut used = 0;
    for node in NODES {
        used += usize::from(scene.entries(node) > 0);
        fs::remove_dir_all(scene.disk(node)).unwrap();
    }
    scene.add_hosts(&NODES);
    assert!(used > 1, "one node did all tasks");
    submit(&scene, &cluster, "sbatch prewarm.sbatch");
    assert_eq!(finished(&scene, &cluster)?, 9);
    assert_eq!(scene.compiles(), (kernels, kernels));
    assert!(NODES.iter().all(|node| [0, kernels].contains(&scene.entries(node))));
    assert!(NODES.iter().any(|node| scene.entries(node) == kernels));
    Ok(())
}

/// `scancel` reaches the build, which releases its leases: another host compiles at once, and waits for no time to live.
pub(super) fn cancelled_task(server: &Server) -> Result<(), Failed> {
    let (scene, hang) = hanging(server);
    scene.add_hosts(&NODES);
    let cluster = cluster(&scene)?;
    scene.write("prewarm.sbatch", DISK);
    scene.cc.does(&hang);
    submit(&scene, &cluster, "sbatch --array=1 prewarm.sbatch");
    scene.cc.await_begun(1);
    assert_ne!(ask(server, LEASES), NONE);
    submit(&scene, &cluster, "scancel --name=prewarm");
    let jobs = cluster.wait_for_jobs(TIMEOUT)?;
    assert!(jobs.iter().all(|job| job.ends_with(" CANCELLED")) && jobs.len() == 1, "{jobs:?}");
    assert_eq!(ask(server, LEASES), NONE, "{}", outputs(scene.place.dir.path()));
    scene.cc.does("");
    let begun = scene.cc.begun().len();
    submit(&scene, &cluster, "sbatch --array=1 prewarm.sbatch");
    assert!(cluster.wait_for_jobs(TIMEOUT)?.iter().any(|job| job.ends_with(" COMPLETED")));
    let (_, kernels) = scene.compiles();
    assert_eq!(scene.cc.begun().len() - begun, kernels);
    Ok(())
}
