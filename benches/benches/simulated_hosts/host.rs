//! One simulated host: it asks for the kernels of its build, claims leases, compiles while a timer runs, and waits for other hosts.
//! What follows from the answers is decided by [`LeaseTable`], as in a real host.

use std::time::{Duration, Instant};

use opkeep_cache::lease::{LeaseBatch, LeaseReading, LeaseStep, LeaseTable, Poll, Question};
use opkeep_cache::{LeaseToken, LeaseValue};

use crate::plan::{Fate, Plan};
use crate::redis::Reply;
use crate::shard::Line;

/// A host.
pub(crate) struct Host {
    number: usize,
    token: LeaseToken,
    heartbeats: u64,
    table: LeaseTable<()>,
    /// Whether each kernel is here.
    has: Vec<bool>,
    missing: usize,
    /// The kernels in the order in which the host begins them, and the place of the next one.
    order: Vec<u8>,
    next: usize,
    is_watching: Vec<bool>,
    /// The kernel that it compiles: with the one job token of the host.
    compiling: Option<(usize, u64)>,
    /// Whether a call of its worker has no answer yet.
    is_calling: bool,
    /// Whether a hint or a batch has no answer yet.
    is_polling: bool,
    is_dead: bool,
    pub(crate) finished: Option<Instant>,
}

/// A call without an answer.
pub(crate) enum Call {
    /// The entries of all kernels.
    Fetch,
    /// The leases on all of them, or what a worker asks that begins a kernel.
    Look(LeaseBatch),
    Claim {
        kernel: usize,
        generation: u64,
        asked: Instant,
    },
    Confirm {
        kernel: usize,
        generation: u64,
        asked: Instant,
    },
    Hint,
    Batch(LeaseBatch),
    Put,
    Release,
    Advance,
    Renew {
        kernel: usize,
        generation: u64,
    },
}

/// What a timer of a host is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Alarm {
    Start,
    Poll,
    Compiled,
    Renew,
    Killed,
}

impl Host {
    pub(crate) fn new(number: usize, plan: &Plan) -> Self {
        let mut token = [0; 16];
        token[..8].copy_from_slice(&(number as u64 + 1).to_le_bytes());
        let kernels = plan.kernels.len();
        Self {
            number,
            token: LeaseToken::new(token),
            heartbeats: 0,
            table: LeaseTable::new(plan.ttl),
            has: vec![false; kernels],
            missing: kernels,
            order: plan.order(number),
            next: 0,
            is_watching: vec![false; kernels],
            compiling: None,
            is_calling: false,
            is_polling: false,
            is_dead: false,
            finished: None,
        }
    }

    fn value(&self) -> LeaseValue {
        LeaseValue::new(self.token, self.heartbeats)
    }

    pub(crate) fn ring(&mut self, alarm: Alarm, line: &mut Line<'_>) {
        if self.is_dead {
            return;
        }
        match alarm {
            Alarm::Start => {
                self.is_calling = true;
                line.get(line.plan.kernels.iter().map(|kernel| &kernel.entry[..]), Call::Fetch);
            }
            Alarm::Poll => self.poll(line),
            Alarm::Compiled => {
                let Some((kernel, generation)) = self.compiling else { return };
                let names = &line.plan.kernels[kernel];
                let token = self.token.to_string();
                line.put(&names.entry, Call::Put);
                // One generation below at most is known to be stale; the real host releases these first.
                for (below, token) in self.table.below(&names.key, generation) {
                    line.release(&names.leases[below as usize], &token.to_string());
                }
                line.release(&names.leases[generation as usize], &token);
                line.advance();
            }
            Alarm::Renew => {
                if let Some((kernel, generation)) = self.compiling {
                    self.heartbeats += 1;
                    let lease = &line.plan.kernels[kernel].leases[generation as usize];
                    line.renew(lease, &self.value().to_string(), Call::Renew { kernel, generation });
                }
            }
            Alarm::Killed => {
                self.is_dead = true;
                line.counts.killed += 1;
            }
        }
    }

