//! The checksum of the bytes that a hit does not return.
//!
//! A hit checks every byte of its entry: the members that it returns by SHA-256, the others by this checksum, whose
//! steps are bijective. So a change of any byte is a miss, at a fraction of the cost of hashing everything.

const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

fn step(state: u64, word: u64) -> u64 {
    (state ^ word).rotate_left(29).wrapping_mul(ODD)
}

/// Returns a 64-bit checksum of `bytes`.
///
/// Every step maps the state one-to-one for a given word, and the word one-to-one for a given state (exclusive or,
/// rotation, multiplication by an odd number). Words go to four lanes in turn, so that a processor works on four steps
/// at once; in the end the lanes are words of one more. Two inputs of equal length that differ in one 8-byte word
/// therefore always have different checksums. This is no defence against an attacker; SHA-256, checked when the bytes
/// are read, is.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
    let (quads, rest) = bytes.as_chunks::<32>();
    let mut lanes = [0, 1, 2, 3];
    for quad in quads {
        let (words, _) = quad.as_chunks::<8>();
        for (lane, bytes) in lanes.iter_mut().zip(words) {
            *lane = step(*lane, word(bytes));
        }
    }
    let mut state = lanes.into_iter().fold(bytes.len() as u64, step);
    let (words, tail) = rest.as_chunks::<8>();
    for bytes in words {
        state = step(state, word(bytes));
    }
    let mut last = [0; 8];
    last[..tail.len()].copy_from_slice(tail);
    step(state, word(&last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_change_of_one_byte_escapes() {
        let bytes: Vec<u8> = (0..157u8).map(|i| i.wrapping_mul(37)).collect();
        let sum = checksum(&bytes);
        for at in 0..bytes.len() {
            for change in 1..=255 {
                let mut other = bytes.clone();
                other[at] ^= change;
                assert_ne!(checksum(&other), sum, "byte {at} ^ {change}");
            }
        }
        assert_ne!(checksum(b""), checksum(b"\0"));
        assert_ne!(checksum(&bytes[1..]), sum);
    }
}
