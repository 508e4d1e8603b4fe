//! Open MPI on two hosts: namespaces of this machine, each with a name and a disk of its own. `mpirun` reaches them as it reaches others,
//! by a command that takes the place of `ssh`.

use std::fs;

use libtest_mimic::Failed;
use opkeep_testkit::servers::{Server, namespaces_missing, program_of_system};

use super::page;
use super::scene::Scene;
use crate::common::{Ran, ran};

const HOSTS: [&str; 2] = ["m1", "m2"];
const RANKS: usize = 8;

pub(super) fn missing() -> Option<String> {
    program_of_system("mpirun").err().or_else(namespaces_missing)
}

/// The commands of the page, one after another in one shell: one process on each host, and then eight ranks.
pub(super) fn ranks(server: &Server) -> Result<(), Failed> {
    let scene = Scene::new(server);
    let commands = page::commands("MPI and torchrun");
    let all = run(&scene, &commands.join("\n"));
    scene.assert_each_compiled_once();
    scene.assert_full(&HOSTS);
    let (_, kernels) = scene.compiles();
    // Each rank builds, and trains: all kernels are there.
    let reused = format!(" {kernels} reused, 0 compiled");
    assert_eq!(all.stdout.lines().filter(|line| line.contains(&reused)).count(), 2 * RANKS, "{all:?}");
    for rank in 0..RANKS {
        let directory = scene.place.path(&format!("rank_{rank}/kernel_meta"));
        assert!(fs::read_dir(directory).unwrap().count() >= kernels, "rank {rank}");
    }
    // Ranks without anything before them, on hosts with empty stores: they compile nothing.
    HOSTS.iter().for_each(|host| fs::remove_dir_all(scene.disk(host)).unwrap());
    let variables: Vec<_> = commands[0].lines().filter(|line| line.starts_with("export ")).collect();
    run(&scene, &format!("{}\n{}", variables.join("\n"), commands[1]));
    assert_eq!(scene.compiles(), (kernels, kernels));
    scene.assert_full(&HOSTS);
    Ok(())
}

/// Runs commands of the page where jobs are started.
fn run(scene: &Scene, text: &str) -> Ran {
    scene.add_hosts(&HOSTS);
    // Each host has its own disk at this path.
    let disk = scene.place.path("disk");
    fs::create_dir_all(&disk).unwrap();
    let path = disk.display();
    scene.write("rank.sh", &path.to_string());
    let agent = format!(
        "host=$1; shift\n\
         unset OPKEEP_REMOTE OPKEEP_CACHE_DIR\n\
         export TMPDIR='{path}/tmp'\n\
         exec unshare --uts --mount sh -euc \
         'hostname \"$0\"; mount --bind \"{hosts}/$0\" \"{path}\"; exec sh -c \"$1\"' \"$host\" \"$*\"",
        hosts = scene.place.path("hosts").display(),
    );
    let agent = scene.place.script("agent", &agent);
    let hosts = scene.place.write("mpi-hosts", HOSTS.map(|host| format!("{host} slots={RANKS}\n")).concat());
    let mut command = scene.on_host("login").command("/bin/sh");
    command.args(["-euc", &scene.filled(text, &path.to_string())]).current_dir(scene.place.dir.path());
    command.env("OMPI_MCA_plm_rsh_agent", agent).env("OMPI_MCA_orte_default_hostfile", hosts);
    command.env("OMPI_MCA_oob_tcp_if_include", "lo").env("OMPI_MCA_rmaps_base_mapping_policy", "node");
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    ran(&mut command).ended_with(0)
}
