//! Some of the hosts, with one connection and one thread. They run when an answer arrives or a timer ends.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use opkeep_cache::lease::{LeaseBatch, Question};

use crate::host::{Alarm, Call, Host, LONGEST};
use crate::plan::Plan;
use crate::redis::{ADVANCE, Pipeline, RELEASE, RENEW};

/// A pause if there is nothing to do.
const PAUSE: Duration = Duration::from_micros(100);
/// A request has at most so many names, as a real client's: the server does nothing else meanwhile.
const MOST_KEYS: usize = 512;

/// What was counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) requests: u64,
    pub(crate) hints: u64,
    pub(crate) batches: u64,
    pub(crate) names: u64,
    pub(crate) claims: u64,
    pub(crate) refused_claims: u64,
    pub(crate) renewals: u64,
    pub(crate) compiles: u64,
    pub(crate) unleased: u64,
    pub(crate) killed: u64,
    /// The number of hints in each second.
    pub(crate) hints_in_second: Vec<u64>,
    /// The longest time that an answer took.
    pub(crate) slowest: Duration,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.hints += other.hints;
        self.batches += other.batches;
        self.names += other.names;
        self.claims += other.claims;
        self.refused_claims += other.refused_claims;
        self.renewals += other.renewals;
        self.compiles += other.compiles;
        self.unleased += other.unleased;
        self.killed += other.killed;
        self.slowest = self.slowest.max(other.slowest);
        let length = self.hints_in_second.len().max(other.hints_in_second.len());
        self.hints_in_second.resize(length, 0);
        self.hints_in_second.iter_mut().zip(&other.hints_in_second).for_each(|(own, other)| *own += other);
    }
}

/// What a host uses: the connection, the timers and the counts of its shard.
pub(crate) struct Line<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) counts: Counts,
    pipeline: Pipeline,
    calls: VecDeque<(usize, Instant, Call)>,
    alarms: BinaryHeap<Reverse<(Instant, usize, Alarm)>>,
    host: usize,
    began: Instant,
    random: u64,
}

impl Line<'_> {
    pub(crate) fn now(&self) -> Instant {
        Instant::now()
    }

    /// Returns a pseudorandom number (xorshift).
    pub(crate) fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn set(&mut self, at: Option<Instant>, host: usize, alarm: Alarm) {
        self.alarms.extend(at.map(|at| Reverse((at, host, alarm))));
    }

    fn sent(&mut self, call: Call) {
        self.counts.requests += 1;
        let now = self.now();
        self.calls.push_back((self.host, now, call));
    }

    pub(crate) fn get<'n>(&mut self, names: impl ExactSizeIterator<Item = &'n [u8]>, call: Call) {
        assert!(names.len() <= MOST_KEYS);
        self.counts.names += names.len() as u64;
        self.pipeline.begin(1 + names.len());
        self.pipeline.word(b"MGET");
        names.for_each(|name| self.pipeline.encoded_word(name));
        self.sent(call);
    }

    pub(crate) fn ask(&mut self, batch: LeaseBatch, call: impl FnOnce(LeaseBatch) -> Call) {
        let plan = self.plan;
        let kernels: Vec<_> = batch.keys().iter().map(|key| &plan.kernels[plan.index(key)]).collect();
        let name = |question: &Question| match *question {
            Question::Lease { key, generation, .. } => &kernels[key].leases[generation as usize][..],
            Question::Entry { key, .. } => &kernels[key].entry[..],
            _ => panic!("{question:?}"),
        };
        let names: Vec<_> = batch.questions().iter().map(name).collect();
        self.counts.batches += 1;
        self.get(names.into_iter(), call(batch));
    }

    pub(crate) fn claim(&mut self, kernel: usize, generation: u64, value: &str) {
        let keep_for = (self.plan.ttl * 4).as_millis().to_string();
        self.pipeline.begin(7);
        self.pipeline.word(b"SET");
        self.pipeline.encoded_word(&self.plan.kernels[kernel].leases[generation as usize]);
        // Answers with the existing value, or with nothing if it was set.
        for word in [value, "NX", "GET", "PX", &keep_for] {
            self.pipeline.word(word.as_bytes());
        }
        self.counts.claims += 1;
        let asked = self.now();
        self.sent(Call::Claim { kernel, generation, asked });
    }

    pub(crate) fn put(&mut self, entry: &[u8], call: Call) {
        self.pipeline.begin(4);
        self.pipeline.word(b"SET");
        self.pipeline.encoded_word(entry);
        self.pipeline.word(b"x");
        self.pipeline.word(b"NX");
        self.sent(call);
    }

    fn script(&mut self, text: &str, key: &[u8], arguments: &[&str], call: Call) {
        self.pipeline.begin(4 + arguments.len());
        self.pipeline.word(b"EVAL");
        self.pipeline.word(text.as_bytes());
        self.pipeline.word(b"1");
        self.pipeline.encoded_word(key);
        arguments.iter().for_each(|argument| self.pipeline.word(argument.as_bytes()));
        self.sent(call);
    }

    pub(crate) fn renew(&mut self, lease: &[u8], value: &str, call: Call) {
        let keep_for = (self.plan.ttl * 4).as_millis().to_string();
        self.counts.renewals += 1;
        self.script(RENEW, lease, &[value, &keep_for], call);
    }

    pub(crate) fn release(&mut self, lease: &[u8], token: &str) {
        self.script(RELEASE, lease, &[token], Call::Release);
    }

    pub(crate) fn advance(&mut self) {
        let keep_for = (self.plan.ttl * 4).as_millis().to_string();
        let counter = &self.plan.counter;
        self.script(ADVANCE, counter, &[&keep_for], Call::Advance);
    }

    pub(crate) fn hint(&mut self) {
        self.counts.hints += 1;
        let second = self.began.elapsed().as_secs() as usize;
        if self.counts.hints_in_second.len() <= second {
            self.counts.hints_in_second.resize(second + 1, 0);
        }
        self.counts.hints_in_second[second] += 1;
        self.pipeline.begin(2);
        self.pipeline.word(b"GET");
        self.pipeline.encoded_word(&self.plan.counter);
        self.sent(Call::Hint);
    }
}

