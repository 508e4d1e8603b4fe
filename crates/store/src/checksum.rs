//! A checksum for bytes that a hit does not return.

/// A 64-bit checksum of `bytes`.
///
/// Every step maps the state one-to-one for a given word, and the word one-to-one for a given state (exclusive or,
/// rotation, multiplication by an odd number). Two inputs of equal length that differ in one 8-byte word therefore
/// always have different checksums. This is no defence against an attacker; SHA-256, checked when the bytes are read,
/// is.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let step = |state: u64, word: u64| (state ^ word).rotate_left(29).wrapping_mul(ODD);
    let (words, tail) = bytes.as_chunks::<8>();
    let state = words.iter().fold(bytes.len() as u64, |state, word| step(state, u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..tail.len()].copy_from_slice(tail);
    step(state, u64::from_le_bytes(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_change_of_one_byte_escapes() {
        let bytes: Vec<u8> = (0..61u8).map(|i| i.wrapping_mul(37)).collect();
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
