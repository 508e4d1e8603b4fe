//! Hosts that share a cache through a Redis server, each with a store, a work directory and job tokens of its own.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;

use libtest_mimic::{Failed, Trial};
use opkeep_testkit::servers::{RedisOptions, Server, ServerKind, trial, trial_with};
use opkeep_testkit::{Port, corpus, is_turn};
use rustix::process::Signal;
use serde_json::Value;

use crate::common::crowd::{Build, LoggingCompiler, can_make, network};
use crate::common::{Place, Ran, SQUARE, ran};

const RESNET_18: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/networks/resnet18/model.onnx");
const HOSTS: usize = 8;
const KERNELS: usize = 12;

pub(crate) fn trials() -> Vec<Trial> {
    let redis = ServerKind::redis;
    let without_corpus = corpus::directory().is_none().then(|| "no corpus".to_owned());
    // The same as with the smaller network, for one commit of four.
    let other_turn = (!is_turn(2, 4)).then(|| "another commit's turn".to_owned());
    let kept = |options: RedisOptions| ServerKind::Redis(options);
    vec![
        trial("remote_hosts::eight_hosts_compile_each_kernel_once", redis(), |server| {
            eight_hosts(&server, Path::new(RESNET_18), 33)
        }),
        trial_with(
            "remote_hosts::eight_hosts_compile_each_kernel_of_resnet_50_once",
            without_corpus.or(other_turn).or_else(|| redis().missing()),
            move || {
                let model = corpus::directory().ok_or("no corpus")?.join("onnx/light_resnet50.onnx");
                eight_hosts(&Server::start(redis())?, &model, 56)
            },
        ),
        trial("remote_hosts::a_killed_host_costs_one_compile", redis(), |server| killed_host(&server)),
        trial("remote_hosts::an_interrupted_host_releases_its_leases", redis(), |server| {
            interrupted_host(&server)
        }),
        trial(
            "remote_hosts::a_server_that_is_killed_and_comes_back",
            kept(RedisOptions { is_persistent: true, ..RedisOptions::default() }),
            restarted_server,
        ),
        trial("remote_hosts::a_server_that_stops_answering", redis(), |server| stopped_server(&server)),
        trial(
            "remote_hosts::a_server_with_a_megabyte",
            kept(RedisOptions { memory: Some((1 << 20, "allkeys-lru")), ..RedisOptions::default() }),
            |server| full_server(&server),
        ),
        trial("remote_hosts::a_host_that_reads_sends_no_write", redis(), |server| reading_host(&server)),
        trial_with(
            "remote_hosts::a_server_of_a_cluster_is_one_warning",
            redis().missing(),
            server_of_a_cluster,
        ),
        trial("remote_hosts::explain_asks_once_and_writes_nothing", redis(), |server| explained(&server)),
        trial("remote_hosts::off_connects_to_nothing", redis(), |server| no_connection(&server)),
    ]
}

/// The hosts that use a server.
pub(crate) fn hosts<const N: usize>() -> [Place; N] {
    std::array::from_fn(|_| Place::new())
}

/// Starts a build of `input` on a host.
pub(crate) fn start(
    host: &Place,
    cc: Option<&LoggingCompiler>,
    input: &Path,
    server: &Server,
    args: &[&str],
) -> Build {
    let input = input.to_str().unwrap();
    let own = ["build", input, "--target", "cpu", "--no-kernel-meta", "--format", "json", "--remote"];
    let mut command = host.command(&[&own[..], &[&server.url()], args].concat());
    command.envs(cc.map(|cc| ("CC", &cc.path)));
    Build::spawn(&mut command)
}

fn build(host: &Place, cc: &LoggingCompiler, input: &Path, server: &Server, args: &[&str]) -> Ran {
    start(host, Some(cc), input, server, args).end().ended_with(0)
}

pub(crate) fn warnings(ran: &Ran) -> Vec<Value> {
    ran.json()["warnings"].as_array().unwrap().clone()
}

