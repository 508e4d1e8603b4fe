//! Powers of ten in 64 bits, for [`crate::nlohmann::grisu`].

/// The exponent of ten of the first entry.
pub(crate) const FIRST: i32 = -300;

/// The difference between the exponents of two entries.
pub(crate) const STEP: i32 = 8;

/// The leading 64 bits of `10^(FIRST + STEP * i)`, rounded to nearest.
pub(crate) const SIGNIFICANDS: [u64; 79] = [
    0xab70_fe17_c79a_c6ca,
    0xff77_b1fc_bebc_dc4f,
    0xbe56_91ef_416b_d60c,
    0x8dd0_1fad_907f_fc3c,
    0xd351_5c28_3155_9a83,
    0x9d71_ac8f_ada6_c9b5,
    0xea9c_2277_23ee_8bcb,
    0xaecc_4991_4078_536d,
    0x823c_1279_5db6_ce57,
    0xc210_9436_4dfb_5637,
    0x9096_ea6f_3848_984f,
    0xd774_85cb_2582_3ac7,
    0xa086_cfcd_97bf_97f4,
    0xef34_0a98_172a_ace5,
    0xb238_67fb_2a35_b28e,
    0x84c8_d4df_d2c6_3f3b,
    0xc5dd_4427_1ad3_cdba,
    0x936b_9fce_bb25_c996,
    0xdbac_6c24_7d62_a584,
    0xa3ab_6658_0d5f_daf6,
    0xf3e2_f893_dec3_f126,
    0xb5b5_ada8_aaff_80b8,
    0x8762_5f05_6c7c_4a8b,
    0xc9bc_ff60_34c1_3053,
    0x964e_858c_91ba_2655,
    0xdff9_7724_7029_7ebd,
    0xa6df_bd9f_b8e5_b88f,
    0xf8a9_5fcf_8874_7d94,
    0xb944_7093_8fa8_9bcf,
    0x8a08_f0f8_bf0f_156b,
    0xcdb0_2555_6531_31b6,
    0x993f_e2c6_d07b_7fac,
    0xe45c_10c4_2a2b_3b06,
    0xaa24_2499_6973_92d3,
    0xfd87_b5f2_8300_ca0e,
    0xbce5_0864_9211_1aeb,
    0x8cbc_cc09_6f50_88cc,
    0xd1b7_1758_e219_652c,
    0x9c40_0000_0000_0000,
    0xe8d4_a510_0000_0000,
    0xad78_ebc5_ac62_0000,
    0x813f_3978_f894_0984,
    0xc097_ce7b_c907_15b3,
    0x8f7e_32ce_7bea_5c70,
    0xd5d2_38a4_abe9_8068,
    0x9f4f_2726_179a_2245,
    0xed63_a231_d4c4_fb27,
    0xb0de_6538_8cc8_ada8,
    0x83c7_088e_1aab_65db,
    0xc45d_1df9_4271_1d9a,
    0x924d_692c_a61b_e758,
    0xda01_ee64_1a70_8dea,
    0xa26d_a399_9aef_774a,
    0xf209_787b_b47d_6b85,
    0xb454_e4a1_79dd_1877,
    0x865b_8692_5b9b_c5c2,
    0xc835_53c5_c896_5d3d,
    0x952a_b45c_fa97_a0b3,
    0xde46_9fbd_99a0_5fe3,
    0xa59b_c234_db39_8c25,
    0xf6c6_9a72_a398_9f5c,
    0xb7dc_bf53_54e9_bece,
    0x88fc_f317_f222_41e2,
    0xcc20_ce9b_d35c_78a5,
    0x9816_5af3_7b21_53df,
    0xe2a0_b5dc_971f_303a,
    0xa8d9_d153_5ce3_b396,
    0xfb9b_7cd9_a4a7_443c,
    0xbb76_4c4c_a7a4_4410,
    0x8bab_8eef_b640_9c1a,
    0xd01f_ef10_a657_842c,
    0x9b10_a4e5_e991_3129,
    0xe710_9bfb_a19c_0c9d,
    0xac28_20d9_623b_f429,
    0x8044_4b5e_7aa7_cf85,
    0xbf21_e440_03ac_dd2d,
    0x8e67_9c2f_5e44_ff8f,
    0xd433_179d_9c8c_b841,
    0x9e19_db92_b4e3_1ba9,
];

