//! `opkeep remote` on real servers.
#![expect(clippy::unwrap_used, reason = "these tests are functions without `#[test]`")]

use std::io::Write;
use std::net::TcpStream;

use libtest_mimic::{Failed, Trial};
use opkeep_testkit::servers::{
    BuildGridOptions, CertificateKind, Server, ServerKind, TestAuthority, TlsFiles, trial, trial_with,
};

use crate::common::{Place, Ran, SQUARE};

pub(crate) fn trials() -> Vec<Trial> {
    let grid = ServerKind::BuildGrid(BuildGridOptions::default());
    vec![
        trial("remote/commands on Redis", ServerKind::redis(), |server| commands(&server, "proven")),
        trial("remote/a user of one namespace", ServerKind::redis(), |server| one_namespace(&server)),
        trial("remote/commands on moto", ServerKind::Moto, |server| commands(&server, "unproven")),
        trial("remote/commands on s3s-fs", ServerKind::S3sFs, |server| commands(&server, "shared")),
        trial("remote/commands on BuildGrid", grid.clone(), |server| without_listing(&server)),
        trial_with(
            "remote/certificates of clients",
            grid.missing().or_else(TestAuthority::missing),
            certificates,
        ),
    ]
}

/// A server that demands a certificate. With the right one, a build uses it; with none or an expired one, it warns once and goes on.
fn certificates() -> Result<(), Failed> {
    let authority = TestAuthority::create()?;
    let files = authority.issue(CertificateKind::Valid)?.for_known_clients();
    let server = Server::start_with_tls(ServerKind::BuildGrid(BuildGridOptions::default()), files)?;
    let url = server.url();
    let ca = authority.certificate();
    let build = |client: Option<&TlsFiles>| {
        let mut env = vec![("OPKEEP_REMOTE", url.as_str()), ("OPKEEP_REMOTE_TLS_CA", ca.to_str().unwrap())];
        if let Some(files) = client {
            env.push(("OPKEEP_REMOTE_TLS_CERTIFICATE", files.certificate.to_str().unwrap()));
            env.push(("OPKEEP_REMOTE_TLS_KEY", files.key.to_str().unwrap()));
        }
        let args = ["build", SQUARE, "--target", "cpu", "--format", "json"];
        let place = Place::new();
        let ran = place.run_with(&args, &env).ended_with(0);
        let warnings = ran.json()["warnings"].as_array().unwrap().clone();
        // The API has no exclusive create, which a build that sends kernels reports once.
        let warnings = warnings.iter().filter(|text| !text.as_str().unwrap().contains("exclusively")).count();
        let exit_code = place.run_with(&["remote", "check"], &env).code;
        (ran.count("compiled"), ran.count("from_remote"), warnings, exit_code)
    };
    let valid = authority.issue_for_client(CertificateKind::Valid)?;
    let expired = authority.issue_for_client(CertificateKind::Expired)?;
    assert_eq!(build(None), (1, 0, 1, Some(2)));
    assert_eq!(build(Some(&valid)), (1, 0, 0, Some(0)));
    assert_eq!(build(Some(&valid)), (0, 1, 0, Some(0)));
    assert_eq!(build(Some(&expired)), (1, 0, 1, Some(2)));
    Ok(())
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
    remote.run(&["ls"]).ended_with(0).prints("has no kernels");
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

/// Credentials that reach one namespace: the check says what to name, and works with it.
fn one_namespace(server: &Server) -> Result<(), Failed> {
    let rights = "+mget +get +set +del +unlink +incrby +pexpire +eval +scan +object +memory";
    let mut stream = TcpStream::connect(server.address())?;
    write!(stream, "ACL SETUSER team on >hunter2 ~opkeep/v1/team/* {rights}\r\nQUIT\r\n")?;
    std::io::copy(&mut stream, &mut std::io::sink())?;
    let place = built();
    let url = format!("redis://team:hunter2@{}", server.address());
    let refused = place.run(&["remote", "check", &url]).ended_with(2);
    refused.says("NOPERM").says("--remote-namespace NAME checks there");
    let team = ["--remote-namespace", "team"];
    let checked = place.run(&[&["remote", "check", &url], &team[..]].concat()).ended_with(0);
    checked.prints("usable: hosts share kernels, and compile each once");
    let checked = place.run_with(&["remote", "check", &url], &[("OPKEEP_REMOTE_NAMESPACE", "team")]);
    checked.ended_with(0);
    for command in [&["remote", "push", &url, "--all"][..], &["remote", "gc", &url]] {
        place.run(&[command, &team].concat()).ended_with(0);
    }
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
