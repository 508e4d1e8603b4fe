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

    /// The name of its target in a store, such as `cuda-sm_90`: by the rule of the Python package (`_compile.py`).
    pub fn target(&self) -> String {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.');
        let name = format!("{}-{}", self.backend(), self.architecture());
        let name = name.trim_start_matches('.').chars().take(MAX_TARGET_LETTERS);
        name.map(|letter| if plain(letter) { letter } else { '_' }).collect()
    }

    /// The suffix of its object, and the rules for it. `None` if there are no rules for the backend.
    pub fn rules(&self) -> Option<(&'static str, Expectations)> {
        device_formats::rules_of_target(&self.target())
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
        let of_target = &self.0["target"]["arch"];
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match self.backend() {
            // `TRITON_OVERRIDE_ARCH` is in the options, which are in the metadata.
            "hip" => self.0["arch"]
                .as_str()
                .filter(|arch| !arch.is_empty())
                .map_or_else(|| text(of_target), str::to_owned),
            "cuda" if is_number(&text(of_target)) => format!("sm_{}", text(of_target)),
            _ => text(of_target),
        }
    }
}

/// The maximum length of a target's name.
const MAX_TARGET_LETTERS: usize = 100;

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
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
        let overridden =
            r#"{"target":{"backend":"hip","arch":"gfx942"},"arch":"gfx90a:xnack+","name":"add"}"#;
        let metadata = TritonMetadata::read(overridden.as_bytes()).unwrap();
        assert_eq!(metadata.target(), "hip-gfx90a_xnack_");
        assert_eq!(metadata.rules().unwrap().1.format, device_formats::hsaco("gfx90a").format);
        assert!(TritonMetadata::read(b"{}").is_none() && TritonMetadata::read(b"{").is_none());
    }
}
