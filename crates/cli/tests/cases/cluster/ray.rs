//! Ray: real nodes on this machine.

use std::path::PathBuf;

use libtest_mimic::Failed;
use opkeep_testkit::servers::{Server, program_of_tests};

use super::scene::Scene;
use crate::common::ran;

/// Starts a cluster whose nodes have disks and environments of their own, and runs the page's program in it.
const CLUSTER: &str = r#"
import os
import runpy
import sys

import ray
from ray.cluster_utils import Cluster

program, *disks = sys.argv[1:]
cluster = Cluster()
for number, disk in enumerate(disks):
    variables = {"OPKEEP_CACHE_DIR": f"{disk}/opkeep", "TMPDIR": f"{disk}/tmp"}
    # A node's processes have the environment in which it is started.
    os.environ.update(variables)
    head = {"include_dashboard": False} if number == 0 else {}
    cluster.add_node(num_cpus=1, object_store_memory=80_000_000, **head)
cluster.wait_for_nodes()
os.environ["RAY_ADDRESS"] = cluster.address
try:
    runpy.run_path(program, run_name="__main__")
finally:
    ray.shutdown()
    cluster.shutdown()
"#;

pub(super) fn missing() -> Option<String> {
    // Its command, beside the Python that has it.
    program_of_tests("ray").err()
}

pub(super) fn task_on_each_node(server: &Server) -> Result<(), Failed> {
    let scene = Scene::new(server);
    let program = scene.write("prewarm.py", "");
    let python: PathBuf = program_of_tests("python")?;
    let run = |hosts: [&str; 2]| {
        let mut command = scene.on_host(hosts[0]).command(python.to_str().unwrap());
        scene.add_hosts(&hosts);
        command.args(["-c", CLUSTER]).arg(&program).args(hosts.map(|host| scene.disk(host)));
        // It reports nothing about its use to its makers.
        ran(command.env("RAY_USAGE_STATS_ENABLED", "0")).ended_with(0)
    };
    let first = run(["a", "b"]);
    scene.assert_each_compiled_once();
    scene.assert_full(&["a", "b"]);
    assert_eq!(first.stdout.lines().filter(|line| line.contains(" compiled, ")).count(), 2, "{first:?}");
    let (_, kernels) = scene.compiles();
    run(["c", "d"]);
    assert_eq!(scene.compiles(), (kernels, kernels));
    scene.assert_full(&["c", "d"]);
    Ok(())
}
