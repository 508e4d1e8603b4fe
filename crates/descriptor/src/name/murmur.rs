//! The hash in MindSpore's kernel names.

/// `std::hash<std::string>` of GNU's C++ library on 64-bit machines: a 64-bit Murmur hash.
///
/// Whole words are mixed before they are added; the remaining bytes are added as one unmixed word.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    const SEED: u64 = 0xc70f_6907;
    const MUL: u64 = 0xc6a4_a793_5bd1_e995;
    let mix = |word: u64| word ^ (word >> 47);

    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(MUL);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let word = mix(u64::from_le_bytes(*word).wrapping_mul(MUL)).wrapping_mul(MUL);
        hash = (hash ^ word).wrapping_mul(MUL);
    }
    if !rest.is_empty() {
        let word = rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        hash = (hash ^ word).wrapping_mul(MUL);
    }
    mix(mix(hash).wrapping_mul(MUL))
}

#[cfg(test)]
mod tests {
    use super::hash;

    /// Printed by a program of one line, compiled by g++ for x86-64.
    #[test]
    fn texts_of_every_length_hash_as_the_cpp_library_does() {
        let expected: [u64; 18] = [
            6_142_509_188_972_423_790,
            2_909_506_400_571_643_784,
            10_681_561_218_815_115_422,
            149_564_033_110_202_526,
            7_034_037_314_952_551_628,
            8_063_180_088_252_633_454,
            12_426_910_835_736_026_613,
            10_023_092_077_844_564_986,
            17_245_439_356_250_787_073,
            17_347_744_443_683_574_304,
            1_428_903_929_571_002_536,
            7_696_022_380_600_038_346,
            10_453_130_337_813_909_468,
            12_636_584_535_324_689_012,
            6_362_831_210_214_596_178,
            10_626_456_083_388_602_838,
            5_748_713_109_812_677_275,
            13_958_786_844_459_954_027,
        ];
        // Bytes above 127 must be read as unsigned.
        let text: Vec<u8> = (0..17u8).map(|at| 0xf3u8.wrapping_sub(11 * at)).collect();
        for (length, expected) in expected.into_iter().enumerate() {
            assert_eq!(hash(&text[..length]), expected, "{length} bytes");
        }
    }
}
