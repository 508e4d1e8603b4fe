//! Expectations of a kernel as data: stored with the kernel, they validate it later without a backend.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The version of [`Expectations::encode`].
const VERSION: u32 = 1;

/// A target's expectations of every kernel. A backend states them, the validator checks them, and a store entry keeps
/// them with the kernel.
///
/// ```
/// use opkeep_artifact::{ElfLayout, ElfRules, Expectations, Format, MetadataRules};
///
/// let cubin = Format::Elf(ElfRules::new([190], ElfLayout::Unspecified));
/// let expected = Expectations::new("sm_90", cubin, MetadataRules::None);
/// assert_eq!(Expectations::decode(&expected.encode())?, expected);
/// # Ok::<(), opkeep_artifact::DecodeError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Expectations {
    /// The target: `cpu-x86_64`, `Ascend910B1`, `sm_90`.
    pub target: String,
    /// The expected object.
    pub format: Format,
    /// The expected metadata.
    pub metadata: MetadataRules,
}

/// Rules for an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Format {
    /// An ELF file.
    Elf(ElfRules),
    /// Any bytes: text such as PTX, SPIR-V, or a loader's own format.
    Opaque(OpaqueRules),
}

/// Rules for an ELF object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ElfRules {
    /// The accepted `e_machine` values.
    pub machines: Vec<u16>,
    /// The accepted `e_flags`; if unset, any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flags: Option<FlagRules>,
    /// The required layout.
    pub layout: ElfLayout,
}

impl ElfRules {
    /// Rules for these `e_machine` values, with any `e_flags`.
    pub fn new(machines: impl Into<Vec<u16>>, layout: ElfLayout) -> Self {
        Self { machines: machines.into(), flags: None, layout }
    }

    /// Rules that no object satisfies.
    pub const fn none() -> Self {
        Self { machines: Vec::new(), flags: None, layout: ElfLayout::Unspecified }
    }

    /// The same rules, for these `e_flags` only.
    #[must_use]
    pub fn with_flags(self, mask: u32, values: impl Into<Vec<u32>>) -> Self {
        Self { flags: Some(FlagRules { mask, values: values.into() }), ..self }
    }
}

/// The `e_flags` that a target loads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlagRules {
    /// The bits that are compared.
    pub mask: u32,
    /// Their accepted values.
    pub values: Vec<u32>,
}

/// The layout that the loader of an object requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ElfLayout {
    /// A shared object for the dynamic loader of a host, or a relocatable object that is linked to one.
    SharedObject,
    /// Sections that the loader copies to the device as one block, without relocating or linking.
    Contiguous,
    /// A shared object for the dynamic loader of AI CPUs.
    AicpuObject,
    /// Any layout.
    Unspecified,
}

/// Rules for an object that is no ELF file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct OpaqueRules {
    /// Its first bytes.
    pub starts_with: Vec<u8>,
    /// Its largest size in bytes.
    pub max_bytes: u64,
    /// The backend's own check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<CheckId>,
}

impl OpaqueRules {
    /// Rules for objects of at most `max_bytes` bytes that begin with `starts_with`.
    pub fn new(starts_with: impl Into<Vec<u8>>, max_bytes: u64) -> Self {
        Self { starts_with: starts_with.into(), max_bytes, check: None }
    }

    /// The same rules, and the check `id`.
    #[must_use]
    pub fn with_check(self, id: CheckId) -> Self {
        Self { check: Some(id), ..self }
    }
}

/// Rules for the metadata of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum MetadataRules {
    /// No metadata.
    None,
    /// Any JSON.
    Json,
    /// Metadata that a check accepts.
    Checked {
        /// The check.
        check: CheckId,
        /// The parameters of the check.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        parameters: BTreeMap<String, String>,
    },
}

/// A check and its version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct CheckId {
    /// Its name, such as `ptx-text`.
    pub id: String,
    /// Its version: other versions may give other results.
    pub version: u32,
}

impl CheckId {
    /// The check called `id`.
    pub fn new(id: impl Into<String>, version: u32) -> Self {
        Self { id: id.into(), version }
    }
}

impl fmt::Display for CheckId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (version {})", self.id, self.version)
    }
}

/// The reason why bytes are no [`Expectations`].
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Expectations of another version.
    #[error("the field `version` of the rules is {found}, expected {VERSION}")]
    Version {
        /// Their version.
        found: u32,
    },
    /// Damaged expectations, or a value that this version does not know.
    #[error("the rules are not valid{}: {source}", place(.field))]
    Syntax {
        /// The field that cannot be read, such as `format.opaque.max_bytes`; empty if it is none of them.
        field: String,
        /// The expected and the found value.
        source: serde_json::Error,
    },
    /// A form other than that of [`Expectations::encode`]: a repeated parameter, or white space.
    #[error("the rules are not in their canonical form, expected: {expected}")]
    NotCanonical {
        /// The canonical form of the same expectations.
        expected: String,
    },
}

fn place(field: &str) -> String {
    match field {
        "" => String::new(),
        field => format!(" in the field `{field}`"),
    }
}

