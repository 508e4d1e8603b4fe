//! Floating-point numbers as MindSpore's JSON library prints them.
//!
//! Digits come from Grisu2 (Florian Loitsch, "Printing Floating-Point Numbers Quickly and Accurately with Integers",
//! 2010). Its output always reads back as the same number but is not always the shortest: one number in a thousand has
//! one digit more than Rust prints. Kernel names hash the digits, so they must be those of Grisu2.

use crate::nlohmann::powers::{FIRST, STEP, power};

/// The number of digits before the point from which an exponent is written.
const MAX_WHOLE: i32 = 15;

/// The number of zeros after the point, less one, from which an exponent is written.
const MIN_POINT: i32 = -4;

/// `value` in the vendor's form: `1.0`, `1e-05`, `0.10000000149011612`; infinities and NaN are `null`.
pub(crate) fn print(value: f64) -> String {
    if !value.is_finite() {
        return "null".to_owned();
    }
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if value == 0.0 {
        return format!("{sign}0.0");
    }
    let (digits, exponent) = shortest(value.abs());
    format!("{sign}{}", place_point(&digits, exponent))
}

/// `digits * 10^exponent` with the vendor's placement of point and exponent.
fn place_point(digits: &str, exponent: i32) -> String {
    let count = digits.len() as i32;
    // The position of the point, counted from the first digit.
    let point = count + exponent;
    if count <= point && point <= MAX_WHOLE {
        format!("{digits}{}.0", "0".repeat(exponent as usize))
    } else if 0 < point && point <= MAX_WHOLE {
        let (whole, part) = digits.split_at(point as usize);
        format!("{whole}.{part}")
    } else if MIN_POINT < point && point <= 0 {
        format!("0.{}{digits}", "0".repeat(point.unsigned_abs() as usize))
    } else {
        let (first, rest) = digits.split_at(1);
        let point_and_rest = if rest.is_empty() { String::new() } else { format!(".{rest}") };
        let (sign, exponent) = if point > 0 { ('+', point - 1) } else { ('-', 1 - point) };
        format!("{first}{point_and_rest}e{sign}{exponent:02}")
    }
}

/// `significand * 2^exponent`.
#[derive(Clone, Copy)]
struct Scaled {
    significand: u64,
    exponent: i32,
}

impl Scaled {
    fn normalized(self) -> Self {
        let shift = self.significand.leading_zeros();
        Self { significand: self.significand << shift, exponent: self.exponent - shift as i32 }
    }

    /// The upper half of the product, rounded.
    fn times(self, other: Self) -> Self {
        let product = u128::from(self.significand) * u128::from(other.significand);
        Self {
            significand: ((product + (1 << 63)) >> 64) as u64,
            exponent: self.exponent + other.exponent + 64,
        }
    }
}

/// A number and the ends of the interval that rounds to it, with one exponent.
struct Interval {
    below: Scaled,
    value: Scaled,
    above: Scaled,
}

/// `value` is finite and above zero.
fn interval(value: f64) -> Interval {
    const HIDDEN: u64 = 1 << 52;
    const BIAS: i32 = 1075;
    let (biased, fraction) = ((value.to_bits() >> 52) as i32, value.to_bits() & (HIDDEN - 1));
    let (significand, exponent) =
        if biased == 0 { (fraction, 1 - BIAS) } else { (fraction + HIDDEN, biased - BIAS) };
    let above = Scaled { significand: 2 * significand + 1, exponent: exponent - 1 }.normalized();
    // Below a power of two, neighbours are half as far apart.
    let closer = fraction == 0 && biased > 1;
    let (below, below_exponent) =
        if closer { (4 * significand - 1, exponent - 2) } else { (2 * significand - 1, exponent - 1) };
    Interval {
        below: Scaled { significand: below << (below_exponent - above.exponent), exponent: above.exponent },
        value: Scaled { significand, exponent }.normalized(),
        above,
    }
}

/// The power of ten that scales numbers of this binary exponent to between 2^-60 and 2^-32, and its exponent of ten.
fn scale(exponent: i32) -> (Scaled, i32) {
    let least = -60 - exponent - 1;
    // Rounded up for positive numbers only, to match the vendor's table.
    let tens = (least * 78_913) / (1 << 18) + i32::from(least > 0);
    let index = (tens - FIRST + STEP - 1) / STEP;
    let (significand, exponent) = power(index as usize);
    (Scaled { significand, exponent }, FIRST + index * STEP)
}

