//! Question: what does it cost to fetch the kernels of a build from a Redis into an empty local store, compared with the least work?
//!
//! The floor is the sum of what cannot be left out, on one connection and one thread: one `MGET`, SHA-256 of each entry, the
//! validator on each kernel, and a put of each into an empty store. Both sides are connected before, and take turns. Then the same
//! call goes through a proxy, which counts the round trips.
//!
//! At last, many hosts fetch the same kernels at the same moment: threads, each with a connection and a store of its own. On few
//! processors, their time is that of all their work; so the server's part of it is shown, which is what hosts share.
//!
//! Budgets: 1.2 times the floor; 2 round trips. Many hosts have none.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a benchmark that cannot be set up has no figures")]
#![expect(clippy::print_stdout, reason = "the table is what this is for")]

mod common;
#[path = "common/remote_kernels.rs"]
mod remote_kernels;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use opkeep_benches::{Budgets, Figure, Turns, directory, is_measured, thousands};
use opkeep_cache::{Digest, Entry, ObjectName, Query, RemoteEngine};
use opkeep_testkit::proxy::{Proxy, ProxySettings};
use opkeep_testkit::servers::{Server, ServerKind};

use remote_kernels::{Stored, accept, cache, engine, fetch, kernels, keys, least_work, names, print, store};

const BUDGET: f64 = 1.2;
const ROUND_TRIPS: u64 = 2;
const HOSTS: usize = 100;

fn main() {
    if let Some(missing) = ServerKind::redis().missing() {
        println!("left out: {missing}");
        return;
    }
    let kernels = kernels();
    let server = Server::start(ServerKind::redis()).unwrap();
    let engine = engine(&server.url());
    let bytes = store(&engine, &kernels);

    let mut budgets = Budgets::default();
    let mut floor = Floor::new(server.address(), &names(&kernels));
    let mut parts = [const { Vec::new() }; 4];
    let turns = Turns::take(
        Duration::from_secs(6),
        [&mut || least_work(&kernels, || floor.get(), &mut parts), &mut || fetch(&engine, &kernels)],
    );
    let ratios @ [low, ratio, high] = turns.ratio(1, 0);
    let verdict = budgets.judge(ratios, BUDGET);
    print(&kernels, bytes, &turns, "MGET", parts);
    println!(
        "  fetch {:.1?}, {low:.2} {ratio:.2} {high:.2} times the floor: {BUDGET} {verdict}",
        turns.median(1)
    );
    let figure = Figure::new("remote_fetch", "warm fetch from Redis").entries(kernels.len()).bytes(bytes);
    let figure = figure.times(turns.median(1), turns.median(0)).ratio(ratios);
    figure.budget(format!("{BUDGET} times"), [ratio, BUDGET], verdict).note();

    let trips = round_trips(&server, &kernels);
    let verdict = budgets.judge_count(trips, ROUND_TRIPS);
    println!("  round trips {trips}: {ROUND_TRIPS} {verdict}");
    let figure = Figure::new("remote_fetch", "warm fetch from Redis: round trips").entries(kernels.len());
    let limits = [trips as f64, ROUND_TRIPS as f64];
    figure.value("round trips", trips as f64).budget(format!("{ROUND_TRIPS}"), limits, verdict).note();

    let hosts = if is_measured() { HOSTS } else { 3 };
    println!("{hosts} hosts at once");
    at_once("entry by entry", hosts, &server, &kernels);
    store_bundle(&engine, &kernels);
    at_once("by bundle", hosts, &server, &kernels);
    budgets.settle();
}

/// The number of round trips of a fetch with a new connection.
fn round_trips(server: &Server, kernels: &[Stored]) -> u64 {
    let proxy = Proxy::start(server.address()).unwrap();
    proxy.set(ProxySettings::default()).unwrap();
    fetch(&engine(&server.url_at(proxy.address())), kernels);
    proxy.counts().round_trips
}

/// What a server counted so far: the bytes that it sent, its commands, and its processor time in seconds.
struct Counted {
    sent: f64,
    commands: f64,
    cpu: f64,
}

impl Counted {
    fn ask(server: &Server) -> Self {
        let mut stream = BufReader::new(TcpStream::connect(server.address()).unwrap());
        stream.get_mut().write_all(b"INFO\r\n").unwrap();
        let mut text = vec![0; number(&mut stream, b'$')];
        stream.read_exact(&mut text).unwrap();
        let text = String::from_utf8_lossy(&text).into_owned();
        let field = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.unwrap_or_else(|| panic!("{name}: {text}")).parse::<f64>().unwrap()
        };
        let (sent, commands) = (field("total_net_output_bytes"), field("total_commands_processed"));
        Self { sent, commands, cpu: field("used_cpu_user") + field("used_cpu_sys") }
    }
}

