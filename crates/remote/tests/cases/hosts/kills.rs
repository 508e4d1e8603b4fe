//! Sixteen hosts that claim, build, publish, fetch and push the same entries, while one after the other is killed with SIGKILL, and
//! the server is out of reach now and then, so that uploads fail.
//!
//! One seed of `OPKEEP_MUTATION_SEEDS` is 420 kills, and `all` of them more than 10 000. An entry is **torn** if its bytes do not
//! decode, **wrong** if they are not those of its name, and **lost** if it was published and is not there: in the store of its host,
//! and in the server, unless a mark in the store has a later build send it. A lease is **stuck** if a key without an entry cannot be
//! built after one time to live.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use libtest_mimic::{Failed, Trial};
use opkeep_cache::store::VerifyOptions;
use opkeep_cache::{
    Claim, Digest, Entry, Lookup, Namespace, ObjectName, ObjectNames, Query, RemoteContext, RemoteEngine,
    TargetCache,
};
use opkeep_remote::{OpenOptions, open};
use opkeep_testkit::mutation_seeds;
use opkeep_testkit::proxy::{Proxy, ProxySettings};
use opkeep_testkit::servers::{Server, ServerKind, trial};

use super::host::{
    Hosts, LONGEST, Settings, TARGET, directory, is_right, key, members, request, take, text, ticket, write,
};

const HOSTS: usize = 16;
const KILLS_OF_SEED: usize = 420;
/// New entries that all hosts need come so often.
const EPOCH: Duration = Duration::from_millis(150);
const ENTRIES_OF_EPOCH: u64 = 6;
const TTL: Duration = Duration::from_millis(400);
/// Of so many kills, the server is out of reach for the last ones, of this number.
const KILLS_OF_OUTAGE: (usize, usize) = (60, 4);

pub(super) fn trials() -> Vec<Trial> {
    vec![trial("hosts::killed_hosts_tear_lose_and_hold_nothing", ServerKind::redis(), |server| {
        killed_hosts(&server)
    })]
}

/// Pseudorandom numbers from a seed (xorshift).
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(Digest::of(&seed.to_le_bytes()).prefix_u64() | 1)
    }

    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }
}

fn names_of_epoch(epoch: u64) -> Vec<String> {
    (0..ENTRIES_OF_EPOCH).map(|number| format!("e{epoch}_{number}")).collect()
}

/// The epoch of the entry whose name is the last word of a line.
fn epoch_of(line: &str) -> u64 {
    let name = line.rsplit(' ').next().and_then(|name| name.strip_prefix('e'));
    name.and_then(|name| name.split('_').next()).unwrap().parse().unwrap()
}

fn epoch() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis() / EPOCH.as_millis()).unwrap()
}

/// Works until it is killed. A panic ends the process with a failure, so that the test sees it.
pub(super) fn work(settings: &Settings) {
    let mut dice = Dice::new(std::process::id().into());
    let (_cache, target) = settings.open();
    loop {
        // The last epoch, too: its holders may be dead.
        let names = names_of_epoch(epoch() - dice.roll(2));
        match dice.roll(8) {
            0 => {
                let keys: Vec<_> = names.iter().map(|name| key(name)).collect();
                target.fetch(&keys, &Query::new(&take));
            }
            1 => {
                target.push_unsent(Some(Instant::now() + LONGEST), None);
            }
            2 => {
                let name = &names[dice.roll(ENTRIES_OF_EPOCH) as usize];
                if let Some(entry) = target.get_remote(&key(name), &Query::new(&take)) {
                    assert!(is_right(&entry, name), "{name}");
                }
            }
            _ => one(settings, &target, &names[dice.roll(ENTRIES_OF_EPOCH) as usize], &mut dice),
        }
    }
}

fn one(settings: &Settings, target: &TargetCache, name: &str, dice: &mut Dice) {
    let ticket = match ticket(request(target, name, LONGEST)) {
        Ok(ticket) => ticket,
        Err(Claim::Hit(hit)) => return assert!(is_right(&hit.entry, name), "{name}"),
        Err(other) => panic!("{name}: {other:?}"),
    };
    // The duration of a build; some are longer than a third of the time to live.
    thread::sleep(Duration::from_millis(if dice.roll(16) == 0 { 200 } else { dice.roll(8) }));
    let content = text(name);
    match dice.roll(8) {
        0 => drop(ticket),
        1 | 2 => {
            ticket.publish(&members(&content)).unwrap();
            write(&settings.log, &format!("kept {} {name}", settings.root.display()));
        }
        _ => {
            let published = ticket.publish_before(&members(&content), Instant::now() + LONGEST).unwrap();
            write(&settings.log, &format!("kept {} {name}", settings.root.display()));
            if published.remote {
                write(&settings.log, &format!("sent {name}"));
            }
        }
    }
}

