//! Versions of three numbers.

use std::fmt;

/// A version without a suffix: cargo, pip and dpkg order suffixes in different ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version([u64; 3]);

impl Version {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let numbers = text.split('.').map(|part| {
            let is_plain =
                part.bytes().all(|byte| byte.is_ascii_digit()) && (part == "0" || !part.starts_with('0'));
            part.parse().ok().filter(|_| is_plain)
        });
        let numbers: Vec<u64> = numbers.collect::<Option<_>>()?;
        numbers.try_into().ok().map(Self)
    }

    #[cfg(test)]
    pub(super) fn next_major(self) -> Self {
        Self([self.0[0] + 1, 0, 0])
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.0;
        write!(f, "{major}.{minor}.{patch}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        let versions = ["0.1.0", "0.1.9", "0.1.10", "0.2.0", "1.0.0", "1.0.1", "10.0.0"];
        let parsed: Vec<Version> = versions.iter().map(|text| Version::parse(text).unwrap()).collect();
        assert!(parsed.is_sorted_by(|a, b| a < b));
        assert_eq!(parsed.iter().map(Version::to_string).collect::<Vec<_>>(), versions);
        for wrong in ["", "1", "1.2", "1.2.3.4", "01.2.3", "1.2.x", "+1.2.3", "1.2.3-rc.1", " 1.2.3"] {
            assert_eq!(Version::parse(wrong), None, "{wrong}");
        }
    }
}