/// Hosts that fetch the kernels at the same moment, each into an empty store.
fn at_once(way: &str, hosts: usize, server: &Server, kernels: &[Stored]) {
    let (ready, go) = (Barrier::new(hosts + 1), Barrier::new(hosts + 1));
    let (before, took, mut times) = thread::scope(|scope| {
        let host = || {
            let (directory, engine, keys) = (directory().unwrap(), engine(&server.url()), keys(kernels));
            let cache = cache(directory.path(), &engine);
            let accept = |entry: &Entry| {
                accept(entry, kernels.iter().find(|kernel| kernel.key == *entry.key()).unwrap())
            };
            let query = Query::new(&accept);
            // Each is connected before.
            assert!(cache.get_remote(&Digest::of(b"none"), &query).is_none());
            ready.wait();
            go.wait();
            let began = Instant::now();
            let report = cache.fetch(&keys, &query);
            assert_eq!((report.fetched.len(), report.missing.len()), (kernels.len(), 0));
            (began.elapsed(), report.bytes, directory)
        };
        let running: Vec<_> = (0..hosts).map(|_| scope.spawn(host)).collect();
        ready.wait();
        let (before, began) = (Counted::ask(server), Instant::now());
        go.wait();
        let done: Vec<_> = running.into_iter().map(|host| host.join().unwrap()).collect();
        let took = began.elapsed();
        // The directories are removed after the time.
        (before, took, done.iter().map(|(time, bytes, _)| (*time, *bytes)).collect::<Vec<_>>())
    });
    let after = Counted::ask(server);
    times.sort_unstable();
    let [sent, commands, cpu] =
        [after.sent - before.sent, after.commands - before.commands, after.cpu - before.cpu];
    let (median, bytes) = times[times.len() / 2];
    println!(
        "  {way}: {took:.1?} until the last, {median:.1?} median of a host; {} bytes for each host, {:.1} MB from the server \
         in {commands} commands, which took it {:.2} ms of processor time for each host",
        thousands(bytes),
        sent / 1e6,
        cpu * 1e3 / hosts as f64,
    );
    let figure = Figure::new("remote_fetch", format!("{hosts} hosts at once, {way}")).entries(kernels.len());
    figure.bytes(bytes as usize).value("s", took.as_secs_f64()).note();
}

/// Stores the bundle of the plan, as the first host does that finishes it.
fn store_bundle(engine: &Arc<dyn RemoteEngine>, kernels: &[Stored]) {
    let directory = directory().unwrap();
    let cache = cache(directory.path(), engine);
    let accept =
        |entry: &Entry| accept(entry, kernels.iter().find(|kernel| kernel.key == *entry.key()).unwrap());
    cache.fetch(&keys(kernels), &Query::new(&accept));
    // Few kernels, as when nothing is measured, have no bundle.
    assert_eq!(cache.share_plans(None, None), usize::from(kernels.len() >= 16));
}

/// Reads the head of an answer.
fn number(stream: &mut impl BufRead, kind: u8) -> usize {
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    assert_eq!(line.as_bytes()[0], kind, "{line}");
    line[1..].trim_end().parse().unwrap()
}

/// The least work, with a connection of its own.
struct Floor {
    stream: BufReader<TcpStream>,
    request: Vec<u8>,
}

impl Floor {
    fn new(address: SocketAddr, names: &[ObjectName]) -> Self {
        let mut request = format!("*{}\r\n$4\r\nMGET\r\n", names.len() + 1).into_bytes();
        for name in names {
            let name = format!("opkeep/{name}");
            write!(request, "${}\r\n{name}\r\n", name.len()).unwrap();
        }
        let stream = BufReader::with_capacity(64 << 10, TcpStream::connect(address).unwrap());
        Self { stream, request }
    }

    fn get(&mut self) -> Vec<Vec<u8>> {
        self.stream.get_mut().write_all(&self.request).unwrap();
        (0..number(&mut self.stream, b'*'))
            .map(|_| {
                let mut file = vec![0; number(&mut self.stream, b'$') + 2];
                self.stream.read_exact(&mut file).unwrap();
                file.truncate(file.len() - 2);
                file
            })
            .collect()
    }
}
