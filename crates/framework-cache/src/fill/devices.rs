//! The map from ranks to devices.

use std::collections::BTreeMap;

use opkeep_artifact::is_safe_file_name;
use thiserror::Error;

/// The devices of ranks, as given by the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceMap(BTreeMap<String, u32>);

/// The reason why a text is not a device map.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DeviceMapError {
    /// A part is not `rank=device`.
    #[error(
        "`{part}` is no rank and device: expected RANK=DEVICE with a whole number as the device, such as 3=3"
    )]
    Part {
        /// The part, or its first 80 characters.
        part: String,
    },
    /// The text gives a rank two devices.
    #[error("rank {rank} is given two devices, {first} and {second}: leave out one")]
    Twice {
        /// The rank.
        rank: String,
        /// One of its devices.
        first: u32,
        /// One of its devices.
        second: u32,
    },
}

impl DeviceMap {
    /// Parses items `rank=device`, separated by commas or line ends. `#` starts a comment.
    ///
    /// # Errors
    /// [`DeviceMapError`].
    pub fn parse(text: &str) -> Result<Self, DeviceMapError> {
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        let parts = lines.flat_map(|line| line.split(',')).map(str::trim).filter(|part| !part.is_empty());
        let mut map = BTreeMap::new();
        for part in parts {
            let error = || DeviceMapError::Part { part: part.chars().take(80).collect() };
            let (rank, device) = part.split_once('=').ok_or_else(error)?;
            let (rank, device) = (rank.trim(), device.trim());
            let rank = rank.strip_prefix("rank_").unwrap_or(rank);
            let is_number = device.bytes().all(|byte| byte.is_ascii_digit());
            let device: u32 = device.parse().ok().filter(|_| is_number).ok_or_else(error)?;
            if !is_safe_file_name(rank) {
                return Err(error());
            }
            if let Some(first) = map.insert(rank.to_owned(), device).filter(|first| *first != device) {
                return Err(DeviceMapError::Twice { rank: rank.to_owned(), first, second: device });
            }
        }
        Ok(Self(map))
    }

    /// Returns the device of a rank.
    pub fn device(&self, rank: &str) -> Option<u32> {
        self.0.get(rank).copied()
    }

    /// Returns all ranks of the map.
    pub fn ranks(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_lists_or_lines() {
        let map = DeviceMap::parse("0=4,1=5").unwrap();
        assert_eq!((map.device("0"), map.device("1"), map.device("2")), (Some(4), Some(5), None));
        assert_eq!(DeviceMap::parse("# ranks\nrank_0 = 4 # the first\n\n1=5\n1=5").unwrap(), map);
        assert_eq!(DeviceMap::parse("").unwrap(), DeviceMap::default());
        for text in ["0", "0=", "=1", "0=a", "0=-1", "0=+1", "../x=1", "0=99999999999"] {
            assert!(matches!(DeviceMap::parse(text), Err(DeviceMapError::Part { .. })), "{text}");
        }
        assert!(matches!(DeviceMap::parse("0=1,0=2"), Err(DeviceMapError::Twice { .. })));
    }
}