fn killed_hosts(server: &Server) -> Result<(), Failed> {
    let (dir, seeds, first) = (directory(), mutation_seeds(), epoch() - 2);
    let kills = KILLS_OF_SEED * seeds.len();
    let proxy = Proxy::start(server.address())?;
    let settings = Settings::new(&dir, &server.url_at(proxy.address()), TTL);
    let of = |number| settings.numbered(&dir, number);
    let start = |number| of(number).command("kills").stderr(Stdio::inherit()).spawn().unwrap();
    let mut hosts = Hosts((0..HOSTS).map(start).collect());
    let mut dice = Dice::new(seeds.iter().map(|seed| u64::from(*seed)).sum());
    let (mut killed, mut wrong) = (0, 0);
    while killed < kills {
        thread::sleep(Duration::from_micros(dice.roll(12_000)));
        let which = dice.roll(HOSTS as u64) as usize;
        let host = &mut hosts.0[which];
        if host.try_wait()?.is_some() {
            // It found something wrong, and reported that.
            wrong += 1;
        } else {
            host.kill()?;
            host.wait()?;
            killed += 1;
            outage(&proxy, killed)?;
        }
        *host = start(which);
    }
    // At last, hosts publish entries that the server cannot have.
    set_reach(&proxy, false)?;
    let last = epoch();
    let began = Instant::now();
    while settings.logged("kept").iter().filter(|line| epoch_of(line) > last).count() < HOSTS {
        assert!(began.elapsed() < LONGEST, "no entries are built without the server");
        thread::sleep(Duration::from_millis(2));
    }
    hosts.0.iter_mut().for_each(|host| drop(host.kill()));
    drop(hosts);
    set_reach(&proxy, true)?;
    let ended = Instant::now();

    let engine = open(&server.url(), &OpenOptions::default())?;
    let names = ObjectNames::new(&Namespace::default(), TARGET).unwrap();
    let last = epoch();
    let (_cache, target) = of(HOSTS).open();
    // Every key that was in work can be built, or is there, after one time to live.
    let (mut freed, mut longest) = (0, Duration::ZERO);
    let in_work: Vec<String> = [last - 1, last].into_iter().flat_map(names_of_epoch).collect();
    let keys: Vec<_> = in_work.iter().map(|name| key(name)).collect();
    target.fetch(&keys, &Query::new(&take));
    for name in in_work {
        match ticket(request(&target, &name, LONGEST)) {
            Ok(ticket) => {
                longest = longest.max(ended.elapsed());
                freed += 1;
                drop(ticket);
            }
            Err(Claim::Hit(hit)) => assert!(is_right(&hit.entry, &name)),
            Err(other) => return Err(format!("stuck: {name}: {other:?}").into()),
        }
    }
    let by_key: BTreeMap<String, String> = (first..=last)
        .flat_map(names_of_epoch)
        .map(|name| (names.entry(&key(&name)).to_string(), name))
        .collect();
    let (mut stored, mut torn) = (BTreeMap::new(), 0);
    for (object, content) in objects(&*engine, "v1/default/cpu-x86_64/e/") {
        let name = by_key.get(object.as_str()).ok_or_else(|| format!("unknown: {object}"))?;
        match Entry::decode(content, Some(&key(name))) {
            Ok(entry) if is_right(&entry, name) => drop(stored.insert(name.clone(), ())),
            Ok(_) => wrong += 1,
            Err(_) => torn += 1,
        }
    }
    let sent = settings.logged("sent");
    let mut lost = sent.iter().filter(|name| !stored.contains_key(*name)).count();
    let (kept, mut left) = (settings.logged("kept"), 0);
    for number in 0..HOSTS {
        let settings = of(number);
        let (_cache, target) = settings.open();
        let root = format!("{} ", settings.root.display());
        let marks = target.store().unwrap().unsent();
        for name in kept.iter().filter_map(|line| line.strip_prefix(&root)) {
            match target.store().unwrap().get(&key(name)) {
                Lookup::Hit(entry) => wrong += usize::from(!is_right(&entry, name)),
                Lookup::Miss(_) => lost += 1,
            }
            if !stored.contains_key(name) {
                let is_marked = marks.iter().any(|mark| mark.key == key(name));
                left += usize::from(is_marked);
                lost += usize::from(!is_marked);
            }
        }
        torn += target.store().unwrap().verify(&VerifyOptions::default()).problems.len();
    }
    // The server deletes what is left of leases.
    let began = Instant::now();
    while !objects(&*engine, "v1/default/cpu-x86_64/l/").is_empty() {
        assert!(began.elapsed() < LONGEST, "leases are left");
        thread::sleep(Duration::from_millis(50));
    }
    let built = kept.len();
    println!(
        "{killed} kills among {HOSTS} hosts: {built} builds, {} entries sent, {} stored, {left} to be sent later; {torn} torn, \
         {lost} lost, {wrong} wrong; at the end {freed} keys without an entry were free after {longest:.1?}, the time to live is {TTL:?}",
        sent.len(),
        stored.len(),
    );
    assert_eq!((torn, lost, wrong), (0, 0, 0));
    assert!(sent.len() > kills / 8 && stored.len() > kills / 16, "too little happened");
    assert!(left > 0, "the server has what was published without it");
    Ok(())
}

/// Begins or ends an outage that is due after so many kills. A connection that is only cut would be opened again at once.
fn outage(proxy: &Proxy, killed: usize) -> Result<(), Failed> {
    let (turn, length) = KILLS_OF_OUTAGE;
    let is_reached = killed % turn < turn - length;
    if is_reached == proxy.settings().refuses {
        set_reach(proxy, is_reached)?;
    }
    Ok(())
}

fn set_reach(proxy: &Proxy, is_reached: bool) -> Result<(), Failed> {
    proxy.set(ProxySettings { refuses: !is_reached, ..ProxySettings::default() })?;
    proxy.reset_connections();
    Ok(())
}

/// The objects below `prefix`, with their contents.
fn objects(engine: &dyn RemoteEngine, prefix: &str) -> Vec<(ObjectName, Vec<u8>)> {
    let context = RemoteContext::new(Instant::now() + LONGEST, None);
    let (mut cursor, mut names) = (String::new(), Vec::new());
    loop {
        let part = engine.list(prefix, &cursor, &context).unwrap();
        names.extend(part.objects.into_iter().map(|object| object.name));
        match part.next {
            Some(next) => cursor = next,
            None => break,
        }
    }
    names.sort_unstable();
    names.dedup();
    let mut contents = Vec::new();
    engine
        .get_many(&names, &context, &mut |at, content| contents.push((names[at].clone(), content)))
        .unwrap();
    contents
}
