//! Hosts with different toolchains that share one namespace of a Redis server: each takes kernels of its own toolchain only.
//! Compilers and toolkits take turns from commit to commit.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use libtest_mimic::{Failed, Trial};
use opkeep_testkit::is_turn;
use opkeep_testkit::servers::{Server, ServerKind, trial_with};
use opkeep_testkit::toolkit::{self, Installation, Toolkit};

use crate::common::crowd::{Build, LoggingCompiler, can_make, network};
use crate::common::{Place, Ran, SQUARE};
use crate::remote_hosts::{ask, hosts, start, warnings};

/// Enough for a bundle of the plan.
const KERNELS: usize = 18;

pub(crate) fn trials() -> Vec<Trial> {
    let redis = || ServerKind::redis().missing();
    let compiler = |name: &str| Command::new(name).arg("--version").output().err();
    let compilers =
        ["gcc", "clang"].into_iter().find_map(|name| Some(format!("no `{name}`: {}", compiler(name)?)));
    let python = toolkit::python().is_none().then(|| "no Python".to_owned());
    // Where one of them cannot run, the other one does so for each commit.
    let turn = |nth: usize, is_only: bool| {
        (!is_only && !is_turn(nth, 2)).then(|| "another commit's turn".to_owned())
    };
    let (compilers, python) = (
        compilers.clone().or_else(|| turn(0, python.is_some())),
        python.or_else(|| turn(1, compilers.is_some())),
    );
    vec![
        trial_with("remote_toolchains::gcc_and_clang_share_nothing", redis().or(compilers), || {
            gcc_and_clang(&Server::start(ServerKind::redis())?)
        }),
        trial_with("remote_toolchains::two_versions_of_a_toolkit_share_nothing", redis().or(python), || {
            two_toolkits(&Server::start(ServerKind::redis())?)
        }),
    ]
}

/// The compilers of the kernels in a host's store, by what is recorded beside each of the toolchain that made it.
fn compilers_of(host: &Place) -> Vec<&'static str> {
    let of = |members: &BTreeMap<String, Vec<u8>>| {
        let header = String::from_utf8_lossy(&members["header"]).into_owned();
        let names = ["gcc", "clang"].into_iter();
        names.filter(|name| header.contains(&format!("{name} version"))).collect::<Vec<_>>()
    };
    let found: BTreeSet<_> = host.members().values().flat_map(of).collect();
    found.into_iter().collect()
}

/// The number of the server's objects of a kind: entries, bundles, leases.
fn objects(server: &Server, kind: char) -> usize {
    ask(server, &format!("KEYS */{kind}/*")).len()
}

/// Real compilers. While two hosts with gcc have leases and compile, two with clang build everything, and the other way round.
fn gcc_and_clang(server: &Server) -> Result<(), Failed> {
    let place = Place::new();
    network(&place, KERNELS);
    let net = place.path("net");
    let hang = format!("until {}; do sleep 0.02; done", can_make(&place.path("go")));
    let [gcc, clang] = ["gcc", "clang"].map(|name| LoggingCompiler::of_program(&place, name, &[&hang]));
    let (with_gcc, with_clang) = (hosts::<2>(), hosts::<2>());
    gcc.does(&hang);
    let waiting = with_gcc.each_ref().map(|host| start(host, Some(&gcc), &net, server, &["--jobs", "1"]));
    gcc.await_begun(2);
    let leases = objects(server, 'l');
    let ran = with_clang.each_ref().map(|host| start(host, Some(&clang), &net, server, &[]));
    all_built_once("clang", ran, &clang);
    // Nothing of gcc was taken, waited for, or released.
    assert_eq!((gcc.compiles().0, leases, objects(server, 'l')), (2, 2, 2));
    fs::create_dir(place.path("go")).unwrap();
    all_built_once("gcc", waiting, &gcc);
    assert_eq!((objects(server, 'e'), objects(server, 'b')), (2 * KERNELS, 2));
    for (hosts, name) in [(&with_gcc, "gcc"), (&with_clang, "clang")] {
        for host in hosts {
            assert_eq!((compilers_of(host), host.entries().len()), (vec![name], KERNELS));
        }
    }
    assert!(
        with_gcc[0].members() == with_gcc[1].members() && with_clang[0].members() == with_clang[1].members()
    );
    let objects_of = |host: &Place| {
        host.members()
            .into_values()
            .map(|mut members| members.remove("object").unwrap())
            .collect::<BTreeSet<_>>()
    };
    assert!(objects_of(&with_gcc[0]).is_disjoint(&objects_of(&with_clang[0])));
    // Each later host takes the bundle of its own toolchain, one that changes its compiler as well.
    fs::rename(with_gcc[1].path("cache"), with_gcc[1].path("cache-of-gcc")).unwrap();
    let ([late_gcc, late_clang], changed) = (hosts(), &with_gcc[1]);
    for (host, cc, name) in
        [(&late_gcc, &gcc, "gcc"), (&late_clang, &clang, "clang"), (changed, &clang, "clang")]
    {
        let ran = start(host, Some(cc), &net, server, &[]).end().ended_with(0);
        assert_eq!((ran.count("from_remote"), warnings(&ran)), (KERNELS as u64, vec![]), "{name}");
        assert_eq!(compilers_of(host), [name]);
    }
    assert_eq!([gcc.compiles(), clang.compiles()], [(KERNELS, KERNELS); 2]);
    // One store may have the kernels of both.
    let ran = start(&late_gcc, Some(&clang), &net, server, &[]).end().ended_with(0);
    assert_eq!((ran.count("from_remote"), compilers_of(&late_gcc)), (KERNELS as u64, vec!["clang", "gcc"]));
    Ok(())
}

