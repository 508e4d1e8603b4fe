//! `opkeep remote` on real servers.

use libtest_mimic::{Failed, Trial};
use opkeep_testkit::servers::{BuildGridOptions, Server, ServerKind, trial};

use crate::common::{Place, Ran, SQUARE};

pub(crate) fn trials() -> Vec<Trial> {
    let grid = ServerKind::BuildGrid(BuildGridOptions::default());
    vec![
        trial("remote/commands on Redis", ServerKind::redis(), |server| commands(&server, "proven")),
        trial("remote/commands on moto", ServerKind::Moto, |server| commands(&server, "unproven")),
        trial("remote/commands on s3s-fs", ServerKind::S3sFs, |server| commands(&server, "shared")),
        trial("remote/commands on BuildGrid", grid, |server| without_listing(&server)),
    ]
}

/// Runs commands on a server, with the access to it.
struct Remote<'a> {
    place: &'a Place,
    server: &'a Server,
}

impl Remote<'_> {
    fn run(&self, args: &[&str]) -> Ran {
        let url = self.server.url();
        let mut env: Vec<(&str, &str)> = self.server.environment();
        env.push(("OPKEEP_REMOTE", url.as_str()));
        self.place.run_with(&[&["remote"], args].concat(), &env)
    }
}

/// A place with one kernel.
fn built() -> Place {
    let place = Place::new();
    place.run(&["build", SQUARE, "--target", "cpu", "--no-kernel-meta"]).ended_with(0);
    place
}

fn commands(server: &Server, leases: &str) -> Result<(), Failed> {
    let place = built();
    let remote = Remote { place: &place, server };
    let check = remote.run(&["check", "--format", "json"]).ended_with(0).json();
    assert_eq!((&check["leases"], &check["left_behind"]), (&leases.into(), &0.into()), "{check}");
    remote.run(&["ls"]).ended_with(0).prints("there are no kernels");
    remote.run(&["push", "--all"]).ended_with(0).prints("sent 1 kernel");
    remote.run(&["ls"]).ended_with(0).prints("1 kernel");
    let stats = remote.run(&["stats", "--format", "json"]).ended_with(0).json();
    assert_eq!((&stats["objects"], &stats["not_recognised"]), (&1.into(), &0.into()), "{stats}");
    remote.run(&["gc", "--max-size", "0"]).ended_with(0).prints("that is more than the limit");
    remote.run(&["gc", "--older-than", "0s", "--dry-run"]).ended_with(0).prints("would delete 1 kernel");
    remote.run(&["gc", "--older-than", "0s"]).ended_with(0).prints("deleted 1 kernel");
    remote.run(&["stats"]).ended_with(0).prints("in all 0 objects");
    Ok(())
}

fn without_listing(server: &Server) -> Result<(), Failed> {
    let place = built();
    let remote = Remote { place: &place, server };
    let check = remote.run(&["check", "--format", "json"]).ended_with(0).json();
    assert_eq!((&check["leases"], &check["usable"]), (&"none".into(), &true.into()), "{check}");
    remote.run(&["push", "--all"]).ended_with(0).prints("sent 1 kernel");
    for command in ["ls", "stats", "gc"] {
        remote.run(&[command]).ended_with(2).says("cannot list objects").says("limits of its own");
    }
    Ok(())
}
