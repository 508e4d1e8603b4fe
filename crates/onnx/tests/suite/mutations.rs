//! Files that are truncated, have bits flipped, or are mixed at random: each is read or is an error, never a panic.

#![expect(clippy::disallowed_methods, reason = "these tests write files, and the environment says how many")]

use crate::common::wire::Message;
use crate::common::{INT64, small_model, tensor};
use opkeep_onnx::fuzz;
use opkeep_testkit::mutation_seeds;

/// The number of files that are made at random for each seed of the test run: 4 000, or `OPKEEP_MUTATION_ROUNDS`.
fn rounds() -> usize {
    std::env::var("OPKEEP_MUTATION_ROUNDS").map_or(4000, |rounds| rounds.parse().unwrap())
}

/// Marsaglia's xorshift generator: the same seed gives the same numbers.
struct Random(u64);

impl Random {
    /// A generator for each seed of the test run (`OPKEEP_MUTATION_SEEDS`).
    fn for_each_seed(base: u64) -> impl Iterator<Item = Self> {
        mutation_seeds().into_iter().map(move |seed| {
            let mut random = Self(base ^ (u64::from(seed) << 32));
            // The first numbers for two similar seeds are similar.
            (0..8).for_each(|_| _ = random.next());
            random
        })
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Small files of every kind that is read.
fn seeds() -> Vec<Vec<u8>> {
    let entry = |key: &str, value: &str| Message::default().bytes(1, key).bytes(2, value);
    let external = tensor("e", INT64, &[2]).varint(14, 1);
    let external = external.message(13, entry("location", "w.bin")).message(13, entry("offset", "16"));
    let header = b"{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }\n";
    let mut npy = b"\x93NUMPY\x01\0".to_vec();
    npy.extend((header.len() as u16).to_le_bytes());
    npy.extend(header);
    npy.extend(1..=12);
    vec![
        small_model().0,
        tensor("t", INT64, &[2, 2]).packed(7, [-1, 2, 300, 1 << 40]).0,
        tensor("h", 10, &[3]).packed(5, [0x3c00, 0xc100, 1]).0,
        external.0,
        npy,
    ]
}

#[test]
fn seeds_are_read() {
    // If one were refused, the tests below would only see refusals.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    for (index, seed) in seeds().iter().enumerate() {
        std::fs::write(&path, seed).unwrap();
        match index {
            0 => drop(opkeep_onnx::read(&path, &opkeep_onnx::Options::default()).unwrap()),
            3 => drop(opkeep_onnx::read_tensor(&path).unwrap_err()),
            _ => drop(opkeep_onnx::read_tensor(&path).unwrap()),
        }
    }
}

#[test]
fn cut_anywhere() {
    for seed in seeds() {
        (0..=seed.len()).for_each(|end| fuzz(&seed[..end]));
    }
}

#[test]
fn any_bit_flipped() {
    for mut seed in seeds() {
        for bit in 0..8 * seed.len() {
            seed[bit / 8] ^= 1 << (bit % 8);
            fuzz(&seed);
            seed[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn any_byte_another() {
    for mut seed in seeds() {
        for at in 0..seed.len() {
            let own = seed[at];
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                seed[at] = byte;
                fuzz(&seed);
            }
            seed[at] = own;
        }
    }
}

#[test]
fn mixed_up_at_random() {
    let seeds = seeds();
    for mut random in Random::for_each_seed(0x9e37_79b9_7f4a_7c15) {
        for _ in 0..rounds() {
            let mut bytes = seeds[random.below(seeds.len())].clone();
            for _ in 0..=random.below(6) {
                change(&mut bytes, &mut random);
            }
            fuzz(&bytes);
        }
    }
}

/// Overwrites, inserts, removes, or repeats bytes at some position.
fn change(bytes: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(bytes.len());
    let end = at + random.below((bytes.len() - at).min(16) + 1);
    match random.below(5) {
        0 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = random.next() as u8),
        1 => bytes.insert(at, random.next() as u8),
        2 => drop(bytes.drain(at..end)),
        3 => {
            let piece = bytes[at..end].to_vec();
            let to = random.below(bytes.len());
            bytes.splice(to..to, piece);
        }
        _ => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random.below(8)),
    }
}

#[test]
fn noise() {
    for mut random in Random::for_each_seed(0x2545_f491_4f6c_dd1d) {
        for _ in 0..rounds() {
            let bytes: Vec<u8> = (0..random.below(64)).map(|_| random.next() as u8).collect();
            fuzz(&bytes);
        }
    }
}
