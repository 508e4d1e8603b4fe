//! `docs/cluster.md`: each launcher runs what the page says, with hosts that are directories of this machine.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod kubernetes;
mod mpi;
mod page;
mod ray;
mod scene;
mod slurm;

use libtest_mimic::{Failed, Trial};
use opkeep_testkit::is_turn;
use opkeep_testkit::servers::{Server, ServerKind, trial_with};

use scene::Scene;

/// A trial on a Redis of its own.
type Test = fn(&Server) -> Result<(), Failed>;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![
        Trial::test("cluster/each block of the page is run", || {
            page::has_no_other_blocks(
                &[
                    "prewarm.sbatch",
                    "train.sbatch",
                    "prewarm.yaml",
                    "train.yaml",
                    "bundle.yaml",
                    "prewarm.py",
                    "rank.sh",
                ],
                &[
                    ("The same command on each host", 1),
                    ("Slurm", 1),
                    ("MPI and torchrun", 2),
                    ("Keys and credentials", 1),
                ],
            );
            Ok(())
        }),
        trial_with(
            "cluster/Kubernetes: manifests fit the schemas",
            kubernetes::missing_validator(),
            kubernetes::schemas,
        ),
    ];
    // The packages of these take a minute to install, and starting them takes seconds: one commit of four does that.
    let other_turn = || (!is_turn(0, 4)).then(|| "another commit's turn".to_owned());
    let launched: [(&str, Option<String>, Test); 6] = [
        ("the same command on each host, and keys", None, same_command_and_keys),
        ("Slurm: an array, and the job after it", other_turn().or_else(slurm::missing), slurm::array_and_job),
        ("Slurm: a cancelled task", other_turn().or_else(slurm::missing), slurm::cancelled_task),
        ("Kubernetes: containers", kubernetes::missing(), kubernetes::containers),
        ("Ray", other_turn().or_else(ray::missing), ray::task_on_each_node),
        ("MPI", other_turn().or_else(mpi::missing), mpi::ranks),
    ];
    for (name, missing, test) in launched {
        let missing = missing.or_else(|| ServerKind::redis().missing());
        let run = move || test(&Server::start(ServerKind::redis())?);
        trials.push(trial_with(format!("cluster/{name}"), missing, run));
    }
    trials
}

/// Three hosts run the commands at the same time, and a fourth one later. Then the commands with keys.
fn same_command_and_keys(server: &Server) -> Result<(), Failed> {
    let scene = Scene::new(server);
    let [build] = page::commands("The same command on each host")[..] else { return Err("one block".into()) };
    let hosts = ["a", "b", "c"];
    let started = hosts.map(|host| scene.on_host(host).start("/bin/sh", &["-euc", build]));
    for host in started {
        host.end().ended_with(0);
    }
    scene.assert_each_compiled_once();
    scene.on_host("late").start("/bin/sh", &["-euc", build]).end().ended_with(0).prints(" 0 compiled");
    scene.assert_each_compiled_once();
    scene.assert_full(&["a", "b", "c", "late"]);

    // None of these kernels is signed: the signer compiles all of them once more, and the consumer takes the signer's.
    let (_, kernels) = scene.compiles();
    let [keys] = page::commands("Keys and credentials")[..] else { return Err("one block".into()) };
    let with_url = format!("export OPKEEP_REMOTE={}\n{keys}", page::ENGINE);
    let ran = scene.on_host("keys").start("/bin/sh", &["-euc", &with_url]).end().ended_with(0);
    assert_eq!(scene.compiles(), (2 * kernels, kernels), "{ran:?}");
    let built: Vec<_> = ran.stdout.lines().filter(|line| line.contains(" compiled, ")).collect();
    assert!(built.len() == 2 && built[1].contains(" 0 compiled, "), "{ran:?}");
    Ok(())
}
