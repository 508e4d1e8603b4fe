//! The kernels of the build, and which of their holders are killed.

use std::collections::HashMap;
use std::time::Duration;

use opkeep_cache::{Digest, Namespace, ObjectNames};

use crate::redis::encoded;

/// The number of kernels of ResNet-50's training step, as in the other benchmarks of remote tiers.
const KERNELS: usize = 148;
/// The number of generations of a lease, and one more that may be asked for.
const GENERATIONS: u64 = 7;
/// The number of kernels among which a host begins with one job token, as in the engine's order of a build.
const BEGUN_FIRST: usize = 8;

/// A build of all hosts.
pub(crate) struct Plan {
    pub(crate) kernels: Vec<Kernel>,
    pub(crate) counter: Vec<u8>,
    pub(crate) ttl: Duration,
    /// Each of so many kernels has a first holder that is killed; 0: none.
    killed_each: usize,
    indices: HashMap<Digest, usize>,
}

/// A kernel. Names are words of requests.
pub(crate) struct Kernel {
    pub(crate) key: Digest,
    pub(crate) entry: Vec<u8>,
    pub(crate) leases: Vec<Vec<u8>>,
    time: Duration,
}

/// What becomes of a compile.
pub(crate) enum Fate {
    Compiles(Duration),
    /// Its host is killed after that time.
    IsKilled(Duration),
}

impl Plan {
    /// The longest kernel takes `longest`, and kernel n takes 1/n of that.
    pub(crate) fn new(longest: Duration, ttl: Duration, killed_each: usize) -> Self {
        let names = ObjectNames::new(&Namespace::default(), "cpu-x86_64").unwrap();
        let word = |name: &str| encoded(&format!("opkeep/{name}"));
        let kernel = |at: usize| {
            let key = Digest::of(format!("kernel {at}").as_bytes());
            Kernel {
                key,
                entry: word(names.entry(&key).as_str()),
                leases: (0..GENERATIONS).map(|at| word(names.lease(&key, at).as_str())).collect(),
                time: longest / u32::try_from(at + 1).unwrap(),
            }
        };
        let kernels: Vec<_> = (0..KERNELS).map(kernel).collect();
        let keys: Vec<_> = kernels.iter().map(|kernel| kernel.key).collect();
        let counter = word(names.progress(&keys).as_str());
        let indices = keys.into_iter().enumerate().map(|(at, key)| (key, at)).collect();
        Self { kernels, counter, ttl, killed_each, indices }
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = (usize, Digest)> {
        self.kernels.iter().map(|kernel| kernel.key).enumerate()
    }

    pub(crate) fn index(&self, key: &Digest) -> usize {
        self.indices[key]
    }

    /// Returns the order of a host: the longest kernels first, among 8 of which it begins with any, then among the next 16, and so
    /// on.
    pub(crate) fn order(&self, host: usize) -> Vec<u8> {
        let mut order: Vec<u8> = (0..u8::try_from(self.kernels.len()).unwrap()).collect();
        let mut random = Digest::of(&host.to_le_bytes()).prefix_u64() | 1;
        let (mut rest, mut window) = (&mut order[..], BEGUN_FIRST);
        while !rest.is_empty() {
            let (part, after) = rest.split_at_mut(window.min(rest.len()));
            for at in (1..part.len()).rev() {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                part.swap(at, (random >> 11) as usize % (at + 1));
            }
            (rest, window) = (after, window * 2);
        }
        order
    }

    pub(crate) fn fate(&self, kernel: usize, generation: u64) -> Fate {
        let time = self.kernels[kernel].time;
        let is_killed = self.killed_each > 0 && kernel.is_multiple_of(self.killed_each) && generation == 0;
        match is_killed {
            // At different parts of the compile.
            true => Fate::IsKilled(time.mul_f64(0.1 + 0.8 * (kernel % 7) as f64 / 6.0)),
            false => Fate::Compiles(time),
        }
    }

    /// The number of holders that are killed.
    pub(crate) fn killed(&self) -> usize {
        if self.killed_each == 0 { 0 } else { self.kernels.len().div_ceil(self.killed_each) }
    }
}
