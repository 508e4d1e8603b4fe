//! Why a kernel was refused.

use std::fmt;

use opbuild_artifact::{Magic, MetaError};
use opbuild_digest::Digest;
use thiserror::Error;

use crate::Machine;

/// The rule that a kernel breaks: which field, what was expected there, what was found.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The `.json` is torn, or one of its fields has a wrong type.
    #[error(transparent)]
    Meta(#[from] MetaError),
    /// The `.json` lacks a field.
    #[error("field `{field}` is missing; this is not the description of a kernel for this target")]
    Missing {
        /// The field.
        field: &'static str,
    },
    /// A field of the `.json` holds another value than every producer writes.
    #[error("field `{field}`: expected {expected}, found `{found}`")]
    Field {
        /// The field.
        field: &'static str,
        /// What may stand there.
        expected: &'static str,
        /// What stands there, cut short.
        found: String,
    },
    /// A name in the `.json` would leave its folder, or hide in it.
    #[error(
        "field `{field}`: expected a file name of at most 200 characters out of letters, digits, `_`, `.` and `-`, \
         found `{found}`; do not use this kernel unless you know who wrote it"
    )]
    UnsafeName {
        /// The field.
        field: &'static str,
        /// What stands there, cut short.
        found: String,
    },
    /// The object is not the one that the `.json` describes.
    #[error(
        "field `sha256`: the `.json` says {expected}, the object has {found}; \
         one of the two was changed or cut off, build the kernel again"
    )]
    Sha256 {
        /// The digest in the `.json`.
        expected: Digest,
        /// The object's digest.
        found: Digest,
    },
    /// The target's loader does not take this kind of binary.
    #[error("field `magic`: {target} expects {}, found {found}; was it built for another chip?", list(.expected))]
    Magic {
        /// The target.
        target: String,
        /// What it takes.
        expected: Vec<Magic>,
        /// What stands there.
        found: Magic,
    },
    /// The object is no ELF file: text, an archive, nothing at all.
    #[error("the object is not ELF: expected 7f 45 4c 46 at its beginning, found {}", Bytes(.found))]
    NotElf {
        /// The object's first bytes, at most four.
        found: Vec<u8>,
    },
    /// The object is an ELF file, but not of 64 bits.
    #[error("`EI_CLASS` of the object: expected 2 (ELF64), found {found}")]
    Class {
        /// What stands there; 1 is ELF32.
        found: u8,
    },
    /// The object is an ELF file, but not little-endian.
    #[error("`EI_DATA` of the object: expected 1 (little-endian), found {found}")]
    Endianness {
        /// What stands there; 2 is big-endian.
        found: u8,
    },
    /// The object is another kind of ELF file, such as a core dump.
    #[error(
        "`e_type` of the object: expected 1 (relocatable), 2 (executable) or 3 (shared object), found {found}"
    )]
    Type {
        /// What stands there.
        found: u16,
    },
    /// The object is an ELF file that was cut off, or that no correct tool wrote.
    #[error(
        "the object is truncated or malformed: {structure}: {problem}, in {bytes} bytes; \
         if building again does not help, report it to the compiler's vendor"
    )]
    Malformed {
        /// The ELF structure that cannot be read, such as `section 3`.
        structure: String,
        /// What is wrong with it.
        problem: String,
        /// The object's length.
        bytes: usize,
    },
    /// The object is for another machine.
    #[error("`e_machine` of the object: {target} expects {}, found {found}; was it built for another chip?", list(.expected))]
    Machine {
        /// The target.
        target: String,
        /// The machines that it loads.
        expected: Vec<Machine>,
        /// What stands there.
        found: Machine,
    },
    /// The object does not define a kernel that the `.json` names.
    #[error(
        "field `{field}`: the object does not define the kernel `{expected}`, nor that with `_mix_aic` or `_mix_aiv`; {}; \
         build the kernel again",
        Defined(*.kernels, .found)
    )]
    Kernel {
        /// The field: `kernelName`, or `kernelList` if there is one.
        field: &'static str,
        /// The name that stands there, cut short.
        expected: String,
        /// How many kernels the object defines.
        kernels: usize,
        /// Their names, at most five, cut short.
        found: Vec<String>,
    },
}