/// Digits and an exponent of ten that read back as `value`.
fn shortest(value: f64) -> (String, i32) {
    let Interval { below, value, above } = interval(value);
    let (power, tens) = scale(above.exponent);
    let value = value.times(power);
    // Products are off by at most one, so the interval is narrowed by one at each end.
    let above = above.times(power).significand - 1;
    let below = below.times(power).significand + 1;
    generate(below, value, above, -tens)
}

/// Generates digits of `above` until the rest fits into the interval, then moves the last digit towards `value`.
fn generate(below: u64, value: Scaled, above: u64, mut exponent: i32) -> (String, i32) {
    let bits = value.exponent.unsigned_abs();
    let one = 1u64 << bits;
    let mut last = Rounding { width: above - below, distance: above - value.significand };
    let mut digits = Vec::with_capacity(17);

    let (mut whole, mut part) = (above >> bits, above & (one - 1));
    let mut left = whole.ilog10();
    loop {
        let unit = 10u64.pow(left);
        digits.push(b'0' + (whole / unit) as u8);
        whole %= unit;
        let rest = (whole << bits) + part;
        if rest <= last.width {
            last.round(&mut digits, rest, unit << bits);
            return (text(digits), exponent + left as i32);
        }
        if left == 0 {
            break;
        }
        left -= 1;
    }
    loop {
        part *= 10;
        last.width *= 10;
        last.distance *= 10;
        digits.push(b'0' + (part >> bits) as u8);
        part &= one - 1;
        exponent -= 1;
        if part <= last.width {
            last.round(&mut digits, part, one);
            return (text(digits), exponent);
        }
    }
}

fn text(digits: Vec<u8>) -> String {
    digits.into_iter().map(char::from).collect()
}

/// The interval's width and the value's distance from its upper end, in the unit of the rest.
struct Rounding {
    width: u64,
    distance: u64,
}

impl Rounding {
    /// Lowers the last digit while the result stays in the interval and gets closer to the value.
    fn round(&self, digits: &mut [u8], mut rest: u64, unit: u64) {
        let Some(last) = digits.last_mut() else { return };
        while rest < self.distance
            && self.width - rest >= unit
            && (rest + unit < self.distance || self.distance - rest > rest + unit - self.distance)
        {
            *last -= 1;
            rest += unit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VECTORS: &str = include_str!("../../../../fixtures/names/floats.txt");

    /// The vendor JSON library's output, by the bits of the number.
    #[test]
    fn numbers_are_printed_as_the_vendor_prints_them() {
        let lines = VECTORS.lines().filter(|line| !line.starts_with('#'));
        let mut longer = 0;
        for line in lines.clone() {
            let (bits, expected) = line.split_once(' ').unwrap();
            let value = f64::from_bits(u64::from_str_radix(bits, 16).unwrap());
            assert_eq!(print(value), expected, "{bits}");
            longer += usize::from(expected.bytes().filter(u8::is_ascii_digit).count() > 18);
        }
        assert!(lines.count() > 100 && longer > 0);
    }

    /// Written by hand: the placement of the point, and the start of the exponent.
    #[test]
    fn the_point_stands_where_the_vendor_has_it() {
        for (value, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (-1.0, "-1.0"),
            (100.0, "100.0"),
            (0.5, "0.5"),
            (12.5, "12.5"),
            (1e14, "100000000000000.0"),
            (1e15, "1e+15"),
            (123_456_789_012_345.0, "123456789012345.0"),
            (1_234_567_890_123_456.0, "1.234567890123456e+15"),
            (0.001, "0.001"),
            (0.0001, "0.0001"),
            (0.00012, "0.00012"),
            (1e-5, "1e-05"),
            (1.25e-5, "1.25e-05"),
            (1e-10, "1e-10"),
            (1e100, "1e+100"),
            (1e-100, "1e-100"),
            (f64::from(0.1f32), "0.10000000149011612"),
            (0.1, "0.1"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            (f64::from_bits(1), "5e-324"),
            (f64::INFINITY, "null"),
            (f64::NAN, "null"),
        ] {
            assert_eq!(print(value), expected);
        }
    }

    #[test]
    fn every_number_reads_back() {
        let mut bits = 0x9e37_79b9_7f4a_7c15u64;
        for _ in 0..200_000 {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            for value in [f64::from_bits(bits), f64::from(f32::from_bits((bits >> 32) as u32))] {
                if value.is_finite() {
                    assert_eq!(print(value).parse::<f64>().unwrap().to_bits(), value.to_bits());
                }
            }
        }
        for exponent in 0..2047u64 {
            for fraction in [0, 1, (1 << 52) - 1] {
                let value = f64::from_bits(exponent << 52 | fraction);
                assert_eq!(print(value).parse::<f64>().unwrap().to_bits(), value.to_bits());
            }
        }
    }
}