/// The statistics of a host's store.
fn stats(host: &Place) -> Value {
    host.run(&["stats", "--format", "json"]).ended_with(0).json()
}

/// Sends a command, and returns the lines of the reply: of a text or of a list of texts.
pub(crate) fn ask(server: &Server, command: &str) -> Vec<String> {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    write!(stream, "{command}\r\n").unwrap();
    let mut reader = BufReader::new(stream);
    let mut next = || {
        let mut head = String::new();
        reader.read_line(&mut head).unwrap();
        let (kind, rest) = head.trim_end().split_at(1);
        let number = rest.parse::<usize>().unwrap_or_default();
        match kind {
            "$" => {
                let mut text = vec![0; number + 2];
                reader.read_exact(&mut text).unwrap();
                (0, String::from_utf8_lossy(&text[..number]).into_owned())
            }
            "*" => (number, String::new()),
            _ => (0, rest.to_owned()),
        }
    };
    match next() {
        (0, text) => text.lines().map(str::to_owned).collect(),
        (count, _) => (0..count).map(|_| next().1).collect(),
    }
}

/// Each host has other files; together they compile each kernel once, and all have the same entries.
fn eight_hosts(server: &Server, model: &Path, kernels: u64) -> Result<(), Failed> {
    let hosts = hosts::<HOSTS>();
    let builds: Vec<Build> = hosts.iter().map(|host| start(host, None, model, server, &[])).collect();
    let ran: Vec<Ran> = builds.into_iter().map(|build| build.end().ended_with(0)).collect();
    let sum = |outcome: &str| ran.iter().map(|ran| ran.count(outcome)).sum::<u64>();
    let outcomes = [sum("compiled"), sum("from_remote")];
    let all: Vec<_> = ran.iter().flat_map(warnings).collect();
    assert_eq!((outcomes, all), ([kernels, 7 * kernels], vec![]));
    // What the builds report adds up: each kernel was sent once, and received seven times, waited for or not.
    let of = |field: &str| ran.iter().map(|ran| ran.json()["remote"][field].as_u64().unwrap()).sum::<u64>();
    let figures = ["sent", "received", "takeovers", "failed_calls", "uploads_unsent"].map(of);
    assert_eq!(figures, [kernels, 7 * kernels, 0, 0, 0]);
    assert_eq!(of("by_other_hosts"), sum("shared"), "{ran:?}");
    assert!(of("host_waits") >= of("by_other_hosts"));
    for (host, ran) in hosts.iter().zip(&ran) {
        let (total, own) = (&stats(host)["total"], &ran.json()["remote"]);
        let same = |stored: &str, reported: &str| total[stored] == own[reported];
        assert!(same("remote_hits", "received") && same("remote_bytes_sent", "bytes_sent"), "{total} {own}");
        assert!(same("remote_bytes_received", "bytes_received") && same("host_waits", "host_waits"));
    }
    let first = hosts[0].members();
    assert_eq!(first.len() as u64, kernels);
    assert!(hosts.iter().all(|host| host.members() == first));
    // A counter, which expires, says to hosts that finish now that the bundle is stored.
    assert_eq!((ask(server, "KEYS *b/*").len(), ask(server, "KEYS *l/*")), (1, vec![]), "leases are left");
    // One more host compiles nothing.
    let late = Place::new();
    let ran = start(&late, None, model, server, &[]).end().ended_with(0);
    assert_eq!((ran.count("from_remote"), late.members() == first), (kernels, true));
    Ok(())
}

/// A compiler that hangs until it may go on, for as long as `does(&hang)` holds.
fn hanging_compiler(place: &Place) -> (LoggingCompiler, String) {
    let hang = format!("until {}; do sleep 0.02; done", can_make(&place.path("go")));
    (LoggingCompiler::with_behaviors(place, &[&hang]), hang)
}