impl Refusal {
    /// The field of the `.json`, or the structure of the object, that was refused.
    pub fn field(&self) -> &str {
        match self {
            Self::Meta(MetaError::Json { .. }) => "(document)",
            Self::Meta(MetaError::Field { field, .. }) => field,
            Self::Missing { field }
            | Self::Field { field, .. }
            | Self::UnsafeName { field, .. }
            | Self::Kernel { field, .. } => field,
            Self::Sha256 { .. } => "sha256",
            Self::Magic { .. } => "magic",
            Self::NotElf { .. } => "EI_MAG",
            Self::Class { .. } => "EI_CLASS",
            Self::Endianness { .. } => "EI_DATA",
            Self::Type { .. } => "e_type",
            Self::Malformed { structure, .. } => structure,
            Self::Machine { .. } => "e_machine",
        }
    }
}

/// A name from a file as it may be shown: cut to 240 characters, with nothing in it that a terminal obeys.
pub(crate) fn shown(name: &[u8]) -> String {
    // No character takes more than four bytes, so the rest of a huge name need not be decoded.
    let head = &name[..name.len().min(960)];
    String::from_utf8_lossy(head).chars().take(240).flat_map(char::escape_debug).collect()
}

fn list<T: fmt::Display>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(T::to_string).collect();
    if items.is_empty() { "nothing".to_owned() } else { items.join(" or ") }
}

/// Shows bytes in hexadecimal.
struct Bytes<'a>(&'a [u8]);

impl fmt::Display for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, rest)) = self.0.split_first() else { return f.write_str("an empty file") };
        write!(f, "{first:02x}")?;
        rest.iter().try_for_each(|byte| write!(f, " {byte:02x}"))
    }
}

/// Shows which kernels an object defines.
struct Defined<'a>(usize, &'a [String]);

impl fmt::Display for Defined<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(kernels, found) = self;
        match kernels {
            0 => return f.write_str("it defines no kernel"),
            1 => f.write_str("it defines 1 kernel")?,
            _ => write!(f, "it defines {kernels} kernels")?,
        }
        for (at, name) in found.iter().enumerate() {
            write!(f, "{} `{name}`", if at == 0 { ":" } else { "," })?;
        }
        f.write_str(if found.len() < *kernels { ", ..." } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(kernels: usize, found: &[&str]) -> String {
        let found = found.iter().map(|&name| name.to_owned()).collect();
        Refusal::Kernel { field: "kernelName", expected: "a".into(), kernels, found }.to_string()
    }

    #[test]
    fn messages_say_what_where_and_the_way_out() {
        assert!(kernel(0, &[]).contains("; it defines no kernel; build"));
        assert!(kernel(1, &["b"]).contains("it defines 1 kernel: `b`; build"));
        assert!(kernel(6, &["b", "c"]).contains("it defines 6 kernels: `b`, `c`, ...; build"));

        let machine = Refusal::Machine {
            target: "Ascend910B1".into(),
            expected: vec![Machine(0x1029)],
            found: Machine(62),
        };
        assert_eq!(
            machine.to_string(),
            "`e_machine` of the object: Ascend910B1 expects 0x1029 Ascend (EM_HIIPU), found 0x3e x86-64; \
             was it built for another chip?"
        );
        assert!(Refusal::NotElf { found: vec![] }.to_string().ends_with("found an empty file"));
        assert!(Refusal::NotElf { found: b"#!/b".to_vec() }.to_string().ends_with("found 23 21 2f 62"));
    }

    #[test]
    fn shown_names_are_harmless_and_short() {
        assert_eq!(shown(b"square_1"), "square_1");
        assert_eq!(shown(b"\x1b[31mred\n"), "\\u{1b}[31mred\\n");
        assert_eq!(shown(b"\xff"), "\u{fffd}");
        assert_eq!(shown("é".repeat(2000).as_bytes()), "é".repeat(240));
    }
}