    pub(crate) fn answered(&mut self, call: Call, reply: Reply, line: &mut Line<'_>) {
        if self.is_dead {
            return;
        }
        let now = line.now();
        match call {
            Call::Fetch => {
                self.take_entries(0..line.plan.kernels.len(), reply, line);
                let missing: Vec<_> = line.plan.keys().filter(|(at, _)| !self.has[*at]).collect();
                let keys: Vec<_> = missing.into_iter().map(|(_, key)| key).collect();
                self.table.plan(&keys, &[]);
                let batch = self.table.batch(keys, false, true, now);
                match batch.questions().is_empty() {
                    true => self.is_calling = false,
                    false => line.ask(batch, Call::Look),
                }
            }
            Call::Look(batch) => {
                self.is_calling = false;
                self.batch_answered(batch, reply, line);
            }
            Call::Claim { kernel, generation, asked } => match reply {
                Reply::Nil => {
                    let names = &line.plan.kernels[kernel];
                    let above = &names.leases[generation as usize + 1];
                    let confirm = Call::Confirm { kernel, generation, asked: now };
                    line.get([&names.entry[..], &above[..]].into_iter(), confirm);
                }
                Reply::Text(content) => {
                    self.is_calling = false;
                    let value = LeaseValue::decode(&content);
                    self.table.note_held(&line.plan.kernels[kernel].key, [asked, now], generation, value);
                    line.counts.refused_claims += 1;
                }
                other => panic!("{other:?}"),
            },
            Call::Confirm { kernel, generation, asked } => {
                self.is_calling = false;
                self.confirmed(kernel, generation, asked, reply, line);
            }
            Call::Hint => {
                self.is_polling = false;
                let counter = match reply {
                    Reply::Nil => 0,
                    Reply::Text(text) => str::from_utf8(&text).unwrap().parse().unwrap(),
                    other => panic!("{other:?}"),
                };
                let random = line.random();
                let next = self.table.hinted(now, Some(counter), random);
                return line.set(next, self.number, Alarm::Poll);
            }
            Call::Batch(batch) => {
                self.is_polling = false;
                let had_news = self.batch_answered(batch, reply, line);
                let random = line.random();
                let next = self.table.batched(now, had_news, random);
                line.set(next, self.number, Alarm::Poll);
            }
            Call::Put | Call::Release => return,
            Call::Advance => {
                if let Some((kernel, _)) = self.compiling.take() {
                    self.got(kernel, line);
                }
            }
            Call::Renew { kernel, generation } => {
                let is_held = matches!(reply, Reply::Number(1));
                if is_held && self.compiling == Some((kernel, generation)) {
                    line.set(Some(now + line.plan.ttl / 3), self.number, Alarm::Renew);
                }
                return;
            }
        }
        self.work(line);
    }

    /// Begins the next kernels, until one is compiled or a call is needed.
    fn work(&mut self, line: &mut Line<'_>) {
        let kernels = line.plan.kernels.len();
        while self.missing > 0 && !self.is_calling {
            // First each kernel once, then those whose leases became free.
            let (kernel, is_first) =
                match self.next < kernels {
                    true => (usize::from(self.order[self.next]), true),
                    false if self.compiling.is_some() => return,
                    false => match self.order.iter().map(|at| usize::from(*at)).find(|kernel| {
                        !self.has[*kernel] && self.table.has_news(&line.plan.kernels[*kernel].key)
                    }) {
                        Some(kernel) => (kernel, false),
                        None => return,
                    },
                };
            let key = line.plan.kernels[kernel].key;
            if self.has[kernel] {
                self.next += 1;
                continue;
            }
            if self.table.take_entry(&key).is_some() {
                self.got(kernel, line);
                continue;
            }
            let now = line.now();
            if is_first && let Some(keys) = self.table.look(&key, now) {
                let batch = self.table.batch(keys, true, true, now);
                self.is_calling = true;
                line.ask(batch, Call::Look);
                return;
            }
            match self.table.step(&key) {
                LeaseStep::Claim { generation } if self.compiling.is_none() => {
                    self.is_calling = true;
                    line.claim(kernel, generation, &self.value().to_string());
                    return;
                }
                LeaseStep::Build { .. } if self.compiling.is_none() => {
                    // The simulation has no holder that ends without an entry twice.
                    line.counts.unleased += 1;
                    self.begin(kernel, 0, line);
                }
                _ => {}
            }
            self.next += usize::from(is_first);
            if !self.is_watching[kernel] {
                self.is_watching[kernel] = true;
                let random = line.random();
                self.table.watch(&key, true, now, random);
                if !self.is_polling {
                    let next = self.table.next_call().map(|(at, _)| at);
                    line.set(next, self.number, Alarm::Poll);
                }
            }
        }
    }

