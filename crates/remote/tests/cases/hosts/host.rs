//! A host: this program, started again with a role.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use opkeep_cache::{
    Accept, Cache, CacheConfig, Claim, Digest, Entry, EntryBuilder, Query, RemoteConfig, Source, StoreConfig,
    TargetCache, Ticket, Wait,
};
use opkeep_remote::{OpenOptions, open};
use tempfile::TempDir;

/// The first argument of this program when it is a host.
pub(crate) const CHILD: &str = "--host";

/// The target of all entries.
pub(super) const TARGET: &str = "cpu-x86_64";

/// The longest wait of a test. Reaching it is a failure.
pub(super) const LONGEST: Duration = Duration::from_secs(60);

/// The settings of a host.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// The directory of its store.
    pub(super) root: PathBuf,
    pub(super) url: String,
    pub(super) ttl: Duration,
    /// The file to which all hosts append what they did.
    pub(super) log: PathBuf,
    /// The number of entries of the build.
    pub(super) entries: usize,
    /// The time of each compile.
    pub(super) compile: Duration,
}

impl Settings {
    /// Starts a host in this role.
    pub(super) fn command(&self, role: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([CHILD, role]).args([&self.root, &self.log]).arg(&self.url);
        command.args(
            [self.ttl.as_millis(), self.entries as u128, self.compile.as_millis()].map(|it| it.to_string()),
        );
        command.stdin(Stdio::null());
        command
    }

    fn parse(arguments: &[String]) -> Self {
        let [root, log, url, ttl, entries, compile] = arguments else { panic!("{arguments:?}") };
        let time = |text: &str| Duration::from_millis(text.parse().unwrap());
        Self {
            root: root.into(),
            url: url.clone(),
            ttl: time(ttl),
            log: log.into(),
            entries: entries.parse().unwrap(),
            compile: time(compile),
        }
    }

    /// The cache of this host, and the warnings, which go to the log.
    pub(super) fn open(&self) -> (Cache, TargetCache) {
        let mut config = CacheConfig::new(StoreConfig::new(&self.root));
        let mut remote = RemoteConfig::new(open(&self.url, &OpenOptions::default()).unwrap());
        remote.lease_ttl = self.ttl;
        config.remote = Some(remote);
        config.is_for_others = |_| true;
        let log = self.log.clone();
        config.on_warning =
            Some(Arc::new(move |kind, text| write(&log, &format!("warning {kind:?} {text}"))));
        let cache = Cache::open(config).unwrap();
        let target = cache.target(TARGET).unwrap();
        (cache, target)
    }

    /// The same host with another directory in `dir`.
    pub(super) fn numbered(&self, dir: &TempDir, number: usize) -> Self {
        Self { root: dir.path().join(format!("host{number}")), ..self.clone() }
    }

    pub(super) fn new(dir: &TempDir, url: &str, ttl: Duration) -> Self {
        let log = dir.path().join("log");
        fs::write(&log, "").unwrap();
        let (root, compile) = (dir.path().join("host"), Duration::from_millis(20));
        Self { root, url: url.to_owned(), ttl, log, entries: 12, compile }
    }

    /// The second words of the lines of the log that begin with `first`.
    pub(super) fn logged(&self, first: &str) -> Vec<String> {
        let log = fs::read_to_string(&self.log).unwrap();
        let words = log.lines().filter_map(|line| line.split_once(' '));
        words.filter(|(word, _)| *word == first).map(|(_, rest)| rest.to_owned()).collect()
    }
}

/// A directory in memory, if there is one: a store has hundreds of directories.
pub(super) fn directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Appends a line in one step.
pub(super) fn write(log: &Path, line: &str) {
    let mut log = fs::OpenOptions::new().append(true).open(log).unwrap();
    log.write_all(format!("{}\n", line.replace('\n', " ")).as_bytes()).unwrap();
}

pub(super) fn key(name: &str) -> Digest {
    Digest::of(name.as_bytes())
}

/// The content of the entry of `name`, which it has twice: a kernel of 15 KiB.
pub(super) fn text(name: &str) -> String {
    format!("{name};").repeat(7500 / (name.len() + 1))
}

pub(super) fn members(text: &str) -> EntryBuilder<'_> {
    EntryBuilder::new(7).eager("object", text.as_bytes()).lazy("header", text.as_bytes())
}

/// Whether the entry is that of `name`.
pub(super) fn is_right(entry: &Entry, name: &str) -> bool {
    let text = text(name);
    entry.member("object") == Some(text.as_bytes())
        && entry.lazy_member("header").is_ok_and(|header| header == Some(text.as_bytes()))
}

