//! The entries that every contender stores: the same number gives the same entry in every process.

use opkeep_digest::Digest;
use opkeep_store::EntryBuilder;

const OBJECT: usize = 8192;
const JSON: usize = 1024;
const INFO: usize = 6144;
/// Bytes of all three bodies.
pub(crate) const WHOLE: usize = OBJECT + JSON + INFO;
/// The position of its number in an object.
const NUMBER: usize = 64;

/// The key of an entry.
pub(crate) fn key(number: u64) -> Digest {
    Digest::of(format!("entry-{number}").as_bytes())
}

/// A generator of numbers that look random (SplitMix64).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of the numbers below `end`; 0 if there are none.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next().checked_rem(end).unwrap_or(0)
    }
}

/// An entry's bodies.
pub(crate) struct Made {
    pub(crate) key: Digest,
    object: Vec<u8>,
    json: Vec<u8>,
    info: Vec<u8>,
}

/// Generates entries, whose objects differ only in their numbers.
pub(crate) struct Maker(Vec<u8>);

impl Maker {
    pub(crate) fn new() -> Self {
        let mut numbers = Numbers(42);
        let mut object: Vec<u8> = (0..OBJECT / 8).flat_map(|_| numbers.next().to_le_bytes()).collect();
        object[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
        Self(object)
    }

    pub(crate) fn make(&self, number: u64) -> Made {
        let (key, mut object) = (key(number), self.0.clone());
        object[NUMBER..NUMBER + 8].copy_from_slice(&number.to_le_bytes());
        let digest = Digest::of(&object);
        let json = format!("{{\"binFileName\":\"te_{key}\",\"sha256\":\"{digest}\",\"pad\":\"");
        let info = format!("{{\"op\":\"op{number}\",\"desc\":\"");
        Made { key, object, json: padded(json, b'x', JSON), info: padded(info, b'y', INFO) }
    }
}

/// `start` with enough of `filling` appended for `length` bytes of JSON.
fn padded(start: String, filling: u8, length: usize) -> Vec<u8> {
    let mut text = start.into_bytes();
    text.resize(length - 2, filling);
    text.extend_from_slice(b"\"}");
    text
}

impl Made {
    /// The draft that a build makes of a kernel.
    pub(crate) fn draft(&self) -> EntryBuilder<'_> {
        EntryBuilder::new(1).eager("json", &self.json).eager("object", &self.object).lazy("info", &self.info)
    }
}

/// Whether bodies are those of an entry: of the right length, and with its number in the object.
pub(crate) fn is_of(number: u64, json: &[u8], object: &[u8]) -> bool {
    [json.len(), object.len()] == [JSON, OBJECT] && object[NUMBER..NUMBER + 8] == number.to_le_bytes()
}