    fn begin(&mut self, kernel: usize, generation: u64, line: &mut Line<'_>) {
        let now = line.now();
        self.compiling = Some((kernel, generation));
        self.table.finished(&line.plan.kernels[kernel].key, now);
        line.counts.compiles += 1;
        line.set(Some(now + line.plan.ttl / 3), self.number, Alarm::Renew);
        match line.plan.fate(kernel, generation) {
            Fate::Compiles(time) => line.set(Some(now + time), self.number, Alarm::Compiled),
            Fate::IsKilled(time) => line.set(Some(now + time), self.number, Alarm::Killed),
        }
    }

    /// Has the answer of the engine to a claim: whether the entry came meanwhile, or another host took over.
    fn confirmed(
        &mut self,
        kernel: usize,
        generation: u64,
        asked: Instant,
        reply: Reply,
        line: &mut Line<'_>,
    ) {
        let Reply::Array(found) = reply else { panic!("{reply:?}") };
        let [entry, above] = &found[..] else { panic!("{found:?}") };
        let names = &line.plan.kernels[kernel];
        let is_here = matches!(entry, Reply::Text(_));
        let reading = LeaseReading::new(content(above));
        if let (false, LeaseReading::Held(value)) = (is_here, reading) {
            self.table.note_held(&names.key, [asked, line.now()], generation + 1, Some(value));
        } else if !is_here {
            return self.begin(kernel, generation, line);
        }
        line.release(&names.leases[generation as usize], &self.token.to_string());
        if is_here {
            self.got(kernel, line);
        }
    }

    fn poll(&mut self, line: &mut Line<'_>) {
        if self.is_polling {
            return;
        }
        let Some((at, poll)) = self.table.next_call() else { return };
        let now = line.now();
        if at > now {
            return line.set(Some(at), self.number, Alarm::Poll);
        }
        let watched = self.table.watched();
        if watched.is_empty() {
            // The answer to a look is on its way.
            return line.set(Some(now + NOTHING_MISSING), self.number, Alarm::Poll);
        }
        self.is_polling = true;
        match poll {
            Poll::Hint => line.hint(),
            Poll::Batch => {
                let batch = self.table.batch(watched, true, true, now);
                line.ask(batch, Call::Batch);
            }
        }
    }

    /// Records the answer to a batch. Returns whether it had news.
    fn batch_answered(&mut self, mut batch: LeaseBatch, reply: Reply, line: &mut Line<'_>) -> bool {
        let Reply::Array(found) = reply else { panic!("{reply:?}") };
        let mut arrived = Vec::new();
        for (at, reply) in found.iter().enumerate() {
            let Some(content) = content(reply) else { continue };
            match batch.questions()[at] {
                Question::Entry { key, .. } => arrived.push(batch.keys()[key]),
                _ => batch.found_lease(at, content),
            }
        }
        let mut had_news = !arrived.is_empty();
        had_news |= self.table.answered(&batch, line.now());
        batch.asked_keys().for_each(|key| self.table.end_asking(key));
        for key in arrived {
            self.got(line.plan.index(&key), line);
        }
        had_news
    }

    fn take_entries(&mut self, kernels: std::ops::Range<usize>, reply: Reply, line: &mut Line<'_>) {
        let Reply::Array(found) = reply else { panic!("{reply:?}") };
        for (kernel, _) in kernels.zip(&found).filter(|(_, reply)| matches!(reply, Reply::Text(_))) {
            self.got(kernel, line);
        }
    }

    fn got(&mut self, kernel: usize, line: &mut Line<'_>) {
        let (key, now) = (line.plan.kernels[kernel].key, line.now());
        if std::mem::replace(&mut self.has[kernel], true) {
            return;
        }
        self.missing -= 1;
        self.table.finished(&key, now);
        if std::mem::take(&mut self.is_watching[kernel]) {
            self.table.unwatch(&key, now);
        }
        if self.missing == 0 {
            self.finished = Some(now);
        }
    }

    /// Whether the host has all kernels, or was killed.
    pub(crate) fn has_ended(&self) -> bool {
        self.is_dead || self.finished.is_some() && self.compiling.is_none()
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.is_dead
    }
}

fn content(reply: &Reply) -> Option<&[u8]> {
    match reply {
        Reply::Text(content) => Some(content),
        _ => None,
    }
}

/// The longest time that a simulation may take.
pub(crate) const LONGEST: Duration = Duration::from_secs(300);
/// The time between two visits while a call asks for all entries that the host waits for.
const NOTHING_MISSING: Duration = Duration::from_millis(20);
