//! The metadata of Triton's kernels.

use opkeep_artifact::Expectations;
use opkeep_digest::Digest;
use opkeep_validator::device_formats;
use serde_json::Value;

/// The metadata of a kernel: the file `<name>.json`.
#[derive(Clone, Debug, PartialEq)]
pub struct TritonMetadata(Value);

impl TritonMetadata {
    /// Reads the metadata. `None` if this is no metadata of Triton.
    pub fn read(json: &[u8]) -> Option<Self> {
        let json: Value = serde_json::from_slice(json).ok()?;
        let is_known = json["target"]["backend"].is_string() && json["name"].is_string();
        is_known.then_some(Self(json))
    }

    /// The name of the kernel.
    pub fn kernel(&self) -> &str {
        self.0["name"].as_str().unwrap_or_default()
    }

    /// The name of its target in a store, such as `cuda-sm_90`.
    pub fn target(&self) -> String {
        format!("{}-{}", self.backend(), self.architecture())
    }

    /// The suffix of its object, and the rules for it. `None` if there are no rules for the backend.
    pub fn rules(&self) -> Option<(&'static str, Expectations)> {
        match self.backend() {
            "cuda" => Some(("cubin", device_formats::cubin(&self.architecture()))),
            "hip" => Some(("hsaco", device_formats::hsaco(&self.architecture()))),
            _ => None,
        }
    }

    /// Whether it can be of `key`: the digest that it states is that, in base 32 or in base 64.
    pub(super) fn is_of(&self, key: &str) -> bool {
        let stated = self.0["hash"].as_str().and_then(|hash| hash.parse::<Digest>().ok());
        stated.is_none_or(|stated| {
            let bytes = stated.as_bytes();
            key == encode(bytes, 5, BASE_32) || key == encode(bytes, 6, BASE_64)
        })
    }

    fn backend(&self) -> &str {
        self.0["target"]["backend"].as_str().unwrap_or_default()
    }

    fn architecture(&self) -> String {
        match &self.0["target"]["arch"] {
            Value::Number(number) => format!("sm_{number}"),
            other => other.as_str().unwrap_or("any").to_owned(),
        }
    }
}

const BASE_32: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const BASE_64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Writes bytes in groups of `width` bits, without padding.
fn encode(bytes: &[u8], width: u32, letters: &[u8]) -> String {
    let (mut text, mut pending, mut bits) = (String::new(), 0u32, 0);
    let mut push = |value: u32| text.extend(letters.get(value as usize).map(|letter| char::from(*letter)));
    for byte in bytes {
        pending = pending << 8 | u32::from(*byte);
        bits += 8;
        while bits >= width {
            bits -= width;
            push(pending >> bits);
            pending &= (1 << bits) - 1;
        }
    }
    if bits > 0 {
        push(pending << (width - bits));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Triton 3.9 and 3.2 name the directories of these metadata.
    #[test]
    fn a_key_is_that_of_its_metadata() {
        for (hash, key) in [
            (
                "6f93eed584863e8526e51aedfb3049e5abf837b21405df6bbbaed859114f58a8",
                "N6J65VMEQY7IKJXFDLW7WMCJ4WV7QN5SCQC56253V3MFSEKPLCUA",
            ),
            (
                "d1a9c84da2169927f28497e6feb25452569bcd94bc5a73e015ac00e8989379d3",
                "0anITaIWmSfyhJfm_rJUUlabzZS8WnPgFawA6JiTedM",
            ),
        ] {
            let json = format!(r#"{{"hash":"{hash}","target":{{"backend":"cuda","arch":90}},"name":"add"}}"#);
            let metadata = TritonMetadata::read(json.as_bytes()).unwrap();
            assert!(metadata.is_of(key));
            assert!(!metadata.is_of(&key.replace('J', "K")));
            assert_eq!((metadata.kernel(), metadata.target()), ("add", "cuda-sm_90".to_owned()));
        }
        assert!(TritonMetadata::read(b"{}").is_none() && TritonMetadata::read(b"{").is_none());
    }
}