/// Waits for the builds of the hosts with a compiler, which compile each kernel once.
fn all_built_once(name: &str, builds: [Build; 2], cc: &LoggingCompiler) {
    let ran = builds.map(|build| build.end().ended_with(0));
    let sum = |outcome: &str| ran.iter().map(|ran| ran.count(outcome)).sum::<u64>();
    assert_eq!((sum("compiled"), sum("from_remote")), (KERNELS as u64, KERNELS as u64), "{name}");
    assert_eq!(ran.iter().flat_map(warnings).collect::<Vec<_>>(), [""; 0], "{name}");
    assert_eq!(cc.compiles(), (KERNELS, KERNELS), "{name}");
}

/// Starts a build with a toolkit for an Ascend chip.
fn start_with(host: &Place, toolkit: &Installation, jobs: &[PathBuf], server: &Server) -> Build {
    let mut args = vec!["build", "--target", "Ascend910B1", "--no-kernel-meta", "--format", "json"];
    args.extend(jobs.iter().map(|job| job.to_str().unwrap()));
    let mut command = host.command(&[&args[..], &["--remote", &server.url()]].concat());
    command.env("ASCEND_HOME_PATH", toolkit.root()).env("HI_PYTHON", toolkit::python().unwrap());
    Build::spawn(&mut command)
}

/// Two versions of the stand-in toolkit, and a second installation of the first.
fn two_toolkits(server: &Server) -> Result<(), Failed> {
    let place = Place::new();
    let text = fs::read_to_string(SQUARE)?;
    let relu = text.replace("Square", "Relu").replace("square", "relu");
    let jobs = [place.write("jobs/square.info", text), place.write("jobs/relu.info", relu)];
    let count = jobs.len() as u64;
    let older = Toolkit::new();
    let newer = Toolkit::new().version("8.2.RC1", "7.8.0.1.1");
    let installed = [(&older, "a"), (&older, "b"), (&newer, "c")]
        .map(|(toolkit, name)| toolkit.write(&place.path(name)).unwrap());
    let compiles = || installed.each_ref().map(|installed| installed.compiles().unwrap().len() as u64);
    let same = hosts::<2>();
    let others = hosts::<2>();
    // Four hosts at once: two with one version in two places, and two with the other version.
    let builds = [(&same[0], 0), (&same[1], 1), (&others[0], 2), (&others[1], 2)];
    let builds = builds.map(|(host, at)| start_with(host, &installed[at], &jobs, server));
    let ran: Vec<Ran> = builds.into_iter().map(|build| build.end().ended_with(0)).collect();
    let sum = |ran: &[Ran], outcome: &str| ran.iter().map(|ran| ran.count(outcome)).sum::<u64>();
    let (first, second) = ran.split_at(2);
    for ran in [first, second] {
        assert_eq!((sum(ran, "compiled"), sum(ran, "from_remote")), (count, count));
        assert_eq!(ran.iter().flat_map(warnings).collect::<Vec<_>>(), [""; 0]);
    }
    let [a, b, c] = compiles();
    assert_eq!((a + b, c, objects(server, 'e')), (count, count, 2 * count as usize));
    assert!(same[0].members() == same[1].members() && others[0].members() == others[1].members());
    let keys = |host: &Place| host.members().into_keys().collect::<BTreeSet<_>>();
    assert!(keys(&same[0]).is_disjoint(&keys(&others[0])));
    // Later hosts compile nothing, and have the kernels of their version.
    for (at, of) in [(0, &same[0]), (1, &same[0]), (2, &others[0])] {
        let late = Place::new();
        let ran = start_with(&late, &installed[at], &jobs, server).end().ended_with(0);
        assert_eq!((ran.count("from_remote"), warnings(&ran)), (count, vec![]));
        assert!(late.members() == of.members());
    }
    assert_eq!(compiles(), [a, b, c]);
    Ok(())
}