/// Reads JSON.
fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    serde_json::from_slice(bytes).map_err(|source| {
        // It is read again for the name of the field, since to track the fields of valid rules would take time.
        let tracked: Result<T, _> =
            serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_slice(bytes));
        let field = tracked.err().map(|error| error.path().to_string()).filter(|path| path != ".");
        DecodeError::Syntax { field: field.unwrap_or_default(), source }
    })
}

/// The stored form: canonical, since the order of fields is fixed and maps are sorted.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Encoded<T, F, M> {
    version: u32,
    target: T,
    format: F,
    metadata: M,
}

impl Expectations {
    /// The expectations of `target`.
    pub fn new(target: impl Into<String>, format: Format, metadata: MetadataRules) -> Self {
        Self { target: target.into(), format, metadata }
    }

    /// The rules for an ELF object; `None` for another format.
    pub fn elf(&self) -> Option<&ElfRules> {
        match &self.format {
            Format::Elf(rules) => Some(rules),
            Format::Opaque(_) => None,
        }
    }

    /// Encodes to JSON bytes, which are equal for equal expectations.
    pub fn encode(&self) -> Vec<u8> {
        let Self { target, format, metadata } = self;
        // Map keys are strings and numbers are whole: serialisation to JSON cannot fail.
        serde_json::to_vec(&Encoded { version: VERSION, target, format, metadata }).unwrap_or_default()
    }

    /// Decodes the output of [`encode`](Self::encode).
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        #[derive(Deserialize)]
        struct Head {
            version: u32,
        }
        let Head { version: found } = read(bytes)?;
        if found != VERSION {
            return Err(DecodeError::Version { found });
        }
        let Encoded { version: _, target, format, metadata } = read(bytes)?;
        let decoded = Self { target, format, metadata };
        // Equal expectations must have equal bytes, so that their digests can be compared.
        let canonical = decoded.encode();
        if canonical != bytes {
            return Err(DecodeError::NotCanonical {
                expected: String::from_utf8_lossy(&canonical).into_owned(),
            });
        }
        Ok(decoded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected() -> Expectations {
        let parameters = BTreeMap::from([("b".to_owned(), "2".to_owned()), ("a".to_owned(), "1".to_owned())]);
        let rules = ElfRules::new([190, 224], ElfLayout::Contiguous).with_flags(0xff, [0x90, 0x9a]);
        let check = CheckId::new("x", 3);
        Expectations::new("sm_90", Format::Elf(rules), MetadataRules::Checked { check, parameters })
    }

    #[test]
    fn the_stored_form_stays_what_it_is() {
        let text = String::from_utf8(expected().encode()).unwrap();
        assert_eq!(
            text,
            r#"{"version":1,"target":"sm_90","format":{"elf":{"machines":[190,224],"flags":{"mask":255,"values":[144,154]},"layout":"contiguous"}},"metadata":{"checked":{"check":{"id":"x","version":3},"parameters":{"a":"1","b":"2"}}}}"#
        );
        let ptx = OpaqueRules::new(*b".v", 9).with_check(CheckId::new("ptx", 1));
        let ptx = Expectations::new("sm_90", Format::Opaque(ptx), MetadataRules::None);
        assert_eq!(
            String::from_utf8(ptx.encode()).unwrap(),
            r#"{"version":1,"target":"sm_90","format":{"opaque":{"starts_with":[46,118],"max_bytes":9,"check":{"id":"ptx","version":1}}},"metadata":"none"}"#
        );
        for expected in [expected(), ptx] {
            assert_eq!(Expectations::decode(&expected.encode()).unwrap(), expected);
        }
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let text = String::from_utf8(expected().encode()).unwrap();
        let later = text.replace(r#""version":1,"target""#, r#""version":2,"new":0,"target""#);
        assert!(matches!(Expectations::decode(later.as_bytes()), Err(DecodeError::Version { found: 2 })));
        for (old, new, message) in [
            (
                r#""machines""#,
                r#""linker":1,"machines""#,
                "in the field `format.elf.linker`: unknown field `linker`, expected one of `machines`",
            ),
            (
                "contiguous",
                "spiral",
                "in the field `format.elf.layout`: unknown variant `spiral`, expected one of",
            ),
            (r#""metadata""#, r#""more":1,"metadata""#, "unknown field `more`, expected one of"),
            (
                "190",
                "65536",
                "in the field `format.elf.machines[0]`: invalid value: integer `65536`, expected u16",
            ),
            ("\"sm_90\"", "90", "in the field `target`: invalid type: integer `90`, expected a string"),
            (
                "1,\"target",
                "\"1\",\"target",
                "in the field `version`: invalid type: string \"1\", expected u32",
            ),
            (r#""id":"x","#, "", "in the field `metadata.checked.check`: missing field `id`"),
            ("{\"version", "[\"version", "rules are not valid in the field `[0]`: invalid type: string"),
        ] {
            let other = text.replace(old, new);
            let found = Expectations::decode(other.as_bytes()).unwrap_err().to_string();
            assert!(found.contains(message), "{found}");
        }
        assert!(Expectations::decode(b"").is_err());
    }
}
