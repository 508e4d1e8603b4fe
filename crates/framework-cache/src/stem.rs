//! The parts of MindSpore's kernel names.

/// A name of the form `{words}_{number}_{device}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stem<'a> {
    /// The name without the device, `{words}_{number}`.
    pub(crate) kernel: &'a str,
    pub(crate) device: u32,
}

/// The maximum number of a device. Names of opkeep's kernels end in larger numbers.
const MAX_DEVICE: u32 = 9999;

impl<'a> Stem<'a> {
    pub(crate) fn of(stem: &'a str) -> Option<Self> {
        let (kernel, device) = stem.rsplit_once('_')?;
        let (words, number) = kernel.rsplit_once('_')?;
        let device = number_of(device).and_then(|device| u32::try_from(device).ok())?;
        number_of(number)?;
        (!words.is_empty() && device <= MAX_DEVICE).then_some(Self { kernel, device })
    }
}

/// Parses a number as MindSpore writes it: digits without leading zeros.
fn number_of(text: &str) -> Option<u64> {
    let is_written =
        text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| is_written)
}

/// Overwrites the device after each occurrence of the kernel's name with zeros, so that kernels of several devices can
/// be compared.
pub(crate) fn without_device(bytes: &mut [u8], kernel: &str) {
    let name = format!("{kernel}_").into_bytes();
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(name.len()).position(|window| window == name) {
        at += found + name.len();
        for byte in bytes[at..].iter_mut().take_while(|byte| byte.is_ascii_digit()) {
            *byte = b'0';
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_into_parts() {
        let of = |stem| Stem::of(stem).map(|stem| (stem.kernel, stem.device));
        assert_eq!(of("square_12484080525657478220_2"), Some(("square_12484080525657478220", 2)));
        assert_eq!(of("te_fusion_a_b_7_10"), Some(("te_fusion_a_b_7", 10)));
        for other in [
            "square_12484080525657478220",
            "square_124840805256574782201_2",
            "square_1_02",
            "square_1_-2",
            "square_3_12484080525657478220",
            "_1_2",
            "1_2",
            "square_x_2",
            "",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn devices_are_overwritten_at_the_position_of_the_name() {
        let mut bytes = b"a_7_3__kernel0\0a_7_12 a_7_ b_7_3 a_7_3".to_vec();
        without_device(&mut bytes, "a_7");
        assert_eq!(bytes, b"a_7_0__kernel0\0a_7_00 a_7_ b_7_3 a_7_0");
    }
}