/// Takes every entry, whose validation it records.
pub(super) fn take(_: &Entry) -> Accept {
    Accept::Validated { stamp: 7, renewed: Vec::new() }
}

/// Requests `name`, and waits for other hosts for at most `time`.
pub(super) fn request(target: &TargetCache, name: &str, time: Duration) -> Claim {
    let mut query = Query::new(&take);
    query.deadline = Instant::now().checked_add(time);
    query.wait = Wait::ForHolder { on_wait: None };
    target.get_or_begin(&key(name), &query).unwrap()
}

/// Returns the ticket of a claim that is to be built.
#[expect(clippy::result_large_err, reason = "a claim without a ticket is what the caller wants to see")]
pub(super) fn ticket(claim: Claim) -> Result<Ticket, Claim> {
    match claim {
        Claim::Build(ticket) | Claim::Unshared(ticket, _) => Ok(ticket),
        other => Err(other),
    }
}

/// Processes that end with the test, whether or not it passes.
#[derive(Default)]
pub(super) struct Hosts(pub(super) Vec<Child>);

impl Hosts {
    /// Waits until all have ended well.
    pub(super) fn finish(mut self) {
        for host in &mut self.0 {
            assert!(host.wait().unwrap().success());
        }
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in &mut self.0 {
            let _ = host.kill();
            let _ = host.wait();
        }
    }
}

/// Does what the arguments say: `ROLE ROOT LOG URL TTL ENTRIES COMPILE`.
pub(crate) fn other_process(arguments: &[String]) {
    let (role, settings) = (&arguments[0], Settings::parse(&arguments[1..]));
    match role.as_str() {
        "build" => build(&settings),
        "hold" => hold(&settings),
        "kills" => super::kills::work(&settings),
        other => panic!("{other}"),
    }
}

/// The name of an entry of the build.
pub(super) fn name(number: usize) -> String {
    format!("kernel {number}")
}

/// Builds all entries, as an engine does: fetches, then begins each, and waits for those of other hosts.
pub(super) fn build(settings: &Settings) {
    let (cache, target) = settings.open();
    let names: Vec<String> = (0..settings.entries).map(name).collect();
    let keys: Vec<_> = names.iter().map(|name| key(name)).collect();
    target.fetch(&keys, &Query::new(&take));
    let first = std::process::id() as usize % names.len().max(1);
    let mut pending = Vec::new();
    for at in 0..names.len() {
        let name = &names[(first + at) % names.len()];
        let claim = target.get_or_begin(&key(name), &Query::new(&take)).unwrap();
        pending.extend(finish(settings, name, claim).map(|pending| (name, pending)));
    }
    let began = Instant::now();
    while !pending.is_empty() {
        assert!(began.elapsed() < LONGEST, "{} entries are pending", pending.len());
        std::thread::sleep(Duration::from_millis(2));
        for (name, key) in std::mem::take(&mut pending) {
            let claim = target.resume(key, &Query::new(&take)).unwrap();
            pending.extend(finish(settings, name, claim).map(|pending| (name, pending)));
        }
    }
    let left = cache.finish_uploads(Instant::now() + Duration::from_secs(10), None);
    write(&settings.log, &format!("left {left}"));
    // Every entry is here, whatever became of the server.
    for name in &names {
        let found = target.store().unwrap().get(&key(name));
        let opkeep_cache::Lookup::Hit(entry) = found else { panic!("{name} is lost: {found:?}") };
        assert!(is_right(&entry, name), "{name}");
    }
}

fn finish(settings: &Settings, name: &str, claim: Claim) -> Option<opkeep_cache::PendingKey> {
    let ticket = match ticket(claim) {
        Ok(ticket) => ticket,
        Err(Claim::Hit(hit)) => {
            assert!(is_right(&hit.entry, name), "{name}");
            let from = if hit.source == Source::Remote { "remote" } else { "local" };
            write(&settings.log, &format!("hit {from}"));
            return None;
        }
        Err(Claim::Pending(pending)) => return Some(pending),
        Err(other) => panic!("{other:?}"),
    };
    std::thread::sleep(settings.compile);
    ticket.publish(&members(&text(name))).unwrap();
    write(&settings.log, &format!("built {name}"));
    None
}

/// Takes a ticket, reports that, and never ends.
fn hold(settings: &Settings) {
    let (_cache, target) = settings.open();
    let _ticket = ticket(request(&target, &name(0), LONGEST)).unwrap();
    write(&settings.log, "held -");
    std::thread::sleep(Duration::from_secs(600));
}