/// What all shards share.
pub(crate) struct Run<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) address: SocketAddr,
    pub(crate) began: Instant,
    /// The number of hosts that have not ended.
    pub(crate) left: &'a AtomicUsize,
    pub(crate) is_over: &'a AtomicBool,
}

/// Runs the hosts `numbers`. Returns the counts, and the time at which the last of them had all kernels.
pub(crate) fn run(run: &Run<'_>, numbers: impl Iterator<Item = usize>) -> (Counts, Option<Instant>) {
    let numbers: Vec<usize> = numbers.collect();
    let mut places = std::collections::HashMap::new();
    let mut hosts: Vec<Host> = numbers
        .iter()
        .enumerate()
        .map(|(place, number)| {
            places.insert(*number, place);
            Host::new(*number, run.plan)
        })
        .collect();
    let mut line = Line {
        plan: run.plan,
        counts: Counts::default(),
        pipeline: Pipeline::open(run.address),
        calls: VecDeque::new(),
        alarms: numbers.iter().map(|number| Reverse((run.began, *number, Alarm::Start))).collect(),
        host: 0,
        began: run.began,
        random: 0x9e37_79b9_7f4a_7c15 ^ (numbers.first().map_or(0, |first| *first as u64) + 1),
    };
    let mut ended = vec![false; hosts.len()];
    while !run.is_over.load(Ordering::SeqCst) {
        assert!(run.began.elapsed() < LONGEST, "the hosts do not end: {:?}", line.counts);
        let mut did_anything = line.pipeline.exchange();
        while let Some(reply) = line.pipeline.reply() {
            let (number, asked, call) = line.calls.pop_front().unwrap();
            line.counts.slowest = line.counts.slowest.max(asked.elapsed());
            line.host = number;
            hosts[places[&number]].answered(call, reply, &mut line);
            end(&hosts, &mut ended, places[&number], run);
            did_anything = true;
        }
        let now = line.now();
        // Answers are not left waiting while many timers end.
        for _ in 0..256 {
            let Some(Reverse((at, number, alarm))) = line.alarms.peek().copied() else { break };
            if at > now {
                break;
            }
            line.alarms.pop();
            line.host = number;
            hosts[places[&number]].ring(alarm, &mut line);
            end(&hosts, &mut ended, places[&number], run);
            did_anything = true;
        }
        if !did_anything {
            thread::sleep(PAUSE);
        }
    }
    let last = hosts.iter().filter(|host| !host.is_dead()).map(|host| host.finished.unwrap()).max();
    (line.counts, last)
}

fn end(hosts: &[Host], ended: &mut [bool], place: usize, run: &Run<'_>) {
    if hosts[place].has_ended() && !std::mem::replace(&mut ended[place], true) {
        let before = run.left.fetch_sub(1, Ordering::SeqCst);
        if before == 1 {
            run.is_over.store(true, Ordering::SeqCst);
        }
    }
}