fn killed_host(server: &Server) -> Result<(), Failed> {
    let [killed, one, two, three] = hosts();
    network(&killed, KERNELS);
    let (cc, hang) = hanging_compiler(&killed);
    cc.does(&hang);
    let net = killed.path("net");
    let build = start(&killed, Some(&cc), &net, server, &["--jobs", "1"]);
    cc.await_begun(1);
    cc.does("");
    let others = [&one, &two, &three].map(|host| start(host, Some(&cc), &net, server, &[]));
    // They wait for the kernel of the first one.
    cc.await_begun(KERNELS);
    build.send(Signal::KILL);
    drop(build);
    let ran = others.map(|build| build.end().ended_with(0));
    let all: Vec<_> = ran.iter().flat_map(warnings).collect();
    assert_eq!((cc.compiles(), all), ((KERNELS + 1, KERNELS), vec![]));
    // One of them took over; all of them waited for the killed one, and one for the one that took over.
    let sum = |field: &str| ran.iter().map(|ran| ran.json()["remote"][field].as_u64().unwrap()).sum::<u64>();
    assert_eq!(sum("takeovers"), 1);
    assert!(sum("host_waits") >= 3, "{ran:?}");
    for (host, ran) in [&one, &two, &three].iter().zip(&ran) {
        let lost = ran.json()["lost"]["host_ms"].as_f64().unwrap();
        // The lease lasts for 30 s, and their own compiles take a few seconds at most.
        assert!(lost > 10_000.0 && lost <= ran.json()["elapsed_ms"].as_f64().unwrap(), "{ran:?}");
        assert_eq!(stats(host)["total"]["lost_host_ms"].as_f64().unwrap(), lost);
    }
    assert!([&one, &two, &three].iter().all(|host| host.entries().len() == KERNELS));
    Ok(())
}

fn interrupted_host(server: &Server) -> Result<(), Failed> {
    let [host, other] = hosts();
    network(&host, KERNELS);
    let (cc, hang) = hanging_compiler(&host);
    cc.does(&hang);
    let net = host.path("net");
    for signal in [Signal::INT, Signal::TERM] {
        let begun = cc.begun().len();
        let build = start(&host, Some(&cc), &net, server, &["--jobs", "1"]);
        cc.await_begun(begun + 1);
        assert_eq!(ask(server, "KEYS *l/*").len(), 1);
        build.send(signal);
        build.end().ended_with(130);
        assert_eq!(ask(server, "KEYS *l/*"), Vec::<String>::new());
    }
    cc.does("");
    assert_eq!(build(&other, &cc, &net, server, &[]).count("compiled"), KERNELS as u64);
    Ok(())
}

/// Builds go on without the server. Once it is back, what was compiled meanwhile is sent by the next build.
fn restarted_server(mut server: Server) -> Result<(), Failed> {
    let [one, two, three] = hosts();
    network(&one, KERNELS);
    let (cc, hang) = hanging_compiler(&one);
    let net = one.path("net");
    cc.does(&hang);
    let builds = [&one, &two].map(|host| start(host, Some(&cc), &net, &server, &["--jobs", "1"]));
    cc.await_begun(2);
    server.kill()?;
    cc.does("");
    fs::create_dir(one.path("go")).unwrap();
    for ran in builds.map(|build| build.end().ended_with(0)) {
        let warnings = warnings(&ran);
        assert_eq!((ran.count("kernels"), ran.count("failed"), warnings.len()), (KERNELS as u64, 0, 1));
        let warning = warnings[0].as_str().unwrap_or_default();
        assert!(warning.contains("the remote cache"), "{warning}");
    }
    assert!([&one, &two].iter().all(|host| host.entries().len() == KERNELS));
    server.restart()?;
    let again = build(&one, &cc, &net, &server, &[]);
    assert_eq!((again.count("reused"), warnings(&again)), (KERNELS as u64, vec![]));
    let before = cc.compiles().0;
    let ran = build(&three, &cc, &net, &server, &[]);
    assert_eq!((ran.count("from_remote"), cc.compiles().0 - before), (KERNELS as u64, 0));
    Ok(())
}