/// `(significand, binary exponent)` of entry `index`.
pub(crate) fn power(index: usize) -> (u64, i32) {
    let exponent = FIRST + STEP * index as i32;
    // floor(log2(10^exponent)), exact in the table's range, less the 63 bits below the leading one.
    (SIGNIFICANDS[index], ((exponent * 217_706) >> 16) - 63)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10^k as a whole number of 32-bit digits, the least first.
    fn ten_to(k: u32) -> Vec<u32> {
        let mut digits = vec![1u32];
        for _ in 0..k {
            multiply(&mut digits, 10);
        }
        digits
    }

    fn multiply(digits: &mut Vec<u32>, factor: u32) {
        let mut carry = 0u64;
        for digit in digits.iter_mut() {
            carry += u64::from(*digit) * u64::from(factor);
            *digit = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            digits.push(carry as u32);
        }
    }

    fn bits(digits: &[u32]) -> i32 {
        digits.len() as i32 * 32 - digits[digits.len() - 1].leading_zeros() as i32
    }

    fn bit(digits: &[u32], at: i32) -> bool {
        at >= 0 && digits[at as usize / 32] >> (at % 32) & 1 == 1
    }

    fn is_less(a: &[u32], b: &[u32]) -> bool {
        let width = a.len().max(b.len());
        let digit = |of: &[u32], at: usize| of.get(at).copied().unwrap_or(0);
        (0..width).rev().map(|at| digit(a, at).cmp(&digit(b, at))).find(|order| order.is_ne())
            == Some(std::cmp::Ordering::Less)
    }

    fn subtract(a: &mut [u32], b: &[u32]) {
        let mut borrow = 0i64;
        for (at, digit) in a.iter_mut().enumerate() {
            let difference = i64::from(*digit) - i64::from(b.get(at).copied().unwrap_or(0)) - borrow;
            borrow = i64::from(difference < 0);
            *digit = difference as u32;
        }
    }

    /// The leading 65 bits of 10^k for k >= 0; of 1/10^-k, by long division, for k < 0.
    fn leading_65(k: i32) -> Vec<bool> {
        let power = ten_to(k.unsigned_abs());
        let top = bits(&power);
        if k >= 0 {
            return (1..=65).map(|at| bit(&power, top - at)).collect();
        }
        // 2^(top - 1) / power is at most 1: its first bit that is set begins the 65.
        let mut rest = vec![0u32; power.len() + 1];
        rest[(top - 1) as usize / 32] = 1 << ((top - 1) % 32);
        let mut quotient = Vec::new();
        while quotient.len() < 65 {
            let set = !is_less(&rest, &power);
            if set {
                subtract(&mut rest, &power);
            }
            if set || !quotient.is_empty() {
                quotient.push(set);
            }
            multiply(&mut rest, 2);
        }
        quotient
    }

    #[test]
    fn every_entry_is_its_power_rounded_to_nearest() {
        for (index, significand) in SIGNIFICANDS.iter().enumerate() {
            let bits = leading_65(FIRST + STEP * index as i32);
            let leading = bits[..64].iter().fold(0u64, |value, bit| value << 1 | u64::from(*bit));
            assert_eq!(*significand, leading + u64::from(bits[64]), "entry {index}");
        }
    }

    #[test]
    fn exponents_are_those_of_the_powers() {
        for index in 0..SIGNIFICANDS.len() {
            let (significand, exponent) = power(index);
            let k = FIRST + STEP * index as i32;
            let log2 = (significand as f64).log2() + f64::from(exponent);
            assert!((log2 - f64::from(k) * 10f64.log2()).abs() < 1e-9, "10^{k}: {log2}");
        }
    }
}
