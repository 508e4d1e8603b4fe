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

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use opkeep_artifact::Expectations;
use opkeep_benches::{Budgets, Figure, Turns, directory, is_measured, thousands};
use opkeep_cache::{
    Accept, Cache, CacheConfig, Digest, Entry, EntryBuilder, Namespace, ObjectName, ObjectNames, Query,
    RemoteConfig, RemoteContext, RemoteEngine, RemoteObject, TargetCache,
};
use opkeep_remote::OpenOptions;
use opkeep_testkit::ascend::{Chip, Kernel};
use opkeep_testkit::proxy::{Proxy, ProxySettings};
use opkeep_testkit::servers::{Server, ServerKind};
use opkeep_validator::{RULES_VERSION, expectations_of, validate};

use common::{AMPLE, config};

const TARGET: &str = "ascend910";
const KERNELS: usize = 148;
const KERNEL_BYTES: usize = 15 << 10;
const BUDGET: f64 = 1.2;
const ROUND_TRIPS: u64 = 2;
const HOSTS: usize = 100;

/// One kernel of the build.
struct Stored {
    key: Digest,
    json: Vec<u8>,
    object: Vec<u8>,
    expectations: Expectations,
}

impl Stored {
    fn new(number: usize) -> Self {
        let pair = Kernel::new(Chip::Ascend910, &format!("kernel_{number}"));
        let pair = pair.code_bytes(KERNEL_BYTES - 2500 + number).build();
        let expectations = expectations_of(Some(&pair.json), &pair.object);
        let key = Digest::of(pair.stem.as_bytes());
        Self { key, json: pair.json, object: pair.object, expectations }
    }

    fn members(&self) -> EntryBuilder<'_> {
        EntryBuilder::new(RULES_VERSION).eager("json", &self.json).eager("object", &self.object)
    }
}

fn main() {
    if let Some(missing) = ServerKind::redis().missing() {
        println!("left out: {missing}");
        return;
    }
    let kernels: Vec<Stored> = (0..if is_measured() { KERNELS } else { 5 }).map(Stored::new).collect();
    let server = Server::start(ServerKind::redis()).unwrap();
    let engine = engine(&server.url());
    let names = names(&kernels);
    let files: Vec<Vec<u8>> =
        kernels.iter().map(|kernel| kernel.members().encode(&kernel.key).unwrap()).collect();
    let objects: Vec<_> =
        names.iter().zip(&files).map(|(name, file)| RemoteObject::new(name, file)).collect();
    let context = RemoteContext::new(Instant::now() + Duration::from_secs(60), None);
    engine.put_if_absent(&objects, &context).unwrap();

    let mut budgets = Budgets::default();
    let mut floor = Floor::new(server.address(), &names);
    let mut parts = [const { Vec::new() }; 4];
    let turns = Turns::take(
        Duration::from_secs(6),
        [&mut || floor.run(&kernels, &mut parts), &mut || fetch(&engine, &kernels)],
    );
    let parts = parts.map(|mut times: Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2]
    });
    let ratios @ [low, ratio, high] = turns.ratio(1, 0);
    let verdict = budgets.judge(ratios, BUDGET);
    let bytes: usize = files.iter().map(Vec::len).sum();
    println!("{} kernels, {} bytes in all; {} turns", kernels.len(), thousands(bytes as u64), turns.count());
    println!(
        "  floor {:.1?}: MGET {:.1?}, SHA-256 {:.1?}, validator {:.1?}, puts {:.1?}",
        turns.median(0),
        parts[0],
        parts[1],
        parts[2],
        parts[3]
    );
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

fn engine(url: &str) -> Arc<dyn RemoteEngine> {
    opkeep_remote::open(url, &OpenOptions::default()).unwrap()
}

fn names(kernels: &[Stored]) -> Vec<ObjectName> {
    let names = ObjectNames::new(&Namespace::default(), TARGET).unwrap();
    kernels.iter().map(|kernel| names.entry(&kernel.key)).collect()
}

fn keys(kernels: &[Stored]) -> Vec<Digest> {
    kernels.iter().map(|kernel| kernel.key).collect()
}

fn cache(root: &std::path::Path, engine: &Arc<dyn RemoteEngine>) -> TargetCache {
    let mut settings = CacheConfig::new(config(root, AMPLE));
    settings.is_for_others = |_| true;
    settings.remote = Some(RemoteConfig::new(Arc::clone(engine)));
    settings.on_warning = Some(Arc::new(|kind, text| panic!("{kind:?}: {text}")));
    Cache::open(settings).unwrap().target(TARGET).unwrap()
}

/// The time of a fetch into a new store.
fn fetch(engine: &Arc<dyn RemoteEngine>, kernels: &[Stored]) -> Duration {
    let directory = directory().unwrap();
    let (cache, keys) = (cache(directory.path(), engine), keys(kernels));
    let accept = |entry: &Entry| {
        let kernel = kernels.iter().find(|kernel| kernel.key == *entry.key()).unwrap();
        accept(entry, kernel)
    };
    let query = Query::new(&accept);
    let began = Instant::now();
    let report = cache.fetch(&keys, &query);
    let took = began.elapsed();
    assert_eq!((report.fetched.len(), report.missing.len()), (kernels.len(), 0));
    took
}

fn accept(entry: &Entry, kernel: &Stored) -> Accept {
    let (json, object) = (entry.member("json").unwrap(), entry.member("object").unwrap());
    match validate(json, object, &kernel.expectations).is_valid() {
        true => Accept::Validated { stamp: RULES_VERSION, renewed: Vec::new() },
        false => panic!("the kernel is not valid"),
    }
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

    /// The sum of all parts, each of which is added to `parts`.
    fn run(&mut self, kernels: &[Stored], parts: &mut [Vec<Duration>; 4]) -> Duration {
        let directory = directory().unwrap();
        let store = common::open(config(directory.path(), AMPLE));
        let mut times = Vec::new();
        let mut began = Instant::now();
        let mut lap = || {
            let now = Instant::now();
            times.push(now - std::mem::replace(&mut began, now));
        };
        let files = self.get();
        lap();
        let digests: Vec<_> = files.iter().map(|file| Digest::of(file)).collect();
        lap();
        let are_valid = kernels
            .iter()
            .all(|kernel| validate(&kernel.json, &kernel.object, &kernel.expectations).is_valid());
        lap();
        for kernel in kernels {
            store.put(&kernel.key, &kernel.members()).unwrap();
        }
        lap();
        assert!(are_valid && digests.len() == kernels.len());
        parts.iter_mut().zip(&times).for_each(|(all, time)| all.push(*time));
        times.iter().sum()
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