/// A server that takes connections and never answers: a build waits for it once, and not until a call takes too long.
fn stopped_server(server: &Server) -> Result<(), Failed> {
    let [host] = hosts();
    network(&host, KERNELS);
    let cc = LoggingCompiler::new(&host, "");
    server.suspend()?;
    let ran = build(&host, &cc, &host.path("net"), server, &[]);
    server.resume()?;
    let warnings = warnings(&ran);
    assert_eq!((ran.count("compiled"), warnings.len()), (KERNELS as u64, 1), "{ran:?}");
    let warning = warnings[0].as_str().unwrap_or_default();
    assert!(warning.contains("sent nothing for 2.0 s"), "{warning}");
    Ok(())
}

/// The server refuses most of what it is sent, and forgets the rest, leases too.
fn full_server(server: &Server) -> Result<(), Failed> {
    let hosts = hosts::<3>();
    network(&hosts[0], KERNELS);
    let cc = LoggingCompiler::new(&hosts[0], "");
    let net = hosts[0].path("net");
    let builds = hosts.each_ref().map(|host| start(host, Some(&cc), &net, server, &[]));
    for ran in builds.map(|build| build.end().ended_with(0)) {
        assert_eq!((ran.count("failed"), ran.count("kernels")), (0, KERNELS as u64));
        assert!(warnings(&ran).len() <= 1, "{ran:?}");
    }
    assert!(hosts.iter().all(|host| host.entries().len() == KERNELS));
    let (all, distinct) = cc.compiles();
    assert!(distinct == KERNELS && all <= hosts.len() * KERNELS, "{all} {distinct}");
    Ok(())
}

/// The commands that a server counted, without those that ask about it.
fn commands(server: &Server) -> Vec<String> {
    let lines = ask(server, "INFO commandstats");
    let name = |line: &String| Some(line.strip_prefix("cmdstat_")?.split(':').next()?.to_owned());
    let asks = |name: &String| !["info", "config|resetstat", "keys"].contains(&name.as_str());
    lines.iter().filter_map(name).filter(asks).collect()
}

fn reading_host(server: &Server) -> Result<(), Failed> {
    let [one, other] = hosts();
    network(&one, KERNELS);
    let cc = LoggingCompiler::new(&one, "");
    build(&one, &cc, &one.path("net"), server, &[]);
    network(&other, KERNELS + 3);
    ask(server, "CONFIG RESETSTAT");
    let ran = build(&other, &cc, &other.path("net"), server, &["--remote-mode", "read"]);
    assert_eq!((ran.count("from_remote"), ran.count("compiled")), (KERNELS as u64, 3));
    let reads = ["hello", "client|setname", "client|setinfo", "select", "ping", "get", "mget", "strlen"];
    let others: Vec<_> =
        commands(server).into_iter().filter(|name| !reads.contains(&name.as_str())).collect();
    assert_eq!(others, Vec::<String>::new());
    Ok(())
}

/// A host that lacks all kernels asks for them in one command, and only reads.
fn explained(server: &Server) -> Result<(), Failed> {
    let [one, other] = hosts();
    network(&one, KERNELS);
    let cc = LoggingCompiler::new(&one, "");
    build(&one, &cc, &one.path("net"), server, &[]);
    network(&other, KERNELS + 3);
    ask(server, "CONFIG RESETSTAT");
    let (net, url) = (other.path("net"), server.url());
    let mut explain = other.command(&[
        "explain",
        net.to_str().unwrap(),
        "--target",
        "cpu",
        "--format",
        "json",
        "--remote",
        &url,
    ]);
    let found = ran(explain.env("CC", &cc.path)).ended_with(0).json();
    let states: Vec<_> =
        found["kernels"].as_array().unwrap().iter().map(|it| &it["remote"]["state"]).collect();
    let count = |state: &str| states.iter().filter(|found| **found == state).count();
    assert_eq!((count("available"), count("absent")), (KERNELS, 3), "{found}");
    let lines = ask(server, "INFO commandstats");
    let calls = lines.iter().find_map(|line| line.strip_prefix("cmdstat_mget:calls=")?.split(',').next());
    assert_eq!(calls, Some("1"), "{lines:?}");
    let reads = ["hello", "client|setname", "client|setinfo", "select", "ping", "mget"];
    let others: Vec<_> =
        commands(server).into_iter().filter(|name| !reads.contains(&name.as_str())).collect();
    assert_eq!((others, cc.compiles().0, other.path("cache").exists()), (vec![], KERNELS, false));
    // A server that is down is a note.
    server.suspend()?;
    let silent = ran(explain.env("CC", &cc.path));
    server.resume()?;
    let silent = silent.ended_with(0).says("note: it is not known what the remote cache has");
    assert_eq!(silent.json()["kernels"][0]["remote"]["state"], "unknown");
    Ok(())
}

/// Commands that use a remote cache connect to none if a flag, the variable or the mode of the store says so, and to the same one
/// otherwise.
fn no_connection(server: &Server) -> Result<(), Failed> {
    let [one] = hosts();
    network(&one, 1);
    let cc = LoggingCompiler::new(&one, "");
    let (url, net) = (server.url(), one.path("net"));
    let connections = || {
        let lines = ask(server, "INFO stats");
        let line = lines.iter().find_map(|line| line.strip_prefix("total_connections_received:"));
        line.and_then(|count| count.parse::<u64>().ok()).unwrap()
    };
    let net = net.to_str().unwrap();
    for command in [&["build", net][..], &["explain", net], &["run", SQUARE, "--input-values", "1,2,3"]] {
        // On a host that lacks all kernels.
        let connects = |args: &[&str], mode: &str| {
            let host = Place::new();
            let mut process = host.command(&[command, &["--target", "cpu"], args].concat());
            let variables = [("CC", &*cc.path), ("OPKEEP_REMOTE", &url), ("OPKEEP_REMOTE_MODE", mode)];
            // An empty mode is an error.
            let variables = variables.into_iter().filter(|(_, value)| !value.is_empty());
            let before = connections();
            ran(process.envs(variables)).ended_with(0);
            // This question is a connection.
            connections() > before + 1
        };
        for (args, mode) in [
            (&[][..], "off"),
            (&["--remote-mode", "off"], ""),
            (&["--remote-mode", "off"], "read-write"),
            (&["--cache-mode", "disable"], ""),
        ] {
            assert!(!connects(args, mode), "{command:?} {args:?} {mode}");
        }
        for (args, mode) in [(&[][..], ""), (&["--remote-mode", "read"], "off")] {
            assert!(connects(args, mode), "{command:?} {args:?} {mode}");
        }
    }
    Ok(())
}

/// A cluster of one server, which has all keys, and refuses each call for two of them.
fn server_of_a_cluster() -> Result<(), Failed> {
    let bus = Port::reserve()?;
    let arguments =
        ["--cluster-enabled", "yes", "--cluster-port", &bus.number().to_string()].map(str::to_owned);
    let options = RedisOptions { arguments: arguments.to_vec(), ..RedisOptions::default() };
    let server = Server::start(ServerKind::Redis(options))?;
    let [host] = hosts();
    network(&host, KERNELS);
    let cc = LoggingCompiler::new(&host, "");
    for slots in ["PING", "CLUSTER ADDSLOTSRANGE 0 16383"] {
        ask(&server, slots);
        let ran = build(&Place::new(), &cc, &host.path("net"), &server, &[]);
        let warnings = warnings(&ran);
        assert_eq!((ran.count("compiled"), warnings.len()), (KERNELS as u64, 1), "{ran:?}");
        let warning = warnings[0].as_str().unwrap_or_default();
        assert!(warning.contains("one of a Redis Cluster"), "{warning}");
        let ran = host.run(&["remote", "check", &server.url()]).ended_with(2);
        ran.says("one of a Redis Cluster");
    }
    Ok(())
}
